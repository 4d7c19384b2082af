"""Notifies which logs of a store have changed, by any process: with the system's notifications, else by polling."""

from __future__ import annotations

import threading
from collections.abc import Callable

from harness.errors import HarnessError
from harness.log.event_file import HIDDEN, LOG, SIDECAR
from harness.log.ids import is_log_id
from harness.log.private_files import make_private_directory
from harness.log.store import Query, Store
from harness.log.stores.files import FileStore
from harness.system.contract import DirectoryWatch, system

_LISTENS_S = 0.5
_PAUSE_S = 0.05
_POLL_S = 1.0
_LOOKED_AT = 200
"""How many logs are polled: the last changed."""

Notified = Callable[[set[str] | None], object]
"""Gets the ids of logs; None: any may have changed."""


class StoreWatch:
    """Contract: `notified` is called from a thread of its own, until `close`."""

    def __init__(self, store: Store, notified: Notified, *, pause_s: float = _PAUSE_S) -> None:
        """Changes within the pause are reported together."""
        self._pause_s = pause_s
        self._store = store
        self._notified = notified
        self._is_over = threading.Event()
        first = self._watch()  # here: what changes from now on is noticed, also before the thread runs
        self._thread = threading.Thread(target=self._work, args=(first,), name="harness-inbox", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()

    def _work(self, watch: DirectoryWatch | None) -> None:
        while not self._is_over.is_set():
            if watch is None:
                return self._poll()
            try:
                self._listen(watch)
            finally:
                watch.close()
            if not self._is_over.is_set():
                watch = self._watch()
                self._notified(None)  # now: what changes while all is read is noticed
        return None

    def _watch(self) -> DirectoryWatch | None:
        if not isinstance(self._store, FileStore):
            return None
        try:
            make_private_directory(self._store.directory)
            return system.watch_directory(self._store.directory)
        except OSError:
            return None

    def _listen(self, watch: DirectoryWatch) -> None:
        while not self._is_over.is_set():
            if not watch.wait(_LISTENS_S):
                continue
            self._is_over.wait(self._pause_s)
            names = watch.changed()
            if names is None:  # changes were missed: everything is read again
                return
            if ids := {log_id for name in names if (log_id := _log_of(name))}:
                self._notified(ids)

    def _poll(self) -> None:
        versions: dict[str, tuple[int, str]] | None = None
        while not self._is_over.is_set():
            try:
                sessions = self._store.find(Query(limit=_LOOKED_AT))
            except HarnessError:
                sessions = []
            now = {session.session_id: (session.updated_ms, session.outcome) for session in sessions}
            if versions is None:
                self._notified(None)  # what changed before the first look
            elif changed := {
                key for key in now.keys() | versions.keys() if versions.get(key) != now.get(key)
            }:
                self._notified(changed)
            versions = now
            self._is_over.wait(_POLL_S)


def _log_of(name: str) -> str:
    log_id, dot, suffix = name.partition(".")
    is_ours = (dot + suffix).removesuffix(HIDDEN) in (LOG, SIDECAR) and is_log_id(log_id)
    return log_id if is_ours else ""
