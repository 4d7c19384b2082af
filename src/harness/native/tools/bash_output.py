"""`bash_output`: the new output of a command in the background, whether it still runs, and its exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta

from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.conversation.left_behind import ENDED, STOPPED
from harness.errors import HarnessError
from harness.events import Operation
from harness.events.operation import List
from harness.native.tools.background_agents import BackgroundAgents
from harness.process.child import ChildExit, OutputChunk, StreamName
from harness.process.invocation import Invocation
from harness.workspace.async_process import AsyncProcess
from harness.workspace.commands import HeadAndTail, KeptOutput
from harness.workspace.terminal_text import as_seen

MOST_AT_ONCE = 8
MOST_REMEMBERED = 32
"""How many ended commands are remembered."""
SHOWN_BYTES: dict[StreamName, int] = {"stdout": 30_000, "stderr": 10_000}

Around: TypeAlias = AbstractAsyncContextManager[tuple[Invocation, list[str]]]
"""The command to start, and a list: after the block, it names what the command left and was disabled."""


class BackgroundCommand:
    """Created in a running event loop, and used only in its thread."""

    def __init__(self, id: str, around: Around, kept_output: KeptOutput, command: str) -> None:
        self.id = id
        self.command = command
        self.exit: ChildExit | None = None
        self.refused: list[str] = []
        self._kept_output = kept_output
        self._news = asyncio.Event()
        self._shown_output = _nothing()
        self._child: AsyncProcess | None = None
        self._task = asyncio.create_task(self._work(around))
        self._task.add_done_callback(self._end)

    @property
    def is_running(self) -> bool:
        return not self._task.done()

    def news(self) -> list[str]:
        """The output since the last call. Raises ToolFailure when the command could not be started."""
        if not self.is_running:
            self._raise_failure()
        news_output, self._shown_output = self._shown_output, _nothing()
        if self.is_running:
            self._news.clear()
        parts = [f"{name}:\n{text}" for name in SHOWN_BYTES if (text := as_seen(news_output[name].text()))]
        has_gap = any(output.has_gap for output in news_output.values())
        return [*parts, self._kept_output.notice()] if has_gap and self._kept_output.path else parts

    async def wait_for_news(self, timeout_s: float) -> None:
        """Wait until there is new output, or the command has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._news.wait()

    async def wait_for_end(self, timeout_s: float | None = None) -> None:
        await asyncio.wait((self._task,), timeout=timeout_s)

    def stop(self) -> None:
        """Ask it to end, with increasingly strong signals."""
        if self._child is None:
            self._task.cancel()
        else:
            self._child.stop()

    def kill(self) -> None:
        if self._child is None:
            self._task.cancel()
        else:
            self._child.kill()

    async def _work(self, around: Around) -> None:
        async with around as (invocation_around, refused):
            child = self._child = await AsyncProcess.start(invocation_around, self._take)
            try:
                self.exit = await asyncio.shield(child.ended)
            finally:
                await child.close()
        self.refused = refused

    def _take(self, chunks: Sequence[OutputChunk]) -> None:
        for stream, data in chunks:
            self._shown_output[stream].feed(data)
            self._kept_output.feed(data)
        self._news.set()

    def _end(self, task: asyncio.Task[None]) -> None:
        _ = task.cancelled() or task.exception()  # mark it as retrieved; `news` raises it
        self._kept_output.close()
        self._news.set()

    def _raise_failure(self) -> None:
        error = None if self._task.cancelled() else self._task.exception()
        if isinstance(error, HarnessError):
            raise ToolFailure(error.words) from None
        if error is not None:
            raise error


class BackgroundCommands:
    """The background commands of one run. Implements `Resource`."""

    def __init__(self) -> None:
        self._commands: dict[str, BackgroundCommand] = {}
        self._started_count = 0
        self._is_closed = False

    def start(self, around: Around, kept_output: KeptOutput, line: str) -> BackgroundCommand:
        """Raises ToolFailure when there are too many."""
        if self._is_closed:
            raise ToolFailure("the run has ended")
        running = [command.id for command in self._commands.values() if command.is_running]
        if len(running) >= MOST_AT_ONCE:
            raise ToolFailure(
                f"{len(running)} commands run in the background, and no more may: stop one of "
                f"{', '.join(running)} first, with bash_output and stop"
            )
        self._started_count += 1
        command = BackgroundCommand(f"b{self._started_count}", around, kept_output, line)
        self._commands[command.id] = command
        self._forget()
        return command

    def get(self, id: str) -> BackgroundCommand:
        """Raises ToolFailure when there is none."""
        if (command := self._commands.get(id)) is None:
            known_ids = ", ".join(self._commands) or "none"
            raise ToolFailure(f"there is no background command {id} (there are: {known_ids})")
        return command

    def listed(self) -> str:
        """One line for each."""
        lines = [
            f"{_state(command, is_stopped=False)}: {command.command}" for command in self._commands.values()
        ]
        return "\n".join(lines) or "there are no background commands"

    @property
    def ids(self) -> Collection[str]:
        """Of all that it knows."""
        return self._commands.keys()

    @property
    def running(self) -> list[str]:
        """Id and command line of each that goes on."""
        return [
            f"{command.id} {command.command}" for command in self._commands.values() if command.is_running
        ]

    def kill(self) -> None:
        self._is_closed = True
        for command in self._commands.values():
            if command.is_running:
                command.kill()

    async def ended(self) -> None:
        for command in self._commands.values():
            await command.wait_for_end()

    def _forget(self) -> None:
        ended_ids = [command.id for command in self._commands.values() if not command.is_running]
        for id in ended_ids[: max(0, len(ended_ids) - MOST_REMEMBERED)]:
            del self._commands[id]


def _nothing() -> dict[StreamName, HeadAndTail]:
    return {name: HeadAndTail(most_bytes) for name, most_bytes in SHOWN_BYTES.items()}


LONGEST_WAIT_S = 600.0
_STOPPED = -1
"""The exit code of a command whose end was not observed."""

_DESCRIPTION = (
    "Look at a command that bash started with background: what it wrote since the last look, whether it still "
    "runs, and its exit code. With wait, wait until it writes something or ends. With stop, end it, with "
    "everything it started (SIGINT, then SIGTERM, then SIGKILL). The same for a sub-agent in the background (a1)."
)


class BashOutputArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("bash_id", "bashId", "shell_id", "shellId", "job_id", "task_id", "session_id"), "id"
        ),
        **dict.fromkeys(("kill", "terminate"), "stop"),
    }
    id: Annotated[str, Meta(description="what bash called it, such as b1; without it, all are listed")] = ""
    wait: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT_S, description="seconds to wait at most, if there is nothing new")
    ] = 0.0
    stop: Annotated[bool, Meta(description="end the command")] = False


class BashOutputTool(Tool):
    category = "read"

    def __init__(self) -> None:
        self.spec = spec("bash_output", _DESCRIPTION, BashOutputArguments)

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        """Only reads: what the command may do was decided at its start, and stopping it only ends that."""
        order = take(BashOutputArguments, arguments, "bash_output")
        return [List(path=f"background command {order.id}")]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("bash_output")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(BashOutputArguments, arguments, "bash_output")
        commands: BackgroundCommands = context.resource(BackgroundCommands)
        agents: BackgroundAgents = context.resource(BackgroundAgents)
        if not order.id:
            return ToolOutput(text="\n".join([commands.listed(), *agents.lines]), operations=[])
        if (agent := agents.get(order.id)) is not None:
            return ToolOutput(text=await agent.look(order.wait, is_to_stop=order.stop), operations=[])
        command = commands.get(order.id)
        is_stopped = order.stop and command.is_running
        if is_stopped:
            command.stop()
            await command.wait_for_end()
        elif order.wait:
            await command.wait_for_news(order.wait)
        parts = command.news()
        parts += [f"error: {text}" for text in command.refused]
        parts.append(_state(command, is_stopped=is_stopped))
        text = "\n".join(part.removesuffix("\n") for part in parts)
        return ToolOutput(text=text, success=not command.refused, operations=[])


def _state(command: BackgroundCommand, *, is_stopped: bool) -> str:
    if command.is_running:
        return f"{command.id} is still running"
    how = STOPPED if is_stopped else ENDED
    return f"{command.id} {how}, exit code: {exit_code_of(command.exit)}"


def exit_code_of(exit: ChildExit | None) -> int:
    """The exit code as a shell reports it."""
    if exit is None or (exit.code is None and exit.signal is None):
        return _STOPPED
    return exit.code if exit.code is not None else 128 + (exit.signal or 0)
