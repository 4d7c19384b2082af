"""Logs in PostgreSQL: for several machines, which see each other's events as they come.

Two connections for each store: one reads, one writes and holds the locks of all logs that are being
written through it; a third listens while a log is watched.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, Usage
from harness.log import metadata_file
from harness.log.event_file import events_of
from harness.log.forks import ForkReader, Stretch, start_of_last, stretches
from harness.log.ids import is_log_id
from harness.log.log_summary import LogSummary
from harness.log.query import age, heading, is_sifted, latest, select, words_of
from harness.log.store import Fork, LogReader, Metadata, Query, Store, Writer, stamped
from harness.log.stores.postgres.commands import PostgresCommands
from harness.log.stores.postgres.connection import CHANNEL, PostgresConnection, load
from harness.log.stores.postgres.schema import TABLES
from harness.log.stores.postgres.watch import PostgresWatch
from harness.log.stores.postgres.writer import LOCK_CLASS, LOCKED_LOGS, PostgresWriter, storable

if TYPE_CHECKING:
    from psycopg import Connection

_LAST_SEQ = 2**63 - 1
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', %s)"
_ACTIVE = (
    "(convert_from(metadata, 'UTF8')::json ->> 'activity' IS NOT NULL"
    " OR (kind = 'run' AND convert_from(metadata, 'UTF8')::json ->> 'outcome' IS NULL)"
    " OR (kind = 'thread' AND convert_from(metadata, 'UTF8')::json ->> 'outcome' = 'suspended'))"
)
"""What `is_active` says: defaults are not written."""


class PostgresStore(Store):
    """`url` is a connection string. Its tables are made where they are missing, in the first schema of the
    search path.

    durable=False: a crash of the server, not of ours, may cost the last moments; writing is faster.
    """

    def __init__(self, url: str, *, durable: bool = True) -> None:
        load()
        self._reading = PostgresConnection(url)
        self._writing = PostgresConnection(url, durable=durable)
        self._watch = PostgresWatch(url)
        self._epochs: dict[int, int] = {}
        self.commands: PostgresCommands = PostgresCommands(self._reading, self._writing, self._watch)
        """For the process that has a log open, from those that have not."""

    def create(self, metadata: Metadata) -> PostgresWriter:
        _checked(metadata.session_id)
        writer: PostgresWriter | None = None
        try:
            with self._writing.use() as connection, connection.transaction():
                number = self._insert(connection, stamped(metadata))
                writer = PostgresWriter(self._writing, number, metadata.session_id, self._epochs)
        except StoreError:
            if writer is not None:
                writer.close()
            raise
        return writer

    def open(self, log_id: str) -> PostgresWriter:
        return PostgresWriter(self._writing, self._number(log_id), log_id, self._epochs)

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        parts = self._stretches(log_id)
        if len(parts) == 1:
            return self._stretch(parts[0], cursor)
        return ForkReader(parts, cursor, self._stretch)

    def is_live(self, log_id: str) -> bool:
        return self._number(log_id) in self._live()

    def metadata(self, log_id: str) -> Metadata:
        (data,) = self._row("SELECT metadata FROM harness_logs WHERE log_id = %s AND NOT is_deleted", log_id)
        return metadata_file.decode(data, log_id)

    def save_metadata(self, metadata: Metadata) -> None:
        log_id = _checked(metadata.session_id)
        signed = _signed(metadata)
        with self._reading.use() as connection:
            cursor = connection.execute(
                "WITH log AS (UPDATE harness_logs SET kind = %s, resource_id = %s, heading = %s, metadata = %s,"  # noqa: S608
                " saved_ms = %s WHERE log_id = %s AND NOT is_deleted RETURNING log_id)"
                f" SELECT pg_notify('{CHANNEL}', log_id) FROM log",
                (*_columns(signed), signed.updated_ms, log_id),
            )
            if not cursor.rowcount:
                raise _unknown(log_id)

    def list(self) -> Iterator[Metadata]:
        rows = self._rows("SELECT log_id, metadata FROM harness_logs WHERE NOT is_deleted")
        all_metadata = [metadata_file.decode(data, log_id) for log_id, data in rows]
        return iter(sorted(all_metadata, key=age, reverse=True))

    def delete(self, log_id: str) -> None:
        # On the connection that holds no locks, so that our own locks count like those of others.
        _checked(log_id)
        with self._reading.use() as connection, connection.transaction():
            row = connection.execute(
                f"SELECT number, pg_try_advisory_xact_lock({LOCK_CLASS}, number) FROM"  # noqa: S608
                " (SELECT number FROM harness_logs WHERE log_id = %s AND NOT is_deleted FOR UPDATE) AS log",
                (log_id,),
            ).fetchone()
            if row is None:
                raise _unknown(log_id)
            if not row[1]:
                raise LogLocked(f"session {log_id} is being written", hint="stop the run first")
            connection.execute("UPDATE harness_logs SET is_deleted = true WHERE number = %s", (row[0],))
            _remove(connection, row[0])
            connection.execute(_NOTIFY, (log_id,))

    def find(self, query: Query) -> builtins.list[Metadata]:
        condition, values = _condition(query)
        order = 'ORDER BY greatest(saved_ms, event_ms) DESC, log_id COLLATE "C" DESC'
        is_cut = not is_sifted(query)
        cut = " LIMIT %s OFFSET %s" if is_cut else ""
        rows = self._rows(
            f"SELECT number, log_id, metadata, event_ms FROM harness_logs WHERE {condition} {order}{cut}",  # noqa: S608
            *values,
            *((query.limit, query.offset) if is_cut else ()),
        )
        live = self._live() if query.live_first else set()
        live_ids = {log_id for number, log_id, _data, _ms in rows if number in live}
        matches = (
            latest(metadata_file.decode(data, log_id), event_ms) for _number, log_id, data, event_ms in rows
        )
        return builtins.list(matches) if is_cut else select(matches, query, live_ids.__contains__)

    def total(self, query: Query) -> int:
        if is_sifted(query):
            return len(self.find(replace(query, limit=None, offset=0, live_first=False)))
        condition, values = _condition(query)
        ((count,),) = self._rows(f"SELECT count(*) FROM harness_logs WHERE {condition}", *values)  # noqa: S608
        return int(count)

    def version(self) -> int | None:
        return None

    def catch_up(self) -> None:
        """The database has its own indexes."""

    def resource_ids(self) -> builtins.list[str]:
        rows = self._rows(
            "SELECT DISTINCT resource_id FROM harness_logs WHERE NOT is_deleted AND resource_id <> ''"
        )
        return sorted(resource_id for (resource_id,) in rows)

    def messages(self, log_id: str, limit: int) -> int:
        parts = self._stretches(log_id)
        if limit <= 0:
            (next_seq,) = self._row("SELECT next_seq FROM harness_logs WHERE log_id = %s", log_id)
            return int(next_seq)
        return start_of_last(parts, limit, self._starts)

    def usage(self, log_id: str) -> Usage:
        (data,) = self._row("SELECT digest FROM harness_logs WHERE log_id = %s AND NOT is_deleted", log_id)
        return msgspec.json.decode(data, type=LogSummary).usage

    def snapshot(self, log_id: str, name: str) -> tuple[int, bytes] | None:
        for part in reversed(self._stretches(log_id)):
            rows = self._rows(
                "SELECT seq, data FROM harness_snapshots JOIN harness_logs ON log = number"
                " WHERE log_id = %s AND name = %s AND seq <= %s",
                part.log_id,
                name,
                _LAST_SEQ if part.end is None else part.end,
            )
            if rows:
                return rows[0][0], rows[0][1]
        return None

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        number = self._number(log_id)
        with self._reading.use() as connection:
            connection.execute(
                "INSERT INTO harness_snapshots AS kept"
                " SELECT number, %s, %s, %b FROM harness_logs WHERE number = %s AND next_seq >= %s"
                " ON CONFLICT (log, name) DO UPDATE SET seq = excluded.seq, data = excluded.data"
                " WHERE excluded.seq >= kept.seq",
                (name, seq, data, number, seq),
            )

    def watch(self, log_id: str, wake: Callable[[], object]) -> Callable[[], None]:
        self._number(log_id)
        return self._watch.add(log_id, wake)

    def lost(self) -> builtins.list[str]:
        """Logs that are open here although another process has opened them since: our connection broke, and the
        lock was lost with it. What is written to them from here is in no log.
        """
        if not self._epochs:
            return []
        epochs = dict(self._epochs)
        rows = self._rows("SELECT number, log_id, epoch FROM harness_logs WHERE number = ANY(%s)", [*epochs])
        return [log_id for number, log_id, epoch in rows if epoch != epochs[number]]

    def close(self) -> None:
        self._watch.close()
        self._reading.close()
        if not self._epochs:
            self._writing.close()

    def _insert(self, connection: Connection[Any], metadata: Metadata) -> int:
        import psycopg

        log_id, fork = metadata.session_id, metadata.fork
        parent = None if fork is None else _parent(connection, fork)
        base = 0 if fork is None else fork.seq
        signed = _signed(metadata)
        empty = msgspec.json.encode(LogSummary(next_seq=base, answer_seq=base))
        writer = f"{os.getpid()} on {os.uname().nodename}"
        try:
            row = connection.execute(
                "INSERT INTO harness_logs (log_id, kind, resource_id, heading, metadata, saved_ms, parent, fork_seq,"
                " next_seq, digest, writer) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING number",
                (log_id, *_columns(signed), signed.updated_ms, parent, base, base, empty, writer),
            ).fetchone()
        except psycopg.errors.UniqueViolation as error:
            raise StoreError(
                f"session {log_id} exists already", hint="every run has an id of its own"
            ) from error
        assert row is not None, "RETURNING gives a row"
        return int(row[0])

    def _number(self, log_id: str) -> int:
        (number,) = self._row("SELECT number FROM harness_logs WHERE log_id = %s AND NOT is_deleted", log_id)
        return int(number)

    def _row(self, statement: str, log_id: str) -> tuple[Any, ...]:
        rows = self._rows(statement, _checked(log_id))
        if not rows:
            raise _unknown(log_id)
        return rows[0]

    def _rows(self, statement: str, *values: object) -> builtins.list[tuple[Any, ...]]:
        return self._reading.ask(lambda connection: connection.execute(statement, values).fetchall())

    def _live(self) -> set[int]:
        return {number for (number,) in self._rows(LOCKED_LOGS)}

    def _stretches(self, log_id: str) -> builtins.list[Stretch]:
        self._number(log_id)
        ancestors = self._rows(
            "WITH RECURSIVE line AS (SELECT * FROM harness_logs WHERE log_id = %s"
            " UNION ALL SELECT older.* FROM harness_logs older JOIN line ON older.number = line.parent)"
            " SELECT log_id, lead(log_id) OVER (), fork_seq FROM line",
            log_id,
        )
        if not ancestors:  # it was deleted since it was looked up
            raise _unknown(log_id)
        forks = {log: None if parent is None else Fork(parent, seq) for log, parent, seq in ancestors}
        return stretches(log_id, forks.__getitem__)

    def _stretch(self, part: Stretch, cursor: int) -> PostgresReader:
        ((number,),) = self._rows("SELECT number FROM harness_logs WHERE log_id = %s", part.log_id)
        return PostgresReader(self._reading, number, max(cursor, part.start))

    def _starts(self, part: Stretch, limit: int) -> builtins.list[int]:
        rows = self._rows(
            "SELECT seq FROM harness_starts WHERE log = (SELECT number FROM harness_logs WHERE log_id = %s)"
            " AND known_seq < %s ORDER BY known_seq DESC LIMIT %s",
            part.log_id,
            _LAST_SEQ if part.end is None else part.end,
            limit,
        )
        return [seq for (seq,) in rows][::-1]


class PostgresReader:
    """Holds nothing but its cursor."""

    def __init__(self, line: PostgresConnection, number: int, cursor: int) -> None:
        self._line = line
        self._number = number
        self._cursor = cursor

    def read(self, most: int = 1000) -> builtins.list[Event]:
        rows = self._line.ask(
            lambda connection: connection.execute(
                "SELECT seq, line FROM harness_events WHERE log = %s AND seq >= %s ORDER BY seq LIMIT %s",
                (self._number, self._cursor, most),
                binary=True,
            ).fetchall()
        )
        if rows:
            self._cursor = rows[-1][0] + 1
        return [event for seq, line in rows for event in events_of(line, seq)]

    def close(self) -> None:
        return


def _parent(connection: Connection[Any], fork: Fork) -> int:
    row = connection.execute(
        "SELECT number, next_seq FROM harness_logs WHERE log_id = %s AND NOT is_deleted FOR SHARE",
        (_checked(fork.log_id),),
    ).fetchone()
    if row is None:
        raise _unknown(fork.log_id)
    if not 0 <= fork.seq <= row[1]:
        raise StoreError(f"session {fork.log_id} has no seq {fork.seq} to fork at")
    return int(row[0])


def _remove(connection: Connection[Any], number: int | None) -> None:
    """Remove a hidden log without forks, and with it the hidden logs that were there only for it."""
    while number is not None:
        row = connection.execute(
            "DELETE FROM harness_logs log WHERE number = %s AND is_deleted"
            " AND NOT EXISTS (SELECT 1 FROM harness_logs WHERE parent = log.number) RETURNING parent",
            (number,),
        ).fetchone()
        if row is None:
            return
        for table in TABLES:
            connection.execute(f"DELETE FROM {table} WHERE log = %s", (number,))  # noqa: S608
        number = row[0]


def _condition(query: Query) -> tuple[str, builtins.list[Any]]:
    """The part of a query that the table can answer; the rest is filtered in Python."""
    conditions, values = ["NOT is_deleted"], builtins.list[Any]()
    if query.active:
        conditions.append(_ACTIVE)
    for column, value in (("kind", query.kind), ("resource_id", query.resource_id)):
        if value is not None:
            conditions.append(f"{column} = %s")
            values.append(value)
    if query.excluding:
        conditions.append("NOT (log_id = ANY(%s))")
        values.append(builtins.list(query.excluding))
    for word in map(storable, words_of(query)):
        conditions.append(
            "(strpos(heading, %s) > 0 OR number IN (SELECT log FROM harness_texts WHERE strpos(text, %s) > 0))"
        )
        values += [word, word]
    return " AND ".join(conditions), values


def _columns(metadata: Metadata) -> tuple[object, ...]:
    heading_ = storable(heading(metadata))
    return metadata.kind, storable(metadata.resource_id), heading_, metadata_file.encode(metadata)


def _signed(metadata: Metadata) -> Metadata:
    return replace(metadata, writer=Writer(os.getpid(), os.uname().nodename))


def _checked(log_id: str) -> str:
    if not is_log_id(log_id):
        raise _unknown(log_id)
    return log_id


def _unknown(log_id: str) -> UnknownSession:
    return UnknownSession(f"unknown session: {log_id!r}", hint="`harness sessions list` shows what there is")
