"""Commands for the process that has a log open, left in PostgreSQL by processes that have not.

Rules
1. A command is taken once, by the process that holds the log's lock in that very statement, in the order in
   which the commands for a log were left. One that was not taken in time is never taken.
2. The process that took it leaves a result; the command itself is then removed from the table, and the row
   when the result is read.
3. A process that took it and lost the log (it died, or its connection broke) leaves no result that counts:
   the command can be left again, with the `seq` from which on the log shows whether it was carried out.
4. Rows of processes that died are removed some time after they have expired.

All of it needs connections that are a session's own, as the locks and the listening of the store do: a pooler
that gives each transaction another connection breaks them.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from typing import LiteralString, NamedTuple

from harness.errors import UnknownSession
from harness.log.stores.postgres.connection import CHANNEL, PostgresConnection
from harness.log.stores.postgres.watch import PostgresWatch
from harness.log.stores.postgres.writer import LOCKED_LOGS

_TOPIC = "commands"
_KEPT_S = 60.0
"""How long after its end a row stays that was not fetched."""
_TAKE: LiteralString = f"""
UPDATE harness_commands asked SET taken_by = %s, taken_epoch = log.epoch, taken_seq = log.next_seq
FROM harness_logs log WHERE log.number = asked.log AND asked.number IN (
    SELECT number FROM harness_commands
    WHERE taken_by IS NULL AND result IS NULL AND expires_at > clock_timestamp()
    AND log IN ({LOCKED_LOGS} AND pid = pg_backend_pid())
    FOR UPDATE SKIP LOCKED
) RETURNING asked.number, log.log_id, asked.key, asked.command, asked.seen_seq"""  # noqa: S608
_LOOK: LiteralString = f"""
SELECT asked.taken_by, asked.result IS NOT NULL,
    asked.taken_epoch IS NOT DISTINCT FROM log.epoch AND log.number IN ({LOCKED_LOGS}), log.number IN ({LOCKED_LOGS})
FROM harness_commands asked JOIN harness_logs log ON log.number = asked.log WHERE asked.key = %s"""  # noqa: S608


class TakenCommand(NamedTuple):
    """A command that was taken."""

    log_id: str
    key: str
    command: bytes
    seen_seq: int | None
    """From here on the log shows whether it was carried out before; None: it was not."""


class CommandStatus(NamedTuple):
    """What has become of a command."""

    taken_by: str
    """The process that took it; empty: none yet."""
    has_result: bool
    is_being_done: bool
    """Whether the process that took it still has the log open."""
    is_held: bool
    """Whether any process has the log open."""


class PostgresCommands:
    """Contract: may be called from any thread. Raises StoreError."""

    def __init__(
        self, reading: PostgresConnection, writing: PostgresConnection, watch: PostgresWatch
    ) -> None:
        self._reading = reading
        self._writing = writing
        self._watch = watch
        self._name = f"{os.getpid()} on {os.uname().nodename} ({secrets.token_hex(4)})"

    def listen(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake` when there may be something to take; returns how to stop that."""
        return self._watch.add(_TOPIC, wake)

    def listen_for_result(self, key: str, wake: Callable[[], object]) -> Callable[[], None]:
        return self._watch.add(_result_topic(key), wake)

    def leave(
        self, log_id: str, key: str, command: bytes, *, within_s: float, seen_seq: int | None = None
    ) -> None:
        """Leave a command for the process that has the log open. Raises UnknownSession."""
        values = (key, self._name, command, within_s, seen_seq, log_id)
        with self._reading.use() as connection:
            connection.execute(
                "DELETE FROM harness_commands WHERE expires_at < clock_timestamp() - make_interval(secs => %s)",
                (_KEPT_S,),
            )
            cursor = connection.execute(
                "INSERT INTO harness_commands (log, key, asked_by, command, expires_at, seen_seq)"
                " SELECT number, %s, %s, %b, clock_timestamp() + make_interval(secs => %s), %s"
                " FROM harness_logs WHERE log_id = %s AND NOT is_deleted",
                values,
            )
            if not cursor.rowcount:
                raise UnknownSession(f"unknown session: {log_id!r}")
        self.remind()

    def remind(self) -> None:
        """Wake the processes that may take a command."""
        self._notify(_TOPIC)

    def look(self, key: str) -> CommandStatus | None:
        """None: it was deleted, with its log or because it expired long ago."""
        rows = self._reading.ask(lambda connection: connection.execute(_LOOK, (key,)).fetchall())
        return CommandStatus(rows[0][0] or "", *rows[0][1:]) if rows else None

    def fetch(self, key: str) -> bytes | None:
        """The result, which is then deleted from the database."""
        return self._removed("result IS NOT NULL", "result", key)

    def withdraw(self, key: str) -> bool:
        """Remove a command; False if it was taken already."""
        return self._removed("taken_by IS NULL", "''::bytea", key) is not None

    def take_back(self, key: str, taken_by: str) -> int | None:
        """From a process that has lost the log: the `seq` from which on the log shows whether it was carried out."""
        with self._reading.use() as connection:
            row = connection.execute(
                "DELETE FROM harness_commands WHERE key = %s AND taken_by = %s AND result IS NULL RETURNING taken_seq",
                (key, taken_by),
            ).fetchone()
        return None if row is None else int(row[0])

    def take(self) -> list[TakenCommand]:
        """All that wait for logs that this store writes, in their order."""
        with self._writing.use() as connection:
            rows = connection.execute(_TAKE, (self._name,)).fetchall()
        return [TakenCommand(*row[1:]) for row in sorted(rows)]

    def answer(self, key: str, result: bytes) -> None:
        """What came of a command that was taken here."""
        self._change("result = %b, command = ''::bytea", (result,), key)
        self._notify(_result_topic(key))

    def give_back(self, key: str) -> None:
        """The log was released before the command was carried out: its next writer may take it."""
        self._change("taken_by = NULL, taken_epoch = NULL, taken_seq = NULL", (), key)
        self._notify(_TOPIC)
        self._notify(_result_topic(key))

    def _change(self, changes: LiteralString, values: tuple[object, ...], key: str) -> None:
        statement: LiteralString = (
            f"UPDATE harness_commands SET {changes} WHERE key = %s AND taken_by = %s AND result IS NULL"  # noqa: S608
        )
        self._reading.ask(lambda connection: connection.execute(statement, (*values, key, self._name)))

    def _removed(self, condition: LiteralString, what: LiteralString, key: str) -> bytes | None:
        statement: LiteralString = (
            f"DELETE FROM harness_commands WHERE key = %s AND {condition} RETURNING {what}"  # noqa: S608
        )
        with self._reading.use() as connection:
            row = connection.execute(statement, (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def _notify(self, topic: str) -> None:
        statement: LiteralString = f"SELECT pg_notify('{CHANNEL}', %s)"
        self._reading.ask(lambda connection: connection.execute(statement, (topic,)))


def _result_topic(key: str) -> str:
    return f"result {key}"
