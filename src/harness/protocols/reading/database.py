"""SQLite databases of agents, read only, so that nothing is left in their folders.

A plain open would write the agent's journal into its database and delete it, and a copy of the file alone would lose it.
So a database with a journal is opened with `mode=ro`, and the shared memory of the journal is only read too. Where that
is missing, SQLite would make it: the database is then read from a copy with its journal, for as long as it is open,
unless it is very large and its folder may be written. One without a journal was closed by its agent, and `immutable=1`
makes no files for it. Each question is one short SELECT that is read to its end, so that no transaction stays open while
the agent works. Only tables that a store names are read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from harness.protocols.reading.store_files import look_at

_BUSY_TIMEOUT_S = 2.0
_LARGEST_COPY_BYTES = 128 * 1024 * 1024
_QUOTED = {ord(sign): f"%{ord(sign):02x}" for sign in "%?#"}
"""What would end the path in the address of a database."""


class StoreDatabase:
    """Contract: a question that cannot be answered now (busy, no such table or column) has no rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self.ask(statement, values)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            return []

    def ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Raises sqlite3.Error."""
        return self._connection.execute(statement, tuple(values)).fetchall()

    def columns(self, table: str) -> frozenset[str]:
        """The names of a table's columns: none where there is no such table."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", (table,)))


@contextmanager
def opened(path: str) -> Iterator[StoreDatabase | None]:
    """The database of that path; None where there is none that can be read."""
    with ExitStack() as stack:
        if _needs_a_copy(path):
            path = stack.enter_context(_copy_with_journal(path))
        connection = _connected(path) if path else None
        if connection is not None:
            stack.callback(connection.close)
        yield None if connection is None else StoreDatabase(connection)


def problem_of(path: str, tables: Mapping[str, Collection[str]]) -> str:
    """Why the tables of a database cannot be read; empty where they can, or where there is no database.

    `tables`: the columns that are needed of each.
    """
    if not os.path.lexists(path):
        return ""
    with opened(path) as database:
        if database is None:
            return f"{path} cannot be read"
        try:
            for table, columns in tables.items():
                database.ask(f"SELECT {', '.join(columns)} FROM {table} LIMIT 1")  # noqa: S608 names of ours
        except sqlite3.Error as error:
            if "locked" in str(error) or "busy" in str(error):
                return ""
            return f"{path} cannot be read: {error}"
    return ""


def mark_of(path: str) -> str:
    """Changes when the database or its journal is written."""
    files = (look_at(path), look_at(f"{path}-wal"))
    return " / ".join(file.mark for file in files if file is not None)


def _needs_a_copy(path: str) -> bool:
    """Whether SQLite would have to make the shared memory of a journal, and should not or may not."""
    database = look_at(path)
    if database is None or not _has_journal(path) or look_at(f"{path}-shm") is not None:
        return False
    is_small = database.size <= _LARGEST_COPY_BYTES
    return is_small or not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK)


def _has_journal(path: str) -> bool:
    """Whether something may not be in the database itself yet."""
    journals = (look_at(f"{path}-wal"), look_at(f"{path}-journal"))
    return any(journal is not None and journal.size for journal in journals)


@contextmanager
def _copy_with_journal(path: str) -> Iterator[str]:
    """The path of a copy that only we may read; empty where none can be made."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="harness-store-") as folder:
        copy = os.path.join(folder, "store.db")
        try:
            for suffix in ("", "-wal", "-journal"):
                if not suffix or look_at(f"{path}{suffix}") is not None:
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        except OSError:
            copy = ""
        yield copy


def _connected(path: str) -> sqlite3.Connection | None:
    if look_at(path) is None:
        return None
    is_open = look_at(f"{path}-shm") is not None
    how = "&readonly_shm=1" if is_open else "" if _has_journal(path) else "&immutable=1"
    place = f"file:{os.path.abspath(path).translate(_QUOTED)}?mode=ro{how}"
    try:
        connection = sqlite3.connect(place, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    except sqlite3.Error:
        return None
    try:
        connection.execute("PRAGMA query_only = 1").fetchall()
        connection.text_factory = _text
    except sqlite3.Error:
        connection.close()
        return None
    return connection


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
