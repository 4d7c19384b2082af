"""Lines of a log: what was written is read again, also by versions that do not know all of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.events import (
    AnyEvent,
    Message,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    Unrecognized,
    Usage,
    UsageDelta,
)
from harness.events.operation import Command, Read
from harness.log import codec

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
STAMPS = {"seq": 7, "timestamp_ms": 1_700_000_000_000, "run_id": "r"}


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(text="naïve \u2028 text", id="m:0", **STAMPS),
        Message(role="assistant", text="", parts=[{"type": "image"}], **STAMPS),
        ToolStart(
            call_id="c",
            tool_name="Read",
            input={"a": 1},
            operations=[Read(path="/x", start_line=3)],
            **STAMPS,
        ),
        ToolEnd(
            call_id="c",
            tool_name="t",
            success=False,
            operations=[Command(command="ls", exit_code=2)],
            **STAMPS,
        ),
        UsageDelta(usage=Usage(input=0, cost_usd=0.5, cost_source="stated"), model="m", **STAMPS),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_survives_its_line(event: AnyEvent) -> None:
    line = codec.encode(event)

    assert codec.decode(line) == event
    assert line.startswith(b'{"type":"' + type(event).__name__.encode())


@given(raw=JSON)
def test_any_json_survives_as_unknown(raw: object) -> None:
    assert codec.decode(codec.encode(Unknown(raw=raw))) == Unknown(raw=raw)


@given(st.dictionaries(st.text(min_size=1), JSON, max_size=5))
def test_an_unknown_type_is_written_back_as_it_was(fields: dict[str, object]) -> None:
    line = msgspec.json.encode({**fields, "type": "NotInventedYet", "seq": 3})
    event = codec.decode(line)

    assert isinstance(event, Unrecognized)
    assert event.seq == 3
    assert msgspec.json.decode(codec.encode(event)) == msgspec.json.decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"TextDelta","seq":4,"text":"a","mood":{"new":true}}',
        b'{"type":"ToolStart","call_id":"a","tool_name":"x","operations":[{"kind":"teleport","to":"x"}]}',
        b'{"type":"UsageDelta","usage":{"input":1,"dreams":2}}',
        b'{"type":"TextDelta","text":["now","a","list"]}',
    ],
)
def test_a_field_of_a_newer_version_survives_reading_and_writing(line: bytes) -> None:
    assert msgspec.json.decode(codec.encode(codec.decode(line))) == msgspec.json.decode(line)


def test_a_known_event_with_a_new_field_is_still_that_event() -> None:
    event = codec.decode(b'{"type":"TextDelta","text":"a","mood":1}')

    assert isinstance(event, TextDelta)
    assert event.text == "a"


@pytest.mark.parametrize("value", ["\ud800 alone", 2**70, float("nan")])
def test_what_no_file_can_hold_is_replaced_and_never_refused(value: object) -> None:
    line = codec.encode(Unknown(raw={"value": value, "kept": "yes"}))

    event = codec.decode(line)
    assert isinstance(event, Unknown)
    assert event.raw["kept"] == "yes"


def test_endless_nesting_is_cut() -> None:
    deep: list[object] = []
    for _ in range(3000):
        deep = [deep]

    assert codec.decode(codec.encode(Unknown(raw=deep)))


@pytest.mark.parametrize("line", [b"", b"nonsense", b"[1]", b'{"seq":1}', b'{"type":5}', b"\xff\xfe"])
def test_what_is_no_event_is_unreadable(line: bytes) -> None:
    with pytest.raises(codec.UNREADABLE):
        codec.decode(line)


def test_two_events_whose_newline_was_damaged_are_both_saved() -> None:
    first, second = TextDelta(text="a", seq=1), TextDelta(text="b", seq=2)

    assert codec.salvage(codec.encode(first) + b"\x0b" + codec.encode(second), 1) == [first, second]
