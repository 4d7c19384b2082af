"""The catalogue of all histories: which sessions are there, and what is known of those that were read.

It is a cache: a SQLite file that may be deleted at any time. `refresh` looks for sessions without reading them, which
takes milliseconds; `read` reads those that have changed since. A session that its agent has deleted stays known.

Any number of processes may use it at once: what two of them have read of a session is entered once. Where the file is
found damaged, whatever asked raises `CatalogueDamaged`; after `rebuild` it can be asked again.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.
from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.histories.catalogue_filter import EVERYTHING, STARTED, SessionFilter
from harness.histories.catalogue_rows import (
    CATALOGUED_COLUMNS,
    IN_ORDER,
    CataloguedRun,
    CataloguedSession,
    catalogued,
)
from harness.histories.catalogue_writer import (
    TROUBLE,
    CatalogueWriter,
    as_json,
    connected,
    delete,
    forget_readings,
    in_memory,
    is_damage,
    is_wasteful,
    transaction,
)
from harness.log.codec import storable

if TYPE_CHECKING:
    from harness.contracts.reading import Reading, SessionSummary
    from harness.histories.catalogue_search import FoundSession, SessionSearch
    from harness.histories.catalogue_usage import CatalogueUsage

_FOUND = ("path", "mark", "changed_ms", "size")
"""The fields that every search for sessions finds."""
_PERHAPS_FOUND = {"cwd": "''", "started_ms": "0", "title": "''"}
"""The fields that some searches find; else they have this value, and the known one stays."""
_READ = (
    "read_mark",
    "title",
    "prompt",
    "model",
    "version",
    "outcome",
    "runs",
    "cwd",
    "started_ms",
    "ended_ms",
    "is_child",
    "parent_id",
)
"""The fields that are found by reading a session."""
_BYTES_IN_A_BATCH = 128 * 1024 * 1024
"""So much of the stores is read between two transactions."""


_WHOLE_BYTES = 1024 * 1024
"""The size that a document without a known one counts as."""
_ENTERED_AT_ONCE = 1_000


class CatalogueDamaged(Exception):
    """The file of the catalogue cannot be read: see `Catalogue.rebuild`."""


class SessionSums(NamedTuple):
    """Of many sessions, with those of sub-agents."""

    sessions: int
    sub_agents: int
    size: int
    oldest_ms: int | None
    """When the first of them began. None where there is none."""
    newest_ms: int | None
    """When the last of them has changed."""


class Catalogue:
    """Contract: never changes a store. Where its own file cannot be used, it works in memory."""

    def __init__(self, path: str, histories: Sequence[AgentHistory]) -> None:
        self._histories = {history.agent: history for history in histories}
        self._path = path
        self._connection = connected(path)
        self._inode = _inode_of(path)
        self._is_broken = False
        """Whether its file was found damaged, and not merely locked or on a full disk."""
        self._gives_back = False
        self._unsaved = ""
        """Why something that was read could not be entered; empty where all could."""
        self._is_rebuilt = False

    @property
    def usage(self) -> CatalogueUsage:
        from harness.histories.catalogue_usage import CatalogueUsage

        return CatalogueUsage(self.rows)

    def search(self, wish: SessionSearch, choice: SessionFilter = EVERYTHING) -> Iterator[FoundSession]:
        """The sessions that match, as far as they were read, the last changed first."""
        from harness.histories.catalogue_search import CatalogueSearch

        return CatalogueSearch(self.rows, self._histories).find(wish, choice)

    def close(self) -> None:
        self._connection.close()

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement that changes nothing finds. Raises CatalogueDamaged."""
        with self._damage_noticed():
            return self._connection.execute(statement, values).fetchall()

    def rebuild(self, home: Home) -> None:
        """Replace the file, and read all sessions again, as if nothing had ever been read. What is damaged again, or
        cannot be used for another reason, is not used any more.
        """
        self.close()
        is_damaged, self._is_broken = self._is_broken and not self._is_rebuilt, False
        if is_damaged and self._inode == _inode_of(self._path):  # else another process has done it
            with suppress(OSError):
                delete(self._path)
        self._connection = connected(self._path) if is_damaged else in_memory()
        self._inode = _inode_of(self._path) if is_damaged else 0
        self._is_rebuilt = True
        self.refresh(home)
        self.read_each(SessionFilter(only_unread=True))

    def refresh(self, home: Home) -> None:
        """Look for sessions in all stores. What is new or has changed is not read yet. Raises CatalogueDamaged."""
        try:
            self._tidy()
            self._refresh(home)
        except TROUBLE as error:
            if is_damage(error) and self._inode:
                self._is_broken = True
                raise CatalogueDamaged(str(error)) from error
            self.close()  # locked by another process for long, a full disk
            self._connection, self._inode = in_memory(), 0
            self._refresh(home)

    def _refresh(self, home: Home) -> None:
        new: list[StoredSession] = []
        now_ms = time.time_ns() // 1_000_000
        for agent, history in self._histories.items():
            marks: dict[str, str] = dict(self._connection.execute(_MARKS, (agent,)))
            session_ids = set[str]()
            for session in history.find(home):
                session_id = session.session_id
                if marks.get(session_id) != session.mark and session_id not in session_ids:
                    new.append(session)
                session_ids.add(session_id)
                if len(new) >= _ENTERED_AT_ONCE:
                    self._enter(new, [])
                    new = []
            missing = [(now_ms, agent, session_id) for session_id in marks if session_id not in session_ids]
            if missing and self._is_unreadable(history, home):
                missing = []  # nothing can be said of what a store that cannot be read has
            self._enter(new, missing)
            new = []

    def _enter(self, new: Iterable[StoredSession], missing: Sequence[tuple[int, str, str]]) -> None:
        rows = [_entry_of(session) for session in new]
        if rows or missing:
            with transaction(self._connection):
                self._connection.executemany(_ENTER, rows)
                self._connection.executemany(_MISSING, missing)

    @staticmethod
    def _is_unreadable(history: AgentHistory, home: Home) -> bool:
        return history.problem is not None and bool(history.problem(home))

    def projects(self) -> list[str]:
        """The directories in which sessions have worked."""
        return [cwd for (cwd,) in self.rows("SELECT DISTINCT cwd FROM sessions WHERE cwd != ''")]

    def names(self) -> dict[tuple[str, str], int]:
        """Agent and id of all sessions, and their numbers."""
        return {
            (agent, session_id): number
            for agent, session_id, number in self.rows("SELECT agent, session_id, number FROM sessions")
        }

    def runs(self, numbers: Iterable[int]) -> dict[int, list[CataloguedRun]]:
        """The runs of these sessions, as far as they were read, by the number of the session."""
        runs: dict[int, list[CataloguedRun]] = {}
        for row in self.rows(_RUNS, (as_json(numbers),)):
            runs.setdefault(row[0], []).append(CataloguedRun(*row))
        return runs

    def copies(self) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Runs of two sessions that have model calls in common: the number of the session and of the run, twice."""
        return [(row[:2], row[2:]) for row in self.rows("SELECT session, run, other, other_run FROM copies")]

    def children(self, agents: Iterable[str]) -> list[CataloguedSession]:
        """The sessions of these agents' sub-agents."""
        return [catalogued(row) for row in self.rows(_CHILDREN, (as_json(agents),))]

    def similar_ids(self, session_ids: Iterable[str], length: int) -> list[str]:
        """The ids of all sessions that begin with the same characters as one of these."""
        beginnings = as_json(session_id[:length] for session_id in session_ids)
        return [session_id for (session_id,) in self.rows(_BEGIN_SO, (length, beginnings))]

    def sessions(self, choice: SessionFilter = EVERYTHING, limit: int = -1) -> list[CataloguedSession]:
        """The sessions that the filter selects, the last changed first."""
        condition, values = choice.condition()
        rows = self.rows(
            f"SELECT {CATALOGUED_COLUMNS} FROM sessions WHERE {condition}{IN_ORDER} LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [catalogued(row) for row in rows]

    def fingerprint(self) -> tuple[int, ...]:
        """Changes when a session is added, deleted, changed or read."""
        sums = ", ".join(f"total({name})" for name in ("changed_ms", "gone_ms", "ended_ms", "runs"))
        (row,) = self.rows(f"SELECT count(*), max(number), {sums} FROM sessions")  # noqa: S608
        return tuple(int(value or 0) for value in row)

    def count(self, choice: SessionFilter = EVERYTHING) -> int:
        condition, values = choice.condition()
        return int(self.rows(f"SELECT count(*) FROM sessions WHERE {condition}", values)[0][0])  # noqa: S608

    def sums(self, choice: SessionFilter = EVERYTHING) -> SessionSums:
        condition, values = choice.condition()
        sums = f"count(*), total(is_child), total(size), min({STARTED}), max(changed_ms)"
        (row,) = self.rows(f"SELECT {sums} FROM sessions WHERE {condition}", values)  # noqa: S608
        count, children, size, oldest_ms, newest_ms = row
        return SessionSums(count, int(children), int(size), oldest_ms, newest_ms)

    def named(self, session_id: str, agent: str = "") -> list[CataloguedSession]:
        """The session of that id, or else those whose ids begin so; of any agent, or of this one."""
        of_agent = "(? = '' OR agent = ?)"
        for condition in ("session_id = ?", "substr(session_id, 1, length(?)) = ?"):
            values = (session_id,) * condition.count("?")
            rows = self.rows(
                f"SELECT {CATALOGUED_COLUMNS} FROM sessions WHERE {condition} AND {of_agent}{IN_ORDER}",  # noqa: S608
                (*values, agent, agent),
            )
            if sessions := [catalogued(row) for row in rows]:
                return sessions
        return []

    def read(self, sessions: Iterable[CataloguedSession]) -> list[CataloguedSession]:
        """The same sessions, each as it is now. What was read so far stays read if this is interrupted.

        Raises CatalogueDamaged.
        """
        fresh: list[CataloguedSession] = []
        batch: _Batch | None = None
        with self._damage_noticed():
            for session in sessions:
                history = self._histories.get(session.agent)
                if session.is_read or history is None:
                    fresh.append(session)
                    continue
                batch = batch or _Batch(self._connection)
                fresh.append(batch.read(history, session))
            if batch is not None:
                batch.save()
                self._unsaved = batch.trouble or self._unsaved
                self._gives_back = batch.gives_back or self._gives_back
        if batch is not None:
            # Else every later process would go through the journal when it opens the file.
            with suppress(*TROUBLE):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return fresh

    def read_each(self, choice: SessionFilter) -> None:
        """Read all that the filter selects, a few at a time. Raises CatalogueDamaged, also where the file is locked by
        another process for long, or its disk is full: sums would lack what was read and is not in it.
        """
        behind, self._unsaved = choice, ""
        while part := self.sessions(behind, _ENTERED_AT_ONCE):
            behind = msgspec.structs.replace(choice, behind=(part[-1].changed_ms, part[-1].number))
            self.read(part)
        if self._gives_back:
            self._gives_back = False
            self.read_each(SessionFilter(only_unread=True))
        if self._unsaved and self.count(choice):
            self._is_broken = False
            raise CatalogueDamaged(self._unsaved)

    @contextmanager
    def _damage_noticed(self) -> Iterator[None]:
        try:
            yield
        except TROUBLE as error:
            self._is_broken = is_damage(error)
            raise CatalogueDamaged(str(error)) from error

    def _tidy(self) -> None:
        if is_wasteful(self._connection):
            forget_readings(self._connection)


def _inode_of(path: str) -> int:
    try:
        return os.stat(path).st_ino if path else 0
    except OSError:
        return 0


class _ReadPart(NamedTuple):
    session: CataloguedSession
    reading: Reading
    readings: int
    """How many there must be of it, so that this one may be entered."""
    is_last: bool


class _Batch:
    """Readings that are saved together. What cannot be saved is read again next time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._writer = CatalogueWriter(connection)
        self._unsaved: list[_ReadPart] = []
        self._bytes = 0
        self.gives_back = False
        """Whether sessions that were read before have to be read again."""
        self.trouble = ""
        """Why something was not saved."""

    def read(self, history: AgentHistory, session: CataloguedSession) -> CataloguedSession:
        # Imported when a session is read: a list of sessions that are known needs none of it.
        from harness.histories.summary import readings

        count, state = self._writer.state(session.number)
        before, whole = None, session
        for reading in readings(history, session.stored, state):
            if before is not None:
                self._add(session, before, count)
                count += 1
            before, whole = reading, _with_summary(session, reading.summary)
        if before is not None:
            self._add(whole, before, count)
        return whole

    def _add(self, session: CataloguedSession, reading: Reading, count: int) -> None:
        """A session whose mark is not that of its last reading counts as unread."""
        self._unsaved.append(_ReadPart(session, reading, count, session.is_read))
        self._bytes += sum(document.end - document.start or _WHOLE_BYTES for document in reading.documents)
        if self._bytes >= _BYTES_IN_A_BATCH:
            self.save()

    def save(self) -> None:
        """Raises one of `TROUBLE` where the file is damaged."""
        unsaved, self._unsaved, self._bytes = self._unsaved, [], 0
        if not unsaved:
            return
        try:
            with transaction(self._connection):
                for part in unsaved:
                    self._enter(part)
        except TROUBLE as error:
            if is_damage(error):
                raise
            self.trouble = str(error)

    def _enter(self, part: _ReadPart) -> None:
        session = part.session
        if not self._writer.take(session, part.readings):
            return  # another process has read it meanwhile
        self._writer.add(session.number, session.agent, part.reading)
        if part.is_last:
            values = [getattr(session, name) for name in _READ]
            self._connection.execute(_UPDATE, (*values, session.number))
            self.gives_back = self._writer.give_back(session.number) or self.gives_back


_NEW = StoredSession.__struct_fields__
_CHANGES = [
    "gone_ms = 0",
    "read_mark = CASE gone_ms WHEN 0 THEN read_mark ELSE '' END",
    *(f"{name} = excluded.{name}" for name in _FOUND),
    *(
        f"{name} = CASE excluded.{name} WHEN {unknown} THEN {name} ELSE excluded.{name} END"
        for name, unknown in _PERHAPS_FOUND.items()
    ),
]
_ENTER = (
    f"INSERT INTO sessions ({', '.join(_NEW)}) VALUES ({', '.join(f':{name}' for name in _NEW)})"  # noqa: S608
    f" ON CONFLICT (agent, session_id) DO UPDATE SET {', '.join(_CHANGES)}"
)
_MARKS = "SELECT session_id, mark FROM sessions WHERE agent = ? AND NOT gone_ms"
_BEGIN_SO = (
    "SELECT session_id FROM sessions WHERE substr(session_id, 1, ?) IN (SELECT value FROM json_each(?))"
)
_RUNS = (
    "SELECT session, run, started_ms, prompt FROM runs WHERE session IN (SELECT value FROM json_each(?))"
    " ORDER BY session, run"
)
_CHILDREN = (
    f"SELECT {CATALOGUED_COLUMNS} FROM sessions WHERE is_child AND agent IN (SELECT value FROM json_each(?))"  # noqa: S608
)
_MISSING = "UPDATE sessions SET gone_ms = ? WHERE agent = ? AND session_id = ?"
_UPDATE = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _READ)} WHERE number = ?"  # noqa: S608


def _entry_of(session: StoredSession) -> dict[str, Any]:
    """Its row. A path that is no text is stored as its bytes; a title has no secrets, for it is often a prompt."""
    row: dict[str, Any] = storable(msgspec.structs.asdict(session))
    if row["path"] != session.path:
        row["path"] = os.fsencode(session.path)
    if session.title:
        from harness.contracts.reading import masked

        row["title"] = masked(row["title"])
    return row


def _with_summary(session: CataloguedSession, summary: SessionSummary) -> CataloguedSession:
    return msgspec.structs.replace(
        session,
        read_mark=session.mark,
        title=summary.title or session.title,
        prompt=summary.prompt,
        model=summary.model,
        version=summary.version,
        outcome=summary.outcome,
        runs=summary.runs,
        cwd=summary.cwd or session.cwd,
        started_ms=summary.started_ms or session.started_ms,
        ended_ms=summary.ended_ms,
        is_child=int(session.is_child or bool(summary.parent_id)),
        parent_id=summary.parent_id or session.parent_id,
    )
