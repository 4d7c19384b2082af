"""Every recorded run gives exactly the events that lie beside it, and loses no line."""

from __future__ import annotations

import recorded_runs
from harness.agents.registry import load, names
from harness.events import Result, SessionStart, ToolEnd, ToolStart
from harness.testing.golden import Case, check, translate


@recorded_runs.each(recorded_runs.CASES)
def test_a_recording_gives_its_expected_events(case: Case) -> None:
    difference = check(case)

    assert not difference, difference + "\n\n(if this is right: make golden)"


@recorded_runs.each(recorded_runs.CASES)
def test_everything_opened_is_closed_and_the_result_comes_last(case: Case) -> None:
    _, events = translate(case)

    started = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolStart)]
    ended = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolEnd)]
    assert sorted(started) == sorted(ended)
    runs = {event.run_id for event in events if isinstance(event, SessionStart)}
    results = [event.run_id for event in events if isinstance(event, Result)]
    assert sorted(results) == sorted(runs)
    assert isinstance(events[-1], Result)
    assert not events[-1].run_id


def test_every_agent_is_recorded() -> None:
    programs = {name for name in names() if load(name).work is None}
    unrecorded = programs - {case.agent for case in recorded_runs.CASES} - {"replay", "generic"}

    assert not unrecorded


def test_every_recording_has_an_agent() -> None:
    for agent in {case.agent for case in recorded_runs.CASES}:
        assert load(agent).name == agent
