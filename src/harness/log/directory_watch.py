"""Which files of a folder were touched since one last asked, whichever process did it. Linux tells; others do not."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import struct
import sys
from contextlib import suppress

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_WANTED = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_LOST = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _OVERFLOW | _IGNORED
_HEAD = struct.Struct("iIII")
_BLOCK_BYTES = 64 * 1024


class DirectoryWatch:
    """Contract: what changed after it was made is told. A network's folder tells only what this machine does."""

    def __init__(self, directory: str) -> None:
        """Raises OSError where that cannot be watched."""
        if not sys.platform.startswith("linux"):
            raise OSError("only Linux tells what happens in a folder")
        libc = ctypes.CDLL(ctypes.util.find_library("c") or None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "no more folders can be watched")
        if libc.inotify_add_watch(self._fd, os.fsencode(directory), _WANTED) < 0:
            error = OSError(ctypes.get_errno(), f"cannot watch {directory}")
            self.close()
            raise error

    def changed(self) -> set[str] | None:
        """The names of files; None when more has happened than one can tell: then everything may have changed."""
        names: set[str] = set()
        while True:
            try:
                block = os.read(self._fd, _BLOCK_BYTES)
            except BlockingIOError:
                return names
            except OSError:
                return None
            place = 0
            while place < len(block):
                _watch, mask, _cookie, size = _HEAD.unpack_from(block, place)
                if mask & _LOST:
                    return None
                place += _HEAD.size
                names.add(os.fsdecode(block[place : place + size].rstrip(b"\0")))
                place += size

    def close(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.close(self._fd)
            self._fd = -1
