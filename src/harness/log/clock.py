"""The log's clock: wall time at the start, then only forwards.

The system's wall clock may be set back while an agent runs; ours then continues as if nothing had
happened, so that timestamps never fall and durations are never negative.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts on while the machine sleeps, where the system has such a clock."""


def new_clock() -> Callable[[], int]:
    """A clock in milliseconds since the epoch, anchored now."""
    offset_ns = time.time_ns() - time.clock_gettime_ns(_STEADY)
    return lambda: (time.clock_gettime_ns(_STEADY) + offset_ns) // 1_000_000
