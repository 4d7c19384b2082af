"""Tapes: the calls of a run as a file of their own, one JSON object a line, for tests and for replays elsewhere.

The lines are the entries of the raw record, with their bytes in base64: a `start`, then `request` and `response`, and an
`event` for each question and its answer. A conversation has a `start` for each of its messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.log.private_files import append_all, open_private
from harness.log.raw import RawCall, RawEntry, RawEvent, RawRequest, RawResponse, RawStart

VERSION = 1
"""Of the form: a newer one is not read."""
TapeEntry: TypeAlias = RawStart | RawCall | RawEvent
_ABOUT_QUESTIONS = re.compile(rb'^\{"type": ?"Relay(Reply)?"')


def tape_line(entry: TapeEntry) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def tape_lines(entries: Iterable[RawEntry]) -> Iterator[bytes]:
    """The lines for the entries of a raw record; all but the calls, the starts, questions and answers are left out."""
    for entry in entries:
        if isinstance(entry, RawStart | RawRequest | RawResponse) or (
            isinstance(entry, RawEvent) and _ABOUT_QUESTIONS.search(bytes(entry.event))
        ):
            yield tape_line(entry)


def joined(records: Iterable[Iterable[RawEntry]]) -> Iterator[RawEntry]:
    """The entries of several records, each of which counts its calls from 1, as those of one."""
    last = 0
    for record in records:
        before = last
        for entry in record:
            if isinstance(entry, RawRequest):
                last = max(last, entry.id + before)
                of = entry.of + before if entry.of else 0
                yield replace(entry, id=entry.id + before, of=of)
            elif isinstance(entry, RawResponse):
                yield replace(entry, id=entry.id + before)
            else:
                yield entry


class TapeReading(msgspec.Struct):
    """The entries of a tape, and how many lines could not be read."""

    entries: list[TapeEntry]
    damaged: list[int]
    """Numbers of lines, from 1."""


@cache
def _decoder() -> Any:
    return msgspec.json.Decoder(RawStart | RawRequest | RawResponse | RawEvent)


def read_tape(path: str) -> TapeReading:
    """Raises UsageError for a file that is no tape, or one of a newer form."""
    reading = TapeReading([], [])
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = _decoder().decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    reading.damaged.append(number)
                    continue
                _require_known(path, entry)
                reading.entries.append(entry)
    except OSError as error:
        raise UsageError(f"cannot read the tape {path}: {error.strerror or error}") from error
    if not any(isinstance(entry, RawRequest) for entry in reading.entries):
        raise UsageError(
            f"{path} is no tape: there is no call in it",
            hint="`harness sessions export ID --format tape` writes one",
        )
    return reading


def _require_known(path: str, entry: TapeEntry) -> None:
    gateway = entry.gateway if isinstance(entry, RawStart) else None
    if gateway is not None and gateway.version > VERSION:
        raise UsageError(
            f"{path} was written by a newer version of harness (form {gateway.version})",
            hint="update harness to play it",
        )


class TapeWriter:
    """Appends lines to a file that only its owner may read. Contract: `write` never raises; `failure` says why it stopped.

    Raises UsageError when the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.failure = ""
        try:
            self._file = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
            raise UsageError(f"cannot record requests in {path!r}: {reason}") from error

    def write(self, entries: Iterable[TapeEntry]) -> None:
        """A disk that is full is no reason to leave an agent without an answer."""
        if self._file < 0:
            return
        try:
            append_all(self._file, [tape_line(entry) for entry in entries])
        except OSError as error:
            self.failure = error.strerror or str(error)
            self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
