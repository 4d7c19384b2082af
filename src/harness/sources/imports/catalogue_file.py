"""The SQLite file of the catalogue: its tables, and how it is opened. It may be deleted at any time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable

import msgspec

from harness.events.usage import CLASSES
from harness.log.private_files import make_private_directory, open_private

_VERSION = 3
"""A file of another version is deleted and made anew."""
_TABLES = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    session_id TEXT NOT NULL,
    path TEXT NOT NULL,
    mark TEXT NOT NULL,
    changed_ms INTEGER NOT NULL,
    size INTEGER NOT NULL,
    cwd TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    title TEXT NOT NULL,
    is_child INTEGER NOT NULL,
    parent_id TEXT NOT NULL,
    gone_ms INTEGER NOT NULL DEFAULT 0,
    read_mark TEXT NOT NULL DEFAULT '',
    prompt TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    runs INTEGER NOT NULL DEFAULT 0,
    ended_ms INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, session_id)
);
CREATE INDEX sessions_in_order ON sessions (changed_ms DESC, number DESC);
CREATE TABLE states (session INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE models (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE calls (
    key INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    run INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    model INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    reasoning INTEGER,
    cost_usd REAL
);
CREATE TABLE used (
    session INTEGER NOT NULL,
    run INTEGER NOT NULL,
    quarter INTEGER NOT NULL,
    model INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    input INTEGER,
    output INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    reasoning INTEGER,
    cost_usd REAL,
    PRIMARY KEY (session, run, quarter, model)
) WITHOUT ROWID;
CREATE TABLE documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    file TEXT NOT NULL,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    commands TEXT NOT NULL,
    files TEXT NOT NULL,
    commits TEXT NOT NULL,
    characters INTEGER NOT NULL
);
CREATE TABLE outdated (characters INTEGER NOT NULL);
CREATE INDEX documents_of_sessions ON documents (session);
CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', detail = 'none', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab ('words', 'row')
"""
"""`calls`: the model calls that several sessions may have copies of, so that each counts once; `key` is a hash.
`used`: what was used, per session, run, quarter of an hour and model. `words`: in which documents a word is; the texts
themselves stay in the stores. Words of documents that are gone stay there, so a number is never used again; `outdated`
says how much that is."""
COUNTS = (*CLASSES, "cost_usd")
"""The columns of what was used."""
_MOST_OUTDATED = 50_000_000
_SETTINGS = ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY", "cache_size = -32000")
"""The cache holds what one transaction changes: keys of calls fall on pages all over the table."""
_PATIENCE_S = 5.0
"""How long another process is waited for."""


def connected(path: str) -> sqlite3.Connection:
    """The file of this version; a broken one is replaced, and where none can be made, or named, it is in memory."""
    if not path:
        return in_memory()
    for _attempt in range(2):
        try:
            return _opened(path)
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, (OSError, sqlite3.OperationalError)):
                break
            _delete(path)
    return in_memory()


def as_json(values: Iterable[int | str]) -> str:
    """A list for `json_each`. What no id can be, such as half a character of a file's name, matches none."""
    whole = [
        value if isinstance(value, int) else value.encode("utf-8", "replace").decode() for value in values
    ]
    return msgspec.json.encode(whole).decode()


def in_memory() -> sqlite3.Connection:
    return _prepared(sqlite3.connect(":memory:"))


def _delete(path: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)


def _opened(path: str) -> sqlite3.Connection:
    make_private_directory(os.path.dirname(path))
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    connection = sqlite3.connect(path, timeout=_PATIENCE_S)
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}").fetchall()
        return _prepared(connection)
    except BaseException:
        connection.close()
        raise


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        return connection
    with connection:
        clear(connection)
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    return connection


def clear(connection: sqlite3.Connection) -> None:
    """Search tables first: they drop tables of their own."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE {}TABLE%' AND name NOT LIKE 'sqlite_%'"
    for kind in ("VIRTUAL ", ""):
        for (name,) in connection.execute(tables.format(kind)).fetchall():
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')


_FORGET = """
INSERT INTO words (words) VALUES ('delete-all');
DELETE FROM states;
DELETE FROM calls;
DELETE FROM used;
DELETE FROM documents;
DELETE FROM outdated;
UPDATE sessions SET read_mark = '' WHERE NOT gone_ms
"""


def is_wasteful(connection: sqlite3.Connection) -> bool:
    """Whether most of the search table is about documents that are gone."""
    (gone,) = connection.execute("SELECT coalesce(sum(characters), 0) FROM outdated").fetchone()
    if gone < _MOST_OUTDATED:
        return False
    (there,) = connection.execute("SELECT coalesce(sum(characters), 0) FROM documents").fetchone()
    return bool(gone > there)


def forget_readings(connection: sqlite3.Connection) -> None:
    """As if no session had been read."""
    with connection:
        for statement in _FORGET.split(";"):
            connection.execute(statement)
