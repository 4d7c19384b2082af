"""The conversation as the server sends it: one `state` that is empty, then one `delta` per event, one JSON object a line.

    {"type":"delta","operations":[{"type":"append-text","path":["messages","1","content"],"value":" world"}],"seq":17}

Applied one after the other (`harness.folds.page_state.object_stream.apply`) they give the state of `docs/protocol.md` at
every moment; `seq` is how many events of the log are in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.shapes import delta_message, state_message
from harness.stage import View, ViewOptions


class Delta:
    def __init__(self) -> None:
        self._fold = StateFold()
        self._has_begun = False

    def feed(self, event: Event, /) -> Sequence[bytes]:
        first = self._beginning()
        line = delta_message(self._fold.feed(event), self._fold.seq) + b"\n"
        return (*first, line)

    def finish(self) -> Sequence[bytes]:
        first = self._beginning()
        operations = self._fold.abandon()
        last = (delta_message(operations, self._fold.seq) + b"\n",) if operations else ()
        return (*first, *last)

    def _beginning(self) -> Sequence[bytes]:
        if self._has_begun:
            return ()
        self._has_begun = True
        return (state_message(self._fold.encoded(), self._fold.seq) + b"\n",)


def open(options: ViewOptions) -> View:
    del options
    return Delta()
