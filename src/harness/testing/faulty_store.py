"""A store that fails at a chosen call, so that a program can be tested with a failure at each of its calls.

    for number in range(1, 1000):
        store = FaultyStore(MemoryStore(), fails_at=number)
        try_it(store)
        if store.calls < number:
            break  # the program makes fewer calls: all were tried

Contract: a failed call does nothing; `append` raises OSError, everything else StoreError.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence

from harness.errors import StoreError
from harness.events import Event, Usage
from harness.log.store import LogReader, LogWriter, Metadata, Query, Store


class FaultyStore:
    """Forwards every call to `inner`, and raises at the chosen ones.

    `fails_at` is the number of the first call that fails, counted from 1 (0: none); `failures` is how many
    calls fail from there on (None: all).
    """

    def __init__(self, inner: Store, fails_at: int = 0, failures: int | None = 1) -> None:
        self._inner = inner
        self._fails_at = fails_at
        self._failures = failures
        self.calls: int = 0
        """The number of calls so far."""
        self.failed: builtins.list[str] = []
        """The names of the calls that failed."""

    def count(self, call: str) -> None:
        """Count a call. Raises StoreError if it is one that must fail."""
        self.calls += 1
        is_due = self._fails_at and self.calls >= self._fails_at
        if is_due and (self._failures is None or len(self.failed) < self._failures):
            self.failed.append(call)
            raise StoreError(f"{call} failed, as planned")

    def create(self, metadata: Metadata) -> LogWriter:
        self.count("create")
        return FaultyWriter(self, self._inner.create(metadata))

    def open(self, log_id: str) -> LogWriter:
        self.count("open")
        return FaultyWriter(self, self._inner.open(log_id))

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        self.count("reader")
        return FaultyReader(self, self._inner.reader(log_id, cursor))

    def is_live(self, log_id: str) -> bool:
        self.count("is_live")
        return self._inner.is_live(log_id)

    def metadata(self, log_id: str) -> Metadata:
        self.count("metadata")
        return self._inner.metadata(log_id)

    def save_metadata(self, metadata: Metadata) -> None:
        self.count("save_metadata")
        self._inner.save_metadata(metadata)

    def list(self) -> Iterator[Metadata]:
        self.count("list")
        return self._inner.list()

    def delete(self, log_id: str) -> None:
        self.count("delete")
        self._inner.delete(log_id)

    def find(self, query: Query) -> builtins.list[Metadata]:
        self.count("find")
        return self._inner.find(query)

    def total(self, query: Query) -> int:
        self.count("total")
        return self._inner.total(query)

    def version(self) -> int | None:
        self.count("version")
        return self._inner.version()

    def catch_up(self) -> None:
        self.count("catch_up")
        self._inner.catch_up()

    def resource_ids(self) -> builtins.list[str]:
        self.count("resource_ids")
        return self._inner.resource_ids()

    def messages(self, log_id: str, limit: int) -> int:
        self.count("messages")
        return self._inner.messages(log_id, limit)

    def usage(self, log_id: str) -> Usage:
        self.count("usage")
        return self._inner.usage(log_id)

    def snapshot(self, log_id: str, name: str) -> tuple[int, bytes] | None:
        self.count("snapshot")
        return self._inner.snapshot(log_id, name)

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        self.count("save_snapshot")
        self._inner.save_snapshot(log_id, name, seq, data)

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        self.count("watch")
        return self._inner.watch(log_id, wake)

    def close(self) -> None:
        self._inner.close()


class FaultyWriter:
    """The writer of a `FaultyStore`: `append` counts as a call, and fails with OSError."""

    def __init__(self, store: FaultyStore, inner: LogWriter) -> None:
        self.next_seq: int = inner.next_seq
        self._store = store
        self._inner = inner

    def append(self, events: Sequence[Event]) -> int:
        try:
            self._store.count("append")
        except StoreError as error:
            raise OSError(error.message) from error
        return self._inner.append(events)

    def close(self) -> None:
        self._inner.close()


class FaultyReader:
    """The reader of a `FaultyStore`: `read` counts as a call."""

    def __init__(self, store: FaultyStore, inner: LogReader) -> None:
        self._store = store
        self._inner = inner

    def read(self, most: int = 1000) -> list[Event]:
        self._store.count("read")
        return self._inner.read(most)

    def close(self) -> None:
        self._inner.close()
