"""Which sessions a person has opened, and when: a private file beside the logs, shared by all programs of the user."""

from __future__ import annotations

import os
import threading
import time

import msgspec

from harness.config import data_directory
from harness.log.private_files import make_private_directory, open_private, replace_private
from harness.log.store import Store
from harness.log.stores.files import FileStore

_FILE = "inbox-seen.json"
_MOST = 5_000


class _Seen(msgspec.Struct):
    since_ms: int = 0
    """What ended before counts as seen."""
    sessions: dict[str, int] = {}


class SeenMarks:
    """Contract: thread-safe. A file that cannot be read or written is no failure: then marks last as long as this."""

    def __init__(self, store: Store) -> None:
        folder = store.directory if isinstance(store, FileStore) else data_directory()
        self._path = os.path.join(folder, _FILE)
        self._lock = threading.Lock()
        self._mark: tuple[int, int] | None = None
        self._seen = _Seen(since_ms=_now_ms())
        with self._lock:
            if not self._read():
                self._write()

    def at(self, log_id: str) -> int:
        """When it was opened last, as far as it matters."""
        seen = self._seen
        return max(seen.since_ms, seen.sessions.get(log_id, 0))

    def mark(self, log_id: str) -> None:
        with self._lock:
            self._read()
            sessions = {key: at for key, at in self._seen.sessions.items() if key != log_id}
            sessions[log_id] = _now_ms()
            kept = list(sessions.items())[-_MOST:]
            self._seen = _Seen(self._seen.since_ms, dict(kept))
            self._write()

    def refresh(self) -> bool:
        """Whether another program has marked something."""
        with self._lock:
            before = self._seen
            self._read()
            return self._seen.sessions != before.sessions

    def _read(self) -> bool:
        try:
            with os.fdopen(open_private(self._path, os.O_RDONLY), "rb") as file:
                status = os.fstat(file.fileno())
                if self._mark == (status.st_ino, status.st_mtime_ns):
                    return True
                self._seen = msgspec.json.decode(file.read(), type=_Seen)
                self._mark = status.st_ino, status.st_mtime_ns
        except (OSError, msgspec.MsgspecError):
            return False
        return True

    def _write(self) -> None:
        try:
            make_private_directory(os.path.dirname(self._path))
            replace_private(self._path, msgspec.json.encode(self._seen))
        except OSError:
            return


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
