"""What a screen shows of a thread, as one JSON object after the end: the display state of the Harness class.

    {"isRunning": false, "currentMessage": {…}, "tokenUsage": {…}, "activeTools": {…}, "modifiedFiles": {…}, …}

In Python the fold's value is the live `DisplayState`, at any moment of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.events import Event
from harness.stage import Fold, ViewOptions
from harness.views.session.display import DisplayState
from harness.views.session.encoding import encode
from harness.views.session.fold import DisplayFold


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
