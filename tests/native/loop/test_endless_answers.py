"""A model that repeats itself for ever is stopped; one that has much to say is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from harness.contracts.model import Ask
from harness.events import Error, Event, Message, ReasoningDelta, StepEnd, TextDelta, ToolInputDelta, Warning
from harness.native.loop.answer_watch import EVERY, repeats
from played_model import play, says

_PASSAGES = {
    "text": lambda text: TextDelta(id="m", text=text),
    "thoughts": lambda text: ReasoningDelta(id="r", text=text),
    "input": lambda text: ToolInputDelta(call_id="c", text=text * 4, tool_name="write"),
}


def endless(kind: str, taken: list[int]) -> Any:
    async def answer(_ask: Ask) -> AsyncIterator[Event]:
        for number in count():
            taken.append(number)
            yield _PASSAGES[kind](("I think ", "it is ", "so. ")[number % 3])

    return answer


@pytest.mark.parametrize("kind", _PASSAGES)
def test_an_answer_without_an_end_is_stopped_and_said(kind: str) -> None:
    taken: list[int] = []
    played = play(endless(kind, taken), stops_repeats=True)
    assert played.result.outcome == "failed"
    [error] = played.of(Error)
    assert error.code == "endless_answer"
    assert "repeats itself" in error.message
    assert len(taken) <= 4 * EVERY
    assert played.model.closed == 1


def test_an_answer_longer_than_the_window_is_stopped() -> None:
    async def answer(_ask: Ask) -> AsyncIterator[Event]:
        for number in count():
            yield TextDelta(id="m", text=f"and then {number * number} ")

    played = play(answer, stops_repeats=True, context_window=8_000)
    [error] = played.of(Error)
    assert (error.code, "more than 64,000 characters" in error.message) == ("endless_answer", True)


def test_a_long_answer_and_a_file_of_zeros_are_whole() -> None:
    text = "".join(f"Line {number} says {number * 7}.\n" for number in range(20_000))

    async def answer(_ask: Ask) -> AsyncIterator[Event]:
        for at in range(0, len(text), 8):
            yield TextDelta(id="m", text=text[at : at + 8])
        yield Message(role="assistant", text=text, id="m")
        yield StepEnd(id="", stop_reason="end")

    assert play(answer, stops_repeats=True).result.text == text

    async def writes(_ask: Ask) -> AsyncIterator[Event]:
        for _ in range(2 * EVERY):
            yield ToolInputDelta(call_id="c", text="00", tool_name="write")
        yield Message(role="assistant", text="done", id="m")
        yield StepEnd(id="", stop_reason="end")

    assert play(writes, stops_repeats=True).result.text == "done"


def test_whoever_did_not_ask_for_it_gets_everything() -> None:
    assert play(says("again " * 20_000, pieces=20_000)).result.success


def test_an_answer_that_says_nothing_is_no_silence() -> None:
    played = play(says(""), stops_repeats=True)
    assert [one.code for one in played.of(Warning)] == ["empty_answer"]
    assert not play(says("yes"), stops_repeats=True).of(Warning)
    assert not play(says("")).of(Warning)


@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        ("x" * 9_000, True),
        ("a passage of some length. " * 300, True),
        ("b" * 900 + "\n", False),
        (("b" * 900 + "\n") * 10, True),
        ("".join(map(str, range(3_000))), False),
        ("".join(map(str, range(3_000))) + "end " * 2_000, True),
        ("end " * 2_000 + "".join(map(str, range(100))), False),
    ],
)
def test_what_counts_as_repeated(text: str, is_repeated: bool) -> None:
    for size in (1, 7, 5_000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert repeats(pieces, 6_000) is is_repeated, size
