"""Logs in memory: for tests, and for runs that nobody wants to keep."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Iterator, Sequence

import msgspec

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event
from harness.log.store import Metadata, Writer


class MemoryStore:
    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}
        self._lock = threading.Lock()

    def create(self, metadata: Metadata) -> MemoryWriter:
        with self._lock:
            if metadata.session_id in self._logs:
                raise StoreError(
                    f"session {metadata.session_id} exists already", hint="every run has an id of its own"
                )
            log = self._logs[metadata.session_id] = _Log(metadata)
        self.save_metadata(metadata)
        return MemoryWriter(log)

    def open(self, log_id: str) -> MemoryWriter:
        return MemoryWriter(self._log(log_id))

    def reader(self, log_id: str, cursor: int = 0) -> MemoryReader:
        return MemoryReader(self._log(log_id), cursor)

    def is_live(self, log_id: str) -> bool:
        return self._log(log_id).is_live

    def metadata(self, log_id: str) -> Metadata:
        return msgspec.structs.replace(self._log(log_id).metadata)

    def save_metadata(self, metadata: Metadata) -> None:
        self._log(metadata.session_id).metadata = msgspec.structs.replace(
            metadata, writer=Writer(os.getpid(), os.uname().nodename)
        )

    def list(self) -> Iterator[Metadata]:
        with self._lock:
            newest_first = sorted(self._logs, reverse=True)
        return iter([self.metadata(log_id) for log_id in newest_first])

    def delete(self, log_id: str) -> None:
        if self.is_live(log_id):
            raise LogLocked(f"session {log_id} is being written", hint="stop the run first")
        with self._lock:
            del self._logs[log_id]

    def _log(self, log_id: str) -> _Log:
        with self._lock:
            log = self._logs.get(log_id)
        if log is None:
            raise UnknownSession(
                f"unknown session: {log_id}", hint="`harness sessions list` shows what there is"
            )
        return log


class _Log:
    def __init__(self, metadata: Metadata) -> None:
        self.metadata = metadata
        self.events: builtins.list[Event] = []
        self.is_live = False


class MemoryWriter:
    def __init__(self, log: _Log) -> None:
        if log.is_live:
            holder = str(log.metadata.writer.pid) if log.metadata.writer else ""
            raise LogLocked(
                f"session {log.metadata.session_id} is being written by process {holder}", holder=holder
            )
        log.is_live = True
        self.next_seq = len(log.events)
        self._log = log

    def append(self, events: Sequence[Event]) -> int:
        self._log.events.extend(events)
        return len(events) * 500

    def close(self) -> None:
        self._log.is_live = False


class MemoryReader:
    def __init__(self, log: _Log, cursor: int) -> None:
        self._log = log
        self._cursor = cursor

    def read(self, most: int = 1000) -> list[Event]:
        batch = self._log.events[self._cursor : self._cursor + most]
        self._cursor += len(batch)
        return batch

    def close(self) -> None:
        return
