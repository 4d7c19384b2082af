"""An answer that is not whole: the run says so, and does not pretend."""

from __future__ import annotations

import pytest
from played_model import play, says

from harness.events import Message, Result, StepEnd, TextDelta, TextRetracted, Warning


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_an_answer_that_was_cut_short_is_said_to_be(reason: str) -> None:
    played = play([*says("I would")[:-1], StepEnd(id="", stop_reason=reason)])

    assert (played.result.outcome, played.result.stop_reason) == ("completed", reason)
    [warning] = played.of(Warning)
    assert warning.code == reason


def test_a_whole_answer_ends_by_itself() -> None:
    played = play(says("done"))

    assert played.result.stop_reason == "end"
    assert played.of(Warning) == []


def test_what_was_taken_back_is_no_part_of_the_answer() -> None:
    begun = [
        TextDelta(id="a", text="It is fo"),
        TextRetracted(id="a"),
        Warning(message="again", code="retry"),
    ]
    played = play([*begun, *says("It is five.")])

    [asked, answer] = played.of(Message)
    assert (asked.role, answer.text) == ("user", "It is five.")
    assert played.of(Result)[0].text == "It is five."
