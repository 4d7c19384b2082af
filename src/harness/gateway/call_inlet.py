"""From the threads of a gateway to the thread of a run: entries for the raw record, in one order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from harness.log.raw import RawCall, RawControl, RawEvent

_PATIENCE_S = 10.0
"""How long an answer waits to be on record; then its last bytes are sent all the same."""


class CallInlet:
    """Contract: `put` returns when the entries were taken, if a run listens. Everything may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_room = threading.Condition(self._lock)
        self._entries: list[RawCall | RawControl | RawEvent] = []
        self._put_count = self._taken_count = 0
        self._wake: Callable[[], object] | None = None

    def attach(self, wake: Callable[[], object]) -> None:
        """A run listens: `wake` makes it call `take` soon."""
        with self._lock:
            self._wake = wake

    def detach(self) -> None:
        """No run listens any more: what comes is kept for the next."""
        with self._lock:
            self._wake = None
            self._has_room.notify_all()

    def put(self, entries: Sequence[RawCall | RawControl | RawEvent]) -> None:
        with self._lock:
            self._entries += entries
            self._put_count += len(entries)
            ticket, wake = self._put_count, self._wake
        if wake is None:
            return
        wake()
        with self._lock:
            self._has_room.wait_for(lambda: self._taken_count >= ticket or self._wake is None, _PATIENCE_S)

    def take(self, handle: Callable[[RawCall | RawControl | RawEvent], object]) -> None:
        """Have everything that has come handled, in the calling thread."""
        with self._lock:
            entries, self._entries = self._entries, []
        for entry in entries:
            handle(entry)
        if entries:
            with self._lock:
                self._taken_count += len(entries)
                self._has_room.notify_all()
