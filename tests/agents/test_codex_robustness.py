"""Codex: nothing that a stream says is lost, and no stream is too odd."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import recorded_runs
from codex_stream import CASES, completed, item, turn
from harness.agents.codex.agent import AGENT, CodexTranslator
from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
)
from harness.events.operation import Read, Write
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate


def _words(value: Any) -> list[str]:
    """What an item says to a person: its texts, not its names and states."""
    match value:
        case dict():
            named = [
                value[key]
                for key in ("text", "command", "aggregated_output", "query", "path")
                if key in value
            ]
            inner = [
                each
                for key in ("changes", "items", "action", "agents_states")
                for each in _parts(value.get(key))
            ]
            return [word for word in named if isinstance(word, str)] + [
                w for part in inner for w in _words(part)
            ]
        case _:
            return []


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []


@recorded_runs.each(CASES)
def test_whatever_a_recording_says_is_found_in_its_events(case: Case) -> None:
    said: set[str] = set()
    for event in translate(case)[1]:
        said.update(_strings(msgspec.to_builtins(event)))
    for line in filter(None, case.stdout.split(b"\n")):
        for word in _words(json.loads(line).get("item")):
            assert word == "" or word in said, f"{case}: {word[:200]!r}"


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [text for part in _parts(value) for text in _strings(part)]


LINES = sorted({line for case in CASES for line in case.stdout.split(b"\n") if line and len(line) < 5000})


@st.composite
def mutated_streams(draw: st.DrawFn) -> list[bytes]:
    lines = draw(st.lists(st.sampled_from(LINES), max_size=25))
    return [draw(st.just(line) | _garbled(line)) for line in lines]


def _garbled(line: bytes) -> st.SearchStrategy[bytes]:
    place = st.integers(0, len(line))
    junk = st.binary(max_size=6).map(lambda data: data.replace(b"\n", b""))
    return st.tuples(place, place, junk).map(lambda cut: line[: min(cut[:2])] + cut[2] + line[max(cut[:2]) :])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def records_with_odd_values(draw: st.DrawFn) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(draw(st.sampled_from(LINES)))
    part = record["item"] if "item" in record and draw(st.booleans()) else record
    part[draw(st.sampled_from(sorted(part)))] = draw(VALUES)
    return record


def check_promises(events: list[Event]) -> None:
    started = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolStart)]
    ended = [(event.run_id, event.call_id) for event in events if isinstance(event, ToolEnd)]
    assert sorted(started) == sorted(ended)
    opening = [event.run_id for event in events if isinstance(event, SessionStart)]
    results = [event.run_id for event in events if isinstance(event, Result)]
    assert sorted(opening) == sorted(results)
    assert results.count("") == 1
    assert not events[-1].run_id
    assert isinstance(events[-1], Result)


@settings(max_examples=300, deadline=None)
@given(mutated_streams(), st.sampled_from([0, 1, 2, None]), st.binary(max_size=40))
def test_a_stream_cut_doubled_shuffled_or_garbled_still_ends_with_one_result(
    lines: list[bytes], code: int | None, stderr: bytes
) -> None:
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(RawStart(at_ms=0, agent="codex", prompt="p"))]
    events += pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=b"\n".join(lines)))
    events += pipeline.feed(RawOutput(at_ms=1, stream="stderr", data=stderr))
    events += pipeline.feed(RawExit(at_ms=2, code=code, signal=9 if code is None else None))

    assert not pipeline.lost
    check_promises(events)


@settings(max_examples=300, deadline=None)
@given(st.lists(records_with_odd_values(), max_size=6))
def test_a_field_may_hold_anything(records: list[dict[str, Any]]) -> None:
    translator = CodexTranslator()
    for record in records:
        events = translator.record(record)
        assert events or translator.rule


def test_a_command_that_is_stated_word_by_word_is_read_like_any_other() -> None:
    stated = completed(type="command_execution", command=["bash", "-lc", "sed -n '1,3p' a.py"], exit_code=0)
    end = turn(stated)[-1]
    start = turn(stated)[0]

    assert isinstance(start, ToolStart)
    assert isinstance(end, ToolEnd)
    assert start.operations == [Read(path="a.py", start_line=1, end_line=3)]
    assert end.success is True


def test_a_moved_file_is_two_writes_where_codex_states_its_new_place() -> None:
    moved = {"path": "a", "kind": {"type": "update", "move_path": "b"}}
    start = turn(completed(type="file_change", changes=[moved], status="completed"))[0]

    assert isinstance(start, ToolStart)
    assert start.operations == [Write(path="a", change="move"), Write(path="b", change="create")]


def test_a_command_may_state_its_output_while_it_runs() -> None:
    fields = {"type": "command_execution", "command": "make"}
    events = turn(
        item("started", **fields),
        item("updated", **fields, aggregated_output="one\n"),
        item("updated", **fields, aggregated_output="one\ntwo\n"),
        completed(**fields, aggregated_output="one\ntwo\n", exit_code=0),
    )

    assert [event.text for event in events if isinstance(event, ToolProgress)] == ["one\n", "two\n"]


def test_an_item_that_is_unknown_is_emitted_once_in_its_last_state() -> None:
    last = {"id": "item_0", "type": "hologram", "size": 3}

    assert turn(item("started", type="hologram"), completed(type="hologram", size=3)) == [Unknown(raw=last)]
    assert turn(item("started", type="hologram"), item("updated", type="hologram", size=3)) == [
        Unknown(raw=last)
    ]


def test_a_message_that_is_announced_is_emitted_when_it_is_whole() -> None:
    said = {"type": "agent_message"}
    events = turn(
        item("started", **said), item("updated", **said, text="Hel"), completed(**said, text="Hello")
    )

    assert events == [Message(role="assistant", text="Hello")]


def test_a_web_search_that_has_ended_is_a_success() -> None:
    end = turn(completed(type="web_search", query="x"))[-1]

    assert isinstance(end, ToolEnd)
    assert end.success is True


def test_reasoning_may_come_in_parts() -> None:
    assert turn(completed(type="reasoning", summary=["one", "two"])) == [
        ReasoningDelta(id="item_0", text="one\ntwo")
    ]
