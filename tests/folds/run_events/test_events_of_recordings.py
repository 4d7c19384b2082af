"""Every recording as run events."""

from __future__ import annotations

import json

import msgspec

import recorded_runs
from harness.events import Message
from harness.folds.run_events.events import UNTOLD, AnyWireEvent
from harness.log import codec
from harness.testing.golden import Case
from showing import shown


@recorded_runs.each(recorded_runs.CASES)
def test_every_recording_is_written_in_events_of_the_known_shapes(case: Case) -> None:
    events = [codec.decode(line) for line in case.expected.read_bytes().split(b"\n") if line]
    open_calls: set[str] = set()
    texts: dict[str, str] = {}
    for line in shown("events", *events).split("\n")[:-1]:
        event = msgspec.json.decode(line, type=AnyWireEvent)
        plain = json.loads(line)
        assert not isinstance(event, UNTOLD)
        assert None not in [plain[name] for name in plain if name != "input"]
        if plain["type"] == "tool_call":
            open_calls.add(plain["id"])
        elif plain["type"] == "tool_result":
            open_calls.remove(plain["id"])
        elif plain["type"] == "text":
            texts[plain["id"]] = texts.get(plain["id"], "") + plain["content"]
    assert not open_calls
    said = [
        event.text
        for event in events
        if isinstance(event, Message) and event.role == "assistant" and event.text
    ]
    assert [text for text in said if text not in texts.values()] == []
