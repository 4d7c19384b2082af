"""A network of this process's own, that has a loopback and leads nowhere. For processes made for it alone."""

from __future__ import annotations

import ctypes
import os
import socket
import struct

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _IS_UP = 0x8913, 0x8914, 0x1


def enter_own_network() -> str:
    """Empty when it worked, else why not. Must be called while there is one thread only."""
    import sys

    if sys.platform != "linux":
        return "only Linux has network namespaces"
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_NETWORK) != 0:
            if libc.unshare(_NEW_USER | _NEW_NETWORK) != 0:
                return os.strerror(ctypes.get_errno())
            _keep_identity(user, group)
        _raise_loopback()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _keep_identity(user: int, group: int) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _raise_loopback() -> None:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(handle, _GET_FLAGS, asked))[1]
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _IS_UP))
