"""Small logs of threads, and the session events that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from harness.events import Event, Relay, Result, SessionStart, Suspended, TextDelta, ToolStart
from harness.folds.session import events as wire
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent
from harness.folds.session.translation import SessionTranslation

START = SessionStart(agent="native", model="m")
DONE = Result(success=True)
CHUNKS = {"text", "thinking", "tool_call", "tool_result", "image", "file"}


def logged(*events: Event) -> list[Event]:
    """As a log has them: each at its place; those without a run belong to `r`."""
    return [
        replace(event, seq=seq, timestamp_ms=1000 + seq, run_id=event.run_id or "r")
        for seq, event in enumerate(events)
    ]


def emitted(*events: Event) -> list[HarnessEvent]:
    translation = SessionTranslation()
    return [one for event in logged(*events) for one in translation.feed(event)]


def types(events: Sequence[HarnessEvent], *, chunks: bool = False) -> list[str]:
    return [event.type for event in events if chunks or event.type not in CHUNKS]


def wired(event: HarnessEvent) -> dict[str, Any]:
    data: dict[str, Any] = to_wire(event)
    return data


def texts(message: wire.HarnessMessage) -> list[str]:
    return [part.text for part in message.content if isinstance(part, wire.TextPart)]


WAITING: list[Event] = [
    START,
    TextDelta(text="Which?"),
    ToolStart(call_id="c", tool_name="ask_user", input={}),
    Relay(id="q", kind="question", call_id="c", tool_name="ask_user"),
    Suspended(),
]
