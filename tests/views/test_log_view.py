"""The log view is the file."""

from __future__ import annotations

from harness.events import Event, SessionStart, TextDelta
from harness.log import codec
from showing import shown_bytes


def test_events_are_written_as_they_stand_in_the_file() -> None:
    newer = codec.decode(b'{"type":"Later","seq":2,"timestamp_ms":7,"run_id":"r","x":[1]}')
    events: list[Event] = [
        SessionStart(seq=0, timestamp_ms=5, run_id="r", session_id="s", agent="claude"),
        TextDelta(seq=1, timestamp_ms=6, run_id="r", text="a\ud800"),
        newer,
    ]

    assert shown_bytes("log", events) == codec.encode_lines(events)
    assert shown_bytes("log", [newer]) == b'{"type":"Later","seq":2,"timestamp_ms":7,"run_id":"r","x":[1]}\n'
