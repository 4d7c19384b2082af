"""The tables of a PostgreSQL store, version after version.

Every version that was ever published stays in this list. Logs that a newer Harness has written are not
touched: an error says to update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

from harness.errors import StoreError

if TYPE_CHECKING:
    from psycopg import Connection

LOGS: LiteralString = """
CREATE TABLE harness_logs (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log_id text NOT NULL UNIQUE,
    kind text NOT NULL,
    resource_id text NOT NULL,
    heading text NOT NULL,
    metadata bytea NOT NULL,
    saved_ms bigint NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false,
    parent integer REFERENCES harness_logs,
    fork_seq bigint NOT NULL DEFAULT 0,
    next_seq bigint NOT NULL,
    event_ms bigint NOT NULL DEFAULT 0,
    digest bytea NOT NULL,
    epoch bigint NOT NULL DEFAULT 1,
    writer text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX harness_logs_of_parents ON harness_logs (parent) WHERE parent IS NOT NULL;
CREATE TABLE harness_events (
    log integer NOT NULL, seq bigint NOT NULL, line bytea NOT NULL, PRIMARY KEY (log, seq)
);
"""
"""`epoch` counts the writers that have held the lock: one of an older epoch has lost it and may write no more."""

KNOWLEDGE: LiteralString = """
CREATE TABLE harness_starts (
    log integer NOT NULL, seq bigint NOT NULL, known_seq bigint NOT NULL, PRIMARY KEY (log, known_seq)
);
CREATE TABLE harness_texts (log integer NOT NULL, text text NOT NULL);
CREATE INDEX harness_texts_of_logs ON harness_texts (log);
CREATE TABLE harness_snapshots (
    log integer NOT NULL, name text NOT NULL, seq bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (log, name)
);
"""

COMMANDS: LiteralString = """
CREATE TABLE harness_commands (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    log integer NOT NULL,
    key text NOT NULL UNIQUE,
    asked_by text NOT NULL,
    command bytea NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    seen_seq bigint,
    taken_by text,
    taken_epoch bigint,
    taken_seq bigint,
    result bytea
);
CREATE INDEX harness_commands_of_logs ON harness_commands (log);
"""
"""What a server asks of the one that has a log open. `taken_epoch` and `taken_seq` are those of the log when it was
taken; `seen_seq` is the `taken_seq` of an earlier taker that died before it answered.
"""

MIGRATIONS: tuple[LiteralString, ...] = (LOGS, KNOWLEDGE, COMMANDS)
VERSION = len(MIGRATIONS)
TABLES: tuple[LiteralString, ...] = (
    "harness_events",
    "harness_starts",
    "harness_texts",
    "harness_snapshots",
    "harness_commands",
)
"""Those whose rows go with their log."""
_ONE_AT_A_TIME = 0x4841524E


def prepare(connection: Connection[Any]) -> None:
    """Bring the database to the current version. Raises StoreError, psycopg.Error."""
    if _version(connection) == VERSION:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
        connection.execute("CREATE TABLE IF NOT EXISTS harness_schema (version integer NOT NULL)")
        version = _version(connection)
        if version > VERSION:
            raise StoreError(
                f"this database was written by a newer Harness (its version is {version}, ours {VERSION})",
                hint="update harness, or use another database",
            )
        for script in MIGRATIONS[version:]:
            connection.execute(script)
        connection.execute("DELETE FROM harness_schema")
        connection.execute("INSERT INTO harness_schema VALUES (%s)", (VERSION,))


def _version(connection: Connection[Any]) -> int:
    (exists,) = connection.execute("SELECT to_regclass('harness_schema') IS NOT NULL").fetchone() or (False,)
    row = connection.execute("SELECT max(version) FROM harness_schema").fetchone() if exists else None
    return int(row[0]) if row and row[0] is not None else 0
