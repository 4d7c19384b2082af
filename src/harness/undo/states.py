"""How a path is at a moment, and how a file is read so that what is read was there as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

FileKind: TypeAlias = Literal["", "f", "l", "d", "x"]
"""Absent, file, link, folder; `x`: something is there that was not taken."""
_TRIES = 3


class PathState(NamedTuple):
    kind: FileKind = ""
    mode: int = 0
    digest: bytes = b""
    """Of a file's content, or of where a link leads; of what was not taken: why."""


ABSENT = PathState()


class Seen(NamedTuple):
    """What is remembered of a path from one checkpoint to the next."""

    state: PathState
    stamp: tuple[int, ...]
    """Size, mtime, ctime and inode; empty: it has to be read again."""
    changed_ns: int
    """When it last changed: its ctime, which no program can set back."""
    is_ignored: bool


def kind_of(status: os.stat_result) -> FileKind:
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return "f"
    if stat.S_ISDIR(mode):
        return "d"
    return "l" if stat.S_ISLNK(mode) else "x"


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def digest_of(data: bytes) -> bytes:
    return blake2b(data, digest_size=20).digest()


def folders_above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def read_whole(path: str, kind: FileKind, folder: int | None = None) -> bytes | None:
    """The content of a file, or where a link leads; None if it is written to without pause, or cannot be read.

    Never follows a link and never waits, as opening a pipe would. `folder`: a descriptor that `path` begins at.
    """
    with suppress(OSError):
        if kind == "l":
            return os.fsencode(os.readlink(path, dir_fd=folder))
        for _ in range(_TRIES):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with open(os.open(path, flags, dir_fd=folder), "rb", 0) as file:
                first = os.fstat(file.fileno())
                if not stat.S_ISREG(first.st_mode):
                    return None
                data = file.read() or b""
                last = os.fstat(file.fileno())
            if stamp_of(first) == stamp_of(last) and len(data) == last.st_size:
                return data
    return None


def state_at(name: str, folder: int) -> PathState:
    """How a name in an open folder is now."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return ABSENT
    kind, mode = kind_of(status), stat.S_IMODE(status.st_mode)
    if kind not in ("f", "l"):
        return PathState(kind, mode)
    data = read_whole(name, kind, folder)
    return PathState("x", mode, b"busy") if data is None else PathState(kind, mode, digest_of(data))
