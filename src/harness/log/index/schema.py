"""The tables of the index, version after version.

Every version that was ever published stays in this list, so that an index of any of them becomes a current
one. An index that a newer Harness made is not read: it is deleted and rebuilt.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress

LISTS_AND_STARTS = """
CREATE TABLE logs (
    number INTEGER PRIMARY KEY,
    log_id TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    updated_ms INTEGER NOT NULL,
    is_deleted INTEGER NOT NULL,
    heading TEXT NOT NULL,
    metadata BLOB NOT NULL,
    sidecar_mark TEXT NOT NULL,
    inode INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    digest BLOB NOT NULL
);
CREATE TABLE starts (
    log INTEGER NOT NULL, seq INTEGER NOT NULL, known_seq INTEGER NOT NULL, PRIMARY KEY (log, known_seq, seq)
) WITHOUT ROWID;
CREATE TABLE places (
    log INTEGER NOT NULL, seq INTEGER NOT NULL, offset INTEGER NOT NULL, PRIMARY KEY (log, seq)
) WITHOUT ROWID;
CREATE TABLE texts (number INTEGER PRIMARY KEY, log INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX texts_of_logs ON texts (log);
CREATE TABLE snapshots (
    log INTEGER NOT NULL, name TEXT NOT NULL, seq INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (log, name)
) WITHOUT ROWID;
"""

SEARCH = """
CREATE VIRTUAL TABLE search USING fts5 (
    text, content='texts', content_rowid='number', tokenize='trigram', detail='none'
);
INSERT INTO search (search) VALUES ('rebuild');
"""
"""Finds three letters or more anywhere in a text. Where SQLite has no such table, `texts` itself is searched."""

SHORT_WAYS = """
ALTER TABLE logs ADD COLUMN is_active INTEGER NOT NULL DEFAULT 0;
ALTER TABLE texts ADD COLUMN is_heading INTEGER NOT NULL DEFAULT 0;
CREATE INDEX logs_in_order ON logs (updated_ms DESC, log_id DESC) WHERE NOT is_deleted;
CREATE INDEX logs_active ON logs (updated_ms DESC, log_id DESC) WHERE is_active AND NOT is_deleted;
CREATE INDEX headings ON texts (log) WHERE is_heading;
UPDATE logs SET sidecar_mark = '';
"""
"""Indexes for the order of lists, and texts besides messages that can be searched. The metadata of all known
logs are read again to fill them."""

OPERATIONS = """
CREATE TABLE operations (log INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX operations_of_logs ON operations (log);
ALTER TABLE logs ADD COLUMN knows_operations INTEGER NOT NULL DEFAULT 0;
"""
"""The commands that were run and the paths of files that were read or written; not of logs that an earlier version
has read."""

MIGRATIONS = (LISTS_AND_STARTS, SEARCH, SHORT_WAYS, OPERATIONS)
"""The first makes version 1 of an empty file."""
OPTIONAL = (SEARCH,)
VERSION = len(MIGRATIONS)


class Unusable(Exception):
    """The file is not an index that this version can read."""


class ClosedWhenUnused(sqlite3.Connection):
    """A connection that several objects read from, none of which can close it, or that is used until the program ends."""

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # in another thread; it is closed all the same
            self.close()


def prepare(connection: sqlite3.Connection) -> None:
    """Bring an index, or an empty file, to the current version. Raises Unusable, sqlite3.Error."""
    if _version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in _missing(_version(connection)):  # another process may have been faster
            _migrate(connection, script)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def has_search(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'search'").fetchall())


def _missing(version: int) -> tuple[str, ...]:
    if version > VERSION:
        raise Unusable(f"version {version}")
    return MIGRATIONS[version:]


def _migrate(connection: sqlite3.Connection, script: str) -> None:
    for statement in script.split(";"):  # executescript would end the transaction
        try:
            connection.execute(statement)
        except sqlite3.OperationalError as error:
            if script in OPTIONAL and str(error).startswith(
                ("no such module", "no such tokenizer", "unrecognized")
            ):
                return
            raise


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
