"""Writes one log into PostgreSQL, under a lock that ends with the connection.

The lock says who may write; the log's `epoch`, which counts its holders, makes sure of it: a writer whose
connection broke continues if no other has written meanwhile, and is refused for good if one has.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, LiteralString

import msgspec

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event
from harness.log import codec
from harness.log.log_summary import LogSummary
from harness.log.stores.postgres.connection import CHANNEL, PostgresConnection

if TYPE_CHECKING:
    from psycopg import Connection

LOCK_CLASS: LiteralString = "(hashtext('harness ' || current_schema()) & 2147483647)"
"""Numbers of logs are counted in each schema, locks in the whole database."""
LOCKED_LOGS: LiteralString = (
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"  # noqa: S608
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND classid::bigint = {LOCK_CLASS}"
)
"""The numbers of the logs that somebody writes."""

_NOTE: LiteralString = """
WITH log AS (
    UPDATE harness_logs SET next_seq = %(next_seq)s, event_ms = %(event_ms)s, digest = %(digest)b
    WHERE number = %(log)s AND epoch = %(epoch)s RETURNING number, log_id
), events AS (
    INSERT INTO harness_events
    SELECT log.number, new.seq, new.line FROM log, unnest(%(seqs)b::bigint[], %(lines)b::bytea[]) AS new (seq, line)
)"""
_GAIN: LiteralString = """, starts AS (
    INSERT INTO harness_starts SELECT log.number, new.seq, new.known_seq
    FROM log, unnest(%(starts)b::bigint[], %(known)b::bigint[]) AS new (seq, known_seq)
    ON CONFLICT DO NOTHING
), texts AS (
    INSERT INTO harness_texts SELECT log.number, new.text FROM log, unnest(%(texts)s::text[]) AS new (text)
)"""
_NOTIFY: LiteralString = f" SELECT pg_notify('{CHANNEL}', log_id) FROM log"  # noqa: S608


class PostgresWriter:
    """`number` is the log's; the lock is taken here. `held`: the epoch of each log that this process has open. Raises LogLocked, UnknownSession, StoreError."""

    def __init__(self, line: PostgresConnection, number: int, log_id: str, epochs: dict[int, int]) -> None:
        self._line = line
        self._number = number
        self._log_id = log_id
        self._epochs = epochs
        with line.use() as connection:
            if number in epochs or not self._locked(connection):
                raise self._refused(connection)
            row = connection.execute(
                "UPDATE harness_logs SET epoch = epoch + 1, writer = %s WHERE number = %s AND NOT is_deleted"
                " RETURNING epoch, next_seq, digest",
                (f"{os.getpid()} on {os.uname().nodename}", number),
            ).fetchone()
            if row is None:
                self._unlock(connection)
                raise UnknownSession(f"session {log_id} has just been deleted")
            self._generation = line.generation
        self._epoch, self.next_seq, digest = row
        self._stored_seq = self.next_seq
        self._digest: bytes = digest
        epochs[number] = self._epoch

    def append(self, events: Sequence[Event]) -> int:
        try:
            with self._line.use() as connection:
                if self._generation != self._line.generation:
                    self._regain(connection)
                codec.encode_blocks(events)  # what is shown is what will be stored
                return self._store(connection, [event for event in events if event.seq >= self._stored_seq])
        except StoreError as error:
            raise OSError(error.message) from error

    def close(self) -> None:
        self._epochs.pop(self._number, None)
        if self._generation != self._line.generation:
            return  # the lock went with its connection
        try:
            with self._line.use() as connection:
                self._unlock(connection)
        except StoreError:
            return

    def _store(self, connection: Connection[Any], events: Sequence[Event]) -> int:
        if not events:
            return 0
        lines = codec.encode_lines(events)
        digest = msgspec.json.decode(self._digest, type=LogSummary)
        gain = digest.feed(events)
        values: dict[str, Any] = {
            "log": self._number,
            "epoch": self._epoch,
            "next_seq": digest.next_seq,
            "event_ms": digest.updated_ms,
            "digest": (encoded := msgspec.json.encode(digest)),
            "seqs": [event.seq for event in events],
            "lines": lines.split(b"\n")[:-1],
            "starts": [start.seq for start in gain.starts],
            "known": [start.known_seq for start in gain.starts],
            "texts": [storable(text.text) for text in gain.texts],
        }
        statement = _NOTE + (_GAIN if gain.starts or gain.texts else "") + _NOTIFY
        if not connection.execute(statement, values).rowcount:
            raise self._refused(connection)
        self._digest, self._stored_seq = encoded, digest.next_seq
        return len(lines)

    def _regain(self, connection: Connection[Any]) -> None:
        """Check that no other process has written since the connection broke; our last write may be lost."""
        if not self._locked(connection):
            raise self._refused(connection)
        row = connection.execute(
            "SELECT epoch, next_seq, digest FROM harness_logs WHERE number = %s", (self._number,)
        ).fetchone()
        if row is None or row[0] != self._epoch:
            self._unlock(connection)
            raise self._refused(connection)
        self._stored_seq = row[1]
        self._digest = row[2]
        self._generation = self._line.generation

    def _locked(self, connection: Connection[Any]) -> bool:
        row = connection.execute(f"SELECT pg_try_advisory_lock({LOCK_CLASS}, %s)", (self._number,)).fetchone()
        return bool(row and row[0])

    def _unlock(self, connection: Connection[Any]) -> None:
        connection.execute(f"SELECT pg_advisory_unlock({LOCK_CLASS}, %s)", (self._number,))

    def _refused(self, connection: Connection[Any]) -> LogLocked:
        row = connection.execute(
            "SELECT writer FROM harness_logs WHERE number = %s", (self._number,)
        ).fetchone()
        holder = row[0] if row else "unknown"
        message = f"session {self._log_id} is being written by process {holder}"
        return LogLocked(message, holder=holder, hint="wait until it has ended, or stop it")


def storable(text: str) -> str:
    """Text without NUL and half characters, which PostgreSQL refuses."""
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
