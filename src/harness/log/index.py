"""The index of a folder of logs: lists, search, usage, starts of messages, snapshots.

It knows nothing that is not in the files, but for snapshots, which are a cache anyway. Whoever asks first
brings it up to date: of each log that has grown, only what is new is read, and logs are entered in batches.
Several processes may fill it at once: what another one entered meanwhile is left as it is.
"""

# ruff: noqa: S608 nothing but names of our own is put into a statement
from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from harness.log.digest import Digest
from harness.log.event_file import Place
from harness.log.forks import Stretch
from harness.log.index_scan import Addition, Found, Rewritten, look, read_metadata, read_new, scan
from harness.log.index_schema import has_search, prepare
from harness.log.selection import heading, latest, select, words_of
from harness.log.store import Metadata, Query

_LOGS_IN_A_BATCH = 100
_BYTES_IN_A_BATCH = 16 * 1024 * 1024
_BETWEEN_PLACES_BYTES = 512 * 1024
_SHORTEST_INDEXED = 3
_ACTIVE = (
    "(json_extract(CAST(metadata AS TEXT), '$.activity') IS NOT NULL"
    " OR coalesce(json_extract(CAST(metadata AS TEXT), '$.outcome'), kind) IN ('run', 'suspended'))"
)
"""What `is_active` says, as far as it can be said without reading everything: defaults are not written."""


class _Row(NamedTuple):
    """What the index knows of a log, as far as it is needed to see what is new."""

    number: int
    created_ms: int
    sidecar_mark: str
    inode: int
    read_bytes: int


class _Change(NamedTuple):
    """A log whose files say more than the index."""

    found: Found
    row: _Row | None
    metadata: Metadata
    is_same: bool
    """The log that is known, grown or renamed; not another one under its id."""
    addition: Addition


class Index:
    """Contract: the files are never changed; the caller keeps threads apart."""

    def __init__(self, path: str, directory: str) -> None:
        self._directory = directory
        self._connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            for setting in ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY"):
                self._connection.execute(f"PRAGMA {setting}").fetchall()
            prepare(self._connection)
            self._has_search = has_search(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def refresh(self, log_ids: Sequence[str] | None = None) -> None:
        """Read what is new in these logs, or in all."""
        rows = self._rows(log_ids)
        if log_ids is None:
            there = scan(self._directory)
        else:
            there = {log_id: found for log_id in log_ids if (found := look(self._directory, log_id))}
        batch: list[_Change] = []
        size = 0
        for log_id, found in there.items():
            row = rows.pop(log_id, None)
            if row is not None and (row.sidecar_mark, row.inode, row.read_bytes) == (
                found.sidecar_mark,
                found.inode,
                found.size,
            ):
                continue
            if (change := self._change(found, row)) is not None:
                batch.append(change)
                size += found.size - (row.read_bytes if row else 0)
            if len(batch) >= _LOGS_IN_A_BATCH or size >= _BYTES_IN_A_BATCH:
                self._enter(batch, ())
                batch, size = [], 0
        gone = [row.number for row in rows.values()]
        if batch or gone:
            self._enter(batch, gone)

    def clear(self) -> None:
        with _Transaction(self._connection):
            for number, *_ in self._connection.execute("SELECT number FROM logs").fetchall():
                self._remove(number)

    def find(self, query: Query, is_live: Callable[[str], bool]) -> list[Metadata]:
        conditions, values = ["NOT is_deleted"], list[Any]()
        for column, value in (("kind", query.kind), ("resource_id", query.resource_id)):
            if value is not None:
                conditions.append(f"{column} = ?")
                values.append(value)
        if query.active:
            conditions.append(_ACTIVE)
        wanted = self._mentioning(words_of(query))
        rows = self._connection.execute(
            f"SELECT number, metadata, updated_ms FROM logs WHERE {' AND '.join(conditions)}"
            " ORDER BY updated_ms DESC, log_id DESC",
            values,
        )
        found = (
            latest(msgspec.json.decode(metadata, type=Metadata), updated_ms)
            for number, metadata, updated_ms in rows
            if wanted is None or number in wanted
        )
        return select(found, query, is_live)

    def resource_ids(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT resource_id FROM logs WHERE resource_id != '' AND NOT is_deleted"
        )
        return sorted(resource_id for (resource_id,) in rows)

    def digest(self, log_id: str) -> Digest:
        rows = self._connection.execute("SELECT digest FROM logs WHERE log_id = ?", (log_id,))
        return next((msgspec.json.decode(data, type=Digest) for (data,) in rows), Digest())

    def starts(self, part: Stretch, limit: int) -> list[int]:
        rows = self._connection.execute(
            "SELECT seq FROM starts WHERE log = (SELECT number FROM logs WHERE log_id = ?) AND known_seq < ?"
            " ORDER BY known_seq DESC LIMIT ?",
            (part.log_id, 2**63 - 1 if part.end is None else part.end, limit),
        )
        return [seq for (seq,) in rows][::-1]

    def place(self, log_id: str, cursor: int) -> Place | None:
        rows = self._connection.execute(
            "SELECT seq, offset FROM places WHERE log = (SELECT number FROM logs WHERE log_id = ?) AND seq <= ?"
            " ORDER BY seq DESC LIMIT 1",
            (log_id, cursor),
        )
        return next((Place(seq, offset) for seq, offset in rows), None)

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

    def save_snapshot(self, log_id: str, name: str, seq: int, data: bytes) -> None:
        with _Transaction(self._connection):
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

    def _change(self, found: Found, row: _Row | None) -> _Change | None:
        metadata = read_metadata(found)
        is_same = (
            row is not None
            and (row.created_ms, row.inode) == (metadata.created_ms, found.inode)
            and row.read_bytes <= found.size
        )
        base = 0 if metadata.fork is None else metadata.fork.seq
        empty = Digest(next_seq=base, answer_seq=base)
        try:
            if row is not None and is_same:
                try:
                    addition = read_new(found, self.digest(found.log_id), row.read_bytes)
                    return _Change(found, row, metadata, True, addition)
                except Rewritten:
                    pass
            return _Change(found, row, metadata, False, read_new(found, empty, 0))
        except OSError:  # it was deleted meanwhile, or may not be read
            return None

    def _enter(self, changes: Sequence[_Change], gone: Iterable[int]) -> None:
        with _Transaction(self._connection):
            known = self._rows([change.found.log_id for change in changes])
            for change in changes:
                if known.get(change.found.log_id) == change.row:
                    self._write(change)
            for number in gone:
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
            "heading": heading(metadata),
            "metadata": msgspec.json.encode(metadata),
            "sidecar_mark": found.sidecar_mark,
            "inode": found.inode,
            "read_bytes": addition.read_bytes,
            "digest": msgspec.json.encode(addition.digest),
        }
        number = row.number if row is not None and is_same else None
        cursor = self._connection.execute(
            f"INSERT OR REPLACE INTO logs (number, {', '.join(values)}) VALUES (?{', ?' * len(values)})",
            (number, *values.values()),
        )
        log = cursor.lastrowid
        starts = ((log, start.seq, start.known_seq) for start in addition.gain.starts)
        self._connection.executemany("INSERT OR IGNORE INTO starts VALUES (?, ?, ?)", starts)
        self._connection.executemany(
            "INSERT OR IGNORE INTO places SELECT ?1, ?2, ?3"
            " WHERE NOT EXISTS (SELECT 1 FROM places WHERE log = ?1 AND offset > ?3 - ?4)",
            ((log, place.seq, place.offset, _BETWEEN_PLACES_BYTES) for place in addition.places),
        )
        for text in addition.gain.texts:
            entered = self._connection.execute(
                "INSERT INTO texts (log, text) VALUES (?, ?)", (log, text.text)
            )
            if self._has_search:
                self._connection.execute(
                    "INSERT INTO search (rowid, text) VALUES (?, ?)", (entered.lastrowid, text.text)
                )

    def _remove(self, number: int) -> None:
        if self._has_search:
            self._connection.execute(
                "INSERT INTO search (search, rowid, text) SELECT 'delete', number, text FROM texts WHERE log = ?",
                (number,),
            )
        for table in ("texts", "starts", "places", "snapshots"):
            self._connection.execute(f"DELETE FROM {table} WHERE log = ?", (number,))
        self._connection.execute("DELETE FROM logs WHERE number = ?", (number,))

    def _mentioning(self, words: Sequence[str]) -> set[int] | None:
        """The logs in which each of the words occurs; None when none is asked for."""
        if not words:
            return None
        return set.intersection(*(set(self._with_word(word)) for word in words))

    def _with_word(self, word: str) -> Iterator[int]:
        # The search table narrows it down, and takes some letters for others; `instr` decides.
        is_indexed = self._has_search and len(word) >= _SHORTEST_INDEXED
        narrowed = "number IN (SELECT rowid FROM search WHERE text LIKE ?2) AND" if is_indexed else ""
        rows = self._connection.execute(
            f"SELECT log FROM texts WHERE {narrowed} instr(text, ?1)"
            " UNION SELECT number FROM logs WHERE instr(heading, ?1)",
            (word, f"%{word}%") if is_indexed else (word,),
        )
        return (number for (number,) in rows)


class _Transaction:
    """All of it or nothing; whoever else writes waits."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:  # a full disk ends it by itself
            self._connection.execute("ROLLBACK")
