"""Feeding many events at once gives what feeding them one by one gives, in every view."""

from __future__ import annotations

import pytest

from harness.clients import formats
from harness.events import (
    Error,
    Message,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Warning,
)
from harness.stage import ViewOptions, feed_all

EVENTS = [
    SessionStart(session_id="s", agent="claude", run_id="r", seq=0, timestamp_ms=5),
    Message(role="user", text="go", run_id="r", seq=1, timestamp_ms=5),
    TextDelta(id="m:0", text="half \ud800", run_id="r", seq=2, timestamp_ms=6),
    TextDelta(id="m:0", text="whole", run_id="r", seq=3),
    ToolStart(call_id="c", tool_name="Bash", input={"command": "ls"}, run_id="r", seq=4, timestamp_ms=7),
    Warning(message="careful", run_id="r", seq=5, timestamp_ms=7),
    ToolEnd(call_id="c", tool_name="Bash", success=True, output="a\nb", run_id="r", seq=6, timestamp_ms=8),
    Error(message="oh", run_id="r", seq=7, timestamp_ms=9),
    Result(success=True, text="done", run_id="r", seq=8, timestamp_ms=9),
]


@pytest.mark.parametrize("name", formats.names())
def test_many_events_at_once_are_shown_as_one_by_one(name: str) -> None:
    at_once, singly = (formats.open_view(name, ViewOptions()) for _ in range(2))

    together = b"".join(feed_all(at_once, EVENTS))

    assert together == b"".join(piece for event in EVENTS for piece in singly.feed(event))
    assert b"".join(at_once.finish()) == b"".join(singly.finish())
