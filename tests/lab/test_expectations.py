"""What a scenario expects of a run, and what is missing in its log."""

from __future__ import annotations

from harness.events import Event, Message, Result, SessionStart, TextDelta, TextRetracted
from harness.lab.expectations import Expectation, missing

CUT_OFF: list[Event] = [
    TextDelta(run_id="1", id="a", text="all "),
    TextDelta(run_id="1", id="a", text="done"),
]
WITHDRAWN: list[Event] = [*CUT_OFF, TextRetracted(run_id="1", id="a")]
BELOW: list[Event] = [
    SessionStart(run_id="2", parent_id="c"),
    Message(run_id="2", role="assistant", text="all done"),
]


def _missing(said: list[Event]) -> list[str]:
    events: list[Event] = [SessionStart(run_id="1", agent="claude"), *said]
    events.append(Result(run_id="1", success=True, outcome="completed", text="bye"))
    return [finding.what for finding in missing(Expectation(texts=("all done",)), events, "/")]


def test_a_text_counts_whole_or_cut_off() -> None:
    assert _missing([Message(run_id="1", role="assistant", text="all done")]) == []
    assert _missing(CUT_OFF) == []


def test_a_text_that_was_withdrawn_or_is_that_of_a_sub_agent_is_missing() -> None:
    assert _missing(WITHDRAWN) == ["text 'all done'"]
    assert _missing(BELOW) == ["text 'all done'"]
