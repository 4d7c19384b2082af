"""One log as a file: one event a line, written in place and only ever appended to.

Its writer holds the file's lock, which the system frees with the process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import BinaryIO, NamedTuple

from msgspec.structs import replace

from harness.errors import LogLocked, UnknownSession
from harness.events import Event
from harness.log import codec
from harness.log.private_files import append_all, lock_alone
from harness.system.contract import system

LOG, SIDECAR = ".ndjson", ".meta.json"
"""What follows the id in the name of a log, and of its metadata."""
HIDDEN = ".deleted"
"""Follows one of these two when the log was deleted and is there only for its forks."""
INDEX = "index.sqlite3"
"""Begins the names of the index and of what SQLite puts beside it."""

BLOCK_BYTES = 256 * 1024


class LinePosition(NamedTuple):
    """The event `seq` begins at `offset`."""

    seq: int
    offset: int


class FileWriter:
    """Holds the lock of one log. Opening repairs the end that a crash tore.

    `holder` is who is thought to hold it, for systems that do not say.
    """

    def __init__(self, fd: int, path: str, holder: str, base: int = 0) -> None:
        self._fd = fd
        try:
            lock_alone(fd)
        except OSError as error:
            if pid := system.lock_holder(fd):
                holder = f"{pid} on {os.uname().nodename}"
            os.close(fd)
            message = f"{path} is being written by process {holder}"
            raise LogLocked(message, holder=holder, hint="wait until it has ended, or stop it") from error
        if not os.fstat(fd).st_nlink:
            os.close(fd)
            raise UnknownSession(f"{path} has just been deleted")
        try:
            self.next_seq: int = _repair(fd, base)
        except OSError:
            os.close(fd)
            raise

    def append(self, events: Sequence[Event]) -> int:
        blocks = codec.encode_blocks(events)
        return append_all(self._fd, blocks) if blocks else 0

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # the number may soon be another file's
        if fd >= 0:
            os.close(fd)


class FileReader:
    """Reads whole lines only: what is half written is left for the next time.

    `base` is the `seq` of the first line; `place` is where to begin counting lines, if it is known.
    """

    def __init__(self, file: BinaryIO, cursor: int, base: int = 0, place: LinePosition | None = None) -> None:
        self._file = file
        self._cursor = cursor
        self._base = self._expected = base
        if cursor > base:
            self._skip_to(cursor, place or LinePosition(base, 0))

    def read(self, most: int = 1000) -> list[Event]:
        batch: list[Event] = []
        while len(batch) < most and (lines := self._whole_lines(most - len(batch))):
            events = self._intact(lines)
            if events is None:
                events = self._salvaged(lines)
            if events and events[0].seq < self._cursor:
                events = [event for event in events if event.seq >= self._cursor]
            batch += events
        return batch

    def close(self) -> None:
        self._file.close()

    def _whole_lines(self, most: int) -> list[bytes]:
        lines = list(islice(self._file, most))
        if lines and not lines[-1].endswith(b"\n"):
            self._file.seek(-len(lines.pop()), os.SEEK_CUR)
        return lines

    def _intact(self, lines: Sequence[bytes]) -> Sequence[Event] | None:
        """One event for each line, with the `seq` of its place; None when one of them has to be looked at."""
        try:
            events = codec.decode_lines(b"".join(lines))
        except codec.UNREADABLE:
            return None
        end = self._expected + len(lines)
        if [event.seq for event in events] != list(range(self._expected, end)):
            return None
        self._expected = end
        return events

    def _salvaged(self, lines: Sequence[bytes]) -> Sequence[Event]:
        """The events of lines of which some are damaged, newer than this version, or come after a gap."""
        salvaged_events: list[Event] = []
        for number, line in enumerate(lines, 1):
            events = events_of(line, self._expected)
            if events[0].seq != self._expected:
                following = _seq_in(lines[number]) if number < len(lines) else self._next_seq()
                events = self._placed(events, following)
            self._expected = events[-1].seq + 1
            salvaged_events += events
        return salvaged_events

    def _placed(self, events: list[Event], following: int | None) -> list[Event]:
        """The events with the `seq` of their place, where the stated one was damaged.

        A log may have gaps, left by a disk that refused: the line after a gap confirms the stated `seq`. `following`:
        the one of the next line.
        """
        expected, first_seq = self._expected, events[0].seq
        if first_seq > expected and following != expected + len(events):
            return events
        return [replace(event, seq=seq) for seq, event in enumerate(events, expected)]

    def _skip_to(self, cursor: int, place: LinePosition) -> None:
        """Skip as many lines as there should be; if gaps make that too far, read from the beginning."""
        if not self._is_at(place):
            place = LinePosition(self._base, 0)
        self._file.seek(place.offset)
        missing = cursor - place.seq
        while missing and (block := self._file.read(BLOCK_BYTES)):
            count = block.count(b"\n")
            if count < missing:
                missing -= count
                continue
            position = -1
            for _ in range(missing):
                position = block.index(b"\n", position + 1)
            self._file.seek(position + 1 - len(block), os.SEEK_CUR)
            missing = 0
        first = self._next_seq()
        is_past = missing > 0 or (first is not None and first > cursor)
        self._expected = self._base if is_past else cursor
        if is_past:
            self._file.seek(0)

    def _is_at(self, place: LinePosition) -> bool:
        if place.offset > os.fstat(self._file.fileno()).st_size:
            return False
        self._file.seek(place.offset)
        return self._next_seq() in (place.seq, None)

    def _next_seq(self) -> int | None:
        """Of the event that is read next."""
        start = self._file.tell()
        line = self._file.readline()
        self._file.seek(start)
        return _seq_in(line) if line else None


def _seq_in(line: bytes) -> int | None:
    return next((event.seq for event in events_of(line, -1)), None)


def events_of(line: bytes, expected_seq: int) -> list[Event]:
    """Of one line; of a damaged one what can be saved."""
    try:
        return [codec.decode(line)]
    except codec.UNREADABLE:
        return codec.salvage(line, expected_seq)


def next_seq_of(fd: int, base: int = 0) -> int:
    """How far a log has come, without changing anything of it."""
    return _end_of(fd, base)[0]


def _repair(fd: int, base: int) -> int:
    """Cut off a torn last line; returns the next `seq`."""
    next_seq, whole_bytes, size = _end_of(fd, base)
    if whole_bytes < size:
        os.ftruncate(fd, whole_bytes)
    return next_seq


def _end_of(fd: int, base: int) -> tuple[int, int, int]:
    """The next `seq`, how many bytes are whole lines, and how many there are."""
    end = size = whole_bytes = os.lseek(fd, 0, os.SEEK_END)
    tail, is_cut = b"", False
    while end:
        start = max(0, end - BLOCK_BYTES)
        tail = os.pread(fd, end - start, start) + tail
        end = start
        whole = tail.rfind(b"\n") + 1
        if not is_cut and whole:
            is_cut = True
            whole_bytes = end + whole
            tail = tail[:whole]
        last = _last_seq(tail, is_whole=end == 0) if is_cut else None
        if last is not None:
            return last + 1, whole_bytes, size
    return base, whole_bytes if is_cut else 0, size


def _last_seq(tail: bytes, *, is_whole: bool) -> int | None:
    """The `seq` of the last line in a tail of the file; None when no line in it can be read.

    A damaged line counts as well, so that what is appended does not take its place; of the last two that can
    be read, the one that says more is believed.
    """
    lines = tail.split(b"\n")[0 if is_whole else 1 :]
    numbers: list[int] = []
    for after, line in enumerate(reversed([line for line in lines if line])):
        if (seq := events_of(line, -1)[-1].seq) >= 0:
            numbers.append(seq + after)
            if len(numbers) == 2:
                break
    return max(numbers, default=None)
