"""Kilo Code: `kilo run --format json`, a relative of OpenCode; in a conversation `kilo serve`."""

from __future__ import annotations

from harness.contracts.agent import Agent, CommandLine, TwoWay, Version
from harness.contracts.request import Request
from harness.protocols.opencode.driver import OpencodeServe, serve_command
from harness.protocols.opencode.events import OpencodeEvents
from harness.protocols.opencode.stream import FLAGS, OpencodeStream, run_command
from harness.protocols.opencode.tools import OPENCODE

_ENV = {"KILO_NO_DAEMON": "1"}
_SERVE_SINCE: Version = (7, 7)


def command(request: Request, version: Version) -> CommandLine:
    del version
    return run_command(
        request,
        approving=("--auto",),
        options=("--thinking",),
        permission_variable="KILO_PERMISSION",
        env=_ENV,
    )


def command_of_server(request: Request, version: Version) -> CommandLine:
    del version
    return serve_command(request, prefix="KILO", env=_ENV)


class KiloTranslator(OpencodeStream):
    agent = "kilo"


class KiloServerTranslator(OpencodeEvents):
    stream = KiloTranslator


_SUPPORTS = frozenset({"agent-default", "read-only", *FLAGS})

AGENT = Agent(
    name="kilo",
    title="Kilo Code",
    aliases=("kilo-code", "kilocode"),
    binaries=("kilo", "kilocode"),
    homes=(
        "~/.config/kilo/",
        "~/.local/share/kilo/",
        "~/.local/state/kilo/",
        "~/.cache/kilo/",
        "~/.kilo",
        "~/.kilocode",
    ),
    without_settings={"KILO_DISABLE_PROJECT_CONFIG": "1"},
    command=command,
    translator=KiloTranslator,
    supports=_SUPPORTS,
    screen_resume=("--session", "{id}"),
    two_way=TwoWay(
        command=command_of_server,
        driver=OpencodeServe,
        translator=KiloServerTranslator,
        capabilities=OpencodeServe.capabilities,
        tools=OPENCODE,
        supports=_SUPPORTS | {"fork"},
        since=_SERVE_SINCE,
        delta_keys=("delta",),
        transport="http",
    ),
    key_variables=("KILO_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    install="npm install -g @kilocode/cli",
    login="kilo auth login",
    reveals={
        "deltas": "none: text comes whole; in a conversation in pieces",
        "reasoning": "whole",
        "tools": "every call when it has ended; real line ranges and changed files; exit codes",
        "sub_agents": "begin, task, answer and end; what they do and use only in a conversation",
        "usage": "per model call, all token classes; without sub-agents",
        "cost": "stated per model call, where it knows the model's price",
        "result": "refused permissions and empty answers as errors; otherwise by the last record",
    },
)
