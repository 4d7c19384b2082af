"""Output of an agent, recorded elsewhere: its bytes, when they were written, and an id that is the same each time.

Times are those of the records. Where they have none, a file counts as written when it was changed last; what comes
through a pipe may come from an agent at work, so its times are those of its arrival, and its id is new.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import sha256
from io import BytesIO
from itertools import chain
from typing import Any

import msgspec

from harness.contracts.stored_times import milliseconds
from harness.errors import UsageError
from harness.formats.json_lines import DECODE_ERRORS, LineBlocks
from harness.log.clock import new_clock
from harness.log.ids import derived_run_id, new_run_id

_BLOCK_BYTES = 256 * 1024
_EARLIEST_MS = 10**12
"""A smaller number (2001) is no time: it counts from the start of something."""
_LATEST_MS = 2**63 // 1_000_000
"""A greater one (2262) does not fit into the nanoseconds of a trace."""


class RecordedOutput:
    """What can be known beforehand is read at once: a document, a file, or the first line of a pipe."""

    def __init__(self, fd: int, writer: str, *, is_document: bool) -> None:
        """`writer`: the agent or the standard; the same bytes are another recording as another's."""
        self._fd = fd
        self._lead: Iterable[bytes] = ()
        status = os.fstat(fd)
        is_file = stat.S_ISREG(status.st_mode)
        known: Iterable[bytes]
        if is_document:
            known = self._lead = (_on_one_line(b"".join(_read_blocks(fd))),)
        elif is_file:
            known = _whole_lines(_read_blocks(fd))
        else:
            self._lead = first = _first_block(fd)
            known = [block.split(b"\n", 1)[0] for block in first]
        offset = os.lseek(fd, 0, os.SEEK_CUR) if is_file else 0
        digest, recorded_ms = _digest_and_time(known)
        if is_file and not is_document:
            os.lseek(fd, offset, os.SEEK_SET)
        self._has_times = recorded_ms is not None
        self._at_ms = recorded_ms
        if recorded_ms is None and is_file:
            self._at_ms = min(max(0, status.st_mtime_ns // 1_000_000), _LATEST_MS)
        self._arrival_ms = new_clock()
        self.run_id: str = (
            new_run_id(self.now_ms())
            if self._at_ms is None
            else derived_run_id(self._at_ms, "translate", writer, digest)
        )

    def now_ms(self) -> int:
        """When the block that `blocks` gave last was written; before the first one, when the recording began."""
        return self._arrival_ms() if self._at_ms is None else self._at_ms

    def blocks(self) -> Iterator[bytes]:
        """Whole lines, those of one time together."""
        for block in _whole_lines(chain(self._lead, _read_blocks(self._fd))):
            if self._at_ms is None or not self._has_times:
                yield block
            else:
                yield from self._timed(block, self._at_ms)

    def _timed(self, block: bytes, at_ms: int) -> Iterator[bytes]:
        lines: list[bytes] = []
        for line in BytesIO(block):
            later_ms = time_of(line) or 0
            if later_ms > at_ms:
                if lines:
                    yield b"".join(lines)
                    lines = []
                self._at_ms = at_ms = later_ms
            lines.append(line)
        if lines:
            yield b"".join(lines)


class _Times(msgspec.Struct):
    timestamp: Any = None
    timestamp_ms: Any = None
    ts: Any = None
    created_at: Any = None
    created: Any = None


class _Record(_Times):
    message: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    steps: msgspec.Raw = msgspec.Raw()


_RECORD = msgspec.json.Decoder(_Record).decode
_INNER = msgspec.json.Decoder(_Times | list[_Times]).decode


def time_of(line: bytes) -> int | None:
    """When a record says that it was written, in milliseconds: in itself, in its message or in its first step."""
    try:
        record = _RECORD(line.removeprefix(b"data:"))
    except DECODE_ERRORS:
        return None
    for times in chain((record,), *map(_inner, (record.message, record.response, record.steps))):
        for value in (times.timestamp, times.timestamp_ms, times.ts, times.created_at, times.created):
            at_ms = milliseconds(value) or 0
            if _EARLIEST_MS <= at_ms <= _LATEST_MS:
                return at_ms
    return None


def _inner(raw: msgspec.Raw) -> list[_Times]:
    try:
        value = _INNER(raw)
    except DECODE_ERRORS:
        return []
    return value if isinstance(value, list) else [value]


def _digest_and_time(blocks: Iterable[bytes]) -> tuple[str, int | None]:
    digest, at_ms = sha256(), None
    for block in blocks:
        digest.update(block)
        if at_ms is None:
            at_ms = next(filter(None, map(time_of, BytesIO(block))), None)
    return digest.hexdigest(), at_ms


def _first_block(fd: int) -> list[bytes]:
    """As much as there is once the first line is complete, or everything."""
    parts: list[bytes] = []
    while not parts or b"\n" not in parts[-1]:
        part = _read(fd)
        if not part:
            break
        parts.append(part)
    return [b"".join(parts)] if parts else []


def _whole_lines(data: Iterable[bytes]) -> Iterator[bytes]:
    lines = LineBlocks()
    for piece in data:
        if block := lines.feed(piece):
            yield block
    if rest := lines.finish():
        yield rest


def _on_one_line(document: bytes) -> bytes:
    """A JSON document over many lines as one line; what is none as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(document)) + b"\n"
    except DECODE_ERRORS:
        return document


def _read_blocks(fd: int) -> Iterator[bytes]:
    return iter(partial(_read, fd), b"")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _BLOCK_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the recording: {error.strerror}") from error
