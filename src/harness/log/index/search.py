"""Searching the texts of an index: which logs say each of some words.

Three letters of a word that are not in a text rule it out; that is what the search table knows, at little cost. Whether
the word itself is there is looked up for those logs alone that are about to be shown. A word that very many texts have
rules out too little to be worth asking for: there one looks at the logs in their order until enough are found.
"""

# ruff: noqa: S608 nothing but words of our own is put into a statement
from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

_LETTERS = 3
_MANY = 1_000
"""Texts with a word: more, and the word is frequent."""
_MOST_PIECES = 24
"""Of a long word: they leave few texts, and what is left is looked at anyway."""


SAYS = "EXISTS (SELECT 1 FROM texts WHERE log = logs.number AND instr(text, ?)), "
"""Whether a log says a word, as a column of a statement over logs."""


class Search:
    """`has_table`: whether this SQLite has search tables; without, every text is looked at."""

    def __init__(self, connection: sqlite3.Connection, *, has_table: bool) -> None:
        self._connection = connection
        self.has_table = has_table

    def candidates(self, words: Sequence[str]) -> set[int] | None:
        """The logs that may say all of these words; None: very many may."""
        found: set[int] | None = None
        for word in words:
            if not self.has_table or len(word) < _LETTERS or "\0" in word:
                continue
            wanted = _pieces(word)
            if self._is_frequent(wanted):
                continue
            some = self._with_pieces(wanted)
            found = some if found is None else found & some
        return found

    def head(self, log: int, text: str) -> None:
        """What can be found of it besides its messages; instead of what it was before."""
        rows = self._connection.execute("SELECT text FROM texts WHERE log = ? AND is_heading", (log,))
        known = [before for (before,) in rows]
        if known == [text]:
            return
        if known:
            self.remove(log, only_heading=True)
        if text.strip():
            self.add(log, text, is_heading=True)

    def add(self, log: int, text: str, *, is_heading: bool = False) -> None:
        entered = self._connection.execute(
            "INSERT INTO texts (log, text, is_heading) VALUES (?, ?, ?)", (log, text, is_heading)
        )
        if self.has_table:
            self._connection.execute(
                "INSERT INTO search (rowid, text) VALUES (?, ?)", (entered.lastrowid, text)
            )

    def remove(self, log: int, *, only_heading: bool = False) -> None:
        those = "log = ? AND is_heading" if only_heading else "log = ?"
        if self.has_table:
            self._connection.execute(
                "INSERT INTO search (search, rowid, text)"
                f" SELECT 'delete', number, text FROM texts WHERE {those}",
                (log,),
            )
        self._connection.execute(f"DELETE FROM texts WHERE {those}", (log,))

    def _is_frequent(self, wanted: str) -> bool:
        count = "SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH ? LIMIT ?)"
        return bool(self._connection.execute(count, (wanted, _MANY + 1)).fetchone()[0] > _MANY)

    def _with_pieces(self, wanted: str) -> set[int]:
        rows = self._connection.execute(
            "SELECT DISTINCT log FROM texts WHERE number IN (SELECT rowid FROM search WHERE search MATCH ?)",
            (wanted,),
        )
        return {log for (log,) in rows}


def _pieces(word: str) -> str:
    """What the search table is asked for: every three letters that follow each other."""
    starts = range(len(word) - _LETTERS + 1)
    pieces = dict.fromkeys(word[start : start + _LETTERS].replace('"', '""') for start in starts)
    return " AND ".join(f'"{piece}"' for piece in list(pieces)[:_MOST_PIECES])


def listed(numbers: set[int]) -> str:
    """For `IN (SELECT value FROM json_each(?))`, however many they are."""
    return json.dumps(sorted(numbers))
