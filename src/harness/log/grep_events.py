"""Reads of a log only the lines in which certain words stand, so that gigabytes take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from harness.events import Event
from harness.log import codec

_BLOCK_BYTES = 1024 * 1024


def grep_events(file: BinaryIO, words: Iterable[str]) -> Iterator[Event]:
    """The events of every whole line that has one of these words as a JSON string, in their order.

    A line may have the word for another reason: the caller must check the type of each event.
    """
    found = re.compile(b'"(?:%b)"' % b"|".join(re.escape(word.encode()) for word in words))
    for lines in _whole_lines(file):
        end = 0
        while (match := found.search(lines, end)) is not None:
            start = lines.rfind(b"\n", 0, match.start()) + 1
            end = lines.index(b"\n", match.end()) + 1
            yield from _events_of(lines[start:end])


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Blocks that begin and end with a line; what is half written at the end is left out."""
    parts: list[bytes] = []
    while block := file.read(_BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join((*parts, block[:end]))
            parts = [block[end:]]
        else:
            parts.append(block)


def _events_of(line: bytes) -> list[Event]:
    try:
        return [codec.decode(line)]
    except codec.UNREADABLE:
        return codec.salvage(line, -1)
