"""Several models in place of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from harness.contracts.model import Ask
from harness.events import (
    Error,
    Event,
    Message,
    StepEnd,
    TextDelta,
    TextRetracted,
    Usage,
    UsageDelta,
    Warning,
)
from harness.models.fallback import FallbackModel


class Played:
    def __init__(self, name: str, *answers: Sequence[Event]) -> None:
        self.name = name
        self.answers = list(answers)
        self.asked = self.closed = 0

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        del ask
        self.asked += 1
        try:
            for event in self.answers.pop(0) if self.answers else says("again"):
                yield event
        finally:
            self.closed += 1


def says(text: str) -> list[Event]:
    return [
        TextDelta(id="m", text=text),
        Message(role="assistant", text=text, id="m"),
        UsageDelta(usage=Usage(input=3)),
        StepEnd(id="", stop_reason="end"),
    ]


def fails(message: str, code: str = "overloaded") -> list[Event]:
    return [Error(message=message, code=code), StepEnd(id="", stop_reason="error")]


def ask(model: FallbackModel) -> list[Event]:
    async def events() -> list[Event]:
        return [event async for event in model.answer(Ask(turns=()))]

    return asyncio.run(events())


def test_the_next_model_answers_and_is_asked_first_from_then_on() -> None:
    first, second = Played("a/one", fails("busy")), Played("b/two")
    model = FallbackModel([first, second])
    [warning, *answer] = ask(model)
    assert isinstance(warning, Warning)
    assert warning.message == "a/one gives no answer: busy; b/two is asked instead"
    assert [type(event) for event in answer] == [TextDelta, Message, UsageDelta, StepEnd]
    assert answer[2].model == "b/two"  # type: ignore[attr-defined]
    ask(model)
    assert (first.asked, second.asked, first.closed) == (1, 2, 1)
    assert model.name == "a/one"


def test_what_was_shown_of_a_broken_answer_is_withdrawn() -> None:
    broken = [TextDelta(id="x", text="Hal"), *fails("gone")]
    events = ask(FallbackModel([Played("a/one", broken), Played("b/two")]))
    assert [type(event) for event in events[:3]] == [TextDelta, TextRetracted, Warning]


def test_the_last_failure_is_that_of_all() -> None:
    events = ask(FallbackModel([Played("a/one", fails("busy")), Played("b/two", fails("off"))]))
    assert [event.message for event in events if isinstance(event, Error)] == ["off"]


@pytest.mark.parametrize("message", ["prompt is too long: 210000 tokens > 200000 maximum"])
def test_a_conversation_that_is_too_long_is_no_reason(message: str) -> None:
    second = Played("b/two")
    events = ask(FallbackModel([Played("a/one", fails(message, "invalid_request_error")), second]))
    assert isinstance(events[0], Error)
    assert second.asked == 0
