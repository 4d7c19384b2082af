"""A mark in the conversation where time has passed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from harness.events import Signal
from harness.session.memory.dates import gap_text, local
from harness.session.memory.steps import Entry

REMINDER_TYPE = "temporal-gap"
_MARK = f'type="{REMINDER_TYPE}"'


def gap_signal(
    entries: Sequence[Entry], message_id: str, now_ms: int, in_zone: tzinfo | None, signal_id: str
) -> Signal | None:
    """For a message that is about to be said: how long it has been quiet, if it was ten minutes or more."""
    if any(_precedes(entry, message_id) for entry in reversed(entries[-8:])):
        return None
    previous = next((entry for entry in reversed(entries) if not _is_mark(entry)), None)
    if previous is None:
        return None
    gap_ms = now_ms - previous.created_ms
    text = gap_text(gap_ms)
    if not text:
        return None
    timestamp = f"{local(now_ms, in_zone):%Y-%m-%d %H:%M %Z}".strip()
    told = {
        "gapText": text,
        "gapMs": gap_ms,
        "timestamp": timestamp,
        "precedesMessageId": message_id,
    }
    return Signal(
        id=signal_id,
        category="reactive",
        tag_name="system-reminder",
        contents=f"{text} — {timestamp}",
        attributes={"type": REMINDER_TYPE, **told},
        metadata={"reminderType": REMINDER_TYPE, **told},
    )


def _is_mark(entry: Entry) -> bool:
    text = entry.turn.text
    return text.startswith("<system-reminder") and _MARK in text.partition(">")[0]


def _precedes(entry: Entry, message_id: str) -> bool:
    return _is_mark(entry) and f'precedesMessageId="{message_id}"' in entry.turn.text
