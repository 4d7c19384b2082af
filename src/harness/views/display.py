"""The display state of the Harness class, as one JSON object after the end.

    {"isRunning": false, "currentMessage": {…}, "tokenUsage": {…}, "activeTools": {…}, "modifiedFiles": {…}, …}

In Python the fold's value is the live `DisplayState`, at any moment of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.events import Event
from harness.folds.session.display import DisplayState, reduce
from harness.folds.session.encoding import encode, read, to_wire
from harness.folds.session.event import HarnessEvent
from harness.folds.session.translation import SessionTranslation
from harness.stage import Fold, ViewOptions


class DisplayFold:
    """`feed` returns the events for listeners; the value already includes them. A snapshot is plain data."""

    def __init__(self) -> None:
        self.value: DisplayState = DisplayState()
        self.translation: SessionTranslation = SessionTranslation()

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        events = self.translation.feed(event)
        for session_event in events:
            reduce(self.value, session_event)
        return events

    def finish(self) -> Sequence[HarnessEvent]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        return {"display": to_wire(self.value), "translation": self.translation.snapshot()}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Raises msgspec.ValidationError."""
        self.translation.restore(snapshot["translation"])
        self.value = read(snapshot["display"], DisplayState)


class Display:
    def __init__(self) -> None:
        self._fold = DisplayFold()

    @property
    def value(self) -> DisplayState:
        return self._fold.value

    def feed(self, event: Event, /) -> Sequence[bytes]:
        self._fold.feed(event)
        return ()

    def finish(self) -> Sequence[bytes]:
        return (msgspec.json.format(encode(self.value), indent=2) + b"\n",)

    def snapshot(self) -> dict[str, Any]:
        return self._fold.snapshot()

    def restore(self, snapshot: dict[str, Any], /) -> None:
        self._fold.restore(snapshot)


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return Display()
