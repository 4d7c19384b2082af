"""The logs of a user, and beside them the sessions that agents have stored themselves, which can only be read.

Lists and search of the store are those of the folder: what is in histories is asked for separately.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from harness.clients.sessions.histories import history_of
from harness.errors import HarnessError, UnknownSession, UsageError
from harness.events import Event, Usage
from harness.histories.stored_log import StoredLog
from harness.log.event_file import LOG
from harness.log.store import LogReader, Metadata
from harness.log.stores.files import FileStore
from harness.protocols.reading.database import mark_of
from harness.server.machine.histories import Histories, is_history_name

_LOOK_EVERY_S = 0.25


class SessionLook(NamedTuple):
    """How a session of a history is now: it differs when the session may have changed."""

    mark: str
    """Empty: it was deleted."""
    is_open: bool


class SessionChanges:
    """Polls the sessions that are watched: agents do not notify of changes. Contract: thread-safe."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._wakers: dict[str, list[Callable[[], object]]] = {}
        self._looks: dict[str, SessionLook] = {}
        """Of the sessions that are watched, the last ones."""
        self._lock = threading.Lock()
        self._is_looking = False
        self._is_over = threading.Event()

    def look(self, name: str) -> SessionLook:
        """Raises UnknownSession."""
        return self._looks.get(name) or self._look(name)

    def _look(self, name: str) -> SessionLook:
        session = self._histories.session(name)
        return SessionLook(mark_of(session.path), self._histories.is_open(name))

    def add(self, name: str, wake: Callable[[], object]) -> Callable[[], None]:
        """Returns a function that stops it."""

        def stop() -> None:
            with self._lock, suppress(ValueError, KeyError):
                self._wakers[name].remove(wake)
                if not self._wakers[name]:
                    del self._wakers[name]
                    self._looks.pop(name, None)

        with self._lock:
            self._wakers.setdefault(name, []).append(wake)
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._work, name="harness-history-watch", daemon=True).start()
        return stop

    def is_watched(self, name: str) -> bool:
        return name in self._wakers

    def wake(self, name: str) -> None:
        for wake in list(self._wakers.get(name, ())):
            wake()

    def close(self) -> None:
        self._is_over.set()

    def _work(self) -> None:
        while not self._is_over.wait(_LOOK_EVERY_S):
            with self._lock:
                names = list(self._wakers)
                if not names:
                    self._is_looking = False
                    return
            for name in names:
                with suppress(HarnessError, RuntimeError):  # the server stops
                    self._note(name, self._look(name))

    def _note(self, name: str, look: SessionLook) -> None:
        known_look = self._looks.get(name)
        if known_look == look:
            return
        if known_look is not None and not look.is_open:
            self._histories.refresh()  # it may be open now
            look = self._look(name)
        with self._lock:
            if name in self._wakers:
                self._looks[name] = look
        self.wake(name)


class MachineStore(FileStore):
    """A `Store`. Contract: never changes a session of a history."""

    def __init__(self, directory: str, histories: Histories) -> None:
        super().__init__(directory)
        self.histories = histories
        self.replacement_listeners: list[Callable[[str], None]] = []
        """Called, from any thread, with the name of a session that was rewritten."""
        self._changes = SessionChanges(histories)

    def path(self, log_id: str, suffix: str = LOG) -> str:
        if is_history_name(log_id):
            agent = self.metadata(log_id).agent
            raise UsageError(
                f"this session is in the history of {agent}, where Harness changes nothing",
                hint="continue it here, or copy it, then it can be changed",
            )
        return super().path(log_id, suffix)

    def metadata(self, log_id: str) -> Metadata:
        return self.histories.metadata(log_id) if is_history_name(log_id) else super().metadata(log_id)

    def is_live(self, log_id: str) -> bool:
        return self.histories.is_open(log_id) if is_history_name(log_id) else super().is_live(log_id)

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        if not is_history_name(log_id):
            return super().reader(log_id, cursor)
        return StoredSessionReader(self.histories, log_id, cursor, self._changes, self._replaced)

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        if not is_history_name(log_id):
            return super().watch(log_id, wake)
        self.histories.session(log_id)
        return self._changes.add(log_id, wake)

    def usage(self, log_id: str) -> Usage:
        return Usage() if is_history_name(log_id) else super().usage(log_id)

    def close(self) -> None:
        self._changes.close()
        self.histories.close()
        super().close()

    def _replaced(self, name: str) -> None:
        for listener in self.replacement_listeners:
            listener(name)


class StoredSessionReader:
    """A `LogReader` of a session in a history.

    What is there is read by the caller. Once that is done, and while the session is watched, another thread reads the
    session again whenever it has changed, and wakes its watchers: a session may take long to read.
    """

    def __init__(
        self,
        histories: Histories,
        name: str,
        cursor: int,
        changes: SessionChanges,
        on_replaced: Callable[[str], None],
    ) -> None:
        """Raises UnknownSession."""
        self._histories = histories
        self._name = name
        self._session = histories.session(name)
        self._cursor = cursor
        self._changes = changes
        self._on_replaced = on_replaced
        self._last: Event | None = None
        """The event before the cursor, as it was read."""
        self._look = changes.look(name)
        """As the session was when it was read."""
        self._batches: Iterator[Sequence[Event]] | None = self._read_again()
        self._ready: deque[Event] = deque()
        self._is_reading = self._is_void = self._is_closed = False

    def read(self, most: int = 1000) -> list[Event]:
        if self._is_void:
            raise UnknownSession("the session was replaced", hint="read it from its beginning")
        if self._is_reading:
            return []
        while self._batches is not None and len(self._ready) < most:
            batch = next(self._batches, None)
            if batch is None:
                self._batches = None
            else:
                self._ready.extend(event for event in batch if event.seq >= self._cursor)
        events_read = [self._ready.popleft() for _ in range(min(most, len(self._ready)))]
        if events_read:
            self._last, self._cursor = events_read[-1], events_read[-1].seq + 1
        elif self._changes.is_watched(self._name):
            self._follow()
        return events_read

    def close(self) -> None:
        self._is_closed = True
        self._batches = None

    def _follow(self) -> None:
        look = self._changes.look(self._name)
        if look != self._look and look.mark:
            self._look, self._is_reading = look, True
            threading.Thread(target=self._read_on, name="harness-history", daemon=True).start()

    def _read_again(self) -> Iterator[Sequence[Event]]:
        log = StoredLog(history_of(self._session), self._session.stored)
        return log.batches(is_over=not self._look.is_open, is_prompt=True)

    def _read_on(self) -> None:
        """In a thread of its own. A session that its agent has rewritten is read from its beginning."""
        try:
            self._ready.extend(self._new())
        except UnknownSession:
            self._is_void = True
            self._on_replaced(self._name)
        finally:
            self._is_reading = False
        self._changes.wake(self._name)

    def _new(self) -> list[Event]:
        """What comes after the cursor. Raises UnknownSession where something else was before it."""
        new_events: list[Event] = []
        last_seq = -1
        for batch in self._read_again():
            if self._is_closed:
                return []
            last_seq = batch[-1].seq
            for event in batch:
                if event.seq == self._cursor - 1 and self._last is not None and event != self._last:
                    raise UnknownSession("the session was rewritten")
                if event.seq >= self._cursor:
                    new_events.append(event)
        if last_seq < self._cursor - 1:
            raise UnknownSession("the session was cut")
        return new_events
