"""What a built-in agent writes that runs in a process of its own: its log, line by line."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from harness.contracts.translator import Record, Translator
from harness.events import Event, Message, RateLimits, Unknown
from harness.log.codec import UNREADABLE, decode


class OwnEvents(Translator):
    """The events as they are, without what they carry as events of that log."""

    def __init__(self) -> None:
        super().__init__()
        self._run_id: str | None = None
        self._has_prompt = False

    def record(self, record: Record) -> Sequence[Event]:
        self.rule = self.kind(record)
        try:
            event = decode(msgspec.json.encode(record))
        except UNREADABLE:
            self.rule = "unknown"
            return [Unknown(raw=record)]
        if self._run_id is None:
            self._run_id = event.run_id
        is_own = event.run_id == self._run_id
        if is_own and not self._has_prompt and isinstance(event, Message) and event.role == "user":
            self._has_prompt = True  # it is in the log already
            return ()
        if isinstance(event, RateLimits):  # the gateway reads the same headers
            return ()
        run_id = "" if is_own else event.run_id
        return [replace(event, seq=-1, timestamp_ms=-1, run_id=run_id, session_id="")]
