"""A conversation gives the events of a run: what the protocol adds to the stream changes nothing in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from claude_peer import SCENARIOS, recorded
from harness.events import (
    Event,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    Unknown,
    Warning,
)
from harness.log import codec
from harness.log.raw import RawEntry, RawExit, RawOutput, RawStart
from harness.runs.audit import translate
from recorded_peer import TWO_WAY, read_recording

_PROTOCOL = frozenset({"control_request", "control_response", "control_cancel_request", "command_lifecycle"})


def is_protocol(record: Any) -> bool:
    kind = record.get("type")
    is_state = kind == "system" and record.get("subtype") == "session_state_changed"
    is_local = "local-command" in json.dumps(record)
    return (
        kind in _PROTOCOL or is_state or (kind == "user" and record.get("isReplay") is True and not is_local)
    )


def events_of(records: list[Any], *, two_way: bool) -> list[Event]:
    lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    entries: list[RawEntry] = [
        RawStart(at_ms=0, agent="claude", version="2.1.325", prompt="go", two_way=two_way),
        RawOutput(at_ms=0, stream="stdout", data=lines),
        RawExit(at_ms=0, turn="completed") if two_way else RawExit(at_ms=0, code=0),
    ]
    pipeline, events = translate(entries)
    assert not pipeline.lost
    return events


def is_denial(event: Event) -> bool:
    """In a conversation the log has the question and its answer instead."""
    return isinstance(event, Warning) and event.code == "permission_denied"


def said_by(scenario: str) -> list[Any]:
    return [step.message for step in read_recording(recorded(scenario)) if step.direction == "out"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_protocol_adds_nothing_to_the_events(scenario: str) -> None:
    records = said_by(scenario)
    events = events_of(records, two_way=True)
    plain = events_of([record for record in records if not is_protocol(record)], two_way=True)

    assert events == [event for event in plain if not is_denial(event)]
    assert not [event for event in events if isinstance(event, Unknown)]


PAIRS = Path(TWO_WAY) / "claude" / "2.1.325-pairs"
"""The same script, once only watched and once as a conversation in which everything was allowed."""
_VARYING = ("run_id", "parent_id", "session_id", "id", "call_id", "duration_ms", "exit_code", "agent_id")


def pair(name: str) -> tuple[list[Event], list[Event]]:
    watched, held = (
        events_of(
            [step.message for step in read_recording(PAIRS / f"{name}.{way}.jsonl.gz")], two_way=two_way
        )
        for way, two_way in (("one-way", False), ("two-way", True))
    )
    return watched, held


def without_ids(value: Any) -> Any:
    match value:
        case dict():
            return {key: without_ids(item) for key, item in value.items() if key not in _VARYING}
        case list():
            return [without_ids(item) for item in value]
    return value


def whole(events: list[Event]) -> list[Any]:
    """Without pieces, which come as the network cuts them."""
    return [
        without_ids(codec.to_builtins(event))
        for event in events
        if not isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta)
    ]


def test_the_events_are_those_of_a_run_that_is_only_watched() -> None:
    watched, held = pair("command")

    assert whole(held) == whole(watched)


def test_sub_agents_are_those_of_a_run_that_is_only_watched() -> None:
    watched, held = pair("sub-agents")

    for look in (_sub_agents, _operations, _usage):
        assert look(held) == look(watched)


def _sub_agents(events: list[Event]) -> Any:
    starts = {event.run_id: event for event in events if isinstance(event, SessionStart) and event.parent_id}
    ends = [event for event in events if isinstance(event, Result) and event.run_id in starts]
    return sorted((starts[end.run_id].agent, end.outcome, end.text) for end in ends)


def _operations(events: list[Event]) -> Any:
    ends = [codec.to_builtins(event) for event in events if isinstance(event, ToolEnd)]
    return sorted(json.dumps(without_ids(end.get("operations", []))) for end in ends)


def _usage(events: list[Event]) -> Any:
    result = events[-1]
    assert isinstance(result, Result)
    assert result.usage is not None
    return result.usage


def test_each_turn_of_a_process_counts_its_own_usage() -> None:
    """The process counts on; a run has what came since the turn before."""
    turns = _turns(said_by("mode-switch"))
    carried: dict[str, Any] = {}
    costs, inputs = [], []
    for records in turns:
        lines = b"".join(json.dumps(record).encode() + b"\n" for record in records)
        start = RawStart(at_ms=0, agent="claude", version="2.1.325", two_way=True, carried=carried)
        output = RawOutput(at_ms=0, stream="stdout", data=lines)
        pipeline, events = translate([start, output, RawExit(at_ms=0, turn="completed")])
        carried = pipeline.translator.carried()
        [result] = [event for event in events if isinstance(event, Result)]
        costs.append(result.total_cost_usd)
        inputs.append(result.usage.input if result.usage else None)

    totals = [record["total_cost_usd"] for record in said_by("mode-switch") if record.get("type") == "result"]
    assert len(turns) == 3
    assert sum(cost or 0.0 for cost in costs) == pytest.approx(totals[-1])
    assert inputs == [2000, 2000, 2000]


def _turns(records: list[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for record in records:
        found[-1].append(record)
        if record.get("state") == "idle":
            found.append([])
    return [turn for turn in found if any(record.get("type") == "result" for record in turn)]
