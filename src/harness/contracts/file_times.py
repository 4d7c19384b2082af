"""Which files an agent has read, and when: it may change a file only after reading its current version."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

_FileStamp: TypeAlias = tuple[int, int, int]


class StaleFile(Exception):
    """The file was never read, or has changed since. The message is meant for the model."""


class FileTimes:
    """Shared by all runs of one conversation. Paths are compared as real paths."""

    def __init__(self) -> None:
        self._stamps: dict[str, _FileStamp] = {}
        self._locks: dict[str, Any] = {}

    def stamp(self, path: str) -> _FileStamp | None:
        """The current state of the file, to be passed to `read` after a successful read; None without a file.

        Take it before reading the first byte: a change during the read is then detected as stale.
        """
        return _stamp(path)

    def read(self, path: str, stamp: _FileStamp | None = None) -> None:
        """Record that the file was read or written, in its current state or in that of the stamp."""
        stamp = stamp or _stamp(path)
        if stamp is None:
            self._stamps.pop(os.path.realpath(path), None)
        else:
            self._stamps[os.path.realpath(path)] = stamp

    def forget(self, but: Collection[str]) -> None:
        """What was read is no longer before the model, but for these files: a change from memory would be a guess."""
        places = set(map(os.path.realpath, but))
        self._stamps = {path: stamp for path, stamp in self._stamps.items() if path in places}

    def assert_current(self, path: str) -> None:
        """Raises StaleFile unless the file was read and has not changed; a missing file is always current."""
        stamp = _stamp(path)
        if stamp is None:
            return
        earlier = self._stamps.get(os.path.realpath(path))
        if earlier is None:
            raise StaleFile(f"{path} exists but was not read yet: read it first, then change it")
        if earlier != stamp:
            raise StaleFile(f"{path} has changed since it was read: read it again, then change it")

    def lock(self, path: str) -> AbstractAsyncContextManager[Any]:
        """`async with files.lock(path):` one change of a file at a time."""
        key = os.path.realpath(path)
        if key not in self._locks:
            from asyncio import Lock

            self._locks[key] = Lock()
        lock: AbstractAsyncContextManager[Any] = self._locks[key]
        return lock


def _stamp(path: str) -> _FileStamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
