"""Make a checkpoint: how every path of a workspace is now, with the content of what is new.

The agent may begin before the walk has ended (`Moment.is_released`). A file that changed since the prompt and that was not
read yet is then *not known*: it is named as such, and never decided on.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from harness.errors import HarnessError
from harness.undo.git_place import GitPlace, git_place
from harness.undo.states import ABSENT, PathState, Seen, digest_of, kind_of, read_whole, stamp_of
from harness.undo.store import Checkpoint, Phase, UndoStore, undo_directory
from harness.undo.walk import RACY_NS, Walk, WalkedPath

MOST_PATHS = 300_000
SLOWEST_WALK_S = 2.0
"""CPU. Where looking alone takes longer, a checkpoint at each turn is too dear."""
LONGEST_WALK_S = 10.0
"""By the clock, as on a slow network."""
MOST_NAMED = 200
OFF_FOR_MS = 24 * 3600 * 1000
"""Then it is tried again: the workspace may have become smaller."""
BUSY, LATE = b"busy", b"late"


class TooDear(HarnessError):
    """Checkpoints of this workspace cost more than they are worth."""


class Moment(NamedTuple):
    log_id: str = ""
    run_id: str = ""
    phase: Phase = "before"
    since_ns: int = 0
    """When the prompt was there."""
    is_released: Callable[[], bool] = lambda: False
    """Whether the agent may have begun."""
    writes: frozenset[str] = frozenset()
    """What an undo has just written: it is taken in any case, for a redo."""


def take(store: UndoStore, moment: Moment, *, most_bytes: int) -> Checkpoint:
    """Within `store.writing()`. Raises OSError, sqlite3.Error and TooDear; the store is then as it was."""
    store.database.execute("BEGIN IMMEDIATE")
    try:
        taking = _Taking(store, moment, most_bytes)
        checkpoint = taking.carry_out()
        store.database.execute("COMMIT")
    except BaseException:
        store.database.execute("ROLLBACK")
        raise
    store.remember(checkpoint.seq, taking.new, taking.walk.folders)
    return checkpoint


def note_missing(store: UndoStore, moment: Moment, error: Exception) -> Checkpoint:
    """Record that a checkpoint could not be made, and why."""
    is_off = isinstance(error, TooDear)
    words = getattr(error, "strerror", None) or str(error)
    why = error.message if isinstance(error, HarnessError) else words
    checkpoint = Checkpoint(
        seq=store.last_seq + 1,
        log_id=moment.log_id,
        run_id=moment.run_id,
        phase=moment.phase,
        at_ms=time.time_ns() // 1_000_000,
        state="off" if is_off else "failed",
        took_ms=0,
        why=why,
        not_taken=[],
        git=None,
    )
    try:
        store.add_checkpoint(checkpoint)
    except sqlite3.Error:
        return checkpoint  # the disk is full: the turn runs without one
    store.remember(checkpoint.seq, store.known, store.folders)
    return checkpoint


def why_off(store: UndoStore) -> str:
    """Why no checkpoints are made here for now; empty: they are."""
    checkpoint = store.checkpoint(store.last_seq)
    if checkpoint is None or checkpoint.state != "off":
        return ""
    return checkpoint.why if time.time_ns() // 1_000_000 - checkpoint.at_ms < OFF_FOR_MS else ""


class _Taking:
    def __init__(self, store: UndoStore, moment: Moment, most_bytes: int) -> None:
        self._store = store
        self._moment = moment
        self._left_bytes = most_bytes
        self._started_ns = time.time_ns()
        self._started_cpu_s = time.thread_time()
        self._reading_s = self._reading_cpu_s = 0.0
        self._states = store.known
        self._rows: list[tuple[str, PathState, int]] = []
        self._not_taken: list[str] = []
        own = frozenset({os.path.realpath(undo_directory())})
        nested = frozenset(store.last_git.nested)
        self.walk = Walk(store.root, store.known, store.folders, own, moment.writes, nested)
        self.new: dict[str, Seen] = {}

    def carry_out(self) -> Checkpoint:
        store, began_s = self._store, time.monotonic()
        for count, entry in enumerate(self.walk.entries()):
            if count >= MOST_PATHS:
                raise TooDear(f"there are more than {MOST_PATHS:,} files in {store.root}")
            if not count % 1000 and self._is_slow(time.monotonic() - began_s):
                raise TooDear(f"only to look at the files of {store.root} takes too long")
            self._add(entry)
        self._keep_unlisted()
        self._note_gone()
        seq = store.last_seq + 1
        store.add_history(seq, self._rows)
        checkpoint = Checkpoint(
            seq=seq,
            log_id=self._moment.log_id,
            run_id=self._moment.run_id,
            phase=self._moment.phase,
            at_ms=self._started_ns // 1_000_000,
            state="taken",
            took_ms=int((time.monotonic() - began_s) * 1000),
            why="",
            not_taken=self._not_taken[:MOST_NAMED],
            git=self._git(),
        )
        store.add_checkpoint(checkpoint)
        return checkpoint

    def _git(self) -> GitPlace | None:
        nested, place = tuple(sorted(self.walk.nested)), git_place(self._store.root)
        return replace(place or GitPlace(), nested=nested) if place or nested else None

    def _is_slow(self, elapsed_s: float) -> bool:
        """What is read once does not count: it is not read again."""
        is_busy = time.thread_time() - self._started_cpu_s - self._reading_cpu_s > SLOWEST_WALK_S
        return is_busy or elapsed_s - self._reading_s > LONGEST_WALK_S

    def _add(self, entry: WalkedPath) -> None:
        path, status, is_taken, is_ignored = entry
        old = self._states.get(path)
        mode, stamp = stat.S_IMODE(status.st_mode), stamp_of(status)
        if old is not None and old.stamp == stamp and old.state.mode == mode:
            was_taken = old.state.kind != "x"
            if was_taken == is_taken:
                self.new[path] = old if old.is_ignored == is_ignored else old._replace(is_ignored=is_ignored)
                if not is_taken:
                    self._not_taken.append(path)
                return
        kind = kind_of(status)
        if kind == "d" and is_taken:
            self._set(path, Seen(PathState("d", mode), (), status.st_ctime_ns, is_ignored))
        elif not is_taken or kind == "x":
            self._not_taken.append(path)
            self._set(
                path,
                Seen(PathState("x", mode, b"%d" % status.st_size), stamp, status.st_ctime_ns, is_ignored),
            )
        else:
            self._set(path, self._read(entry, PathState(kind, mode), stamp))

    def _set(self, path: str, state: Seen) -> None:
        self.new[path] = state
        old = self._states.get(path)
        if old is None or old.state != state.state:
            self._rows.append((path, state.state, state.changed_ns))

    def _read(self, entry: WalkedPath, state: PathState, stamp: tuple[int, ...]) -> Seen:
        changed_ns = entry.status.st_ctime_ns
        if self._moment.is_released() and changed_ns >= self._moment.since_ns:
            self._not_taken.append(entry.path)
            return Seen(PathState("x", state.mode, LATE), (), changed_ns, entry.is_ignored)
        began_s, started_cpu = time.monotonic(), time.thread_time()
        data = read_whole(f"{self._store.root}/{entry.path}", state.kind)
        if data is None:
            self._not_taken.append(entry.path)
            return Seen(PathState("x", state.mode, BUSY), (), changed_ns, entry.is_ignored)
        state = state._replace(digest=digest_of(data))
        old = self._states.get(entry.path)
        if old is None or old.state.digest != state.digest:
            self._left_bytes -= self._store.add_content(state.digest, data)
            if self._left_bytes < 0:
                raise TooDear(f"the files of {self._store.root} are larger than what undo may keep of them")
        self._reading_s += time.monotonic() - began_s
        self._reading_cpu_s += time.thread_time() - started_cpu
        is_racy = self._started_ns - changed_ns < RACY_NS
        return Seen(state, () if is_racy else stamp, changed_ns, entry.is_ignored)

    def _keep_unlisted(self) -> None:
        """What is in a folder that cannot be listed counts as unchanged."""
        if not self.walk.unlisted:
            return
        self._not_taken += [folder.rstrip("/") for folder in self.walk.unlisted]
        below = tuple(self.walk.unlisted)
        self.new |= {
            path: state
            for path, state in self._states.items()
            if path.startswith(below) and path not in self.new
        }

    def _note_gone(self) -> None:
        is_late = self._moment.is_released()
        for path, state in self._states.items():
            if path in self.new:
                continue
            changed_ns = self._folder_changed_ns(path)
            if is_late and changed_ns >= self._moment.since_ns:
                # The agent may have deleted it a moment ago. To bring a file back loses nothing.
                self.new[path] = state._replace(stamp=())
                continue
            self._rows.append((path, ABSENT, changed_ns))

    def _folder_changed_ns(self, path: str) -> int:
        """When a path that is gone may have gone: the time of the nearest folder above that is still there."""
        while path:
            path = path.rpartition("/")[0]
            try:
                status = os.lstat(f"{self._store.root}/{path}")
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                return status.st_mtime_ns
            return status.st_ctime_ns
        return 0
