"""The index of a folder of logs: lists, search, usage, starts of messages, snapshots.

It holds nothing that is not in the files, apart from snapshots, which are a cache. The first request
brings it up to date: of each log that has grown, only what is new is read, and logs are entered in batches.
Several processes may fill it at once: what another one entered meanwhile is left as it is.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.log.event_file import LinePosition
from harness.log.forks import Stretch
from harness.log.index.scan import (
    Addition,
    FoundLog,
    Rewritten,
    look,
    read_metadata,
    read_new,
    scan,
)
from harness.log.index.schema import ClosedWhenUnused, has_search, prepare
from harness.log.log_summary import LogSummary
from harness.log.query import heading, is_active, is_sifted, latest, select, words_of
from harness.log.store import Metadata, Query

_LETTERS = 3
_MANY = 1_000
"""A word in more texts than this is frequent."""
_MOST_PIECES = 24
"""How many trigrams of a long word are used: they leave few texts, which are checked anyway."""


SAYS = "EXISTS (SELECT 1 FROM texts WHERE log = logs.number AND instr(text, ?)), "
"""Whether a log contains a word, as a column of a statement over logs."""


class TextSearch:
    """Which logs contain each of some words.

    The search table (trigrams) rules texts out at little cost. Whether a word itself is there is looked up only for
    the logs that are about to be shown. A word that very many texts contain rules out too little to be worth asking
    for: then the logs are looked at in their order until enough are found.

    `has_table`: whether this SQLite has search tables; without, every text is looked at.
    """

    def __init__(self, connection: sqlite3.Connection, *, has_table: bool) -> None:
        self._connection = connection
        self.has_table = has_table

    def candidates(self, words: Sequence[str]) -> set[int] | None:
        """The logs that may say all of these words; None: very many may."""
        log_ids: set[int] | None = None
        for word in words:
            if not self.has_table or len(word) < _LETTERS or "\0" in word:
                continue
            pieces = _pieces(word)
            if self._is_frequent(pieces):
                continue
            some = self._with_pieces(pieces)
            log_ids = some if log_ids is None else log_ids & some
        return log_ids

    def head(self, log: int, text: str) -> None:
        """What can be found of it besides its messages; instead of what it was before."""
        rows = self._connection.execute("SELECT text FROM texts WHERE log = ? AND is_heading", (log,))
        heads = [before for (before,) in rows]
        if heads == [text]:
            return
        if heads:
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
                "INSERT INTO search (search, rowid, text)"  # noqa: S608
                f" SELECT 'delete', number, text FROM texts WHERE {those}",
                (log,),
            )
        self._connection.execute(f"DELETE FROM texts WHERE {those}", (log,))  # noqa: S608

    def _is_frequent(self, piece: str) -> bool:
        count = "SELECT count(*) FROM (SELECT 1 FROM search WHERE search MATCH ? LIMIT ?)"
        return bool(self._connection.execute(count, (piece, _MANY + 1)).fetchone()[0] > _MANY)

    def _with_pieces(self, pieces: str) -> set[int]:
        rows = self._connection.execute(
            "SELECT DISTINCT log FROM texts WHERE number IN (SELECT rowid FROM search WHERE search MATCH ?)",
            (pieces,),
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


_LOGS_IN_A_BATCH = 100
_BYTES_IN_A_BATCH = 16 * 1024 * 1024
_BETWEEN_PLACES_BYTES = 512 * 1024
_FEW = 300
"""Logs that are looked at one by one, rather than all in their order."""
_SAMPLED = 200
"""Logs that are looked at to say how many there are in all."""


class _Row(NamedTuple):
    """What the index knows of a log, as far as it is needed to see what is new."""

    number: int
    created_ms: int
    sidecar_mark: str
    inode: int
    read_bytes: int


class _Change(NamedTuple):
    """A log whose files say more than the index."""

    found: FoundLog
    row: _Row | None
    metadata: Metadata
    is_same: bool
    """The log that is known, grown or renamed; not another one under its id."""
    addition: Addition


class Index:
    """Contract: never changes the files; the caller serializes access between threads."""

    def __init__(self, path: str, directory: str) -> None:
        self._directory = directory
        self._asked_for: tuple[tuple[str, ...], int, set[int] | None] = (), 0, None
        """The last words searched for, the data version then, and the logs that may contain them."""
        self._connection = sqlite3.connect(
            path, timeout=5, isolation_level=None, check_same_thread=False, factory=ClosedWhenUnused
        )
        try:
            for setting in ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY"):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
            prepare(self._connection)
            self._search = TextSearch(self._connection, has_table=has_search(self._connection))
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def refresh(self, log_ids: Sequence[str] | None = None) -> None:
        """Read what is new in these logs, or in all."""
        for _ in self.refreshing(log_ids):
            pass

    def refreshing(self, log_ids: Sequence[str] | None = None) -> Iterator[None]:
        """The same in steps, the last written first; between two of them the index may be asked."""
        rows = self._rows(log_ids)
        if log_ids is None:
            there = scan(self._directory)
        else:
            there = {log_id: log for log_id in log_ids if (log := look(self._directory, log_id))}
        deleted = [row.number for log_id, row in rows.items() if log_id not in there]
        new = [log for log_id, log in there.items() if not _is_known(log, rows.get(log_id))]
        new.sort(key=lambda log: log.written_ns, reverse=True)
        batch: list[_Change] = []
        size = 0
        for log in new:
            row = rows.get(log.log_id)
            if (change := self._change(log, row)) is not None:
                batch.append(change)
                size += log.size - (row.read_bytes if row else 0)
            if len(batch) >= _LOGS_IN_A_BATCH or size >= _BYTES_IN_A_BATCH:
                self._enter(batch, ())
                batch, size = [], 0
                yield
        if batch or deleted:
            self._enter(batch, deleted)

    def clear(self) -> None:
        with _Transaction(self._connection):
            for number, *_ in self._connection.execute("SELECT number FROM logs").fetchall():
                self._remove(number)

    def find(self, query: Query, is_live: Callable[[str], bool]) -> list[Metadata]:
        source, values = self._meant(query)
        is_cut = not is_sifted(query)
        rows = self._connection.execute(
            f"SELECT metadata, updated_ms FROM {source}{_IN_ORDER} LIMIT ? OFFSET ?",  # noqa: S608
            (*values, *((-1 if query.limit is None else query.limit, query.offset) if is_cut else (-1, 0))),
        )
        matches = map(_metadata, rows)
        return list(matches) if is_cut else select(matches, query, is_live)

    def total(self, query: Query) -> int:
        if is_sifted(query):
            return len(self.find(replace(query, limit=None, offset=0, live_first=False), lambda _: False))
        words = words_of(query)
        candidates = self._candidates(words)
        condition, values = _condition(query)
        if words and (candidates is None or len(candidates) <= _FEW):
            return self._about(query)
        return self._count(condition, values, candidates)

    def _about(self, query: Query) -> int:
        """How many fit; of very many only a sample is looked at, from which the rest is estimated."""
        condition, values = _condition(query)
        candidates = self._candidates(words := words_of(query))
        source, there = ("logs", values) if candidates is None else (_AMONG, [listed(candidates), *values])
        rows = self._connection.execute(
            f"SELECT {SAYS * len(words)}1 FROM {source} WHERE {condition}{_IN_ORDER} LIMIT ?",  # noqa: S608
            (*words, *there, _SAMPLED),
        ).fetchall()
        fitting = sum(map(all, rows))
        if len(rows) < _SAMPLED:
            return fitting
        return max(fitting, round(self._count(condition, values) * fitting / _SAMPLED))

    def _count(self, condition: str, values: Sequence[Any], candidates: set[int] | None = None) -> int:
        source, there = ("logs", values) if candidates is None else (_AMONG, [listed(candidates), *values])
        rows = self._connection.execute(f"SELECT count(*) FROM {source} WHERE {condition}", there)  # noqa: S608
        return int(rows.fetchone()[0])

    def _meant(self, query: Query) -> tuple[str, list[Any]]:
        """The logs that are asked for, as far as the tables can answer, for a statement."""
        words = words_of(query)
        candidates = self._candidates(words)
        condition, values = _condition(query)
        condition += "".join(f" AND {SAYS[:-2]}" for _ in words)
        values += words
        if candidates is None:
            return f"logs WHERE {condition}", values
        if len(candidates) <= _FEW:
            return f"{_AMONG} WHERE {condition}", [listed(candidates), *values]
        # In their order, so that one stops when enough are found.
        return (
            f"logs INDEXED BY logs_in_order WHERE number IN (SELECT value FROM json_each(?)) AND {condition}",  # noqa: S608
            [listed(candidates), *values],
        )

    def _candidates(self, words: Sequence[str]) -> set[int] | None:
        """What the search says, cached: a request for a page usually asks for the total too."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if self._asked_for[:2] != (tuple(words), version):
            self._asked_for = tuple(words), version, self._search.candidates(words)
        return self._asked_for[2]

    def logs_with(self, operation: str) -> set[str]:
        """The logs that may have run a command, or read or written a file, which contains this."""
        rows = self._connection.execute(
            "SELECT log_id FROM logs WHERE NOT knows_operations OR number IN"
            " (SELECT log FROM operations WHERE instr(text, ?))",
            (operation,),
        )
        return {log_id for (log_id,) in rows}

    def resource_ids(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT resource_id FROM logs WHERE resource_id != '' AND NOT is_deleted"
        )
        return sorted(resource_id for (resource_id,) in rows)

    def digest(self, log_id: str) -> LogSummary:
        rows = self._connection.execute("SELECT digest FROM logs WHERE log_id = ?", (log_id,))
        return next((msgspec.json.decode(data, type=LogSummary) for (data,) in rows), LogSummary())

    def starts(self, part: Stretch, limit: int) -> list[int]:
        rows = self._connection.execute(
            "SELECT seq FROM starts WHERE log = (SELECT number FROM logs WHERE log_id = ?) AND known_seq < ?"
            " ORDER BY known_seq DESC LIMIT ?",
            (part.log_id, 2**63 - 1 if part.end is None else part.end, limit),
        )
        return [seq for (seq,) in rows][::-1]

    def place(self, log_id: str, cursor: int) -> LinePosition | None:
        rows = self._connection.execute(
            "SELECT seq, offset FROM places WHERE log = (SELECT number FROM logs WHERE log_id = ?) AND seq <= ?"
            " ORDER BY seq DESC LIMIT 1",
            (log_id, cursor),
        )
        return next((LinePosition(seq, offset) for seq, offset in rows), None)

    def snapshot(self, parts: Sequence[Stretch], name: str) -> tuple[int, bytes] | None:
        for part in reversed(parts):
            rows = self._connection.execute(
                "SELECT seq, data FROM snapshots"
                " WHERE log = (SELECT number FROM logs WHERE log_id = ?) AND name = ? AND seq <= ?",
                (part.log_id, name, 2**63 - 1 if part.end is None else part.end),
            ).fetchall()
            if rows:
                seq, data = rows[0]
                return seq, data
        return None

    def snapshots(self, name: str) -> dict[str, bytes]:
        """The snapshot of this name of each log, only its own."""
        rows = self._connection.execute(
            "SELECT log_id, data FROM snapshots JOIN logs ON log = number WHERE name = ?", (name,)
        )
        return dict(rows)

    def save_snapshots(self, name: str, snapshots: Iterable[tuple[str, int, bytes]]) -> None:
        with _Transaction(self._connection):
            for log_id, seq, data in snapshots:
                self._save_snapshot(log_id, name, seq, data)

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        self.save_snapshots(name, [(log_id, seq, data)])

    def _save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        self._connection.execute(
            "INSERT INTO snapshots SELECT number, ?, ?, ? FROM logs WHERE log_id = ?"
            " ON CONFLICT (log, name) DO UPDATE SET seq = excluded.seq, data = excluded.data"
            " WHERE excluded.seq >= seq",
            (name, seq, data, log_id),
        )

    def _rows(self, log_ids: Sequence[str] | None) -> dict[str, _Row]:
        columns = "SELECT log_id, number, created_ms, sidecar_mark, inode, read_bytes FROM logs"
        if log_ids is None:
            rows: Iterable[tuple[Any, ...]] = self._connection.execute(columns)
        else:
            places = ", ".join("?" * len(log_ids))
            rows = self._connection.execute(f"{columns} WHERE log_id IN ({places})", tuple(log_ids))
        return {log_id: _Row(*values) for log_id, *values in rows}

    def _change(self, log: FoundLog, row: _Row | None) -> _Change | None:
        metadata = read_metadata(log)
        is_same = (
            row is not None
            and (row.created_ms, row.inode) == (metadata.created_ms, log.inode)
            and row.read_bytes <= log.size
        )
        base = 0 if metadata.fork is None else metadata.fork.seq
        empty = LogSummary(next_seq=base, answer_seq=base)
        try:
            if row is not None and is_same:
                try:
                    addition = read_new(log, self.digest(log.log_id), row.read_bytes)
                    return _Change(log, row, metadata, True, addition)
                except Rewritten:
                    pass
            return _Change(log, row, metadata, False, read_new(log, empty, 0))
        except OSError:  # it was deleted meanwhile, or may not be read
            return None

    def _enter(self, changes: Sequence[_Change], deleted: Iterable[int]) -> None:
        self._asked_for = (), 0, None
        with _Transaction(self._connection):
            rows = self._rows([change.found.log_id for change in changes])
            for change in changes:
                if rows.get(change.found.log_id) == change.row:
                    self._write(change)
            for number in deleted:
                self._remove(number)

    def _write(self, change: _Change) -> None:
        found, row, metadata, is_same, addition = change
        if row is not None and not is_same:
            self._remove(row.number)
        values = {
            "log_id": found.log_id,
            "created_ms": metadata.created_ms,
            "kind": metadata.kind,
            "resource_id": metadata.resource_id,
            "updated_ms": max(metadata.updated_ms, addition.digest.updated_ms),
            "is_deleted": metadata.deleted,
            "is_active": is_active(metadata),
            "heading": heading(metadata),
            "metadata": msgspec.json.encode(metadata),
            "sidecar_mark": found.sidecar_mark,
            "inode": found.inode,
            "read_bytes": addition.read_bytes,
            "digest": msgspec.json.encode(addition.digest),
        }
        number = row.number if row is not None and is_same else None
        rows = self._connection.execute("SELECT knows_operations FROM logs WHERE number = ?", (number,))
        values["knows_operations"] = next((version for (version,) in rows), 1)
        cursor = self._connection.execute(
            f"INSERT OR REPLACE INTO logs (number, {', '.join(values)}) VALUES (?{', ?' * len(values)})",  # noqa: S608
            (number, *values.values()),
        )
        log = cursor.lastrowid
        starts = ((log, start.seq, start.known_seq) for start in addition.gain.starts)
        self._connection.executemany("INSERT OR IGNORE INTO starts VALUES (?, ?, ?)", starts)
        self._connection.executemany(
            "INSERT OR IGNORE INTO places SELECT ?, ?, ?"
            " WHERE NOT EXISTS (SELECT 1 FROM places WHERE log = ? AND offset > ?)",
            (
                (log, place.seq, place.offset, log, place.offset - _BETWEEN_PLACES_BYTES)
                for place in addition.places
            ),
        )
        assert log is not None, "a row has a number"
        self._search.head(log, heading(metadata))
        for text in addition.gain.texts:
            self._search.add(log, text.text)
        if addition.operations:
            joined = _BETWEEN.join(addition.operations)
            self._connection.execute("INSERT INTO operations VALUES (?, ?)", (log, joined))

    def _remove(self, number: int) -> None:
        self._search.remove(number)
        for table in ("starts", "places", "snapshots", "operations"):
            self._connection.execute(f"DELETE FROM {table} WHERE log = ?", (number,))  # noqa: S608
        self._connection.execute("DELETE FROM logs WHERE number = ?", (number,))


class _Transaction:
    """All of it or nothing; other writers wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:  # a full disk ends it by itself
            self._connection.execute("ROLLBACK")


_BETWEEN = "\x1e"
"""Between the operations of a log."""
_IN_ORDER = " ORDER BY updated_ms DESC, log_id DESC"
_AMONG = "json_each(?) CROSS JOIN logs ON number = value"


def _condition(query: Query) -> tuple[str, list[Any]]:
    """The part of a query that the table can answer; the rest is filtered in Python."""
    conditions, values = ["NOT is_deleted"], list[Any]()
    if query.active:
        conditions.append("is_active")
    for column, value in (("kind", query.kind), ("resource_id", query.resource_id)):
        if value is not None:
            conditions.append(f"{column} = ?")
            values.append(value)
    if query.excluding:
        conditions.append(f"log_id NOT IN ({', '.join('?' * len(query.excluding))})")
        values += query.excluding
    return " AND ".join(conditions), values


def _metadata(row: tuple[bytes, int]) -> Metadata:
    data, updated_ms = row
    return latest(msgspec.json.decode(data, type=Metadata), updated_ms)


def _is_known(log: FoundLog, row: _Row | None) -> bool:
    return row is not None and (row.sidecar_mark, row.inode, row.read_bytes) == (
        log.sidecar_mark,
        log.inode,
        log.size,
    )
