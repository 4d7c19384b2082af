"""The exit codes: one table for the outcomes of runs, and a few more."""

from __future__ import annotations

from harness.events import Outcome

OUTCOMES: dict[Outcome, int] = {
    "completed": 0,
    "failed": 1,
    "limit_exceeded": 1,
    "unknown": 1,
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
"""The reader of standard output has closed it: as if SIGPIPE had ended us."""


def of_signal(number: int) -> int:
    return 128 + number
