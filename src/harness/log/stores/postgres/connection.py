"""One connection to PostgreSQL: made when it is needed, and again after it broke."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import MissingExtra, StoreError
from harness.log.stores.postgres.schema import prepare

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection

Answer = TypeVar("Answer")

CHANNEL = "harness_logs"
_BETWEEN_ATTEMPTS_S = 0.2
"""A server that does not answer is not asked again for every event."""
_SETTINGS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "harness",
    # A database of no particular encoding (SQL_ASCII: `initdb` without a locale) would answer in bytes, not in text.
    "client_encoding": "utf8",
}
_LEFT_TO_THE_PARENT: list[object] = []
"""A child that closes its parent's connection takes it away from the parent."""


class PostgresConnection:
    """Contract: one request at a time; after a connection broke, the next request opens a new one."""

    def __init__(self, url: str, *, durable: bool = True) -> None:
        self._url = url
        self._durable = durable
        self._connection: Connection[Any] | None = None
        self._process_id = 0
        self._lock = threading.RLock()
        self._not_before_s = 0.0
        self.generation = 0
        """Changes with every new connection: the server has dropped what it held for the last one."""

    @contextmanager
    def use(self) -> Iterator[Connection[Any]]:
        """The connection. Raises StoreError for whatever PostgreSQL refuses."""
        import psycopg

        with self._lock:
            try:
                yield self._connected()
            except psycopg.Error as error:
                self._drop_if_broken()
                raise failure(error) from error

    def ask(self, question: Callable[[Connection[Any]], Answer]) -> Answer:
        """An answer that may be asked for twice: if the connection breaks, on a new one. Raises StoreError."""
        with self._lock:
            was_connected = self._connection is not None
            try:
                with self.use() as connection:
                    return question(connection)
            except StoreError:
                if not was_connected or self._connection is not None:
                    raise
            with self.use() as connection:
                return question(connection)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._process_id == os.getpid():
                self._connection.close()
            elif self._connection is not None:
                _LEFT_TO_THE_PARENT.append(self._connection)
            self._connection = None

    def __del__(self) -> None:
        self.close()

    def _connected(self) -> Connection[Any]:
        if self._connection is not None and (
            self._process_id != os.getpid() or self._connection.closed or self._connection.broken
        ):
            self.close()
        if self._connection is None:
            self._connection = self._new()
            self._process_id = os.getpid()
            self.generation += 1
        return self._connection

    def _new(self) -> Connection[Any]:
        import psycopg

        if time.monotonic() < self._not_before_s:
            raise psycopg.OperationalError("the database could not be reached a moment ago")
        try:
            connection = connect(self._url)
        except psycopg.Error:
            self._not_before_s = time.monotonic() + _BETWEEN_ATTEMPTS_S
            raise
        try:
            prepare(connection)
            if not self._durable:
                connection.execute("SET synchronous_commit = off")
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop_if_broken(self) -> None:
        if self._connection is not None and (self._connection.closed or self._connection.broken):
            self.close()


def connect(url: str) -> Connection[Any]:
    """Raises MissingExtra, psycopg.Error."""
    connection: Connection[Any] = load().connect(url, autocommit=True, **_SETTINGS)
    return connection


def load() -> Any:
    """The driver. Raises MissingExtra."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra("a PostgreSQL store needs psycopg, which is not installed", "postgres") from error
    return psycopg


def failure(error: psycopg.Error) -> StoreError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return StoreError(f"PostgreSQL: {reason}", hint="see whether the server runs and lets you in")
