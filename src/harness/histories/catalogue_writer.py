"""The SQLite file of the catalogue: its tables, how it is opened, and how what was read of a session is entered.

The file may be deleted at any time.
"""

# Only names of our own are put into a statement; what comes from outside is a parameter.

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from harness.events.usage import CLASSES
from harness.log.index.schema import ClosedWhenUnused
from harness.log.private_files import make_private_directory, open_private

if TYPE_CHECKING:
    from harness.contracts.reading import Document, Reading, UsedTokens
    from harness.histories.catalogue_rows import CataloguedSession
_VERSION = 12
"""A file of another version is deleted and rebuilt."""
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
    readings INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, session_id)
);
CREATE INDEX sessions_in_order ON sessions (changed_ms DESC, number DESC);
CREATE TABLE states (session INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE runs (
    session INTEGER NOT NULL,
    run INTEGER NOT NULL,
    started_ms INTEGER NOT NULL,
    prompt INTEGER NOT NULL,
    PRIMARY KEY (session, run)
) WITHOUT ROWID;
CREATE TABLE models (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    speed TEXT NOT NULL,
    over INTEGER NOT NULL,
    has_cost INTEGER NOT NULL,
    UNIQUE (name, speed, over, has_cost)
);
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
    cache_write_1h INTEGER,
    cost_usd REAL
);
CREATE TABLE copies (
    session INTEGER NOT NULL,
    run INTEGER NOT NULL,
    other INTEGER NOT NULL,
    other_run INTEGER NOT NULL,
    PRIMARY KEY (session, run, other, other_run)
) WITHOUT ROWID;
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
    cache_write_1h INTEGER,
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
"""`readings` counts how often something was entered of a session: who has read it while another process entered it
enters nothing. `runs`: one for each prompt, which `prompt` is a hash of. `models`: with what changes their price, and whether the agent states it.
`calls`: the model calls that several sessions may have copies of, so that each counts once; `key` is a hash. `copies`:
runs of two sessions, a session and its fork, that have calls in common. `used`:
what was used, per session, run, quarter of an hour and model. `words`: in which documents a word is; the texts
themselves stay in the stores. Words of deleted documents stay there, so a number is never used again; `outdated` says
how much that is."""
COUNTS = (*CLASSES, "cache_write_1h", "cost_usd")
"""The columns of what was used."""
_MOST_OUTDATED = 50_000_000
_SETTINGS = ("journal_mode = WAL", "synchronous = NORMAL", "temp_store = MEMORY", "cache_size = -32000")
"""The cache holds what one transaction changes: keys of calls fall on pages all over the table."""
_BUSY_TIMEOUT_S = 5.0
"""How long to wait for another process that has it locked."""
_BROKEN = ("no such table", "no such column", "vtable constructor failed", "malformed", "has no column")
"""What a statement of ours fails with only where the tables are not ours any more."""


TROUBLE = (sqlite3.Error, UnicodeDecodeError)
"""What any statement may fail with: what SQLite says of broken tables quotes them, which may be no text."""


def connected(path: str) -> sqlite3.Connection:
    """The file of this version; a broken one is replaced, and where none can be made, or named, it is in memory."""
    if not path:
        return in_memory()
    for _attempt in range(2):
        try:
            return _opened(path)
        except (*TROUBLE, OSError) as error:
            if isinstance(error, OSError) or not is_damage(error):
                break
            delete(path)
    return in_memory()


def is_damage(error: Exception) -> bool:
    """Whether the file itself is broken; else it is locked, or the disk is full or may not be written."""
    if isinstance(error, UnicodeDecodeError):
        return True
    if isinstance(error, sqlite3.OperationalError):
        return any(words in str(error) for words in _BROKEN)
    return isinstance(error, sqlite3.DatabaseError)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One that nobody else can write in from its beginning on, statements that make tables included."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def as_json(values: Iterable[int | str]) -> str:
    """A list for `json_each`. What no id can be, such as half a character of a file's name, matches none."""
    whole = [
        value if isinstance(value, int) else value.encode("utf-8", "replace").decode() for value in values
    ]
    return msgspec.json.encode(whole).decode()


def in_memory() -> sqlite3.Connection:
    return _prepared(sqlite3.connect(":memory:", factory=ClosedWhenUnused))


def delete(path: str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(path + suffix):
            os.unlink(path + suffix)


def _opened(path: str) -> sqlite3.Connection:
    make_private_directory(os.path.dirname(path))
    os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, factory=ClosedWhenUnused)
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}").fetchall()
        return _prepared(connection)
    except BaseException:
        connection.close()
        raise


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.isolation_level = None  # only `transaction` begins one
    if _version(connection) == _VERSION:
        return connection
    with transaction(connection):
        if _version(connection) != _VERSION:  # no other process has made it meanwhile
            clear(connection)
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def clear(connection: sqlite3.Connection) -> None:
    """Search tables first: they drop tables of their own."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE {}TABLE%' AND name NOT LIKE 'sqlite_%'"
    for kind in ("VIRTUAL ", ""):
        for (name,) in connection.execute(tables.format(kind)).fetchall():
            connection.execute(f'DROP TABLE IF EXISTS "{name}"')


_FORGET = """
INSERT INTO words (words) VALUES ('delete-all');
DELETE FROM states;
DELETE FROM runs;
DELETE FROM calls;
DELETE FROM copies;
DELETE FROM used;
DELETE FROM documents;
DELETE FROM outdated;
UPDATE sessions SET read_mark = '', readings = readings + 1 WHERE NOT gone_ms
"""


def is_wasteful(connection: sqlite3.Connection) -> bool:
    """Whether most of the search table is about deleted documents."""
    (deleted,) = connection.execute("SELECT coalesce(sum(characters), 0) FROM outdated").fetchone()
    if deleted < _MOST_OUTDATED:
        return False
    (current,) = connection.execute("SELECT coalesce(sum(characters), 0) FROM documents").fetchone()
    return bool(deleted > current)


def forget_readings(connection: sqlite3.Connection) -> None:
    """As if no session had been read."""
    with transaction(connection):
        for statement in _FORGET.split(";"):
            connection.execute(statement)


QUARTER_MS = 900_000
"""A quarter of an hour: no time zone's day begins within one."""
_Counts: TypeAlias = tuple[float | None, ...]
_UsedKey: TypeAlias = tuple[int, int, int, int]
"""Session, run, quarter of an hour, model."""
_CALL = f"INSERT OR REPLACE INTO calls VALUES ({', '.join('?' * (5 + len(COUNTS)))})"  # noqa: S608
_NEW_CALL = _CALL.replace("REPLACE", "IGNORE")
_ADD = (
    f"INSERT INTO used VALUES ({', '.join('?' * (5 + len(COUNTS)))})"  # noqa: S608
    " ON CONFLICT (session, run, quarter, model) DO UPDATE SET at_ms = min(at_ms, excluded.at_ms), "
    + ", ".join(f"{name} = coalesce({name} + excluded.{name}, {name}, excluded.{name})" for name in COUNTS)
)
_NEW_MODEL = "INSERT OR IGNORE INTO models (name, speed, over, has_cost) VALUES (?, ?, ?, ?)"
_MODEL = "SELECT number FROM models WHERE name = ? AND speed = ? AND over = ? AND has_cost = ?"
_DOCUMENT = (
    "INSERT INTO documents (session, file, start, end, at_ms, characters, commands, files, commits)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_TABLES_OF_ONE = ("documents", "used", "states", "runs")
_IS_KNOWN = (
    f"SELECT {' OR '.join(f'EXISTS (SELECT 1 FROM {table} WHERE session = ?)' for table in _TABLES_OF_ONE)}"  # noqa: S608
)
_COMMON = "SELECT other FROM copies WHERE session = ? UNION SELECT session FROM copies WHERE other = ?"
_PARTNERS = (
    "SELECT run, other, other_run FROM copies WHERE session = ?"
    " UNION SELECT other_run, session, run FROM copies WHERE other = ?"
)
_LINK = "INSERT OR IGNORE INTO copies VALUES (?, ?, ?, ?)"
_OWN_CALLS = "SELECT * FROM calls WHERE session = ?"
_RUNS = "SELECT run, started_ms, prompt FROM runs WHERE session = ?"
_NUMBERED = "IN (SELECT value FROM json_each(?))"
_UNREAD = (
    f"DELETE FROM states WHERE session {_NUMBERED}",  # noqa: S608
    f"UPDATE sessions SET read_mark = '', readings = readings + 1 WHERE NOT gone_ms AND number {_NUMBERED}",  # noqa: S608
)
_DELETED = f"SELECT number FROM sessions WHERE gone_ms AND number {_NUMBERED}"  # noqa: S608
_TAKE = "UPDATE sessions SET readings = readings + 1 WHERE number = ? AND agent = ? AND session_id = ? AND readings = ?"
_STATE = "SELECT readings, state FROM sessions LEFT JOIN states ON session = number WHERE number = ?"
SEPARATOR = "\x1e"
"""Between the commands of a document, and between its files."""


class _ReadAgain(NamedTuple):
    """Of a session that is read whole again, and has calls in common with others."""

    calls: dict[int, tuple[Any, ...]]
    """Those that counted in it, and that it did not have again so far: run, time, model, counts."""
    others: list[int]
    links: list[tuple[int, int, int]]
    """Its run, and the session and the run that have copies, as they were before."""
    old_runs: list[tuple[int, ...]]
    """As the table has them."""
    runs: dict[int, int]
    """What the number of a run is now that it has again."""
    new_links: set[tuple[int, ...]]
    """Links that were found by reading it again."""


class CatalogueWriter:
    """Contract: within a transaction of the caller."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._models: dict[tuple[str, str, int, bool], int] = {}
        self._read_again: dict[int, _ReadAgain] = {}

    def take(self, session: CataloguedSession, readings: int) -> bool:
        """Whether something that was read may be entered: nobody has entered another reading since `state`."""
        values = (session.number, session.agent, session.session_id, readings)
        return self._connection.execute(_TAKE, values).rowcount == 1

    def add(self, session: int, agent: str, reading: Reading) -> None:
        if not reading.is_more:
            self._forget(session)
        self._connection.executemany(
            "INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?)",
            ((session, run.number, run.started_ms, hash_of(run.prompt)) for run in reading.runs),
        )
        for document in reading.documents:
            self._add_document(session, document)
        if reading.used:
            self._add_used(session, agent, reading)
        if reading.state:
            self._connection.execute("INSERT OR REPLACE INTO states VALUES (?, ?)", (session, reading.state))

    def give_back(self, session: int) -> bool:
        """When all of it was entered: what it had in common with others, and has again, it still has in common with them.

        Calls that it has no more counted in it, and are those of the sessions that it had them in common with. These are
        to be read again; whether there are any.
        """
        again = self._read_again.pop(session, None)
        if again is None:
            return False
        now = {tuple(start): run for run, *start in self._connection.execute(_RUNS, (session,))}
        for run, *start in again.old_runs:  # its calls may count in another session
            if tuple(start) in now:
                again.runs.setdefault(run, now[tuple(start)])
        self._connection.execute("DELETE FROM copies WHERE session = ? OR other = ?", (session, session))
        self._connection.executemany(_LINK, {*_links_now(session, again), *again.new_links})
        if not again.calls:
            return False
        self._give_to_deleted(again)
        for statement in _UNREAD:
            self._connection.execute(statement, (as_json(again.others),))
        return True

    def _give_to_deleted(self, again: _ReadAgain) -> None:
        """Those that are not in their stores any more cannot be read again."""
        deleted = {number for (number,) in self._connection.execute(_DELETED, (as_json(again.others),))}
        heirs = {run: other for run, *other in again.links if other[0] in deleted}
        for key, (run, at_ms, *rest) in again.calls.items():
            if run not in heirs:
                continue
            other, other_run = heirs[run]
            values = (key, other, other_run, at_ms, *rest)
            if self._connection.execute(_NEW_CALL, values).rowcount == 1:
                model, *counts = rest
                where = (other, other_run, at_ms // QUARTER_MS, model)
                self._connection.execute(_ADD, (*where, at_ms, *counts))

    def state(self, session: int) -> tuple[int, bytes]:
        """How often something was entered of it, and what reading continues with."""
        rows = self._connection.execute(_STATE, (session,)).fetchall()
        return next(((count, bytes(state or b"")) for count, state in rows), (0, b""))

    def _forget(self, session: int) -> None:
        """The words of its documents stay in the search table, but lead to no document any more."""
        if not self._connection.execute(_IS_KNOWN, (session,) * 4).fetchone()[0]:
            return
        self._connection.execute(
            "INSERT INTO outdated SELECT sum(characters) FROM documents WHERE session = ? HAVING count(*)",
            (session,),
        )
        if others := self._connection.execute(_COMMON, (session, session)).fetchall():
            own = self._connection.execute(_OWN_CALLS, (session,)).fetchall()
            calls = {key: tuple(call) for key, _session, *call in own}
            links = self._connection.execute(_PARTNERS, (session, session)).fetchall()
            runs = self._connection.execute(_RUNS, (session,)).fetchall()
            self._read_again[session] = _ReadAgain(
                calls, [other for (other,) in others], links, runs, {}, set()
            )
        for table in ("documents", "used", "states", "runs"):
            cursor = self._connection.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608
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
        for tokens in reading.used:
            key, run, at_ms, counts = tokens.key, tokens.run, tokens.at_ms, tokens.counts
            number = self._model(tokens)
            where = (session, run, at_ms // QUARTER_MS, number)
            rows = sums.get(where)
            if rows is None:
                rows, times[where] = sums.setdefault(where, []), at_ms
            rows.append(counts)
            if key:
                name = hash_of(f"{agent} {key}")
                earlier = calls.get(name)
                summed = counts if earlier is None else map(_plus, earlier[4:], counts)
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
        """Calls that are known already count where they were read last, with the last value, at the first time: some
        agents write copies with the time of the fork.

        A session that is new has no calls of its own there: if all can be entered, none is known.
        """
        rows = [(key, *values) for key, values in calls.items()]
        if (again := self._read_again.get(session)) is not None:
            had = again.calls.keys() & calls.keys()
            again.runs.update({again.calls.pop(key)[0]: calls[key][1] for key in had})
        if is_new and self._connection.executemany(_NEW_CALL, rows).rowcount == len(rows):
            return
        cursor = self._connection.execute(
            f"SELECT key, session, run, at_ms, model, {', '.join(COUNTS)} FROM calls"  # noqa: S608
            " WHERE key IN (SELECT value FROM json_each(?)) AND session != ?",
            (as_json(calls), session if is_new else -1),
        )

        def add(where: tuple[int, int, int, int], counts: Iterable[float | None], sign: int) -> None:
            of, run, at_ms, number = where
            quarter = (of, run, at_ms // QUARTER_MS, number)
            times[quarter] = min(at_ms, times.get(quarter, at_ms))
            sums.setdefault(quarter, []).append(
                tuple(None if count is None else sign * count for count in counts)
            )

        copies = set[tuple[int, ...]]()
        for key, other, run, at_ms, model, *counts in cursor.fetchall():
            add((other, run, at_ms, model), counts, -1)
            _session, own_run, own_ms, number, *own = calls[key]
            if other != session:
                copies.add((session, own_run, other, run))
            if other != session and at_ms < own_ms:
                add((session, own_run, own_ms, number), own, -1)
                add((session, own_run, at_ms, number), own, 1)
                calls[key] = (session, own_run, at_ms, number, *own)
        if again is not None:
            again.new_links.update(copies)
        self._connection.executemany(_LINK, copies)
        self._connection.executemany(_CALL, ((key, *values) for key, values in calls.items()))

    def _model(self, tokens: UsedTokens) -> int:
        key = tokens.model, tokens.speed, tokens.over, tokens.counts[-1] is not None
        number = self._models.get(key)
        if number is None:
            self._connection.execute(_NEW_MODEL, key)
            rows = self._connection.execute(_MODEL, key)
            number = self._models[key] = int(rows.fetchone()[0])
        return number


def _links_now(session: int, again: _ReadAgain) -> Iterator[tuple[int, ...]]:
    """The links from before. Forks of a fork may be linked by it alone: a run that it has no more they still share."""
    partners: dict[int, list[tuple[int, int]]] = {}
    for run, *other in again.links:
        partners.setdefault(run, []).append((other[0], other[1]))
    for run, others in partners.items():
        if run in again.runs:
            yield from ((session, again.runs[run], *other) for other in others)
        else:
            yield from ((*first, *second) for first, second in combinations(sorted(others), 2))


def _plus(first: float | None, right: float | None) -> float | None:
    return right if first is None else first if right is None else first + right


def _total(counts: Sequence[float | None]) -> float | None:
    numbers = [count for count in counts if count is not None]
    return sum(numbers) if numbers else None


def hash_of(key: str) -> int:
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
