"""The log of a session: that of its open thread, else one that is not stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.events import Event, FollowUpsChanged
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.native.loop.event_redactor import EventRedactor
from harness.session.bus import Bus
from harness.session.harness_parts import HarnessParts
from harness.session.open_thread import OpenThread
from harness.session.thread_fold import ThreadFold


class ThreadLog:
    """What is appended, and the bus that reads it."""

    def __init__(self, harness: HarnessParts, bus: Bus) -> None:
        self.bus: Bus = bus
        self.thread: OpenThread | None = None
        """The open thread."""
        self.flush: Callable[[], object] = lambda: None
        """Writes what a loop still buffers. Called before anything is appended."""
        self._redactor = EventRedactor(harness.secrets) if harness.secrets is not None else None
        self._clock = harness.clock
        self._require_loop = harness.require_loop
        self.use_none()

    def use_none(self) -> None:
        """Follow a log that is not stored: no thread is open."""
        store, log_id = MemoryStore(), new_run_id(self._clock())
        self._loose = Hub(store, log_id, store.create(Metadata(session_id=log_id)), self._clock)
        self.bus.attach(self._loose, 0, ThreadFold(), wakes=False)

    @property
    def thread_id(self) -> str | None:
        return self.thread.id if self.thread is not None else None

    def require_thread(self) -> OpenThread:
        """The open thread. Raises UsageError without one."""
        if self.thread is None:
            raise UsageError("No active thread on here", hint="call select_or_create_thread() first")
        return self.thread

    @property
    def hub(self) -> Hub:
        return self.thread.hub if self.thread is not None else self._loose

    def append(self, event: Event) -> Event:
        """Append an event to the log and notify listeners at once. Returns it as logged."""
        return self.append_all([event])[-1]

    def append_all(self, events: Sequence[Event], run_id: str = "") -> Sequence[Event]:
        """The same for several. Raises UsageError in another event loop than that of the session."""
        self._require_loop()
        self.flush()
        self.bus.deliver()  # the fold knows the open run only from delivered events
        if self.bus.fold.next_seq == self.hub.next_seq:  # else the queue before these is not known
            events = [self._briefly(event) for event in events]
        masked = list(events) if self._redactor is None else self._redactor.mask(list(events))
        stamped = self.hub.source(run_id or self.bus.fold.facts.open_run or self.hub.log_id).append(masked)
        self.bus.deliver()
        return stamped

    def note(self, event: Event) -> None:
        """Append it to the run under way; without one, beside all runs."""
        self.append_all([event], self.bus.fold.facts.open_run or self.hub.log_id)

    def _briefly(self, event: Event) -> Event:
        """Replace entries that are already queued by their position, so that they are not logged again."""
        if not isinstance(event, FollowUpsChanged):
            return event
        follow_ups = self.bus.fold.facts.follow_ups
        places = {id(message): place for place, message in enumerate(follow_ups)}
        pending = [places.get(id(message), message) for message in event.pending]
        return msgspec.structs.replace(event, pending=pending)

    # Settings of the open thread; without one nothing is stored

    def setting(self, key: str) -> Any:
        return None if self.thread is None else self.thread.setting(key)

    def save_setting(self, key: str, value: Any) -> None:
        if self.thread is not None:
            self.thread.save_settings({key: value})
