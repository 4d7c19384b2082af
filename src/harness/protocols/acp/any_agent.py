"""Any program that speaks the Agent Client Protocol, known by its command alone: `acp:my-agent --acp`.

What it says of a call (its title, its kind, its name for the tool) is for people: nothing is known of its tools, so that
everything it asks about is asked. And it decides itself what it asks about, so that it is never run where everything must
be asked.
"""

from __future__ import annotations

import shlex

from msgspec.structs import replace

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator

PREFIX = "acp:"
_UNASKED = "it is known by its command alone, and decides itself what it asks about"
_LONGEST = 1_000


def agent_of(name: str) -> Agent:
    """The agent that this command starts. Raises UsageError for what is no command."""
    try:
        words = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise UsageError(f"this is no command: {name[:200]!r} ({error})", hint=_EXAMPLE) from error
    if not words or len(name) > _LONGEST or "\0" in name:
        raise UsageError(f"this is no command: {name[:200]!r}", hint=_EXAMPLE)
    full_name = f"{PREFIX}{shlex.join(words)}"
    translator = type("AnyAcpAgent", (AcpTranslator,), {"agent": full_name})

    def command(request: Request, version: Version) -> CommandLine:
        del version
        return CommandLine(args=(*words[1:], *request.extra_args))

    program = AcpProgram(
        translator=translator, capabilities=frozenset({"approve", "ask", "files", "model"}), sets_model=True
    )
    supports = frozenset({"agent-default", "model", "resume"})
    two_way = replace(program.two_way(command, since=(), supports=supports, unasked=_UNASKED), tools=None)
    return Agent(
        name=full_name,
        title=f"{words[0].rsplit('/', 1)[-1]} over ACP",
        binaries=(words[0],),
        command=command,
        translator=translator,
        supports=supports,
        two_way=two_way,
        only_two_way=True,
        delta_keys=("text",),
        version_args=(),  # what the command would do with `--version` is not known
        install=f"install it, or give the path of {words[0]!r}",
    )


_EXAMPLE = "an agent of ACP is named by what starts it: `acp:my-agent --acp`"
