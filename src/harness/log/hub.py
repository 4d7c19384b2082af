"""The only way into a log: stamps and appends events, and lets any number of readers follow.

Durability promise
    An event reaches a reader only after its line was handed to the kernel in one write. Killing
    this process at any moment loses no event that a reader saw, and leaves at most one partial
    last line, which the next open repairs.
    The one exception is a disk that refuses: then the stream continues, one warning says from which
    `seq` the log is incomplete, and writing begins again as soon as the disk allows.

Readers hold a cursor, not a queue: a reader that stalls costs nothing and delays no other. The
latest events are served from memory, earlier ones from the store.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Protocol

from msgspec.structs import replace

from harness.errors import StoreError, UnknownSession
from harness.events import Event, Result, SessionStart, Warning
from harness.log.clock import new_clock
from harness.log.ids import derived_run_id
from harness.log.store import LogReader, LogWriter, Store

_RECENT_BYTES = 4 * 1024 * 1024
"""How much of the latest events stays in memory for readers that keep up."""
_MARKED = frozenset((SessionStart, Result))
"""Events that say more of where they stand than others."""
_run_id_of = attrgetter("run_id")
_LONGEST_WAIT_S = 0.5
_MOST_UNWRITTEN = 1000
"""How many events wait for a disk that refuses, before the oldest of them are given up."""


def longest_wait_s() -> float | None:
    """How long a thread may wait for what may never come: a signal that arrives right before the main thread begins to
    wait, or at another thread, is handled only once the main thread wakes.
    """
    return _LONGEST_WAIT_S if threading.current_thread() is threading.main_thread() else None


class LogObserver(Protocol):
    """Sees all logs that this process writes. Neither method takes time; what it raises is not heard."""

    def opened(self, hub: Hub, /) -> None:
        """A log is written from now on."""
        ...

    def environment(self, log_id: str, run_id: str, /) -> Mapping[str, str]:
        """What the programs of this run get in their environment.

        `run_id` is empty for what serves all runs of a log, such as its servers of MCP.
        """
        ...


_observers: list[LogObserver] = []


def observe(observer: LogObserver) -> Callable[[], None]:
    """Show it every log that is opened from now on, in any thread; returns a function that stops it."""
    _observers.append(observer)
    return partial(_observers.remove, observer)


def observers_environment(log_id: str, run_id: str = "") -> dict[str, str]:
    """What observers give to the programs of this run, or to those of all its runs."""
    variables: dict[str, str] = {}
    for observer in tuple(_observers):
        with suppress(Exception):  # one that fails is no reason not to start a program
            variables |= observer.environment(log_id, run_id)
    return variables


class Hub:
    """One per log, in the process that writes it."""

    def __init__(
        self, store: Store, log_id: str, writer: LogWriter, clock: Callable[[], int] | None = None
    ) -> None:
        self.log_id = log_id
        self.clock: Callable[[], int] = clock or new_clock()
        self.store = store
        self._writer = writer
        self._next_seq = writer.next_seq
        self._last_ms = 0
        self._changed = threading.Condition()
        self._recent: deque[tuple[int, Sequence[Event], int]] = deque()
        self._recent_bytes = 0
        self._unwritten: list[Event] = []
        self._warning = Warning(message="")
        """The warning that was emitted when the disk last refused."""
        self._wakers: list[Callable[[], object]] = []
        self._closed = False
        for observer in tuple(_observers):
            with suppress(Exception):  # as in `_wake`
                observer.opened(self)

    def source(self, run_id: str) -> Source:
        """What one run appends its events to."""
        return Source(self, run_id)

    def append(
        self, events: Sequence[Event], run_ids: dict[str, str], observed_ms: int | None = None
    ) -> Sequence[Event]:
        """Stamp and store events, then show them; returns them as they are in the log. Called by sources."""
        with self._changed:
            now_ms = self._last_ms = max(self._last_ms, self.clock() if observed_ms is None else observed_ms)
            first, top = self._next_seq, run_ids[""]
            numbered = enumerate(events, first)
            if any(map(_run_id_of, events)) or not _MARKED.isdisjoint(map(type, events)):
                stamped = [self._stamped(event, seq, now_ms, run_ids) for seq, event in numbered]
            else:
                stamped = [
                    replace(event, seq=seq, timestamp_ms=now_ms, run_id=top) for seq, event in numbered
                ]
            size = self._write(stamped)
            self._next_seq = first + len(stamped)
            self._recent.append((first, stamped, size))
            self._recent_bytes += size
            while self._recent_bytes > _RECENT_BYTES and len(self._recent) > 1:
                self._recent_bytes -= self._recent.popleft()[2]
            self._changed.notify_all()
        self._wake()
        return stamped

    def close(self) -> None:
        """No more events: readers end when they have read everything."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            if self._unwritten:
                self._write([])
            self._writer.close()
            self._changed.notify_all()
        self._wake()

    def _wake(self) -> None:
        for wake in self._wakers:
            with suppress(Exception):  # a reader who is gone, or fails, is no reason to stop writing
                wake()

    def batches(self, cursor: int = 0) -> Iterator[Sequence[Event]]:
        """Everything from `cursor` on, in batches: what is there, then what comes, until the end."""
        follower = self.follower(cursor)
        try:
            while True:
                with self._changed:
                    while self._next_seq <= follower.cursor and not self._closed:
                        self._changed.wait(longest_wait_s())
                batch = follower.poll()
                if batch:
                    yield batch
                elif follower.is_ended:
                    return
        finally:
            follower.close()

    def follower(self, cursor: int = 0) -> Follower:
        """For readers that do not block: poll it, and be woken through `add_waker`."""
        return Follower(self, self.store, cursor)

    def add_waker(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` after every change, from the writer's thread; returns a function that stops it."""
        self._wakers = [*self._wakers, wake]

        def remove() -> None:
            self._wakers = [other for other in self._wakers if other is not wake]

        return remove

    @property
    def next_seq(self) -> int:
        """What the next event will have."""
        return self._next_seq

    def has(self, cursor: int) -> bool:
        """Whether there is anything from `cursor` on."""
        return cursor < self._next_seq

    def is_ended(self, cursor: int) -> bool:
        return self._closed and cursor >= self._next_seq

    def recent(self, cursor: int) -> list[Event] | None:
        """What is known from `cursor` on; None when that is no longer in memory."""
        with self._changed:
            if cursor >= self._next_seq:
                return []
            batches: list[Sequence[Event]] = []
            for first, events, _size in reversed(self._recent):
                batches.append(events if first >= cursor else events[cursor - first :])
                if first <= cursor:
                    return [event for batch in reversed(batches) for event in batch]
            return None

    def recent_start(self) -> int:
        with self._changed:
            return self._recent[0][0] if self._recent else self._next_seq

    def _stamped(self, event: Event, seq: int, now_ms: int, run_ids: dict[str, str]) -> Event:
        run_id = run_ids.get(event.run_id) or _new_child(run_ids, event.run_id, now_ms)
        stamps = {"seq": seq, "timestamp_ms": now_ms, "run_id": run_id}
        if type(event) is SessionStart and not event.session_id:
            stamps["session_id"] = run_id
        if type(event) is Result and not event.run_id:
            stamps["log_id"] = self.log_id
        return replace(event, **stamps)

    def _write(self, stamped: list[Event]) -> int:
        try:
            first = len(self._unwritten)
            events = [*self._unwritten, *stamped] if first else stamped
            size = self._writer.append(events)
            if first:
                stamped[:] = events[first:]
        except OSError as error:
            if not self._unwritten and stamped:
                self._warning = _warn(stamped, error)
            self._unwritten = [*self._unwritten, *stamped][-_MOST_UNWRITTEN:]
            if self._unwritten and self._unwritten[0].seq > self._warning.seq:
                self._unwritten[0] = self._warning  # a reader of the log must learn why a part is missing
            return len(stamped) * 500
        self._unwritten = []
        return size


class Source:
    """One run's way into a log: knows which key of the run's translator is which run."""

    def __init__(self, hub: Hub, run_id: str) -> None:
        self.run_id = run_id
        self.run_ids: dict[str, str] = {"": run_id}
        self._hub = hub

    def append(self, events: Sequence[Event], observed_ms: int | None = None) -> Sequence[Event]:
        return self._hub.append(events, self.run_ids, observed_ms) if events else ()


class Follower:
    """A cursor into a log that is being written in this process."""

    def __init__(self, hub: Hub, store: Store, cursor: int) -> None:
        self.cursor: int = cursor
        self._hub = hub
        self._store = store
        self._reader: LogReader | None = None

    @property
    def hub(self) -> Hub:
        return self._hub

    def poll(self) -> list[Event]:
        """What has come since the last time; empty when nothing has."""
        batch = self._hub.recent(self.cursor)
        if batch is None:
            batch = self._from_store()
        else:
            self.close()
        if batch:
            self.cursor = batch[-1].seq + 1
        return batch

    @property
    def is_ended(self) -> bool:
        return self._hub.is_ended(self.cursor)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _from_store(self) -> list[Event]:
        start = self._hub.recent_start()
        try:
            if self._reader is None:
                self._reader = self._store.reader(self._hub.log_id, self.cursor)
            batch = [event for event in self._reader.read() if event.seq >= self.cursor]
        except (StoreError, UnknownSession, OSError):
            batch = []
        if batch:
            return batch
        self.close()
        self.cursor = max(self.cursor, start)  # the disk refused what lies between, or it was deleted
        return self._hub.recent(self.cursor) or []


def _warn(stamped: list[Event], error: OSError) -> Warning:
    """Put a warning before the last of these events: a `Result` stays the last word of its run.

    Other processes may have seen the lines before it while the disk took a part of them; never the last.
    """
    reason = os.strerror(error.errno) if error.errno else str(error)
    last = stamped.pop()
    first_seq = stamped[0].seq if stamped else last.seq
    warning = Warning(
        message=f"the log is incomplete from seq {first_seq} on: {reason}; the run goes on",
        code="log_incomplete",
        seq=last.seq,
        timestamp_ms=last.timestamp_ms,
        run_id=last.run_id,
    )
    stamped += [warning, replace(last, seq=last.seq + 1)]
    return warning


def _new_child(run_ids: dict[str, str], key: str, now_ms: int) -> str:
    run_ids[key] = run_id = derived_run_id(now_ms, run_ids[""], key)
    return run_id
