"""`bash_output`: what a command in the background wrote since the last look, whether it still runs, and its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from harness.events import Operation
from harness.events.operation import List
from harness.sources.process.child import ChildExit
from harness.sources.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.sources.tools.arguments import Arguments, spec, take
from harness.sources.workspace.background import BackgroundCommand, BackgroundCommands

LONGEST_WAIT_S = 600.0
_STOPPED = -1
"""The exit code of a command whose end nobody has seen."""

_DESCRIPTION = (
    "Look at a command that bash started with background: what it wrote since the last look, whether it still "
    "runs, and its exit code. With wait, wait until it writes something or ends. With stop, end it, with "
    "everything it started (SIGINT, then SIGTERM, then SIGKILL)."
)


class BashOutputArguments(Arguments, frozen=True, kw_only=True):
    id: Annotated[str, Meta(min_length=1, description="what bash called it, such as b1")]
    wait: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT_S, description="seconds to wait at most, if there is nothing new")
    ] = 0.0
    stop: Annotated[bool, Meta(description="end the command")] = False


class BashOutputTool(Tool):
    category = "read"

    def __init__(self) -> None:
        self.spec = spec("bash_output", _DESCRIPTION, BashOutputArguments)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """It only looks: what the command may do was decided when it was started, and to end it takes that back."""
        asked = take(BashOutputArguments, arguments, "bash_output")
        return [List(path=f"background command {asked.id}")]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("bash_output")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        asked = take(BashOutputArguments, arguments, "bash_output")
        commands: BackgroundCommands = context.resource(BackgroundCommands)
        command = commands.get(asked.id)
        is_stopped = asked.stop and command.is_running
        if is_stopped:
            command.stop()
            await command.wait_for_end()
        elif asked.wait:
            await command.wait_for_news(asked.wait)
        parts = command.news()
        parts += [f"error: {text}" for text in command.refused]
        parts.append(_state(command, is_stopped=is_stopped))
        text = "\n".join(part.removesuffix("\n") for part in parts)
        return ToolOutput(text=text, success=not command.refused, operations=[])


def _state(command: BackgroundCommand, *, is_stopped: bool) -> str:
    if command.is_running:
        return f"{command.id} is still running"
    how = "was stopped" if is_stopped else "has ended"
    return f"{command.id} {how}, exit code: {exit_code_of(command.exit)}"


def exit_code_of(exit: ChildExit | None) -> int:
    """As shells tell it."""
    if exit is None or (exit.code is None and exit.signal is None):
        return _STOPPED
    return exit.code if exit.code is not None else 128 + (exit.signal or 0)
