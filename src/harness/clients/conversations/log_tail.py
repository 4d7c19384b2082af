"""Reads a log as it grows, written by a hub in this process or by another process."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from harness.errors import StoreError, UnknownSession
from harness.events import Event
from harness.log.hub import Follower, Hub
from harness.log.store import LogReader, Store

_AT_ONCE = 2_000


class FindHub(Protocol):
    def __call__(self, log_id: str) -> Hub | None:
        """The hub through which this process writes a log at the moment."""
        ...


class LogTail:
    """A cursor into a log. Contract: used by one thread at a time; `wake` may be called from any."""

    def __init__(
        self, store: Store, log_id: str, find_hub: FindHub, wake: Callable[[], object], cursor: int = 0
    ) -> None:
        self.cursor = cursor
        self._store = store
        self._log_id = log_id
        self._find_hub = find_hub
        self._wake = wake
        self._hub: Hub | None = None
        self._follower: Follower | None = None
        self._reader: LogReader | None = None
        self._stop: Callable[[], None] | None = None
        self._is_invalid = False
        self.refresh()

    def refresh(self) -> None:
        """Check again whether this process writes the log, and read it accordingly."""
        hub = self._find_hub(self._log_id)
        if hub is not None and hub is self._hub:
            return
        if hub is None and self._hub is None and self._reader is not None:
            return
        self.close()
        self._hub = hub
        if hub is not None:
            self._follower = hub.follower(self.cursor)
            self._stop = hub.add_waker(self._wake)
        else:
            self._reader = self._store.reader(self._log_id, self.cursor)
            self._stop = self._store.watch(self._log_id, self._wake)
        self._wake()

    def seek(self, cursor: int) -> None:
        """Continue at another position."""
        if cursor != self.cursor:
            self.close()
            self.cursor = cursor
            self.refresh()

    @property
    def hub(self) -> Hub | None:
        """The hub that writes the log, if this process does."""
        return self._hub

    def invalidate(self) -> None:
        """The log was replaced: what was read of it is invalid, and `poll` raises."""
        self._is_invalid = True
        self._wake()

    def poll(self) -> list[Event]:
        """The next events, at most a few thousand. Raises StoreError and UnknownSession."""
        if self._is_invalid:
            raise UnknownSession("the session was replaced", hint="read it from its beginning")
        if self._follower is not None:
            events = self._follower.poll()
        elif self._reader is not None:
            events = self._reader.read(_AT_ONCE)
        else:
            events = []
        if events:
            self.cursor = events[-1].seq + 1
        return events

    def is_live(self) -> bool:
        """Whether any process has the log open for writing."""
        if self._hub is not None:
            return True
        try:
            return self._store.is_live(self._log_id)
        except (StoreError, UnknownSession):
            return False

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        for reading in (self._follower, self._reader):
            if reading is not None:
                with suppress(OSError):
                    reading.close()
        self._stop = self._follower = self._reader = self._hub = None
