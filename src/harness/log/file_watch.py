"""Notifies when a file has changed, whichever process changed it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

_EVERY_S = 0.05


class FileWatch:
    """Polls files, in one thread for all of them, as long as any is watched."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def add(self, paths: Sequence[str], wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` when one of them has grown, was replaced or is gone; returns how to stop that."""
        watched = _Watched(paths, wake)
        with self._lock:
            self._watched = [*self._watched, watched]
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                self._thread = threading.Thread(
                    target=self._look, args=(self._stopped,), name="harness-watch", daemon=True
                )
                self._thread.start()

        def stop() -> None:
            with self._lock:
                self._watched = [other for other in self._watched if other is not watched]
                if not self._watched:
                    self._stopped.set()
                    self._thread = None

        return stop

    def close(self) -> None:
        with self._lock:
            self._watched = []
            self._stopped.set()
            self._thread = None

    def _look(self, stopped: threading.Event) -> None:
        while not stopped.wait(_EVERY_S):
            for watched in self._watched:
                watched.look()


class _Watched:
    def __init__(self, paths: Sequence[str], wake: Callable[[], object]) -> None:
        self._paths = paths
        self._wake = wake
        self._seen = [_mark(path) for path in paths]

    def look(self) -> None:
        now = [_mark(path) for path in self._paths]
        if now != self._seen:
            self._seen = now
            try:
                self._wake()
            except Exception:  # one that fails must not keep the others from being notified
                return


def _mark(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
