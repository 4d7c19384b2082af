"""Logs in memory: for tests, and for runs that need not be stored."""

from __future__ import annotations

import builtins
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, Usage
from harness.log import codec, metadata_file
from harness.log.ids import is_log_id
from harness.log.store import Fork, LogReader, LogWriter, Metadata, Query, Store, Writer, stamped

if TYPE_CHECKING:
    from harness.log.forks import Stretch
    from harness.log.log_summary import LogSummary, MessagePosition, SearchText


class MemoryStore(Store):
    """Logs in this process only: for tests, and where nothing shall outlive the process."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = threading.RLock()

    def create(self, metadata: Metadata) -> MemoryWriter:
        log_id = metadata.session_id
        if not is_log_id(log_id):
            raise _unknown(log_id)
        with self._lock:
            if log_id in self._logs:
                raise StoreError(f"session {log_id} exists already", hint="every run has an id of its own")
            if metadata.fork is not None:
                self._check(metadata.fork)
            _copy(metadata)  # metadata that cannot be stored creates no log
            log = self._logs[log_id] = _Log(stamped(metadata))
        self.save_metadata(metadata)
        return MemoryWriter(log)

    def open(self, log_id: str) -> MemoryWriter:
        return MemoryWriter(self._log(log_id))

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        log = self._log(log_id)
        if log.metadata.fork is None:
            return MemoryReader(log, cursor)
        from harness.log.forks import ForkReader

        parts = self._stretches(log_id)
        return ForkReader(parts, cursor, lambda part, start: MemoryReader(self._logs[part.log_id], start))

    def is_live(self, log_id: str) -> bool:
        return self._log(log_id).is_live

    def metadata(self, log_id: str) -> Metadata:
        return _copy(self._log(log_id).metadata)

    def save_metadata(self, metadata: Metadata) -> None:
        log = self._log(metadata.session_id)
        log.metadata = replace(_copy(metadata), writer=Writer(os.getpid(), os.uname().nodename))
        log.notify()

    def list(self) -> Iterator[Metadata]:
        from harness.log.query import age

        with self._lock:
            logs = [_copy(log.metadata) for log in self._logs.values() if not log.metadata.deleted]
        return iter(sorted(logs, key=age, reverse=True))

    def delete(self, log_id: str) -> None:
        with self._lock:
            log = self._log(log_id)
            if log.is_live:
                raise LogLocked(f"session {log_id} is being written", hint="stop the run first")
            log.metadata.deleted = True
            deleted_id: str | None = log_id
            while (
                deleted_id is not None
                and self._logs[deleted_id].metadata.deleted
                and not self._has_forks(deleted_id)
            ):
                fork = self._logs.pop(deleted_id).metadata.fork
                deleted_id = None if fork is None else fork.log_id
        log.notify()

    def find(self, query: Query) -> builtins.list[Metadata]:
        from harness.log.query import in_order, latest, select, words_of

        words = words_of(query)
        with self._lock:
            logs = [log for log in self._logs.values() if all(map(log.mentions, words))]
        all_metadata = [latest(log.metadata, log.digest.updated_ms) for log in logs]
        all_metadata.sort(key=in_order, reverse=True)
        return [
            _copy(metadata)
            for metadata in select(all_metadata, query, lambda log_id: self._logs[log_id].is_live)
        ]

    def total(self, query: Query) -> int:
        return len(self.find(replace(query, limit=None, offset=0)))

    def version(self) -> int | None:
        return None

    def catch_up(self) -> None:
        """Nothing has to be read."""

    def resource_ids(self) -> builtins.list[str]:
        return sorted({metadata.resource_id for metadata in self.list() if metadata.resource_id})

    def messages(self, log_id: str, limit: int) -> int:
        from harness.log.forks import start_of_last

        if limit <= 0:
            return self._log(log_id).next_seq
        return start_of_last(self._stretches(log_id), limit, self._starts)

    def usage(self, log_id: str) -> Usage:
        return self._log(log_id).digest.usage

    def snapshot(self, log_id: str, name: str) -> tuple[int, bytes] | None:
        self._log(log_id)
        for part in reversed(self._stretches(log_id)):
            snapshot = self._logs[part.log_id].snapshots.get(name)
            if snapshot is not None and (part.end is None or snapshot[0] <= part.end):
                return snapshot
        return None

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        log = self._log(log_id)
        with self._lock:
            if log.snapshots.get(name, (0,))[0] <= seq <= log.next_seq:
                log.snapshots[name] = seq, data

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        return self._log(log_id).watch(wake)

    def close(self) -> None:
        with self._lock:
            for log in self._logs.values():
                log.wakers = []

    def _log(self, log_id: str) -> _Log:
        with self._lock:
            log = self._logs.get(log_id)
        if log is None or log.metadata.deleted:
            raise _unknown(log_id)
        return log

    def _check(self, fork: Fork) -> None:
        if not 0 <= fork.seq <= self._log(fork.log_id).next_seq:
            raise StoreError(f"session {fork.log_id} has no seq {fork.seq} to fork at")

    def _has_forks(self, log_id: str) -> bool:
        forks = (log.metadata.fork for log in self._logs.values())
        return any(fork is not None and fork.log_id == log_id for fork in forks)

    def _stretches(self, log_id: str) -> builtins.list[Stretch]:
        from harness.log.forks import stretches

        self._log(log_id)
        return stretches(log_id, lambda name: self._logs[name].metadata.fork)

    def _starts(self, part: Stretch, limit: int) -> builtins.list[int]:
        starts = self._logs[part.log_id].starts
        return [start.seq for start in starts if part.end is None or start.known_seq < part.end][-limit:]


class _Log:
    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.base: int = 0 if metadata.fork is None else metadata.fork.seq
        self.events: list[Event] = []
        self.is_live = False
        self.snapshots: dict[str, tuple[int, bytes]] = {}
        self.wakers: list[Callable[[], object]] = []
        self._digest: LogSummary | None = None
        self._digested = 0
        self._starts: list[MessagePosition] = []
        self._texts: list[SearchText] = []
        self._lock = threading.Lock()

    @property
    def next_seq(self) -> int:
        return self.events[-1].seq + 1 if self.events else self.base

    @property
    def digest(self) -> LogSummary:
        from harness.log.log_summary import LogSummary

        with self._lock:
            if self._digest is None:
                self._digest = LogSummary(next_seq=self.base, answer_seq=self.base)
            fresh = self.events[self._digested :]
            gain = self._digest.feed(fresh)
            self._digested += len(fresh)
            self._starts += gain.starts
            self._texts += gain.texts
            return self._digest

    @property
    def starts(self) -> list[MessagePosition]:
        return self._starts if self.digest else []

    def mentions(self, word: str) -> bool:
        from harness.log.query import heading

        self.digest  # noqa: B018
        return word in heading(self.metadata) or any(word in text.text for text in self._texts)

    def watch(self, wake: Callable[[], object]) -> Callable[[], None]:
        self.wakers = [*self.wakers, wake]

        def stop() -> None:
            self.wakers = [other for other in self.wakers if other is not wake]

        return stop

    def notify(self) -> None:
        for wake in self.wakers:
            try:
                wake()
            except Exception:  # noqa: BLE001, S112 # one who fails must not keep the others from hearing
                continue


class MemoryWriter(LogWriter):
    """The only writer of a log in memory, until it is closed."""

    def __init__(self, log: _Log) -> None:
        if log.is_live:
            holder = str(log.metadata.writer.pid) if log.metadata.writer else ""
            raise LogLocked(
                f"session {log.metadata.session_id} is being written by process {holder}", holder=holder
            )
        log.is_live = True
        self.next_seq: int = log.next_seq
        self._log = log

    def append(self, events: Sequence[Event]) -> int:
        codec.encode_blocks(events)  # what no store could hold is not held here either
        self._log.events.extend(events)
        self._log.notify()
        return len(events) * 500

    def close(self) -> None:
        self._log.is_live = False


class MemoryReader:
    def __init__(self, log: _Log, cursor: int) -> None:
        self._log = log
        self._position = bisect_left(log.events, cursor, key=attrgetter("seq"))

    def read(self, most: int = 1000) -> list[Event]:
        batch = self._log.events[self._position : self._position + most]
        self._position += len(batch)
        return batch

    def close(self) -> None:
        return


def _copy(metadata: Metadata) -> Metadata:
    """As another store would give it back: nothing of it is shared. Raises StoreError when a setting is no JSON."""
    return metadata_file.decode(metadata_file.encode(metadata), metadata.session_id)


def _unknown(log_id: str) -> UnknownSession:
    return UnknownSession(f"unknown session: {log_id}", hint="`harness sessions list` shows what there is")
