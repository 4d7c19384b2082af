"""Keep this process to itself: what it holds in memory and environment others cannot read.

On Linux everybody may read the environment, and with a debugger the memory, of their own processes: a command
that an agent runs could fetch the keys from Harness that it was not given. So before the first tool may run

    the kernel is asked to refuse it (no debugger attaches any more either, and there are no core dumps), and
    the values of credentials are wiped from the block that the kernel shows as this process's environment,
    since root is refused nothing; `os.environ` keeps them.
"""

from __future__ import annotations

import ctypes
import os
import sys

from harness.log.redact.withheld import withheld_from_tools

_SET_DUMPABLE = 4
_BLOCK_FIELDS = (50, 51)
"""Beginning and end of the block, in /proc/self/stat; the first field after the name is the third."""


def keep_to_itself() -> None:
    """Never raises; does nothing where the system has no such thing. May be called again and again."""
    if sys.platform != "linux":
        return
    try:
        libc = ctypes.CDLL(None)
        libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        _wipe(libc)
    except (OSError, AttributeError, ValueError, IndexError):
        return


def _wipe(libc: ctypes.CDLL) -> None:
    start, end = _block()
    if not 0 < start < end:
        return
    entries = [entry.partition(b"=") for entry in ctypes.string_at(start, end - start).split(b"\0")]
    given = {os.fsdecode(name): os.fsdecode(value) for name, sign, value in entries if sign}
    wanted = set(map(os.fsencode, withheld_from_tools(given)))
    place = start
    for name, sign, value in entries:
        if value and name in wanted:
            _move(libc, name, start, end)
            if not start <= _address(libc, name) < end:
                ctypes.memset(place + len(name) + len(sign), 0, len(value))
        place += len(name) + len(sign) + len(value) + 1


def _move(libc: ctypes.CDLL, name: bytes, start: int, end: int) -> None:
    """Let the C library have the variable elsewhere, as it does with every variable that was set anew."""
    if start <= _address(libc, name) < end and (value := os.environb.get(name)) is not None:
        os.environb[name] = value


def _address(libc: ctypes.CDLL, name: bytes) -> int:
    getenv = libc.getenv
    getenv.restype = ctypes.c_void_p
    return getenv(name) or 0


def _block() -> tuple[int, int]:
    with open("/proc/self/stat", "rb") as file:
        # The program's name stands in parentheses and may itself contain spaces and parentheses.
        fields = file.read().rpartition(b")")[2].split()
    first, last = (int(fields[number - 3]) for number in _BLOCK_FIELDS)
    return first, last
