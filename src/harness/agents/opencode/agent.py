"""OpenCode: `opencode run --format json`, from 1.0 on; in a conversation `opencode serve`."""

from __future__ import annotations

from harness.contracts.agent import Agent, CommandFiles, CommandLine, TwoWay, Version
from harness.contracts.command_line import has
from harness.contracts.request import Request
from harness.protocols.opencode.driver import OpencodeServe, serve_command
from harness.protocols.opencode.events import OpencodeEvents
from harness.protocols.opencode.stream import FLAGS, OpencodeStream, run_command
from harness.protocols.opencode.tools import OPENCODE

_THINKING_SINCE: Version = (1, 2)
_SKIP_PERMISSIONS_SINCE: Version = (1, 4)
_AUTO_SINCE: Version = (1, 17, 12)
_VARIANT_SINCE: Version = (1, 2)
_SERVE_SINCE: Version = (1, 18)


def command(request: Request, version: Version) -> CommandLine:
    approving: tuple[str, ...] = ()
    if has(version, _AUTO_SINCE):
        approving = ("--auto",)
    elif has(version, _SKIP_PERMISSIONS_SINCE):
        approving = ("--dangerously-skip-permissions",)
    return run_command(
        request,
        approving=approving,
        options=("--thinking",) if has(version, _THINKING_SINCE) else (),
        permission_variable="OPENCODE_PERMISSION",
        env={},
    )


def command_of_server(request: Request, version: Version) -> CommandLine:
    del version
    return serve_command(request, prefix="OPENCODE", env={})


class OpencodeTranslator(OpencodeStream):
    agent = "opencode"


class OpencodeServerTranslator(OpencodeEvents):
    stream = OpencodeTranslator


_SUPPORTS = frozenset({"agent-default", "read-only", *FLAGS})

AGENT = Agent(
    name="opencode",
    title="OpenCode",
    aliases=("open-code",),
    binaries=("opencode",),
    homes=(
        "~/.config/opencode/",
        "~/.local/share/opencode/",
        "~/.local/state/opencode/",
        "~/.cache/opencode/",
        "~/.opencode",
    ),
    without_settings={"OPENCODE_DISABLE_PROJECT_CONFIG": "1"},
    command=command,
    translator=OpencodeTranslator,
    since={"effort": _VARIANT_SINCE},
    supports=_SUPPORTS,
    command_files=(
        CommandFiles(
            folders=(
                "~/.config/opencode/command",
                "~/.config/opencode/commands",
                ".opencode/command",
                ".opencode/commands",
            ),
            is_taken=False,
        ),
    ),
    screen_resume=("--session", "{id}"),
    two_way=TwoWay(
        command=command_of_server,
        driver=OpencodeServe,
        translator=OpencodeServerTranslator,
        capabilities=OpencodeServe.capabilities,
        tools=OPENCODE,
        supports=_SUPPORTS | {"fork", "tool_servers"},
        since=_SERVE_SINCE,
        delta_keys=("delta",),
        transport="http",
    ),
    key_variables=(
        "OPENCODE_API_KEY",
        "OPENROUTER_API_KEY",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
    ),
    install="npm install -g opencode-ai",
    login="opencode auth login",
    needs_version=True,
    reveals={
        "deltas": "none: text comes whole; in a conversation in pieces",
        "reasoning": "whole, from 1.2 on",
        "tools": "every call when it has ended; real line ranges and changed files; exit codes",
        "sub_agents": "begin, task, answer and end; what they do and use only in a conversation",
        "usage": "per model call, all token classes; without sub-agents and the session's title",
        "cost": "stated per model call, where it knows the model's price",
        "result": "never stated: concluded from the last record; the exit code is 0 for refused permissions, "
        "cut-off and empty answers",
    },
)
