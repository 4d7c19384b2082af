"""Files that only their owner may read, appended to in whole pieces."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

MOST_BUFFERS = 1000
"""How many one write may be made of; the kernel's own limit is 1,024."""

_LOCK_PAUSES_S = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)


def make_private_directory(path: str) -> None:
    """Create it and its missing parents for the owner alone, whatever the umask."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        make_private_directory(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o700)


def open_private(path: str, flags: int) -> int:
    """Open (never through a symbolic link) with mode 0600 whatever the umask.

    A device is everybody's: root would take `/dev/null` away from all others. A pipe is not waited for.
    """
    if flags & os.O_ACCMODE == os.O_RDONLY:
        flags |= os.O_NONBLOCK
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if flags & os.O_CREAT:
        try:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.fchmod(fd, 0o600)
        except OSError:
            os.close(fd)
            raise
    return fd


FileMark: TypeAlias = tuple[int, int, int]
"""A file that was replaced by another one, or changed, has another mark."""


def mark_of(status: os.stat_result) -> FileMark:
    """Of a file as it is now."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def lock_alone(fd: int) -> None:
    """Hold a file's lock, which the system frees with the process. Raises BlockingIOError: another one writes it.

    A process that only checks the lock holds it for an instant, so one refusal is not enough.
    """
    for pause_s in _LOCK_PAUSES_S:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause_s)
        else:
            return
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace_private(path: str, data: bytes) -> FileMark:
    """Replace a file's content atomically: a reader sees the old or the new one, never a part. Returns its mark.

    Several processes and threads may do so at once: each writes a file of its own, and the last one holds.
    """
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.new"
    fd = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        try:
            append_all(fd, (data,))
            mark = mark_of(os.fstat(fd))
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)  # a full disk needs the space
        raise
    return mark


def append_all(fd: int, buffers: Sequence[bytes]) -> int:
    """Hand all of it to the kernel in one write, or none of it; returns how many bytes that were.

    A full disk first takes a part and then refuses: what it took is cut off again, so that the
    file never holds a torn piece in the middle.
    """
    if len(buffers) > MOST_BUFFERS:
        buffers = (b"".join(buffers),)
    size = sum(map(len, buffers))
    count = os.write(fd, buffers[0]) if len(buffers) == 1 else os.writev(fd, buffers)
    if count == size:
        return size
    start = os.lseek(fd, 0, os.SEEK_END) - count
    rest = memoryview(b"".join(buffers))[count:]
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
    except OSError:
        os.ftruncate(fd, start)
        raise
    return size
