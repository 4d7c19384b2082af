"""The change histories of logs, read on from where they were left when they are asked for again."""

from __future__ import annotations

import threading

from harness.log.store import Store, read_all
from harness.views.changes.fold import ChangeHistory

_MOST_KEPT = 8


class ChangeHistories:
    """Contract: thread-safe. A history that is in use is taken out, so that no two threads read it on."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, ChangeHistory] = {}
        """Most recently used last."""

    def take(self, log_id: str) -> ChangeHistory:
        """The history up to now; `put` it back. Raises UnknownSession and StoreError."""
        self._store.metadata(log_id)
        with self._lock:
            history = self._kept.pop(log_id, None) or ChangeHistory()
        for event in read_all(self._store, log_id, history.next_seq):
            history.feed(event)
        return history

    def put(self, log_id: str, history: ChangeHistory) -> None:
        with self._lock:
            self._kept[log_id] = history
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]

    def forget(self, log_id: str) -> None:
        """It was deleted, or begins otherwise."""
        with self._lock:
            self._kept.pop(log_id, None)
