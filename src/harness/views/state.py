"""The conversation as the server's clients see it, as one JSON object after the end: the state of `docs/protocol.md`.

In Python the fold's `value` is that object at any moment; `feed` returns nothing and changes the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Event
from harness.folds.page_state.fold import StateFold
from harness.formatting.json_text import pretty
from harness.stage import Fold, ViewOptions


class StateView:
    def __init__(self) -> None:
        self._fold = StateFold()

    @property
    def value(self) -> dict[str, Any]:
        return self._fold.value

    def feed(self, event: Event, /) -> Sequence[bytes]:
        self._fold.feed(event)
        return ()

    def finish(self) -> Sequence[bytes]:
        self._fold.abandon()
        return (pretty(self._fold.value).encode() + b"\n",)

    def snapshot(self) -> dict[str, Any]:
        return self._fold.snapshot()

    def restore(self, snapshot: dict[str, Any], /) -> None:
        self._fold.restore(snapshot)


def open(options: ViewOptions) -> Fold[Event, bytes]:
    del options
    return StateView()
