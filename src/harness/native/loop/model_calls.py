"""Model calls: `ModelSteps` for the steps of an agent run, `call_model` for one call without a step.

Both put what the model answers into the log, count what it costs, and turn what breaks into an `Error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from harness.contracts.model import AssistantTurn, Call, ToolSpec, Turn
from harness.conversation.suspended_run import SuspendedRun
from harness.conversation.turns import calls_of, is_call
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    RateLimits,
    ReasoningDelta,
    Result,
    StepEnd,
    StepStart,
    TextDelta,
    TextRetracted,
    ToolInputDelta,
    UsageDelta,
    Warning,
)
from harness.events.usage import NOTHING
from harness.native.loop.answer_watch import EVERY, NO_WATCH, AnswerWatch, EndlessAnswer, watch_of
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.run_recorder import RunRecorder
from harness.native.loop.transcript import LoopTranscript, TurnPlace

CUT_SHORT = {
    "length": "the answer was cut off: it reached the greatest length that the model may write",
    "refusal": "the answer was held back by the provider's content filter",
}
"""Stop reasons of an answer that does not count: a run that would end with it has failed."""


class ModelStep:
    """What one model call has answered so far."""

    __slots__ = (
        "calls",
        "end",
        "error",
        "id",
        "inputs",
        "message",
        "pieces",
        "place",
        "thoughts",
        "usage",
        "watch",
    )

    def __init__(self, step_id: str, watch: AnswerWatch = NO_WATCH) -> None:
        self.id = step_id
        self.watch = watch
        self.pieces: list[str] = []
        """Of its text."""
        self.thoughts: list[str] = []
        self.inputs: list[str] = []
        """Of the arguments of its calls."""
        self.message: Message | None = None
        self.calls: tuple[Call, ...] = ()
        self.error: Error | None = None
        self.end: StepEnd | None = None
        self.place = TurnPlace()
        self.usage = NOTHING


class ModelSteps:
    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        recorder: RunRecorder,
        transcript: LoopTranscript,
    ) -> None:
        self.count = 0
        self.used = NOTHING
        self.text = ""
        """Of the last answer with text."""
        self._partial_text = ""
        """Of the last call, if it gave no answer."""
        self.stop_reason = ""
        """Of the last call, as in `StepEnd`."""
        self.failure = ""
        """The last error of the model."""
        self.current: ModelStep | None = None
        """The current call."""
        self._context = context
        self._options = options
        self._run_id = recorder.run_id
        self._put = recorder.put
        self._transcript = transcript
        self._logged_error: Callable[[Error], Event] | None = None
        self._takers: dict[type[Event], Callable[[ModelStep, Any], Event | None]] = {
            Message: self._take_message,
            UsageDelta: self._take_usage,
            StepEnd: _take_end,
            Error: self._take_error,
            ToolInputDelta: self._take_input,
            ReasoningDelta: _take_thought,
            TextRetracted: _take_retraction,
            RateLimits: self._take_limits,
        }

    async def ask(
        self,
        turns: Sequence[Turn],
        tools: Sequence[ToolSpec],
        logged_error: Callable[[Error], Event] | None = None,
    ) -> ModelStep:
        """One model call; its answer is in the transcript when this returns.

        `logged_error`: what the log says of an error of the model; None: the error.
        """
        self._logged_error = logged_error
        options = self._options
        step = self.current = ModelStep(self._context.new_id(), watch_of(self._options))
        self.count += 1
        self._partial_text = ""
        self._transcript.begin_step()
        self._put(StepStart(id=step.id, model=options.model.name))
        try:
            await self._listen(options.model.answer(options.ask(turns, tools, options.schema)), step)
        except EndlessAnswer as endless:
            self._put(self._take_error(step, endless.error))
        except Exception as error:  # noqa: BLE001 # a model of the application may raise anything: an event, not a crash
            self._put(
                self._take_error(step, Error(message=f"the model broke: {error!r}", code="model_error"))
            )
        if step.message is None and step.error is None:
            self._put(self._take_error(step, Error(message="the model gave no answer", code="no_answer")))
        elif step.error is not None:
            step.message = None
        self.end("error" if step.message is None else "")
        return step

    def end(self, stop_reason: str) -> None:
        """End the current call, if there is one. An answer that is whole counts, also when the run was stopped."""
        step, self.current = self.current, None
        if step is None:
            return
        message = step.message
        if message is not None and step.error is None:
            turn = AssistantTurn(message.text, step.calls, message.opaque)
            self._transcript.add_answer(turn, step.place, self._run_id)
            self.text = message.text or self.text
        else:
            self._partial_text = "".join(step.pieces)
        self._transcript.end_step()
        end = step.end or StepEnd(id=step.id)
        self.stop_reason = end.stop_reason or stop_reason
        if step.calls:  # the loop continues with them
            self.warn_if_cut_short()
        self._put(replace(end, id=step.id, stop_reason=self.stop_reason))

    def restore(self, pending: SuspendedRun) -> None:
        """Continue the count of a suspended run."""
        self.count, self.used, self.text = pending.steps, pending.used, pending.text

    def result(self, outcome: Outcome, duration_ms: int) -> Result:
        """Of the run whose calls these were."""
        has_reason = outcome == "completed" or self._is_cut_short
        return Result(
            success=outcome == "completed",
            outcome=outcome,
            text=self._partial_text or self.text,
            duration_ms=duration_ms,
            total_cost_usd=self.used.cost_usd,
            usage=self.used or None,
            stop_reason=self.stop_reason if has_reason else "",
            turns=self.count,
        )

    @property
    def _is_cut_short(self) -> bool:
        """Of the last call."""
        return self.stop_reason in CUT_SHORT

    def warn_if_cut_short(self) -> None:
        """The last answer was only the beginning of one, and the run continues all the same."""
        if self._is_cut_short:
            self._put(Warning(message=CUT_SHORT[self.stop_reason], code=self.stop_reason))

    def fail_if_cut_short(self) -> bool:
        """The last answer of the run was only the beginning of one: a failure, and the log has it as an error."""
        if not self._is_cut_short:
            return False
        self.failure = CUT_SHORT[self.stop_reason]
        self._put(Error(message=self.failure, code=self.stop_reason))
        return True

    async def _listen(self, stream: AsyncIterator[Event], step: ModelStep) -> None:
        put, takers, pieces, context = self._put, self._takers, step.pieces, self._context
        try:
            async for event in stream:
                kind = type(event)
                if kind is TextDelta:
                    pieces.append(event.text)  # type: ignore[attr-defined]
                    if not len(pieces) % EVERY:
                        step.watch.look(pieces)
                elif kind in takers:
                    taken = takers[kind](step, event)
                    if taken is None:
                        continue
                    event = taken  # noqa: PLW2901
                else:
                    _require_event(event)
                context.has_output = True
                if put(event):
                    # A model that never waits would starve every other task.
                    await asyncio.sleep(0)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def _take_message(self, step: ModelStep, message: Message) -> Event:
        calls = calls_of(message)
        step.calls = tuple([self._with_own_id(call) for call in calls])
        if step.calls != tuple(calls):
            others = [part for part in message.parts or () if not is_call(part)]
            message = replace(message, parts=[*others, *map(to_builtins, step.calls)])
        step.message = message
        step.place = self._transcript.expect_answer()
        return message

    def _take_limits(self, _step: ModelStep, limits: RateLimits) -> None:
        """They are no part of the answer."""
        self._put(limits)

    def _take_input(self, step: ModelStep, event: ToolInputDelta) -> Event:
        step.inputs.append(event.text)
        if not len(step.inputs) % EVERY:
            step.watch.look(step.inputs, is_input=True)
        return replace(event, call_id=f"{self._run_id}/{event.call_id}")

    def _take_usage(self, step: ModelStep, event: UsageDelta) -> Event:
        model = event.model or self._options.model.name
        usage = self._context.priced(model, event.usage)
        for warning in self._context.unpriced_warnings(self._options):
            self._put(warning)
        self.used = self.used.plus(usage)
        step.usage = step.usage.plus(usage)
        return UsageDelta(usage=usage, model=model, id=event.id or step.id)

    def _take_error(self, step: ModelStep, error: Error) -> Event:
        step.error = error
        self.failure = error.message
        if self._logged_error is None or step.message is not None:
            return error
        return self._logged_error(error)

    def fail(self, error: Error) -> None:
        """The last call was the end of the run, for this reason."""
        self.failure = error.message
        self._put(error)

    def _with_own_id(self, call: Call) -> Call:
        """Some providers use an id twice; readers of the log need it to be unique."""
        taken = self._transcript.call_ids
        wanted = call_id = call.id or "call"
        number = 1
        while call_id in taken:
            number += 1
            call_id = f"{wanted}-{number}"
        taken.add(call_id)
        return call if call_id == call.id else replace(call, id=call_id)


def _take_end(step: ModelStep, end: StepEnd) -> None:
    """Put after everything else of the step: a model ends its step before its outcome is known."""
    step.end = end


def _take_thought(step: ModelStep, event: ReasoningDelta) -> Event:
    step.thoughts.append(event.text)
    if not len(step.thoughts) % EVERY:
        step.watch.look(step.thoughts)
    return event


def _take_retraction(step: ModelStep, event: TextRetracted) -> Event:
    step.pieces.clear()
    return event


def _require_event(given: object) -> None:
    """A model may be code of the application."""
    if not isinstance(given, Event):
        raise TypeError(f"its answer has a {type(given).__name__} where an event is expected")


class Answered(NamedTuple):
    message: Message | None
    failure: str = ""
    """Why there is no message, or only a part of one; it is in the log as an `Error`."""
    is_cut_off: bool = False
    """The message was cut off: asking for a shorter one may help."""


async def call_model(
    context: LoopContext,
    options: AgentOptions,
    turns: Sequence[Turn],
    put: Callable[[Event], bool],
    on_usage: Callable[[UsageDelta], object],
    tools: Sequence[ToolSpec] = (),
) -> Answered:
    """One call without a step: its events belong to the run itself. Cancelling it closes the model's stream."""
    if context.stopped is not None:
        raise asyncio.CancelledError
    listener = _Listener(context, options, put, on_usage)
    try:
        await listener.listen(options.model.answer(options.ask(turns, tools)))
    except EndlessAnswer as endless:
        listener.fail(endless.error)
    except Exception as error:  # noqa: BLE001 # as in `ask`
        listener.fail(Error(message=f"the model broke: {error!r}", code="model_error"))
    if listener.message is None and not listener.failure:
        listener.fail(Error(message="the model gave no answer", code="no_answer"))
    if listener.stop_reason in CUT_SHORT and not listener.failure:
        listener.fail(Error(message=CUT_SHORT[listener.stop_reason], code=listener.stop_reason))
        if listener.stop_reason == "length":
            return Answered(listener.message, listener.failure, is_cut_off=True)
    return Answered(None if listener.failure else listener.message, listener.failure)


class _Listener:
    def __init__(
        self,
        context: LoopContext,
        options: AgentOptions,
        put: Callable[[Event], bool],
        on_usage: Callable[[UsageDelta], object],
    ) -> None:
        self._watch = watch_of(options)
        self._pieces: list[str] = []
        self.message: Message | None = None
        self.failure = ""
        self.stop_reason = ""
        self._context = context
        self._model = options.model.name
        self._put = put
        self._on_usage = on_usage

    async def listen(self, stream: AsyncIterator[Event]) -> None:
        try:
            async for event in stream:
                self._context.has_output = True
                if self._take(event):
                    # A model that never waits would starve every other task.
                    await asyncio.sleep(0)
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()

    def fail(self, error: Error) -> bool:
        self.failure = error.message or "unknown"
        return self._put(error)

    def _take(self, event: Event) -> bool:
        if isinstance(event, TextDelta | ReasoningDelta):  # nearly all of them are
            self._pieces.append(event.text)
            if not len(self._pieces) % EVERY:
                self._watch.look(self._pieces)
            return self._put(event)
        if isinstance(event, StepEnd):
            self.stop_reason = event.stop_reason
            return False
        if isinstance(event, UsageDelta):
            model = event.model or self._model
            usage = self._context.priced(model, event.usage)
            self._on_usage(UsageDelta(usage=usage, model=model, id=event.id))
            return False
        if isinstance(event, Error):
            return self.fail(event)
        if isinstance(event, Message):
            self.message = event
        _require_event(event)
        return self._put(event)
