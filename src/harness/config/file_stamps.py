"""When a file that was read must be read again. Settings and prices are asked for before every message of a session."""

from __future__ import annotations

import os
import time
from typing import TypeAlias

_TICK_NS = 50_000_000
"""File systems count time in ticks: what was written a moment ago may be written again without a new time."""

FileStamp: TypeAlias = tuple[int, int, int, int, int]


def stamp_of(path: str) -> FileStamp | None:
    """Equal as long as the file is the same; None when there is none, or it was written too recently to tell."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK_NS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
