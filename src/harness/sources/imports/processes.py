"""Whether the process that is named in a store still runs."""

from __future__ import annotations

import os
from typing import Any


def is_running(pid: int | None) -> bool:
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def is_same_process(pid: int | None, start: Any) -> bool:
    """`start`: when it began, in ticks as the system counts them. Where that differs, the number was given again."""
    if not is_running(pid):
        return False
    known = _start_of(pid)
    return not known or start is None or str(start) == known


def _start_of(pid: int | None) -> str:
    """Empty where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def locked_inodes() -> frozenset[int]:
    """The files that some process has locked, by their inodes; none where the system does not say.

    Asking for the lock itself would disturb the process that needs it.
    """
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            places = [field for line in file for field in line.split() if field.count(":") == 2]
    except OSError:
        return frozenset()
    return frozenset(
        int(place.rpartition(":")[2]) for place in places if place.rpartition(":")[2].isdecimal()
    )
