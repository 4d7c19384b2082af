"""The events that listeners of a session get, one JSON object a line: the events of the Harness class.

    {"type":"message_update","message":{"id":"…","role":"assistant","content":[{"type":"text","text":"Hel"}],…}}

Rules
1. Names and keys are those of the class: `message_start`, `tool_end`, `usage_update`, `om_status` … What is optional
   is absent. `display_state_changed` is left out: it is the format `display`.
2. Text, reasoning, calls, results and signals are written as they arrive (`text`, `thinking`, `tool_call` …).
   `message_update` has the whole message, so it is written only when the message has grown by half since it was
   written last: a long answer does not fill the disk with copies of itself. In Python every update is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event
from harness.folds.session.encoding import encode
from harness.folds.session.events import HarnessEvent, MessageStartEvent, MessageUpdateEvent
from harness.folds.session.translation import SessionTranslation
from harness.stage import View, ViewOptions


class SessionEvents:
    def __init__(self) -> None:
        self._translation = SessionTranslation()
        self._next_size = 0
        """How long a message must be to be written again."""

    def feed(self, event: Event, /) -> Sequence[bytes]:
        due = [each for each in self._translation.feed(event) if self._is_due(each)]
        return [encode(each) + b"\n" for each in due]

    def finish(self) -> Sequence[bytes]:
        return ()

    def _is_due(self, event: HarnessEvent) -> bool:
        if type(event) is MessageStartEvent:
            self._next_size = 0
        if type(event) is not MessageUpdateEvent:
            return True
        size = event.message.size
        if size < self._next_size:
            return False
        self._next_size = size + size // 2
        return True


def open(options: ViewOptions) -> View:
    del options
    return SessionEvents()
