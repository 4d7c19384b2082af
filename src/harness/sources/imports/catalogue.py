"""The catalogue of all histories: which sessions are there, and what is known of those that were read.

It is a cache: a SQLite file that may be deleted at any time. `refresh` looks for sessions without reading them, which
takes milliseconds; `read` reads those that have changed since. A session that its agent has deleted stays known.
"""

# ruff: noqa: S608 nothing but names of our own is put into a statement
from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from harness.events import Usage
from harness.log.private_files import make_private_directory, open_private
from harness.sources.imports.history import AgentHistory, Home, StoredSession
from harness.sources.imports.summary import SessionSummary, summarize

_VERSION = 1
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
CREATE TABLE used (
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    session INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    model TEXT NOT NULL,
    usage BLOB NOT NULL,
    PRIMARY KEY (agent, key)
) WITHOUT ROWID;
CREATE INDEX used_by_sessions ON used (session);
"""
_FOUND = ("path", "mark", "changed_ms", "size")
"""What each search for sessions says anew."""
_PERHAPS_FOUND = {"cwd": "''", "started_ms": "0", "title": "''"}
"""The same, where a search says it; else it has this value, and what is known stays."""
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
"""What reading a session says."""
_SESSIONS_IN_A_BATCH = 50
_PATIENCE_S = 5.0
"""How long another process is waited for."""


class CataloguedSession(msgspec.Struct, frozen=True, gc=False):
    """A session as the catalogue has it: a row of the table."""

    number: int
    agent: str
    session_id: str
    path: str
    mark: str
    changed_ms: int
    size: int
    cwd: str
    started_ms: int
    title: str
    is_child: int
    parent_id: str
    gone_ms: int
    """When it was first missing; 0 while it is there."""
    read_mark: str
    prompt: str
    model: str
    version: str
    outcome: str
    runs: int
    ended_ms: int

    @property
    def is_read(self) -> bool:
        """Whether it is known as it is now."""
        return self.read_mark == self.mark or bool(self.gone_ms)

    @property
    def is_empty(self) -> bool:
        """It was read, and nothing was ever asked in it."""
        return self.is_read and not self.runs

    @property
    def stored(self) -> StoredSession:
        return StoredSession(
            agent=self.agent,
            session_id=self.session_id,
            path=self.path,
            mark=self.mark,
            changed_ms=self.changed_ms,
            size=self.size,
            cwd=self.cwd,
            started_ms=self.started_ms,
            title=self.title,
            is_child=bool(self.is_child),
            parent_id=self.parent_id,
        )


class CataloguedUsage(NamedTuple):
    agent: str
    session_id: str
    cwd: str
    at_ms: int
    model: str
    usage: Usage


_decode_usage = msgspec.json.Decoder(Usage).decode


class Catalogue:
    """Contract: never changes a store. Where its own file cannot be used, it works in memory."""

    def __init__(self, path: str, histories: Sequence[AgentHistory]) -> None:
        self._histories = {history.agent: history for history in histories}
        self._connection = _connected(path)

    def close(self) -> None:
        self._connection.close()

    def refresh(self, home: Home) -> None:
        """Look for sessions in all stores. What is new or has changed is not read yet."""
        try:
            self._refresh(home)
        except sqlite3.Error:  # locked by another process for long, a full disk, damage
            self.close()
            self._connection = _prepared(sqlite3.connect(":memory:"))
            self._refresh(home)

    def _refresh(self, home: Home) -> None:
        known = {
            (agent, session_id): (number, mark, gone_ms)
            for number, agent, session_id, mark, gone_ms in self._connection.execute(
                "SELECT number, agent, session_id, mark, gone_ms FROM sessions"
            )
        }
        seen = set[tuple[str, str]]()
        new: list[StoredSession] = []
        for history in self._histories.values():
            for session in history.find(home):
                name = session.agent, session.session_id
                before = known.get(name)
                if name not in seen and (before is None or before[1:] != (session.mark, 0)):
                    new.append(session)
                seen.add(name)
        gone = [known[name][0] for name in known.keys() - seen if not known[name][2]]
        if new or gone:
            with self._connection:
                self._connection.executemany(_ENTER, (msgspec.structs.asdict(session) for session in new))
                now_ms = time.time_ns() // 1_000_000
                self._connection.executemany(
                    "UPDATE sessions SET gone_ms = ? WHERE number = ?", ((now_ms, number) for number in gone)
                )

    def projects(self) -> list[str]:
        """The directories in which sessions have worked."""
        return [
            cwd for (cwd,) in self._connection.execute("SELECT DISTINCT cwd FROM sessions WHERE cwd != ''")
        ]

    def sessions(self) -> list[CataloguedSession]:
        """All of them, the last changed first."""
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM sessions ORDER BY changed_ms DESC, number DESC"
        )
        return [CataloguedSession(*row) for row in rows]

    def read(
        self, sessions: Iterable[CataloguedSession], on_progress: Callable[[int], object] | None = None
    ) -> list[CataloguedSession]:
        """The same sessions, each as it is now. What was read so far stays read if this is interrupted."""
        found: list[CataloguedSession] = []
        unsaved: list[tuple[CataloguedSession, SessionSummary]] = []
        for session in sessions:
            history = self._histories.get(session.agent)
            if session.is_read or history is None:
                found.append(session)
                continue
            summary = summarize(history, session.stored)
            unsaved.append((session, summary))
            found.append(_with_summary(session, summary))
            if len(unsaved) >= _SESSIONS_IN_A_BATCH:
                self._save(unsaved)
                unsaved = []
            if on_progress is not None:
                on_progress(len(found))
        self._save(unsaved)
        return found

    def used(self) -> Iterator[CataloguedUsage]:
        """What was used, each model call once, as far as the sessions were read."""
        rows = self._connection.execute(
            "SELECT used.agent, session_id, sessions.cwd, at_ms, used.model, usage"
            " FROM used JOIN sessions ON session = number ORDER BY session, at_ms"
        )
        for agent, session_id, cwd, at_ms, model, usage in rows:
            yield CataloguedUsage(agent, session_id, cwd, at_ms, model, _decode_usage(usage))

    def _save(self, found: Sequence[tuple[CataloguedSession, SessionSummary]]) -> None:
        """What cannot be saved is read again next time."""
        with suppress(sqlite3.Error), self._connection:
            for session, summary in found:
                read = _with_summary(session, summary)
                values = [getattr(read, name) for name in _READ]
                self._connection.execute(_UPDATE, (*values, session.number))
                self._connection.execute("DELETE FROM used WHERE session = ?", (session.number,))
                self._connection.executemany(
                    "INSERT OR REPLACE INTO used VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        (session.agent, key, session.number, at_ms, model, msgspec.json.encode(usage))
                        for key, at_ms, model, usage in summary.used
                    ),
                )


_COLUMNS = ", ".join(CataloguedSession.__struct_fields__)
_NEW = StoredSession.__struct_fields__
_CHANGES = [
    "gone_ms = 0",
    *(f"{name} = excluded.{name}" for name in _FOUND),
    *(
        f"{name} = CASE excluded.{name} WHEN {unknown} THEN {name} ELSE excluded.{name} END"
        for name, unknown in _PERHAPS_FOUND.items()
    ),
]
_ENTER = (
    f"INSERT INTO sessions ({', '.join(_NEW)}) VALUES ({', '.join(f':{name}' for name in _NEW)})"
    f" ON CONFLICT (agent, session_id) DO UPDATE SET {', '.join(_CHANGES)}"
)
_UPDATE = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _READ)} WHERE number = ?"


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


def _connected(path: str) -> sqlite3.Connection:
    """The file of this version; a broken one is replaced, and where none can be made it is in memory."""
    for _attempt in range(2):
        try:
            return _opened(path)
        except (sqlite3.DatabaseError, OSError) as error:
            if isinstance(error, (OSError, sqlite3.OperationalError)):
                break
            for suffix in ("", "-wal", "-shm", "-journal"):
                if os.path.lexists(path + suffix):
                    os.unlink(path + suffix)
    return _prepared(sqlite3.connect(":memory:"))


def _opened(path: str) -> sqlite3.Connection:
    make_private_directory(os.path.dirname(path))
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    connection = sqlite3.connect(path, timeout=_PATIENCE_S)
    try:
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("PRAGMA synchronous = NORMAL")
        return _prepared(connection)
    except BaseException:
        connection.close()
        raise


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == _VERSION:
        return connection
    with connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            connection.execute(f'DROP TABLE "{name}"')
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    return connection
