"""Files of a store: read without a lock or a change, and never through a symbolic link within the store.

The folder of a store may be a symbolic link, because users move their folders. A link below it is not followed: it
could lead to any file that the user can read. Devices and pipes are not read either.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from harness.contracts.history import StoredRecord, StoredSession
from harness.contracts.translator import Record
from harness.formats.json_lines import DECODE_ERRORS, decode
from harness.log.codec import storable
from harness.log.ids import is_log_id

LONGEST_LINE_BYTES = 32 * 1024 * 1024
"""A longer line is left out, and reported."""
_LARGEST_DOCUMENT_BYTES = 64 * 1024 * 1024
_BLOCK_BYTES = 1024 * 1024
_SHOWN_CHARACTERS = 200
"""How much of a line that is no record is passed on."""


class StoreFile(NamedTuple):
    path: str
    name: str
    size: int
    changed_ms: int
    inode: int
    mark: str
    """Changes when the file is written or replaced."""

    def session(self, agent: str, session_id: str, *, mark: str = "", **fields: Any) -> StoredSession:
        """The session that is in this file. `fields`: fields of it that were found elsewhere."""
        path, _name, size, changed_ms, _inode, own = self
        return StoredSession(
            agent=agent,
            session_id=session_id,
            path=path,
            mark=mark or own,
            changed_ms=changed_ms,
            size=size,
            **fields,
        )


def files_in(folder: str, suffix: str) -> Iterator[StoreFile]:
    """The regular files directly in a folder whose names end like this."""
    for entry in _entries(folder):
        name = entry.name
        if name.endswith(suffix):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield _store_file(entry.path, name, status)


def sessions_in(
    folder: str, suffix: str, agent: str, id_of: Callable[[str], str] = str
) -> Iterator[StoredSession]:
    """The sessions that are a file each, directly in a folder: there may be many thousands.

    `id_of`: from the name of the file without the suffix.
    """
    for entry in _entries(folder):
        name = entry.name
        if not name.endswith(suffix) or not is_log_id(session_id := id_of(name[: -len(suffix)])):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            size, changed_ns = status.st_size, status.st_mtime_ns
            yield StoredSession(
                agent=agent,
                session_id=session_id,
                path=entry.path,
                mark=f"{status.st_ino} {size} {changed_ns}",
                changed_ms=changed_ns // 1_000_000,
                size=size,
            )


def folders_in(folder: str) -> Iterator[tuple[str, str]]:
    """The folders directly in a folder: name and path."""
    for entry in _entries(folder):
        try:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name, entry.path
        except OSError:
            continue


def look_at(path: str) -> StoreFile | None:
    """A regular file of that path, if there is one."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return _store_file(path, os.path.basename(path), status) if stat.S_ISREG(status.st_mode) else None


def lines(path: str) -> Iterator[bytes | int]:
    """The lines of a file, the last one also without a newline; of a line that is too long its length."""
    fd = open_file(path)
    if fd is None:
        return
    with os.fdopen(fd, "rb", buffering=_BLOCK_BYTES) as file:
        try:
            while line := file.readline(LONGEST_LINE_BYTES + 1):
                if len(line) <= LONGEST_LINE_BYTES:
                    yield line
                    continue
                size = len(line)
                while line and not line.endswith(b"\n"):
                    line = file.readline(_BLOCK_BYTES)
                    size += len(line)
                yield size
        except OSError:  # the disk fails, or the file was deleted
            return


def json_lines(path: str) -> Iterator[StoredRecord]:
    """One record for each line. A last line that is cut off is left out: it is being written."""
    for line in lines(path):
        if isinstance(line, int):
            yield f"a record of {line} bytes is left out"
            continue
        try:
            value = decode(line)
        except DECODE_ERRORS:
            value = _salvaged(line)
        if type(value) is dict:
            yield value
        elif line.endswith(b"\n") and line.strip():
            yield storable(line.decode("utf-8", "backslashreplace").strip()[:_SHOWN_CHARACTERS])


def file_records(session: StoredSession) -> Iterator[StoredRecord]:
    """The records of a session that is one file with a record on each line."""
    return json_lines(session.path)


def document(path: str) -> Record:
    """A file that is one JSON object; empty while it is being written, or if it is none."""
    value = _decoded(path)
    return value if isinstance(value, dict) else {}


def array(path: str) -> list[Any]:
    """The same for one JSON array."""
    value = _decoded(path)
    return value if isinstance(value, list) else []


def _decoded(path: str) -> Any:
    fd = open_file(path)
    if fd is None:
        return None
    try:
        with os.fdopen(fd, "rb") as file:
            data = file.read(_LARGEST_DOCUMENT_BYTES + 1)
        return decode(data) if len(data) <= _LARGEST_DOCUMENT_BYTES else None
    except (OSError, *DECODE_ERRORS):
        return None


def first_line(path: str, most: int = 4_096) -> str:
    """The beginning of a small text file, up to its first newline."""
    fd = open_file(path)
    if fd is None:
        return ""
    with os.fdopen(fd, "rb") as file:
        try:
            return file.readline(most).decode("utf-8", "replace").rstrip("\r\n")
        except OSError:
            return ""


def _salvaged(line: bytes) -> object:
    """A record with half characters or numbers that only some decoders accept; else None."""
    import json

    try:
        return storable(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except (OSError, ValueError):
        return


def open_file(path: str) -> int | None:
    """A descriptor of a regular file; a pipe with no writer does not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _store_file(path: str, name: str, status: os.stat_result) -> StoreFile:
    size, changed_ns, inode = status.st_size, status.st_mtime_ns, status.st_ino
    return StoreFile(path, name, size, changed_ns // 1_000_000, inode, f"{inode} {size} {changed_ns}")
