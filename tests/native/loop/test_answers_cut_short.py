"""An answer that is not whole: the run says so, and does not pretend."""

from __future__ import annotations

import pytest

from harness.events import (
    Error,
    Event,
    Message,
    Result,
    StepEnd,
    TextDelta,
    TextRetracted,
    ToolEnd,
    Warning,
)
from harness.native.tools.agent import AgentTool
from played_model import calls, play, says
from played_rlm import code
from played_rlm import play as play_rlm


def cut(answer: list[Event], reason: str) -> list[Event]:
    return [*answer[:-1], StepEnd(id="", stop_reason=reason)]


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_an_answer_that_was_cut_short_is_said_to_be(reason: str) -> None:
    played = play(cut(says("I would"), reason))

    assert (played.result.outcome, played.result.success) == ("failed", False)
    assert (played.result.stop_reason, played.result.text) == (reason, "I would")
    [error] = played.of(Error)
    assert error.code == reason
    assert played.of(Warning) == []


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


@pytest.mark.parametrize("reason", ["length", "refusal"])
def test_an_answer_that_is_not_the_last_costs_a_warning(reason: str) -> None:
    reminders = iter(["go on"])

    async def remind(_answer: str) -> str | None:
        return next(reminders, None)

    played = play(cut(says("I would"), reason), says("Done."), after_answer=remind)
    assert (played.result.outcome, played.result.text) == ("completed", "Done.")
    assert [warning.code for warning in played.of(Warning)] == [reason]


def test_a_sub_agent_whose_answer_was_cut_short_has_failed() -> None:
    spawning = calls(("a", "agent", {"task": "look"}))
    played = play(spawning, cut(says("I wou"), "length"), says("It failed."), tools=(AgentTool(),))
    [end] = played.of(ToolEnd)
    assert not end.success
    assert "the sub-agent failed: the answer was cut off" in end.output
    assert [result.outcome for result in played.of(Result)] == ["failed", "completed"]


def test_half_a_program_is_not_run_but_written_again() -> None:
    played = play_rlm(cut(code("FINAL('half')"), "length"), code("FINAL('whole')"))
    assert (played.result.outcome, played.result.text) == ("completed", "whole")
    assert [error.code for error in played.of(Error)] == ["length"]
    assert "Write less" in played.model.asked[1][0][-1].text  # type: ignore[union-attr]


def test_a_program_that_was_held_back_is_a_failure() -> None:
    played = play_rlm(cut(code("FINAL('x')"), "refusal"))
    assert (played.result.outcome, played.result.text) == ("failed", "")
    assert [error.code for error in played.of(Error)] == ["refusal"]


def test_a_query_whose_answer_was_cut_short_has_none() -> None:
    asking = code("try:", "    llm_query('x')", "except Exception as error:", "    FINAL(str(error))")
    played = play_rlm(asking, cut(says("half"), "length"), max_depth=0)
    assert "there is no answer: the answer was cut off" in played.result.text
    assert [result.success for result in played.of(Result)] == [False, True]
