"""The way to the index of a folder: opened when it is first asked, made again when it is broken.

An index that cannot be used (a folder that may only be read, a full disk) is made in memory instead: slower,
and with the same answers. Whoever has the index open holds the lock file for reading, so that nobody throws
it away under him.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from harness.errors import StoreError
from harness.log.event_file import INDEX
from harness.log.files import make_private_directory, open_private

if TYPE_CHECKING:
    from harness.log.event_file import Place
    from harness.log.index import Index

Answer = TypeVar("Answer")

_PARTS = ("", "-wal", "-shm", "-journal")
_LOCK_SUFFIX = ".lock"
_NONSENSE = (ValueError, TypeError, OverflowError, RecursionError)
"""What an index is read with raises one of these when a bit in it has flipped."""
_LEFT_TO_THE_PARENT: list[Index] = []
"""A child that closes what its parent has open may take the parent's files away."""


class IndexAccess:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._path = os.path.join(directory, INDEX)
        self._lock = threading.RLock()
        self._index: Index | None = None
        self._lock_fd = -1
        self._opened_as = (0, 0)
        self._is_in_memory = False

    def ask(self, question: Callable[[Index], Answer], log_ids: Sequence[str] | None = None) -> Answer:
        """The answer, from an index that knows all there is in these logs, or in all. Raises StoreError."""
        import sqlite3

        from harness.log.index_schema import Unusable

        with self._lock:
            for _attempt in range(2):
                try:
                    index = self._opened()
                    index.refresh(log_ids)
                    return question(index)
                except (sqlite3.Error, Unusable, OSError, *_NONSENSE) as error:
                    self._give_up(error)
            try:
                index = self._opened()
                index.refresh(log_ids)
                return question(index)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(f"cannot read {self._directory}: {error}") from error

    def place(self, log_id: str, cursor: int) -> Place | None:
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
        self.ask(lambda _: None)

    def close(self) -> None:
        with self._lock:
            if self._index is not None and self._opened_as[1] == os.getpid():
                self._index.close()
            elif self._index is not None:
                _LEFT_TO_THE_PARENT.append(self._index)
            self._index = None
            if self._lock_fd >= 0:
                os.close(self._lock_fd)
                self._lock_fd = -1

    def __del__(self) -> None:
        self.close()

    def _opened(self) -> Index:
        from harness.log.index import Index

        # A child process must not use its parent's connection, nor anybody one whose file was deleted.
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
        from harness.log.index import Index

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
        """A broken index is thrown away, if nobody else uses it; else, and after any other failure, it is left alone."""
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


def _is_broken(error: Exception) -> bool:
    """As opposed to: it cannot be reached, or not be written, at the moment."""
    import sqlite3

    from harness.log.index_schema import Unusable

    if isinstance(error, (Unusable, *_NONSENSE)):
        return True
    broken = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)
    return isinstance(error, sqlite3.Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in broken
