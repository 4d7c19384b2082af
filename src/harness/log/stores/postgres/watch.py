"""Notices when a log in PostgreSQL has changed: one connection listens for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.log.stores.postgres.connection import CHANNEL, connect, failure

if TYPE_CHECKING:
    from psycopg import Connection

_LOOKS_UP_EVERY_S = 0.1
_BETWEEN_ATTEMPTS_S = 0.5


class PostgresWatch:
    def __init__(self, url: str) -> None:
        self._url = url
        self._watched: list[tuple[str, Callable[[], object]]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def add(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        """Returns when it listens, so that nothing from then on is missed. Raises StoreError."""
        import psycopg

        watched = (log_id, wake)
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                try:
                    connection = self._listening()
                except psycopg.Error as error:
                    raise failure(error) from error
                self._stopped = threading.Event()
                self._thread = threading.Thread(
                    target=self._listen, args=(connection, self._stopped), name="harness-watch", daemon=True
                )
                self._thread.start()
            self._watched = [*self._watched, watched]

        def stop() -> None:
            with self._lock:
                self._watched = [other for other in self._watched if other is not watched]
                if not self._watched:
                    self._stopped.set()
                    self._thread = None

        return stop

    def close(self) -> None:
        """Stop listening until the next `add`."""
        with self._lock:
            thread, self._thread, self._watched = self._thread, None, []
            self._stopped.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _listening(self) -> Connection[Any]:
        connection = connect(self._url)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _listen(self, connection: Connection[Any], stopped: threading.Event) -> None:
        import psycopg

        while not stopped.is_set():
            try:
                for notice in connection.notifies(timeout=_LOOKS_UP_EVERY_S):
                    self._notify(notice.payload)
            except psycopg.Error:
                connection.close()
                connection = self._again(stopped) or connection
        connection.close()

    def _again(self, stopped: threading.Event) -> Connection[Any] | None:
        """Listen on a new connection; then all watchers are woken, as notifications may have been missed."""
        import psycopg

        while not stopped.wait(_BETWEEN_ATTEMPTS_S):
            try:
                connection = self._listening()
            except psycopg.Error:
                continue
            self._notify("")
            return connection
        return None

    def _notify(self, log_id: str) -> None:
        for watched, wake in self._watched:
            if not log_id or watched == log_id:
                try:
                    wake()
                except Exception:  # noqa: BLE001, S112 # a watcher that fails must not stop the others
                    continue
