"""Every recorded store gives its expected events, completely, and is untouched afterwards."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from harness.agents.registry import load as load_agent
from harness.events import Message, Result, SessionStart, ToolEnd, ToolStart
from harness.histories.registry import load, names
from harness.log import codec
from stored_homes import HomeCase, cases, expected_lines, opened, sessions

CASES = cases()


def _state_of(directory: Path) -> dict[str, tuple[str, int, int]]:
    """What a reader could have changed: names, bytes, times, modes."""
    return {
        str(path.relative_to(directory)): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
            path.stat().st_mode,
        )
        for path in directory.rglob("*")
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_store_gives_its_expected_events(case: HomeCase, tmp_path: Path) -> None:
    assert [*expected_lines(case, tmp_path), ""] == case.golden.read_text().split("\n")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reading_a_store_changes_nothing_in_it(case: HomeCase, tmp_path: Path) -> None:
    home = case.unpack(tmp_path)
    before = _state_of(tmp_path)
    history = load(case.agent)
    assert history is not None
    for session in history.find(home):
        for _ in opened(case, session).events():
            pass
    if history.live is not None:
        history.live(home)
    if history.deleted_after_days is not None:
        history.deleted_after_days(home)
    assert _state_of(tmp_path) == before


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_log_from_a_store_keeps_the_promises_of_a_log(case: HomeCase, tmp_path: Path) -> None:
    for session in sessions(case, case.unpack(tmp_path)):
        log = opened(case, session)
        events = [*log.events()]
        assert log.lost == []
        assert [event.seq for event in events] == list(range(len(events)))
        assert [event.timestamp_ms for event in events] == sorted(event.timestamp_ms for event in events)
        assert [codec.encode(event) for event in opened(case, session).events()] == [
            codec.encode(event) for event in events
        ], "read again, it is the same log"
        started = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolStart)]
        ended = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolEnd)]
        assert sorted(started) == sorted(ended)
        runs = [event.run_id for event in events if isinstance(event, SessionStart)]
        assert sorted(runs) == sorted(event.run_id for event in events if isinstance(event, Result))
        prompts = [event for event in events if isinstance(event, Message) and event.role == "user"]
        assert len(prompts) >= log.runs > 0 or not events


@pytest.mark.parametrize("name", names())
def test_a_history_belongs_to_an_agent_and_has_a_recorded_store(name: str) -> None:
    history = load(name)
    assert history is not None
    assert (history.agent, history.title) == (load_agent(name).name, load_agent(name).title)
    assert history.agent == name
    assert cases(name), f"there is no recorded store of {name}"
