"""The store of one workspace: contents, and how each path was at each checkpoint. SQLite, for the owner alone.

    <data>/harness/undo/<digest of the workspace's path>/undo.db    contents and history: the truth
                                                         seen       what the last walk saw: only saves reading again
                                                         lock       one writer at a time
                                                         opening    one at a time makes it, or sets it aside

A checkpoint is one transaction: it is there as a whole or not at all.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from harness.config.files import data_directory
from harness.errors import UsageError
from harness.log.private_files import lock_alone, make_private_directory, open_private, replace_private
from harness.undo.git_place import GitPlace
from harness.undo.states import ABSENT, FileKind, PathState, Seen

Phase: TypeAlias = Literal["before", "call", "after", "undo", "undone"]
"""`call`: at the beginning or the end of a call. `undo` and `undone`: around an undo, which is a turn of the user."""
CheckpointState: TypeAlias = Literal["taken", "failed", "off"]
_DATABASE, _SEEN, _LOCK, _OPENING, _ROOT = "undo.db", "seen", "lock", "opening", "root"
_LOCK_PAUSE_S = 0.02
_OPENING_PATIENCE_S = 15.0
"""Longer than SQLite waits (`timeout`), for the one that holds it may be waiting there."""
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS blobs(digest BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history(path BLOB, seq INTEGER, kind TEXT, mode INTEGER, digest BLOB, changed_ns INTEGER,
    PRIMARY KEY(path, seq)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS history_by_seq ON history(seq);
CREATE TABLE IF NOT EXISTS checkpoints(seq INTEGER PRIMARY KEY, log_id TEXT, run_id TEXT, phase TEXT, at_ms INTEGER,
    state TEXT, took_ms INTEGER, why TEXT, not_taken BLOB, git BLOB);
CREATE INDEX IF NOT EXISTS checkpoints_by_run ON checkpoints(run_id);
CREATE TABLE IF NOT EXISTS undos(id INTEGER PRIMARY KEY, log_id TEXT, runs BLOB, before INTEGER, after INTEGER,
    at_ms INTEGER, is_redone INTEGER);
CREATE TABLE IF NOT EXISTS seen(only INTEGER PRIMARY KEY CHECK(only = 0), written INTEGER, valid INTEGER);
CREATE TABLE IF NOT EXISTS writing(path BLOB PRIMARY KEY) WITHOUT ROWID;
"""


class Checkpoint(NamedTuple):
    seq: int
    log_id: str
    run_id: str
    phase: Phase
    at_ms: int
    state: CheckpointState
    took_ms: int
    why: str
    """Of one that failed, or was not made."""
    not_taken: list[str]
    git: GitPlace | None


class Undo(NamedTuple):
    id: int
    log_id: str
    runs: list[str]
    before: int
    """The checkpoint before it, which `redo` goes back to."""
    after: int
    at_ms: int
    is_redone: bool


class _SeenFile(msgspec.Struct, array_like=True):
    seq: int
    paths: list[tuple[bytes, FileKind, int, bytes, tuple[int, ...], int, bool]]
    folders: list[tuple[bytes, int, int]]


def undo_directory() -> str:
    return os.path.join(data_directory(), "undo")


def folder_of(root: str) -> str:
    """Where the store of a workspace is."""
    real = os.fsencode(os.path.realpath(root))
    return os.path.join(undo_directory(), blake2b(real, digest_size=16).hexdigest())


class UndoStore:
    """Contract: used by one thread. `writing()` holds the lock of the workspace."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.folder = folder_of(root)
        make_private_directory(self.folder)
        self.problem = ""
        """What was found wrong with the store when it was opened."""
        # SQLite does not wait where two make a WAL of one database at once, and what one has set aside is whole again.
        with self._alone(_OPENING, _OPENING_PATIENCE_S):
            replace_private(os.path.join(self.folder, _ROOT), os.fsencode(self.root))
            try:
                self.database = self._open()
            except sqlite3.DatabaseError as error:
                self._set_aside(error)
                self.database = self._open()
        self._known_seq = -1
        self.known: dict[str, Seen] = {}
        """As of the last checkpoint, within `writing()`."""
        self.folders: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def writing(self, patience_s: float = 30.0) -> Iterator[None]:
        """Raises UsageError if others hold the lock for longer."""
        with self._alone(_LOCK, patience_s):
            self._load()
            yield

    @contextmanager
    def _alone(self, lock: str, patience_s: float) -> Iterator[None]:
        handle = open_private(os.path.join(self.folder, lock), os.O_RDWR | os.O_CREAT)
        deadline = time.monotonic() + patience_s
        try:
            while True:
                try:
                    lock_alone(handle)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise UsageError(
                            f"another program looks at {self.root} for its undo", hint="try again in a moment"
                        ) from None
                    time.sleep(_LOCK_PAUSE_S)
            yield
        finally:
            os.close(handle)

    # --- what was recorded

    @property
    def last_seq(self) -> int:
        [seq] = self.database.execute("SELECT coalesce(max(seq), 0) FROM checkpoints").fetchone()
        return int(seq)

    def checkpoints(self, run_id: str = "") -> list[Checkpoint]:
        """In order; with `run_id` those of one run."""
        where, values = ("WHERE run_id = ?", (run_id,)) if run_id else ("", ())
        rows = self.database.execute(f"SELECT * FROM checkpoints {where} ORDER BY seq", values)  # noqa: S608 - our own words
        return [_checkpoint(row) for row in rows]

    def checkpoint(self, seq: int) -> Checkpoint | None:
        row = self.database.execute("SELECT * FROM checkpoints WHERE seq = ?", (seq,)).fetchone()
        return _checkpoint(row) if row else None

    @property
    def last_git(self) -> GitPlace:
        """Where the repository stood at the last checkpoint that says it."""
        query = "SELECT git FROM checkpoints WHERE length(git) ORDER BY seq DESC LIMIT 1"
        row = self.database.execute(query).fetchone()
        return msgspec.msgpack.decode(row[0], type=GitPlace) if row else GitPlace()

    def add_checkpoint(self, checkpoint: Checkpoint) -> None:
        git = b"" if checkpoint.git is None else msgspec.msgpack.encode(checkpoint.git)
        names = msgspec.msgpack.encode([os.fsencode(name) for name in checkpoint.not_taken])
        self.database.execute(
            "INSERT INTO checkpoints VALUES(?,?,?,?,?,?,?,?,?,?)", (*checkpoint[:8], names, git)
        )

    def state(self, path: str, seq: int) -> PathState:
        row = self.database.execute(
            "SELECT kind, mode, digest FROM history WHERE path = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (os.fsencode(path), seq),
        ).fetchone()
        return PathState(*row) if row else ABSENT

    def changed_ns(self, path: str, after: int, up_to: int) -> int:
        """When a path changed last between two checkpoints; 0: not known."""
        row = self.database.execute(
            "SELECT changed_ns FROM history WHERE path = ? AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
            (os.fsencode(path), after, up_to),
        ).fetchone()
        return int(row[0]) if row else 0

    def change_spans(self, path: str, after: int, up_to: int) -> list[tuple[int, int]]:
        """For each change of a path between two checkpoints: when it was last seen unchanged, and when it changed last.

        In nanoseconds. In between others may have changed it as well, and nobody has seen that.
        """
        rows = self.database.execute(
            "SELECT changed_ns, (SELECT at_ms FROM checkpoints WHERE state = 'taken' AND seq < history.seq "
            "ORDER BY seq DESC LIMIT 1) FROM history WHERE path = ? AND seq > ? AND seq <= ?",
            (os.fsencode(path), after, up_to),
        )
        return [((seen_ms or 0) * 1_000_000, changed_ns) for changed_ns, seen_ms in rows]

    def changes(self, before: int, after: int) -> dict[str, tuple[PathState, PathState]]:
        """What differs between two checkpoints: path → how it was, how it was left."""
        rows = self.database.execute(
            "SELECT DISTINCT path FROM history WHERE seq > ? AND seq <= ?", (before, after)
        ).fetchall()
        paths = [os.fsdecode(path) for (path,) in rows]
        pairs = ((path, (self.state(path, before), self.state(path, after))) for path in paths)
        return {path: pair for path, pair in pairs if pair[0] != pair[1]}

    def content(self, digest: bytes) -> bytes:
        """Raises UsageError if the store has lost it."""
        row = self.database.execute("SELECT data FROM blobs WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise UsageError(f"the undo store in {self.folder} is incomplete", hint="harness undo --forget")
        return zlib.decompress(row[0])

    def undos(self) -> list[Undo]:
        rows = self.database.execute("SELECT * FROM undos ORDER BY id")
        return [
            Undo(number, log_id, msgspec.msgpack.decode(runs), before, after, at_ms, bool(is_redone))
            for number, log_id, runs, before, after, at_ms, is_redone in rows
        ]

    def add_undo(self, log_id: str, runs: list[str], before: int, after: int, at_ms: int) -> None:
        self.database.execute(
            "INSERT INTO undos(log_id, runs, before, after, at_ms, is_redone) VALUES(?,?,?,?,?,0)",
            (log_id, msgspec.msgpack.encode(runs), before, after, at_ms),
        )

    def mark_redone(self, undo_id: int) -> None:
        self.database.execute("UPDATE undos SET is_redone = 1 WHERE id = ?", (undo_id,))

    # --- writing, within `writing()`

    def note_temporary(self, paths: Iterable[str]) -> None:
        """Files that an undo is about to write beside those that they replace."""
        self.database.executemany(
            "INSERT OR IGNORE INTO writing VALUES(?)", ((os.fsencode(path),) for path in paths)
        )

    def temporary(self) -> list[str]:
        """Those that an undo may have left, since it was killed."""
        return [os.fsdecode(path) for (path,) in self.database.execute("SELECT path FROM writing")]

    def forget_temporary(self) -> None:
        self.database.execute("DELETE FROM writing")

    def add_content(self, digest: bytes, data: bytes) -> int:
        packed = zlib.compress(data, 1)
        self.database.execute("INSERT OR IGNORE INTO blobs VALUES(?, ?)", (digest, packed))
        return len(packed)

    def add_history(self, seq: int, rows: Iterable[tuple[str, PathState, int]]) -> None:
        self.database.executemany(
            "INSERT INTO history VALUES(?,?,?,?,?,?)",
            ((os.fsencode(path), seq, *state, changed_ns) for path, state, changed_ns in rows),
        )

    def remember(self, seq: int, states: dict[str, Seen], folders: dict[str, tuple[int, int]]) -> None:
        """For the next walk. What cannot be remembered is read again."""
        is_same = states == self.known and folders == self.folders
        self.known, self.folders, self._known_seq = states, folders, seq
        if is_same:  # what was written before holds for this checkpoint, too
            self.database.execute("UPDATE seen SET valid = ? WHERE valid = ?", (seq, seq - 1))
            return
        paths = [
            (os.fsencode(path), *seen_state.state, *seen_state[1:]) for path, seen_state in states.items()
        ]
        above = [(os.fsencode(path), *stamp) for path, stamp in folders.items()]
        with suppress(OSError, sqlite3.Error):
            data = msgspec.msgpack.encode(_SeenFile(seq, paths, above))
            replace_private(os.path.join(self.folder, _SEEN), data)
            self.database.execute("INSERT OR REPLACE INTO seen VALUES(0, ?, ?)", (seq, seq))

    def _load(self) -> None:
        seq = self.last_seq
        if self._known_seq == seq:
            return
        self._known_seq = seq
        with suppress(OSError, msgspec.DecodeError):
            with open(os.path.join(self.folder, _SEEN), "rb") as file:
                snapshot = msgspec.msgpack.decode(file.read(), type=_SeenFile)
            row = self.database.execute("SELECT written, valid FROM seen").fetchone()
            if row == (snapshot.seq, seq):
                self.known = {
                    os.fsdecode(path): Seen(PathState(kind, mode, digest), stamp, changed, ignored)
                    for path, kind, mode, digest, stamp, changed, ignored in snapshot.paths
                }
                self.folders = {os.fsdecode(path): (mtime, inode) for path, mtime, inode in snapshot.folders}
                return
        rows = self.database.execute(
            "SELECT path, kind, mode, digest, changed_ns, max(seq) FROM history GROUP BY path"
        )
        self.known = {
            os.fsdecode(row[0]): Seen(PathState(*row[1:4]), (), row[4], is_ignored=False)
            for row in rows
            if row[1]
        }
        self.folders = {}

    def _open(self) -> sqlite3.Connection:
        path = os.path.join(self.folder, _DATABASE)
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))  # before SQLite makes it as the umask says
        database = sqlite3.connect(path, isolation_level=None, timeout=10)
        try:
            database.executescript(_SCHEMA)
        except sqlite3.DatabaseError:
            database.close()
            raise
        return database

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Raises UsageError if it is not the file that is at fault."""
        if isinstance(error, sqlite3.OperationalError):
            raise UsageError(f"the undo store in {self.folder} cannot be opened: {error}") from error
        copy = os.path.join(self.folder, f"{_DATABASE}.bad-{time.strftime('%Y%m%d-%H%M%S')}")
        os.replace(os.path.join(self.folder, _DATABASE), copy)
        for suffix in ("-wal", "-shm"):
            with suppress(OSError):
                os.unlink(os.path.join(self.folder, _DATABASE + suffix))
        self.problem = f"the undo store was damaged ({error}); it was set aside as {copy}"


def _checkpoint(row: tuple[int, str, str, Phase, int, CheckpointState, int, str, bytes, bytes]) -> Checkpoint:
    names = [os.fsdecode(name) for name in msgspec.msgpack.decode(row[8], type=list[bytes])]
    git = msgspec.msgpack.decode(row[9], type=GitPlace) if row[9] else None
    return Checkpoint(*row[:8], names, git)


def forget(root: str) -> bool:
    """Remove the store of a workspace; False if there is none."""
    folder = folder_of(root)
    if not os.path.isdir(folder):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True
