"""Pi: `pi --mode json --print`, under its old package name and under its new one; two-way, `pi --mode rpc`."""

from __future__ import annotations

from harness.sources.agent import Agent, CommandLine, TwoWay, Version
from harness.sources.agents.pi.rpc import PiRpcTranslator
from harness.sources.agents.pi.translator import PiTranslator
from harness.sources.drivers.pi_rpc import CAPABILITIES, GATE, QUESTION, PiRpc
from harness.sources.formats.command_line import flags_of
from harness.sources.request import Request

_READING_TOOLS = "read,grep,find,ls"
_FLAGS = {
    "model": "--model",
    "system_prompt": "--system-prompt",
    "append_system_prompt": "--append-system-prompt",
    "resume": "--session",
    "continue_last": "--continue",
}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and may begin with a dash or an @."""
    del version
    args = ["--mode", "json", "--print"]
    if request.permissions == "read-only":
        args += ["--tools", _READING_TOOLS]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt.encode("utf-8", "replace"))


def rpc_command(request: Request, version: Version) -> CommandLine:
    """Calls are asked about by an extension; what only reads has no tool that could do more."""
    del version
    args = ["--mode", "rpc", "--extension", QUESTION]
    if request.permissions == "ask":
        args += ["--extension", GATE]
    elif request.permissions == "read-only":
        args += ["--tools", f"{_READING_TOOLS},ask_user"]
    args += flags_of(request, {**_FLAGS, "session_id": "--session-id"})
    return CommandLine(args=(*args, *request.extra_args))


AGENT = Agent(
    name="pi",
    title="Pi",
    aliases=("pi-coding-agent",),
    binaries=("pi",),
    command=command,
    translator=PiTranslator,
    two_way=TwoWay(
        command=rpc_command,
        driver=PiRpc,
        translator=PiRpcTranslator,
        capabilities=CAPABILITIES,
        since=(0, 99),
    ),
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    screen_resume=("--session", "{id}"),
    key_variables=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "XAI_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
    ),
    install="npm install -g @earendil-works/pi-coding-agent",
    delta_keys=("delta",),
    reveals={
        "deltas": "text, reasoning and tool input",
        "reasoning": "yes",
        "tools": "every call, live output and result; exit codes stated from 1.5 on, before that only of failures",
        "sub_agents": "none: Pi has none; calls that a script makes (codemode) are shown from 1.5 on",
        "usage": "per model call; reasoning apart from 0.87 on",
        "cost": "stated, per model call",
        "result": "how the last answer stopped; whether the run was aborted from 1.5 on; the exit code is 0 on failures too",
    },
)
