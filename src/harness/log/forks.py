"""The parts of other logs that a fork consists of."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.errors import StoreError
from harness.events import Event
from harness.log.store import Fork, LogReader


class Stretch(NamedTuple):
    log_id: str
    start: int
    """The first `seq` that is in that log itself."""
    end: int | None
    """The `seq` at which the next stretch begins; None: it has no end."""


def stretches(log_id: str, fork_of: Callable[[str], Fork | None]) -> list[Stretch]:
    """From the oldest to the log itself. `fork_of` says what a log, hidden or not, is a fork of."""
    parts: list[Stretch] = []
    end: int | None = None
    passed: set[str] = set()
    while True:
        if log_id in passed:
            raise StoreError(f"session {log_id} is a fork of itself", hint="its metadata was changed by hand")
        passed.add(log_id)
        fork = fork_of(log_id)
        start = 0 if fork is None else fork.seq
        if end is None or start < end:
            parts.append(Stretch(log_id, start, end))
            end = start
        if fork is None or not end:
            return parts[::-1]
        log_id = fork.log_id


def start_of_last(parts: list[Stretch], limit: int, starts_of: Callable[[Stretch, int], list[int]]) -> int:
    """Where the last `limit` messages begin. `starts_of` gives the last so many starts in a stretch, in order."""
    missing = limit
    for part in reversed(parts):
        start = starts_of(part, missing)
        missing -= len(start)
        if not missing:
            return start[0]
    return 0


class ForkReader:
    """Reads one stretch after the other, as if they were one log."""

    def __init__(
        self, parts: list[Stretch], cursor: int, open_part: Callable[[Stretch, int], LogReader]
    ) -> None:
        self._waiting = [part for part in parts if part.end is None or part.end > cursor]
        self._cursor = cursor
        self._open_part = open_part
        self._part = self._waiting.pop(0)
        self._reader = open_part(self._part, cursor)

    def read(self, most: int = 1000) -> list[Event]:
        while True:
            end = self._part.end
            batch = self._reader.read(most if end is None else max(0, min(most, end - self._cursor)))
            if end is not None:
                batch = [event for event in batch if event.seq < end]
            if batch or end is None:
                self._cursor = batch[-1].seq + 1 if batch else self._cursor
                return batch
            self._reader.close()
            self._part = self._waiting.pop(0)
            self._cursor = max(self._cursor, self._part.start)
            self._reader = self._open_part(self._part, self._cursor)

    def close(self) -> None:
        self._reader.close()
