"""Kilo Code: `kilo run --format json`, a relative of OpenCode."""

from __future__ import annotations

from harness.sources.agent import Agent, CommandLine, Version
from harness.sources.formats.opencode import FLAGS, OpencodeStream, run_command
from harness.sources.request import Request


def command(request: Request, version: Version) -> CommandLine:
    del version
    return run_command(
        request,
        approving=("--auto",),
        options=("--thinking",),
        permission_variable="KILO_PERMISSION",
        env={"KILO_NO_DAEMON": "1"},
    )


class KiloTranslator(OpencodeStream):
    agent = "kilo"


AGENT = Agent(
    name="kilo",
    title="Kilo Code",
    aliases=("kilo-code", "kilocode"),
    binaries=("kilo", "kilocode"),
    command=command,
    translator=KiloTranslator,
    supports=frozenset({"agent-default", "read-only", *FLAGS}),
    key_variables=("KILO_API_KEY", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
    install="npm install -g @kilocode/cli",
    reveals={
        "deltas": "none: text comes whole",
        "reasoning": "whole",
        "tools": "every call when it has ended; real line ranges and changed files; exit codes",
        "sub_agents": "begin, task, answer and end; not what they do, nor what they use",
        "usage": "per model call, all token classes; without sub-agents",
        "cost": "stated per model call, where it knows the model's price",
        "result": "refused permissions and empty answers as errors; otherwise by the last record",
    },
)
