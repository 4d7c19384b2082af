"""What the shell is told: one table for how runs end, and the few codes beside it."""

from __future__ import annotations

from harness.events import Outcome

OUTCOMES: dict[Outcome, int] = {
    "completed": 0,
    "failed": 1,
    "limit_exceeded": 1,
    "timed_out": 124,
    "stalled": 124,
    "spawn_failed": 126,
    "agent_not_found": 127,
    "interrupted": 130,
}
"""A run's outcome decides, never whether some text appeared. One that was interrupted by a signal to
Harness gives 128 + that signal: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""

BUG = 70
"""Harness itself broke."""
READER_GONE = 141
"""Whoever read standard output has left: as if SIGPIPE had ended us."""


def of_signal(number: int) -> int:
    return 128 + number
