"""The tool calls of one run: permission in order, execution at once, results as they come.

Every call gets a `ToolStart` and a `ToolEnd`, whatever becomes of it; the model gets one turn for each,
in the order in which it asked. A refusal that nobody was asked about is a `RelayReply` by policy, whose
id is that of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from harness.events import Operation, Relay, RelayReply, ToolEnd, ToolProgress, ToolStart
from harness.sources.function_tool import output_of
from harness.sources.loops.host import Host
from harness.sources.loops.options import AgentOptions
from harness.sources.loops.outbox import Channel
from harness.sources.model import Call, ToolTurn
from harness.sources.tool import StaleFile, Tool, ToolContext, ToolFailure, ToolOutput, derived_permission

_GRACE_S = 3.0
"""How long calls that are stopped may take to put away what they began."""
_PARSE_ERROR = "__toolParseError"


class _Admitted:
    """A call that may run."""

    __slots__ = ("arguments", "call", "call_id", "context", "tool")

    def __init__(self, call: Call, call_id: str, tool: Tool, context: ToolContext) -> None:
        self.call = call
        self.call_id = call_id
        self.tool = tool
        self.arguments: dict[str, Any] = dict(call.input)
        self.context = context


class ToolCalls:
    def __init__(
        self,
        host: Host,
        options: AgentOptions,
        channel: Channel,
        spawn: Callable[[str, str, str], Awaitable[str]],
    ) -> None:
        """`spawn`: (call id, task, name) → the answer of a sub-agent."""
        self._host = host
        self._options = options
        self._channel = channel
        self._spawn = spawn
        self._tools = {tool.spec.name: tool for tool in options.tools}
        self._open: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()

    async def carry_out(self, calls: Sequence[Call]) -> list[ToolTurn]:
        """All of them; what the model is told of each, in order."""
        turns: list[ToolTurn | _Admitted] = [await self._admit(call) for call in calls]
        self._host.outbox.flush()  # what is about to be done is in the log before it is done
        tasks = {
            asyncio.create_task(self._execute(turn)): place
            for place, turn in enumerate(turns)
            if isinstance(turn, _Admitted)
        }
        if tasks:
            await self._wait(tasks, turns)
        return [turn for turn in turns if isinstance(turn, ToolTurn)]

    def close(self) -> None:
        """End what is still open: nobody knows any more what became of it."""
        for call_id, name in list(self._open.items()):
            self._put_end(ToolEnd(call_id=call_id, tool_name=name))

    async def _admit(self, call: Call) -> ToolTurn | _Admitted:
        call_id = f"{self._channel.run_id}/{call.id}"
        tool = self._tools.get(call.name)
        problem = _problem(call)
        operations = _operations(tool, call.input) if tool is not None and not problem else []
        if tool is None:
            names = ", ".join(self._tools) or "none"
            problem = f"there is no tool called {call.name} (there are: {names})"
        else:
            refusal = await self._refusal(call, call_id, tool, operations, is_harmless=bool(problem))
            problem = _denied(refusal) if refusal is not None else problem
        self._open[call_id] = call.name
        self._channel.put(
            ToolStart(call_id=call_id, tool_name=call.name, input=call.input, operations=operations)
        )
        if tool is None or problem:
            return self._end(call, call_id, ToolOutput(text=problem, success=False))
        return _Admitted(call, call_id, tool, self._context(call_id))

    async def _refusal(
        self, call: Call, call_id: str, tool: Tool, operations: list[Operation], *, is_harmless: bool
    ) -> str | None:
        """Why it may not run; None when it may. `is_harmless`: nothing would run anyway."""
        permissions = self._options.permissions
        arguments = call.input if isinstance(call.input, dict) else {}
        verdict = permissions.verdict(call.name, arguments, operations, call.id)
        if verdict.decision == "allow":
            return None
        if verdict.decision == "deny":
            if is_harmless:
                return None
            self._channel.put(RelayReply(id=call_id, approved=False, by="policy", reason=verdict.reason))
            return verdict.reason
        reply = await self._ask(call, call_id)
        if not reply.approved:
            return reply.reason or "the user said no"
        if reply.always:
            permissions.grant(_permission(tool, arguments))
        return None

    async def _ask(self, call: Call, call_id: str) -> RelayReply:
        relay = Relay(id=self._host.new_id(), call_id=call_id, tool_name=call.name, input=call.input)
        self._channel.put(relay)
        try:
            reply = await self._host.relays.answer(relay.id, self._options.relay_deadline_s)
        except asyncio.CancelledError:
            reason = "the run was stopped"
            self._channel.put(RelayReply(id=relay.id, approved=False, by="policy", reason=reason))
            raise
        self._channel.put(reply)
        return reply

    async def _wait(
        self, tasks: dict[asyncio.Task[ToolTurn], int], turns: list[ToolTurn | _Admitted]
    ) -> None:
        deadline_s = self._options.tool_deadline_s
        try:
            _, late = await asyncio.wait(tasks, timeout=deadline_s)
            if late:
                await self._stop(late)
        except asyncio.CancelledError:
            await self._stop(tasks)
            raise
        for task, place in tasks.items():
            admitted = turns[place]
            assert isinstance(admitted, _Admitted)
            if task.done() and not task.cancelled():
                turns[place] = task.result()
            else:
                output = ToolOutput(text=f"it did not end within {deadline_s or 0:g} s", success=False)
                turns[place] = self._end(admitted.call, admitted.call_id, output)

    async def _stop(self, tasks: Collection[asyncio.Task[ToolTurn]]) -> None:
        """Cancel them, and wait a little; who is cancelled again does not wait. Some never listen."""
        for task in tasks:
            task.cancel()
        try:
            await asyncio.wait(tasks, timeout=_GRACE_S)
        finally:
            self._host.abandon(task for task in tasks if not task.done())

    async def _execute(self, admitted: _Admitted) -> ToolTurn:
        started_ms = self._host.hub.clock()
        context = admitted.context
        try:
            output = await admitted.tool.run(admitted.arguments, context)
            if not isinstance(output, ToolOutput):
                output = output_of(output)  # type: ignore[unreachable]  # written by somebody who does not check types
        except asyncio.CancelledError:
            context.cancelled = True
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            output = ToolOutput(text="it was cancelled", success=False)
        except (Exception, SystemExit) as error:
            output = ToolOutput(text=_words(error), success=False)
        duration_ms = self._host.hub.clock() - started_ms
        return self._end(admitted.call, admitted.call_id, output, duration_ms)

    def _end(self, call: Call, call_id: str, output: ToolOutput, duration_ms: int | None = None) -> ToolTurn:
        text = shortened(output.text, self._options.most_output_characters)
        self._put_end(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name,
                success=output.success,
                output=text,
                exit_code=output.exit_code,
                duration_ms=duration_ms,
                operations=output.operations,
            )
        )
        if self._options.on_output is not None:
            self._options.on_output(call_id, output)
        return ToolTurn(call.id, text, is_error=not output.success, attachments=output.attachments)

    def _put_end(self, end: ToolEnd) -> None:
        # A call that was given up may still end some time later.
        if self._open.pop(end.call_id, None) is not None:
            self._channel.put(end)

    def _context(self, call_id: str) -> ToolContext:
        return ToolContext(
            cwd=self._host.cwd,
            env=self._host.env,
            run_id=self._channel.run_id,
            call_id=call_id,
            files=self._host.files,
            on_progress=lambda text: self._progress(call_id, text),
            on_spawn=lambda task, name: self._spawn(call_id, task, name),
        )

    def _progress(self, call_id: str, text: str) -> None:
        try:
            running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            self._put_progress(call_id, text)
        else:
            with suppress(RuntimeError):  # the loop is closed: the run has ended
                self._loop.call_soon_threadsafe(self._put_progress, call_id, text)

    def _put_progress(self, call_id: str, text: str) -> None:
        if call_id in self._open:
            self._channel.put(ToolProgress(call_id=call_id, text=text))


def shortened(text: str, most_characters: int) -> str:
    """A text that a model can still read: beginning and end, and how much is missing between them."""
    if len(text) <= most_characters:
        return text
    half = most_characters // 2
    return f"{text[:half]}\n… [{len(text) - 2 * half} characters left out] …\n{text[-half:]}"


def _problem(call: Call) -> str:
    arguments = call.input
    if not isinstance(arguments, dict):
        return (
            f"Tool call had malformed arguments. Parse error: not a JSON object. Raw arguments: {arguments}"
        )
    if arguments.get(_PARSE_ERROR):
        error, raw = arguments.get("parseError", ""), arguments.get("rawArguments", "")
        return f"Tool call had malformed arguments. Parse error: {error}. Raw arguments: {raw}"
    return ""


def _denied(reason: str) -> str:
    return msgspec.json.encode({"status": "denied", "reason": reason}).decode()


def _operations(tool: Tool, arguments: dict[str, Any]) -> list[Operation]:
    try:
        return list(tool.operations(arguments))
    except Exception:  # arguments are as the model wrote them; nothing said counts as dangerous
        return []


def _permission(tool: Tool, arguments: dict[str, Any]) -> Any:
    try:
        return tool.permission(arguments)
    except Exception:
        return derived_permission(tool.spec.name, arguments)


def _words(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, ToolFailure | StaleFile) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
