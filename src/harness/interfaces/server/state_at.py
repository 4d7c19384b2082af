"""Sessions as they were at any moment. Who plays one forwards pays for each step only what has come in it."""

from __future__ import annotations

import threading

from harness.log.store import Store, read_all
from harness.rendering.state.fold import StateFold
from harness.rendering.state.wire import state_message

_MOST_KEPT = 2


class PastStates:
    """Contract: may be asked by several threads. A moment before the last one that was asked for is folded from
    the beginning of the log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: dict[str, StateFold] = {}
        """As far as they were last asked for, the latest last; nobody else has what is taken out of here."""

    def at(self, log_id: str, seq: int) -> bytes:
        """The message with the state after that many events. Raises UnknownSession and StoreError."""
        title = self._store.metadata(log_id).name
        with self._lock:
            fold = self._kept.pop(log_id, None)
        if fold is None or fold.seq > seq:
            fold = StateFold(log_id, title)
        for event in read_all(self._store, log_id, fold.seq):
            if event.seq >= seq:
                break
            fold.feed(event)
        message = state_message(fold.encoded(), fold.seq)
        with self._lock:
            self._kept[log_id] = fold
            while len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return message

    def forget(self, log_id: str) -> None:
        """It was deleted, renamed, or begins otherwise."""
        with self._lock:
            self._kept.pop(log_id, None)
