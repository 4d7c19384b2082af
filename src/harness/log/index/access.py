"""Access to the index of a folder: opened when it is first used, rebuilt when it is broken.

An index that cannot be used (a folder that may only be read, a full disk) is made in memory instead: slower,
and with the same answers. Every process that has the index open holds the lock file for reading, so that none
deletes it while another uses it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from harness.errors import StoreError
from harness.log.event_file import HIDDEN, INDEX, LOG, SIDECAR
from harness.log.ids import is_log_id
from harness.log.private_files import make_private_directory, open_private
from harness.system.contract import system

if TYPE_CHECKING:
    from harness.log.event_file import LinePosition
    from harness.log.index.database import Index
    from harness.system.contract import DirectoryWatch

Answer = TypeVar("Answer")

_PARTS = ("", "-wal", "-shm", "-journal")
_LOCK_SUFFIX = ".lock"
_NONSENSE = (ValueError, TypeError, OverflowError, RecursionError)
"""Reading a damaged index may raise one of these."""
_BREATH_S = 0.005
"""The pause between two steps, so that other threads can use the index."""
_DONE = object()
_MANY = 1_000
"""When this many logs were touched, they are not checked one by one."""
_LEFT_TO_THE_PARENT: list[Index] = []
"""Never closed: a child process that closes its parent's index may remove the parent's files."""


class IndexAccess:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, INDEX)
        self._lock = threading.RLock()
        self._index: Index | None = None
        self._lock_fd = -1
        self._opened_as = (0, 0)
        self._is_in_memory = False
        self._watch: DirectoryWatch | None = None
        self._is_watched = True
        """Whether the folder can be watched, as far as is known."""
        self._watched_by = 0
        self._asked_count = 0
        self._touched: set[str] | None = None
        """Logs that were touched since the index was up to date; None: any may have been."""
        self._version = 0
        self._is_catching_up = False

    def ask(self, question: Callable[[Index], Answer], log_ids: Sequence[str] | None = None) -> Answer:
        """The answer, from an index that knows all there is in these logs, or in all. Raises StoreError."""
        import sqlite3

        from harness.log.index.schema import Unusable

        with self._lock:
            for _attempt in range(2):
                try:
                    index = self._opened()
                    self._update(index, log_ids)
                    return question(index)
                except (sqlite3.Error, Unusable, OSError, *_NONSENSE) as error:
                    self._give_up(error)
            try:
                index = self._opened()
                self._update(index, log_ids)
                return question(index)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(
                    f"cannot read {self._directory}: {getattr(error, 'strerror', None) or error}"
                ) from error

    def version(self) -> int | None:
        """A number that changes whenever the answer about all logs may change; None where the system cannot say."""
        with self._lock:
            self._begin_to_watch()
            self._notice()
            return self._version if self._watch is not None else None

    def catch_up(self) -> None:
        """Bring it up to date in steps, the last written logs first. After the first step, other requests are
        answered from what is known. Raises StoreError.
        """
        with self._lock:
            self.ask(lambda _: None, ())  # a broken one is deleted
            self._begin_to_watch()
            self._notice()
            assert self._index is not None, "it was just asked"
            steps = self._index.refreshing()
            self._touched = set() if self._watch is not None else None
            self._is_catching_up = True
            is_done = self._step(steps)
        try:
            while not is_done:
                time.sleep(_BREATH_S)
                with self._lock:
                    is_done = self._step(steps)
        finally:
            self._is_catching_up = False

    def _step(self, steps: Iterator[None]) -> bool:
        """Whether that was the last one."""
        try:
            is_done = next(steps, _DONE) is _DONE
        except Exception:  # noqa: BLE001 # it was closed or broke: the next request repairs it, or reports why not
            self._touched = None
            return True
        self._version += 1
        return is_done

    def _update(self, index: Index, log_ids: Sequence[str] | None) -> None:
        """What is new in these logs, or in all: where the folder is watched, in those that were touched."""
        if log_ids is not None:
            return index.refresh(log_ids)
        self._asked_count += 1
        if self._asked_count > 1:  # a single request does not need the watch
            self._begin_to_watch()
        self._notice()
        touched = self._touched
        if touched is None and self._is_catching_up:
            return None  # what is known so far is the answer
        self._touched = None  # until all of it is known
        index.refresh(None if touched is None or len(touched) > _MANY else sorted(touched))
        self._touched = set() if self._watch is not None else None
        return None

    def _begin_to_watch(self) -> None:
        if self._watch is None and self._is_watched:
            try:
                make_private_directory(self._directory)
                self._watch, self._watched_by = system.watch_directory(self._directory), os.getpid()
            except OSError:
                self._is_watched = False
            self._touched = None

    def _notice(self) -> None:
        if self._watch is None:
            return None
        # A child process must not take its parent's notifications.
        names = self._watch.changed() if self._watched_by == os.getpid() else None
        if names is None:
            self._watch.close()
            self._watch, self._touched = None, None
            self._version += 1
            return self._begin_to_watch()
        ids = {name.partition(".")[0] for name in names if _is_of_a_log(name)}
        if ids:
            self._version += 1
            self._touched = None if self._touched is None else self._touched | ids
        return None

    def place(self, log_id: str, cursor: int) -> LinePosition | None:
        """Where to begin to look for an event; None when that is not known."""
        import sqlite3

        with self._lock:
            try:
                return self._index.place(log_id, cursor) if self._index is not None else None
            except (sqlite3.Error, *_NONSENSE):
                return None

    def rebuild(self) -> None:
        """Raises StoreError."""
        self.ask(lambda index: index.clear(), ())
        self._touched = None
        self.ask(lambda _: None)

    def close(self) -> None:
        with self._lock:
            if self._index is not None and self._opened_as[1] == os.getpid():
                self._index.close()
            elif self._index is not None:
                _LEFT_TO_THE_PARENT.append(self._index)
            self._index = None
            self._touched = None
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    def __del__(self) -> None:
        self.close()

    def _opened(self) -> Index:
        from harness.log.index.database import Index

        # A child process must not use its parent's connection, and none may use one whose file was deleted.
        if self._index is not None and (
            self._opened_as[1] != os.getpid() or not (self._is_in_memory or self._is_there())
        ):
            self.close()
        if self._index is None:
            if self._is_in_memory:
                self._index = Index(":memory:", self._directory)
                self._opened_as = 0, os.getpid()
            else:
                self._index = self._open_file()
        return self._index

    def _open_file(self) -> Index:
        from harness.log.index.database import Index

        make_private_directory(self._directory)
        self._lock_fd = open_private(self._path + _LOCK_SUFFIX, os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock_fd, fcntl.LOCK_SH)
        fd = open_private(self._path, os.O_RDWR | os.O_CREAT)
        self._opened_as = os.fstat(fd).st_ino, os.getpid()
        os.close(fd)
        return Index(self._path, self._directory)

    def _is_there(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._opened_as[0]
        except OSError:
            return False

    def _give_up(self, error: Exception) -> None:
        """A broken index is deleted, if no other process uses it; else, and after any other failure, it is left alone."""
        self.close()
        if self._is_in_memory or not (_is_broken(error) and self._thrown_away()):
            self._is_in_memory = True

    def _thrown_away(self) -> bool:
        try:
            fd = open_private(self._path + _LOCK_SUFFIX, os.O_RDWR | os.O_CREAT)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for part in _PARTS:
                if os.path.lexists(self._path + part):
                    os.unlink(self._path + part)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True


def _is_of_a_log(name: str) -> bool:
    """Whether a file's name is that of a log or its metadata."""
    log_id, dot, suffix = name.partition(".")
    return (dot + suffix).removesuffix(HIDDEN) in (LOG, SIDECAR) and is_log_id(log_id)


def _is_broken(error: Exception) -> bool:
    """As opposed to: it cannot be reached, or not be written, at the moment."""
    import sqlite3

    from harness.log.index.schema import Unusable

    if isinstance(error, (Unusable, *_NONSENSE)):
        return True
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
    return isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in broken
