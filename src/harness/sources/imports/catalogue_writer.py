"""What was read of a session, entered into the tables of the catalogue."""

# ruff: noqa: S608 nothing but names of our own is put into a statement
from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from harness.sources.imports.catalogue_file import COUNTS, as_json
from harness.sources.imports.summary import Document, Reading

QUARTER_MS = 900_000
"""A quarter of an hour: no time zone's day begins within one."""
_Counts: TypeAlias = tuple[float | None, ...]
_UsedKey: TypeAlias = tuple[int, int, int, int]
"""Session, run, quarter of an hour, model."""
_CALL = f"INSERT OR REPLACE INTO calls VALUES ({', '.join('?' * (5 + len(COUNTS)))})"
_NEW_CALL = _CALL.replace("REPLACE", "IGNORE")
_ADD = (
    f"INSERT INTO used VALUES ({', '.join('?' * (5 + len(COUNTS)))})"
    " ON CONFLICT (session, run, quarter, model) DO UPDATE SET at_ms = min(at_ms, excluded.at_ms), "
    + ", ".join(f"{name} = coalesce({name} + excluded.{name}, {name}, excluded.{name})" for name in COUNTS)
)
_DOCUMENT = (
    "INSERT INTO documents (session, file, start, end, at_ms, characters, commands, files, commits)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_IS_KNOWN = "SELECT " + " OR ".join(
    f"EXISTS (SELECT 1 FROM {table} WHERE session = ?)" for table in ("documents", "used", "states")
)
SEPARATOR = "\x1e"
"""Between the commands of a document, and between its files."""


class CatalogueWriter:
    """Contract: within a transaction of the caller."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._models: dict[str, int] = {}

    def add(self, session: int, agent: str, reading: Reading) -> None:
        if not reading.is_more:
            self._forget(session)
        for document in reading.documents:
            self._add_document(session, document)
        if reading.used:
            self._add_used(session, agent, reading)
        if reading.state:
            self._connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (session, reading.state))

    def state(self, session: int) -> bytes:
        rows = self._connection.execute("SELECT state FROM states WHERE session = ?", (session,))
        return next((bytes(state) for (state,) in rows), b"")

    def _forget(self, session: int) -> None:
        """The words of its documents stay in the search table, but lead to no document any more."""
        if not self._connection.execute(_IS_KNOWN, (session,) * 3).fetchone()[0]:
            return
        self._connection.execute(
            "INSERT INTO outdated SELECT sum(characters) FROM documents WHERE session = ? HAVING count(*)",
            (session,),
        )
        for table in ("documents", "used", "states"):
            cursor = self._connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
            if table == "used" and cursor.rowcount > 0:
                self._connection.execute("DELETE FROM calls WHERE session = ?", (session,))

    def _add_document(self, session: int, document: Document) -> None:
        if not (document.texts or document.commands or document.files or document.commits):
            return
        text = "\n".join(document.texts)
        values = (session, document.file, document.start, document.end, document.at_ms, len(text))
        lists = (document.commands, document.files, document.commits)
        cursor = self._connection.execute(_DOCUMENT, (*values, *map(SEPARATOR.join, lists)))
        self._connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (cursor.lastrowid, text))

    def _add_used(self, session: int, agent: str, reading: Reading) -> None:
        sums: dict[_UsedKey, list[_Counts]] = {}
        times: dict[_UsedKey, int] = {}
        calls: dict[int, tuple[Any, ...]] = {}
        for used in reading.used:
            key, run, at_ms, counts = used.key, used.run, used.at_ms, used.counts
            number = self._models.get(used.model) or self._model(used.model)
            where = (session, run, at_ms // QUARTER_MS, number)
            rows = sums.get(where)
            if rows is None:
                rows, times[where] = sums.setdefault(where, []), at_ms
            rows.append(counts)
            if key:
                name = _hash(f"{agent} {key}")
                known = calls.get(name)
                summed = counts if known is None else map(_plus, known[4:], counts)
                calls[name] = (session, run, at_ms, number, *summed)
        if calls:
            self._enter_calls(session, calls, sums, times, is_new=not reading.is_more)
        self._connection.executemany(
            _ADD,
            ((*where, times[where], *map(_total, zip(*rows, strict=True))) for where, rows in sums.items()),
        )

    def _enter_calls(
        self,
        session: int,
        calls: dict[int, tuple[Any, ...]],
        sums: dict[_UsedKey, list[_Counts]],
        times: dict[_UsedKey, int],
        *,
        is_new: bool,
    ) -> None:
        """Calls that are known already count where they were read last, with the last value.

        A session that is new has no calls of its own there: if all can be entered, none is known.
        """
        rows = [(key, *values) for key, values in calls.items()]
        if is_new and self._connection.executemany(_NEW_CALL, rows).rowcount == len(rows):
            return
        known = self._connection.execute(
            f"SELECT session, run, at_ms, model, {', '.join(COUNTS)} FROM calls"
            " WHERE key IN (SELECT value FROM json_each(?)) AND session != ?",
            (as_json(calls), session if is_new else -1),
        )
        for other, run, at_ms, model, *counts in known.fetchall():
            where = (other, run, at_ms // QUARTER_MS, model)
            times.setdefault(where, at_ms)
            sums.setdefault(where, []).append(tuple(None if count is None else -count for count in counts))
        self._connection.executemany(_CALL, rows)

    def _model(self, name: str) -> int:
        number = self._models.get(name)
        if number is None:
            self._connection.execute("INSERT OR IGNORE INTO models (name) VALUES (?)", (name,))
            rows = self._connection.execute("SELECT number FROM models WHERE name = ?", (name,))
            number = self._models[name] = int(rows.fetchone()[0])
        return number


def _plus(left: float | None, right: float | None) -> float | None:
    return right if left is None else left if right is None else left + right


def _total(counts: Sequence[float | None]) -> float | None:
    stated = [count for count in counts if count is not None]
    return sum(stated) if stated else None


def _hash(key: str) -> int:
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
