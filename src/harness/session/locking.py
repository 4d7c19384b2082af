"""Locks that allow one session per thread across processes: the store's own, or one of the application."""

from __future__ import annotations

import fcntl
import inspect
import os
from collections.abc import Awaitable, Callable
from typing import Any

from harness.errors import LogLocked
from harness.log.ids import is_log_id
from harness.log.private_files import make_private_directory, open_private


class NoLock:
    """For stores that lock their logs themselves, as all in this package do."""

    def acquire(self, thread_id: str) -> None:
        """Do nothing."""

    def release(self, thread_id: str) -> None:
        """Do nothing."""


class FileThreadLock:
    """Locks in a directory that several processes share. The system releases those of a process that ends."""

    def __init__(self, directory: str) -> None:
        self._directory = os.path.abspath(directory)
        self._held_counts: dict[str, int] = {}

    def acquire(self, thread_id: str) -> None:
        """Raises LogLocked when another session holds the lock."""
        if not is_log_id(thread_id):
            raise LogLocked(f"no lock can be named {thread_id!r}", hint="use letters, digits, - and _")
        make_private_directory(self._directory)
        fd = open_private(os.path.join(self._directory, f"{thread_id}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 64, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise LogLocked(
                f"thread {thread_id} is held by process {holder or 'unknown'}",
                holder=holder,
                hint="wait until it has ended, or stop it",
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._held_counts[thread_id] = fd

    def release(self, thread_id: str) -> None:
        if (fd := self._held_counts.pop(thread_id, None)) is not None:
            os.close(fd)


async def call(function: Callable[[str], Awaitable[None] | None], argument: str) -> Any:
    """Call a function that may be async."""
    answer = function(argument)
    return await answer if answer is not None and inspect.isawaitable(answer) else answer
