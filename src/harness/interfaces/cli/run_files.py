"""`--record DIR`: what a run wrote and what became of it, as two files of plain JSON lines.

    raw.jsonl      {"stream":"stdout"|"stderr","line":"…"}, in order of arrival
    events.jsonl   the activities, in order

Both are made from the log, so that they are as complete as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from harness.errors import UsageError
from harness.log.private_files import make_private_directory
from harness.log.raw import RawOutput, read_raw
from harness.log.store import read_all
from harness.log.stores.files import FileStore
from harness.stage import ViewOptions
from harness.views import activity

_encode = msgspec.json.Encoder().encode


def prepare(directory: str) -> None:
    """Find out before the run whether the files can be written. Raises UsageError."""
    try:
        make_private_directory(os.path.abspath(directory))
        with open(os.path.join(directory, "events.jsonl"), "ab"):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot record into {directory}: {error.strerror}", hint="give another directory with --record"
        ) from error


def write(store: FileStore, log_id: str, directory: str) -> None:
    _write(os.path.join(directory, "raw.jsonl"), _raw_lines(store.path(log_id, ".raw")))
    _write(os.path.join(directory, "events.jsonl"), _activities(store, log_id))


def _raw_lines(path: str) -> Iterator[bytes]:
    if not os.path.exists(path):
        return
    for entry in read_raw(path):
        if isinstance(entry, RawOutput):
            for line in entry.data.removesuffix(b"\n").split(b"\n"):
                text = line.decode("utf-8", "backslashreplace")
                yield _encode({"stream": entry.stream, "line": text}) + b"\n"


def _activities(store: FileStore, log_id: str) -> Iterator[bytes]:
    view = activity.open(ViewOptions())
    for event in read_all(store, log_id):
        yield from view.feed(event)
    yield from view.finish()


def _write(path: str, lines: Iterator[bytes]) -> None:
    with open(path, "wb") as file:
        file.writelines(lines)
