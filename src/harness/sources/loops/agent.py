"""One run of an agent: ask the model, carry out what it asks for, tell it what came of it, until it is done.

Rules
1. The log tells everything: a step for each model call, what the model said, each call from its
   permission to its end, and one `Result`, last. Whatever happens, everything opened is closed.
2. Nothing is looked for in the past: each step costs what it adds, however long the run is.
3. Cancelling the task that runs `run` stops it at once, wherever it is: the model's stream is closed,
   calls and sub-agents are cancelled with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    Usage,
    UsageDelta,
    Warning,
)
from harness.sources.endings import LIMITS
from harness.sources.loops.calls import ToolCalls
from harness.sources.loops.host import Host
from harness.sources.loops.options import AgentOptions
from harness.sources.loops.steering import Inbox
from harness.sources.loops.subagent import spawn
from harness.sources.model import Ask, AssistantTurn, Attachment, Call, SystemTurn, ToolSpec, Turn, UserTurn

SUMMARISE = (
    "The limit of model calls for this task is reached, and no more tools can be used. Sum up what was done, "
    "what was found out, and what is left to do."
)


class _Step:
    """What one model call has said so far."""

    __slots__ = ("calls", "end", "error", "id", "message", "pieces")

    def __init__(self, step_id: str) -> None:
        self.id = step_id
        self.pieces: list[str] = []
        self.message: Message | None = None
        self.calls: tuple[Call, ...] = ()
        self.error: Error | None = None
        self.end: StepEnd | None = None

    @property
    def text(self) -> str:
        return self.message.text if self.message is not None else "".join(self.pieces)


class AgentRun:
    def __init__(
        self,
        host: Host,
        options: AgentOptions,
        *,
        run_id: str = "",
        parent_id: str = "",
        depth: int = 0,
        name: str = "",
        inbox: Inbox | None = None,
        turns: Sequence[Turn] = (),
    ) -> None:
        """`turns`: what was said before, without the system prompt."""
        self.host = host
        self.options = options
        self.run_id = run_id or host.new_id()
        self.depth = depth
        self.inbox = inbox or Inbox()
        self.result: Result | None = None
        """As it was put into the log, when the run has ended."""
        self.failure = ""
        """The last error of the model."""
        self._parent_id = parent_id
        self._name = name
        self._channel = host.channel(self.run_id)
        self._put: Callable[[Event], bool] = partial(host.outbox.put, self._channel)
        self._calls = ToolCalls(host, options, self._channel, partial(spawn, self))
        self._specs = [tool.spec for tool in options.tools]
        self._turns: list[Turn] = [SystemTurn(options.system_prompt)] if options.system_prompt else []
        self._turns += turns
        self._used = Usage()
        self._steps = 0
        self._step: _Step | None = None
        self._text = ""
        self._call_ids: set[str] = set()
        self._started_ms = host.hub.clock()
        self._takers: dict[type[Event], Callable[[_Step, Any], Event | None]] = {
            Message: self._take_message,
            UsageDelta: self._take_usage,
            StepEnd: _take_end,
            Error: self._take_error,
            ToolInputDelta: self._take_input,
            TextRetracted: _take_retraction,
        }

    def child(self, call_id: str, name: str) -> AgentRun:
        """A sub-agent for the call of that id."""
        return AgentRun(self.host, self.options, parent_id=call_id, depth=self.depth + 1, name=name)

    async def run(self, prompt: str, attachments: tuple[Attachment, ...] = ()) -> Result:
        """Answer the prompt. Cancelled, it still closes everything before it lets the cancellation pass."""
        options = self.options
        self._put(
            SessionStart(
                agent=options.agent,
                model=options.model.name,
                cwd=self.host.cwd,
                version=options.version,
                name=self._name,
                parent_id=self._parent_id,
            )
        )
        self._say(prompt, attachments)
        outcome: Outcome = "failed"
        try:
            outcome = await self._rounds()
        except asyncio.CancelledError:
            outcome = self.host.stopped or "interrupted"
            raise
        except Exception as error:
            self._put(Error(message=f"the loop broke: {error!r}", code="internal_error"))
            raise
        finally:
            result = self._finish(outcome)
        return result

    async def _rounds(self) -> Outcome:
        """One step after the other; one more than allowed, to sum up, when the model was not done by then."""
        for iteration in range(self.options.max_iterations + 1):
            for text in self.inbox.take():
                self._say(text)
            if self._is_budget_spent():
                return "limit_exceeded"
            is_last = iteration == self.options.max_iterations
            if is_last:
                self._tell_limit()
            step = await self._ask(() if is_last else self._specs)
            if step.message is None:
                return "failed"
            if is_last:
                return "limit_exceeded"
            self._turns.append(AssistantTurn(step.message.text, step.calls, step.message.opaque))
            if step.calls:
                self._turns += await self._calls.carry_out(step.calls)
            elif texts := self.inbox.take_last():
                for text in texts:
                    self._say(text)
            else:
                return "completed"
        raise AssertionError("the last round returns")

    async def _ask(self, tools: Sequence[ToolSpec]) -> _Step:
        """One model call."""
        task = asyncio.current_task()
        if self.host.stopped is not None or (task is not None and task.cancelling()):
            # It was stopped before it began, or something in between did not let the cancellation pass.
            raise asyncio.CancelledError
        options = self.options
        step = self._step = _Step(self.host.new_id())
        self._steps += 1
        self._put(StepStart(id=step.id, model=options.model.name))
        ask = Ask(
            turns=self._turns,
            tools=tools,
            max_output_tokens=options.max_output_tokens,
            temperature=options.temperature,
            effort=options.effort,
        )
        try:
            await self._listen(options.model.answer(ask), step)
        except Exception as error:
            self._put(
                self._take_error(step, Error(message=f"the model broke: {error!r}", code="model_error"))
            )
        if step.message is None and step.error is None:
            self._put(self._take_error(step, Error(message="the model said nothing", code="no_answer")))
        elif step.error is not None:
            step.message = None
        self._end_step("error" if step.message is None else "")
        return step

    async def _listen(self, stream: AsyncIterator[Event], step: _Step) -> None:
        put, takers, pieces, host = self._put, self._takers, step.pieces, self.host
        try:
            async for event in stream:
                kind = type(event)
                if kind is TextDelta:
                    pieces.append(event.text)  # type: ignore[attr-defined]
                elif kind in takers:
                    taken = takers[kind](step, event)
                    if taken is None:
                        continue
                    event = taken  # noqa: PLW2901
                host.has_output = True
                if put(event):
                    # A model that never waits would let nobody else have a turn.
                    await asyncio.sleep(0)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def _end_step(self, stop_reason: str) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        self._text = step.text or self._text
        end = step.end or StepEnd(id=step.id)
        self._put(replace(end, id=step.id, stop_reason=end.stop_reason or stop_reason))

    def _take_message(self, step: _Step, message: Message) -> Event:
        calls = _calls_of(message)
        step.calls = tuple([self._with_own_id(call) for call in calls])
        if step.calls != tuple(calls):
            others = [part for part in message.parts or () if not _is_call(part)]
            message = replace(message, parts=[*others, *map(to_builtins, step.calls)])
        step.message = message
        return message

    def _take_input(self, _step: _Step, event: ToolInputDelta) -> Event:
        return replace(event, call_id=f"{self.run_id}/{event.call_id}")

    def _take_usage(self, step: _Step, event: UsageDelta) -> Event:
        model = event.model or self.options.model.name
        usage = self.host.priced(model, event.usage)
        self._used = self._used.plus(usage)
        return UsageDelta(usage=usage, model=model, id=event.id or step.id)

    def _take_error(self, step: _Step, error: Error) -> Event:
        step.error = error
        self.failure = error.message
        return error

    def _with_own_id(self, call: Call) -> Call:
        """Some providers use an id twice; everybody else takes it for a name."""
        wanted = call_id = call.id or "call"
        number = 1
        while call_id in self._call_ids:
            number += 1
            call_id = f"{wanted}-{number}"
        self._call_ids.add(call_id)
        return call if call_id == call.id else replace(call, id=call_id)

    def _say(self, text: str, attachments: tuple[Attachment, ...] = ()) -> None:
        """Words of the user."""
        parts = [
            {"type": "file", "media_type": one.media_type, "data": one.data, "name": one.name}
            for one in attachments
        ]
        self._put(Message(role="user", text=text, parts=parts or None))
        self._turns.append(UserTurn(text, attachments))

    def _tell_limit(self) -> None:
        limit = LIMITS["turns"]
        self._put(Warning(message=limit.message.format(self.options.max_iterations), code=limit.code))
        self._put(Message(role="system", text=SUMMARISE))
        self._turns.append(SystemTurn(SUMMARISE))

    def _is_budget_spent(self) -> bool:
        budget_usd = self.options.max_budget_usd
        if budget_usd is None or self.host.spent_usd < budget_usd:
            return False
        limit = LIMITS["budget"]
        self._put(Error(message=limit.message.format(f"${budget_usd:g}"), code=limit.code))
        return True

    def _finish(self, outcome: Outcome) -> Result:
        """Close whatever is open, and say how it ended."""
        self._calls.close()
        self._end_step("cancelled")
        if left := self.inbox.close():
            noun = "message was" if left == 1 else "messages were"
            self._put(Warning(message=f"{left} {noun} not taken any more", code="not_taken"))
        result = self.result = Result(
            success=outcome == "completed",
            outcome=outcome,
            text=self._text,
            duration_ms=max(0, self.host.hub.clock() - self._started_ms),
            total_cost_usd=self._used.cost_usd,
            usage=self._used if self._used else None,
            turns=self._steps,
        )
        self._put(result)
        self._channel.close()
        return result


def _take_end(step: _Step, end: StepEnd) -> None:
    """Put when everything else of the step is: models end a step before we know what it means."""
    step.end = end


def _take_retraction(step: _Step, event: TextRetracted) -> Event:
    step.pieces.clear()
    return event


def _is_call(part: Any) -> bool:
    return isinstance(part, Call) or (isinstance(part, dict) and part.get("type") == "tool_call")


def _calls_of(message: Message) -> list[Call]:
    return [
        part
        if isinstance(part, Call)
        else Call(str(part.get("id", "")), str(part.get("name", "")), part.get("input"))
        for part in message.parts or ()
        if _is_call(part)
    ]
