"""What a run says: text and reasoning as they are written, whole messages, and why the model stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.events import Event, Message, ReasoningDelta, StepEnd, StepStart, TextDelta, TextRetracted
from harness.views.session import events as wire
from harness.views.session.content import files_of
from harness.views.session.events import HarnessEvent
from harness.views.session.runs import TopRun

_CUT_OFF = {
    "length": "the answer was cut off: it reached the greatest length that the model may write",
    "refusal": "the answer was held back by the provider's content filter",
}
_SAME = {"max_tokens": "length", "content_filter": "refusal", "content-filter": "refusal"}


def _text(run: TopRun, event: TextDelta) -> Sequence[HarnessEvent]:
    return [*run.begin_message(event), *run.say(event.id, event.text)] if event.text else ()


def _reasoning(run: TopRun, event: ReasoningDelta) -> Sequence[HarnessEvent]:
    return [*run.begin_message(event), *run.think(event.id, event.text)] if event.text else ()


def _retraction(run: TopRun, event: TextRetracted) -> Sequence[HarnessEvent]:
    return run.retract(event.id)


def _message(run: TopRun, event: Message) -> Sequence[HarnessEvent]:
    files, text = files_of(event.parts or ()), run.unheard(event.id, event.text)
    told = run.begin_message(event) if text or files else []
    return [*told, *run.complete(event.id, text), *run.add(files), *run.end_inputs()]


def _step_start(run: TopRun, event: StepStart) -> Sequence[HarnessEvent]:
    del event
    run.cut_off = ""
    return ()


def _step_end(run: TopRun, event: StepEnd) -> Sequence[HarnessEvent]:
    reason = event.stop_reason.lower()
    run.cut_off = _CUT_OFF.get(_SAME.get(reason, reason), "")
    if not run.cut_off:
        return ()
    run.failure = run.cut_off
    return (wire.Error(error=wire.Problem(message=run.cut_off), error_type=event.stop_reason),)


SPEECH: Mapping[type[Event], Callable[[TopRun, Any], Sequence[HarnessEvent]]] = {
    TextDelta: _text,
    ReasoningDelta: _reasoning,
    TextRetracted: _retraction,
    Message: _message,
    StepStart: _step_start,
    StepEnd: _step_end,
}
