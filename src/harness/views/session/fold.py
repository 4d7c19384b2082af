"""From the events of a log to the display state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Event
from harness.views.session.display import DisplayState, reduce
from harness.views.session.encoding import read, to_wire
from harness.views.session.events import HarnessEvent
from harness.views.session.translation import SessionTranslation


class DisplayFold:
    """What `feed` gives is what listeners are told; the value already knows of it. A snapshot is plain data."""

    def __init__(self) -> None:
        self.value = DisplayState()
        self.translation = SessionTranslation()

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        told = self.translation.feed(event)
        for one in told:
            reduce(self.value, one)
        return told

    def finish(self) -> Sequence[HarnessEvent]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        return {"display": to_wire(self.value), "translation": self.translation.snapshot()}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Raises msgspec.ValidationError."""
        self.translation.restore(snapshot["translation"])
        self.value = read(snapshot["display"], DisplayState)
