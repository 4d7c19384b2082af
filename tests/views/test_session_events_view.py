"""The events of a session as lines, and the display state as one object."""

from __future__ import annotations

import json

from harness.events import Event, Message, Result, SessionStart, TextDelta
from harness.stage import ViewOptions
from harness.views import display
from own_runs import SINGLE_CALL
from showing import shown, shown_bytes


def test_each_event_is_a_line() -> None:
    lines = [json.loads(line) for line in shown("session_events", *SINGLE_CALL).split("\n") if line]

    types = [line["type"] for line in lines]
    assert types[0] == "agent_start"
    assert types[-2:] == ["message_end", "agent_end"]
    assert "tool_approval_required" in types
    assert "display_state_changed" not in types
    assert [part["type"] for part in lines[-2]["message"]["content"]] == [
        "text",
        "tool_call",
        "tool_result",
        "text",
    ]


def test_a_long_answer_is_not_written_over_and_over_but_never_lost() -> None:
    pieces = 20_000
    events: list[Event] = [
        SessionStart(),
        *(TextDelta(id="t", text="word ") for _ in range(pieces)),
        Message(role="assistant", id="t", text="word " * pieces),
        Result(success=True),
    ]

    written = shown_bytes("session_events", events)

    lines = [json.loads(line) for line in written.split(b"\n") if line]
    assert "".join(line["text"] for line in lines if line["type"] == "text") == "word " * pieces
    assert lines[-2]["message"]["content"] == [{"type": "text", "text": "word " * pieces}]
    assert 10 < sum(line["type"] == "message_update" for line in lines) < 60
    assert len(written) < 12 * 5 * pieces


def test_the_display_state_is_one_object_and_can_be_kept() -> None:
    state = json.loads(shown("display", *SINGLE_CALL))

    assert not state["isRunning"]
    assert state["tokenUsage"]["totalTokens"] == 33
    assert state["activeTools"]["run/tc-1"]["status"] == "completed"
    for split in range(len(SINGLE_CALL) + 1):
        first, second = display.open(ViewOptions()), display.open(ViewOptions())
        for event in SINGLE_CALL[:split]:
            first.feed(event)
        second.restore(json.loads(json.dumps(first.snapshot())))
        for event in SINGLE_CALL[split:]:
            second.feed(event)
        assert json.loads(b"".join(second.finish())) == state
