"""Reads a large file of a store fast: in blocks of whole lines, from the last position.

Most bytes of these files are prompts of the program, schemas and outputs of tools, which no catalogue needs. So all
lines of a block are decoded at once, and of each only the fields that count.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from harness.contracts.history import StoredSession
from harness.contracts.reading import (
    CannotScan,
    Document,
    Reading,
    SessionSummary,
    StoredRun,
    UsedTokens,
)
from harness.contracts.stored_times import milliseconds
from harness.formats.json_lines import DECODE_ERRORS
from harness.protocols.reading.store_files import LONGEST_LINE_BYTES, open_file

TokenCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
HEAD_BYTES = 320
"""Where a line shows what it is."""
_BYTES_IN_A_READING = 8 * 1024 * 1024
_BLOCK_BYTES = 512 * 1024
_TAIL_BYTES = 64
_LENGTH = 24
"""Of a time in UTC with milliseconds."""
_SPACED = re.compile(rb'\s*\{\s*"\w+"\s*:\s')


class Replaced(Exception):
    """The file is not the one that was read before, or was rewritten."""


class FilePosition(msgspec.Struct, frozen=True, array_like=True):
    """Up to where a file was read, and how to see that it is still the same."""

    inode: int
    offset: int
    tail: str
    """A hash of the last bytes before."""


class LineBlock(NamedTuple):
    start: int
    data: bytes
    """Whole lines."""
    position: FilePosition
    """Behind it."""


def new_blocks(path: str, position: FilePosition | None = None) -> Iterator[LineBlock]:
    """What is new in a file: its whole lines. A line that is too long is left out.

    Raises Replaced; CannotScan where the first line has spaces after its keys: no agent writes it so, and nothing
    would be found.
    """
    fd = open_file(path)
    if fd is None:
        if position is not None:
            raise Replaced
        return
    try:
        inode = os.fstat(fd).st_ino
        offset = 0 if position is None else _checked(fd, inode, position)
        if not offset and _SPACED.match(os.pread(fd, HEAD_BYTES, 0)):
            raise CannotScan
        yield from _blocks(fd, inode, offset)
    except OSError:  # the disk fails, or the file was deleted
        return
    finally:
        os.close(fd)


def _checked(fd: int, inode: int, position: FilePosition) -> int:
    if inode != position.inode or _tail(fd, position.offset) != position.tail:
        raise Replaced
    return position.offset


def _tail(fd: int, offset: int) -> str:
    start = max(0, offset - _TAIL_BYTES)
    return blake2b(os.pread(fd, offset - start, start), digest_size=8).hexdigest()


def _blocks(fd: int, inode: int, offset: int) -> Iterator[LineBlock]:
    parts: list[bytes] = []
    size, is_skipping, position = 0, False, offset
    while piece := os.pread(fd, _BLOCK_BYTES, position):
        position += len(piece)
        end = piece.rfind(b"\n") + 1
        if not end:
            size += len(piece)
            is_skipping = is_skipping or size > LONGEST_LINE_BYTES
            parts = [] if is_skipping else [*parts, piece]
            continue
        if is_skipping:
            first = piece.index(b"\n") + 1
            offset, piece, end, is_skipping = position - len(piece) + first, piece[first:], end - first, False
        data = b"".join((*parts, piece[:end]))
        parts = [piece[end:]]
        size = len(parts[0])
        if data:
            start, offset = offset, offset + len(data)
            yield LineBlock(start, data, FilePosition(inode, offset, _tail(fd, offset)))


def lines_between(path: str, start: int, end: int, needles: Sequence[bytes]) -> Iterator[bytes]:
    """The lines of a part of a file in which one of these occurs, in lower case; all where none is given."""
    fd = open_file(path)
    if fd is None:
        return
    try:
        data = os.pread(fd, end - start, start)
    except OSError:
        return
    finally:
        os.close(fd)
    for line in data.split(b"\n"):
        folded = line.lower()
        if not needles or any(needle in folded for needle in needles):
            yield line


Line = TypeVar("Line")


def decoded_lines(
    decoder: msgspec.json.Decoder[Line], data: bytes, matters: Callable[[bytes], object]
) -> list[Line]:
    """The records of a block of lines. One that cannot be decoded is left out, unless it matters by its beginning.

    Raises CannotScan.
    """
    try:
        lines = decoder.decode_lines(data)
        if len(lines) == data.count(b"\n"):  # else a record may have swallowed others
            return lines
    except DECODE_ERRORS:
        pass
    lines = []
    for line in data.split(b"\n"):
        try:
            lines.append(decoder.decode(line))
        except DECODE_ERRORS as error:
            if matters(line[:HEAD_BYTES]):
                raise CannotScan from error
    return lines


@lru_cache(maxsize=256)
def _hour_ms(text: str) -> int | None:
    return milliseconds(f"{text}:00:00Z")


def time_of(text: str) -> int:
    """`2026-11-15T19:13:34.212Z` in milliseconds; 0 where it is no time."""
    if len(text) == _LENGTH and text[-1] == "Z" and (hour := _hour_ms(text[:13])) is not None:
        try:
            return hour + int(text[14:16]) * 60_000 + int(text[17:19] + text[20:23])
        except ValueError:
            return 0
    return milliseconds(text) or 0


class ScanState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a scan knows so far. It is stored without secrets."""

    summary: SessionSummary = msgspec.field(default_factory=SessionSummary)
    positions: dict[str, FilePosition] = msgspec.field(default_factory=dict)
    """By file, as in `Document.file`."""
    commits: list[str] = msgspec.field(default_factory=list)
    """Calls whose outputs may name a commit."""


State = TypeVar("State", bound=ScanState)


class FileScan(ABC, Generic[State]):
    """A fold of a session's lines, which can be stored and continued. Inherit one for each store."""

    def __init__(self, session: StoredSession, state: State) -> None:
        self.session = session
        self.state = state
        self.runs: list[StoredRun] = []
        """Those that have begun since they were asked for last."""

    @property
    def summary(self) -> SessionSummary:
        return self.state.summary

    @abstractmethod
    def files(self) -> Iterator[tuple[str, str]]:
        """The files of the session: name and path."""

    @abstractmethod
    def feed(self, data: bytes, document: Document) -> None:
        """Take whole lines. May raise CannotScan, and whatever odd values lead to."""

    @abstractmethod
    def used(self) -> list[UsedTokens]:
        """What was used since it was asked last; and the summary is completed."""

    def readings(self) -> Iterator[Reading]:
        is_more = bool(self.state.positions)
        documents: list[Document] = []
        size = 0
        for name, path in self.files():
            for start, data, position in new_blocks(path, self.state.positions.get(name)):
                document = Document(file=name, start=start, end=start + len(data))
                self.feed(data, document)
                self.state.positions[name] = position
                documents.append(document)
                size += len(data)
                if size >= _BYTES_IN_A_READING:
                    yield self._reading(documents, is_more=is_more)
                    documents, size, is_more = [], 0, True
        yield self._reading(documents, is_more=is_more)

    def _reading(self, documents: list[Document], *, is_more: bool) -> Reading:
        tokens = self.used()
        runs, self.runs = self.runs, []
        return Reading(self.summary, documents, tokens, msgspec.json.encode(self.state), is_more, runs)


def scanned(
    kind: Callable[[StoredSession, State], FileScan[State]],
    state_type: type[State],
    session: StoredSession,
    state: bytes,
) -> Iterator[Reading]:
    """The session, or what is new in it. A file that was replaced is read from its beginning."""
    try:
        try:
            yield from kind(session, msgspec.json.decode(state or b"{}", type=state_type)).readings()
        except Replaced:
            yield from kind(session, state_type()).readings()
    except (Replaced, AttributeError, TypeError, ValueError, *DECODE_ERRORS) as error:
        raise CannotScan from error  # odd values in the few records that are decoded
