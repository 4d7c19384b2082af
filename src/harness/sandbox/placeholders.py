"""Empty stand-ins for what must not be created: something can only be mounted over what is there.

The watchdog loads this file by its path, as it does `confinement`: stand-ins are made just before a confined
program starts, and go when the last one that needs them has ended, even if Harness was killed. They are
empty folders and sockets, which version control does not see, or small files inside of `.git`. A socket stands in for
a file, since agents fail where a file of settings is a folder; behind the wall `/dev/null` is mounted over it.

A process that needs a stand-in holds a lock for it, in a folder of the user's own. A lock that is not held was left
by a process that was killed; the next one that needs the same stand-in takes it over, and must remove it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_FOLDER_MODE, _FILE_MODE, _LOCK_MODE = 0o755, 0o644, 0o600
SOCKET = "\0"
"""As the content of a stand-in: it is a socket, which nobody can read."""
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class StandIn:
    """One path that something stands in for. `content`: None for a folder, SOCKET for a socket."""

    def __init__(self, locks: str, path: str, content: str | None) -> None:
        self._path = path
        self._content = None if content is None else content.encode()
        self._lock_path = os.path.join(locks, _name_for(path))
        self._lock = -1

    def hold(self) -> None:
        """Afterwards something is there. Raises OSError also for a symbolic link: that nothing can cover."""
        self._open_in_turn()
        fcntl.flock(self._lock, fcntl.LOCK_SH)
        if self._make() or self._is_ours():
            self._note()
            self._take_turn(fcntl.F_UNLCK)
        else:  # the real thing
            self._drop()
        if os.path.islink(self._path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def release(self) -> None:
        """Remove it, unless it is still needed elsewhere, or something was put there."""
        if self._lock < 0:
            return
        self._take_turn(fcntl.F_WRLCK)
        self._drop()

    def _open_in_turn(self) -> None:
        while True:
            self._lock = os.open(self._lock_path, _LOCK_FLAGS, _LOCK_MODE)
            self._take_turn(fcntl.F_WRLCK)
            try:
                if os.path.samestat(os.fstat(self._lock), os.stat(self._lock_path)):
                    return
            except FileNotFoundError:
                pass
            self._unlock()  # the stand-in was removed, and its lock with it: start again

    def _take_turn(self, kind: int) -> None:
        """One at a time makes or removes it.

        What another had made, and not noted yet, would be taken for the real thing, and would vanish under a program
        that still runs behind it.
        """
        whole_file = struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(self._lock, fcntl.F_OFD_SETLKW, whole_file)

    def _drop(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_ours():
                self._remove()
            os.unlink(self._lock_path)
        except OSError:
            pass  # it is needed elsewhere, or something was put there
        self._unlock()

    def _make(self) -> bool:
        try:
            if self._content is None:
                os.mkdir(self._path, _FOLDER_MODE)
            elif self._content == SOCKET.encode():
                self._make_socket()
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
                descriptor = os.open(self._path, flags, _FILE_MODE)
                try:
                    os.write(descriptor, self._content)
                finally:
                    os.close(descriptor)
        except FileExistsError:
            return False
        return True

    def _make_socket(self) -> None:
        try:
            os.mknod(self._path, _FILE_MODE | stat.S_IFSOCK)
        except FileExistsError:
            raise
        except OSError:  # a file system without sockets
            os.mkdir(self._path, _FOLDER_MODE)

    def _note(self) -> None:
        os.pwrite(self._lock, self._identity(), 0)

    def _is_ours(self) -> bool:
        try:
            return os.pread(self._lock, 100, 0) == self._identity()
        except OSError:
            return False

    def _identity(self) -> bytes:
        status = os.lstat(self._path)
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "file"
        return f"{kind} {status.st_dev} {status.st_ino}\n".encode()

    def _remove(self) -> None:
        if stat.S_ISDIR(os.lstat(self._path).st_mode):
            os.rmdir(self._path)
            return
        if self._content == SOCKET.encode():
            os.unlink(self._path)
            return
        with open(self._path, "rb") as file:
            is_untouched = file.read() == self._content
        if is_untouched:
            os.unlink(self._path)

    def _unlock(self) -> None:
        os.close(self._lock)
        self._lock = -1


def hold(locks: str, places: Sequence[tuple[str, str | None]]) -> list[StandIn]:
    """Stand-ins for all of these, those above before those below. Raises OSError, and then leaves none."""
    stand_ins: list[StandIn] = []
    try:
        for path, content in places:
            stand_in = StandIn(locks, path, content)
            stand_ins.append(stand_in)
            stand_in.hold()
    except OSError:
        release(stand_ins)
        raise
    return stand_ins


def release(stand_ins: list[StandIn]) -> None:
    for stand_in in reversed(stand_ins):
        stand_in.release()


def _name_for(path: str) -> str:
    from hashlib import sha256

    return sha256(os.fsencode(path)).hexdigest()[:32]
