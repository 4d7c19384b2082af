"""The events of AG-UI 1.0, one JSON object a line: what front ends that speak this protocol show.

    {"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":" world","timestamp":1794769890000}

Rules
1. A top run of the log is a run of AG-UI. A question ends it with the outcome `interrupt`, and what follows the answer
   is the next run, `<run>#2`, with the first as its parent.
2. Sub-agents are announced, and each of their events names them.
3. A run that is stopped is `cancelled`, a failed one RUN_ERROR; one that has no end in the log is RUN_ERROR with the
   code `harness.unfinished`.
4. What AG-UI has no word for is CUSTOM, with the name `harness.…`; retracted text too, as nothing can be taken back.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.standards.agui import AgUiFold
from harness.formatting.json_text import encode
from harness.stage import View, ViewOptions


class AgUi:
    def __init__(self) -> None:
        self._fold = AgUiFold()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        return [encode(wire_event) + b"\n" for wire_event in self._fold.feed(event)]

    def finish(self) -> Sequence[bytes]:
        return [encode(wire_event) + b"\n" for wire_event in self._fold.finish()]


def open(options: ViewOptions) -> View:
    del options
    return AgUi()
