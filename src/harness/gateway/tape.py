"""Tapes: the calls of a run as a file of their own, one JSON object a line, for tests and for replays elsewhere.

The lines are the entries of the raw record, with their bytes in base64: a `start`, then `request` and `response`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.log.private_files import append_all, open_private
from harness.log.raw import RawCall, RawEntry, RawRequest, RawResponse, RawStart

VERSION = 1
"""Of the form: a newer one is not read."""


def tape_line(entry: RawStart | RawCall) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def tape_lines(entries: Iterable[RawEntry]) -> Iterator[bytes]:
    """The lines for the entries of a raw record; all but the calls and the start are left out."""
    for entry in entries:
        if isinstance(entry, RawStart | RawRequest | RawResponse):
            yield tape_line(entry)


class TapeReading(msgspec.Struct):
    """The entries of a tape, and how many lines could not be read."""

    entries: list[RawStart | RawCall]
    damaged: list[int]
    """Numbers of lines, from 1."""


@cache
def _decoder() -> Any:
    return msgspec.json.Decoder(RawStart | RawRequest | RawResponse)


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


def _require_known(path: str, entry: RawStart | RawCall) -> None:
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

    def write(self, entries: Iterable[RawStart | RawCall]) -> None:
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
