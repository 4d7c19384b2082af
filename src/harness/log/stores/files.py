"""Logs as files: `<id>.ndjson`, one event a line, and `<id>.meta.json` beside it.

The file is written in place and only ever appended to; whoever writes holds its lock, which the
system frees with the process. Nothing but these files is the truth.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, Unknown
from harness.log import codec
from harness.log.files import append_all, make_private_directory, open_private, replace_private
from harness.log.ids import is_run_id
from harness.log.store import Metadata, Writer

_LOG, _SIDECAR = ".ndjson", ".meta.json"
_BLOCK_BYTES = 256 * 1024


class FileStore:
    """A folder of logs. Contract: no id ever leads to a file outside of it."""

    def __init__(self, directory: str) -> None:
        self.directory = os.path.abspath(directory)

    def path(self, log_id: str, suffix: str = _LOG) -> str:
        """Where a log, or a file beside it, is. Raises UnknownSession for what is no id of ours."""
        if not is_run_id(log_id):
            raise UnknownSession(
                f"unknown session: {log_id!r}", hint="`harness sessions list` shows what there is"
            )
        return os.path.join(self.directory, log_id + suffix)

    def create(self, metadata: Metadata) -> FileWriter:
        path = self.path(metadata.session_id)
        try:
            make_private_directory(self.directory)
            fd = open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise StoreError(
                f"cannot create the log {path}: {error.strerror}",
                hint="set XDG_DATA_HOME or [log] directory to a place that can be written",
            ) from error
        writer = FileWriter(fd, path, holder="")
        self.save_metadata(metadata)
        return writer

    def open(self, log_id: str) -> FileWriter:
        path = self.path(log_id)
        try:
            fd = open_private(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        return FileWriter(fd, path, holder=self._holder(log_id))

    def reader(self, log_id: str, cursor: int = 0) -> FileReader:
        try:
            fd = open_private(self.path(log_id), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        return FileReader(os.fdopen(fd, "rb", buffering=_BLOCK_BYTES), cursor)

    def is_live(self, log_id: str) -> bool:
        try:
            fd = open_private(self.path(log_id), os.O_RDONLY)
        except OSError as error:
            raise self._unknown(log_id, error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(fd)
        return False

    def metadata(self, log_id: str) -> Metadata:
        try:
            fd = open_private(self.path(log_id, _SIDECAR), os.O_RDONLY)
            with os.fdopen(fd, "rb") as file:
                return msgspec.json.decode(file.read(), type=Metadata)
        except (OSError, msgspec.DecodeError) as error:
            if not os.path.lexists(self.path(log_id)):
                raise self._unknown(log_id, error) from error
            return Metadata(session_id=log_id)  # the sidecar is damaged; the log itself is the truth

    def save_metadata(self, metadata: Metadata) -> None:
        metadata = msgspec.structs.replace(metadata, writer=Writer(os.getpid(), os.uname().nodename))
        text = msgspec.json.format(msgspec.json.encode(metadata), indent=2) + b"\n"
        try:
            replace_private(self.path(metadata.session_id, _SIDECAR), text)
        except OSError as error:
            raise StoreError(
                f"cannot write the metadata of {metadata.session_id}: {error.strerror}"
            ) from error

    def list(self) -> Iterator[Metadata]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return
        for name in sorted(names, reverse=True):
            log_id = name.removesuffix(_LOG)
            if name.endswith(_LOG) and is_run_id(log_id):
                yield self.metadata(log_id)

    def delete(self, log_id: str) -> None:
        if self.is_live(log_id):
            raise LogLocked(f"session {log_id} is being written", hint="stop the run first")
        for name in os.listdir(self.directory):
            if name.split(".", 1)[0] == log_id:
                os.unlink(os.path.join(self.directory, name))

    def _holder(self, log_id: str) -> str:
        writer = self.metadata(log_id).writer
        return f"{writer.pid} on {writer.host}" if writer else "unknown"

    def _unknown(self, log_id: str, error: Exception) -> StoreError | UnknownSession:
        if isinstance(error, FileNotFoundError):
            return UnknownSession(
                f"unknown session: {log_id}", hint="`harness sessions list` shows what there is"
            )
        return StoreError(f"cannot open session {log_id}: {error}", hint=f"look at {self.path(log_id)}")


class FileWriter:
    """Holds the lock of one log. Opening repairs the end that a crash tore."""

    def __init__(self, fd: int, path: str, holder: str) -> None:
        self._fd = fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            message = f"{path} is being written by process {holder}"
            raise LogLocked(message, holder=holder, hint="wait until it has ended, or stop it") from error
        self.next_seq = _repair(fd)

    def append(self, events: Sequence[Event]) -> int:
        data = codec.encode_lines(events)
        if data:
            append_all(self._fd, (data,))
        return len(data)

    def close(self) -> None:
        os.close(self._fd)


class FileReader:
    """Reads whole lines only: what is half written is left for the next time."""

    def __init__(self, file: BinaryIO, cursor: int) -> None:
        self._file = file
        self._cursor = cursor
        self._expected = 0
        if cursor:
            self._skip_to(cursor)

    def read(self, most: int = 1000) -> list[Event]:
        batch: list[Event] = []
        while len(batch) < most:
            start = self._file.tell()
            line = self._file.readline()
            if not line.endswith(b"\n"):
                self._file.seek(start)
                break
            for event in _events_of(line, self._expected):
                self._expected = event.seq + 1
                if event.seq >= self._cursor:
                    batch.append(event)
        return batch

    def close(self) -> None:
        self._file.close()

    def _skip_to(self, cursor: int) -> None:
        """Jump over as many lines as there should be; if it lands too far, begin at the beginning."""
        missing = cursor
        while missing and (block := self._file.read(_BLOCK_BYTES)):
            count = block.count(b"\n")
            if count < missing:
                missing -= count
                continue
            position = -1
            for _ in range(missing):
                position = block.index(b"\n", position + 1)
            self._file.seek(position + 1 - len(block), os.SEEK_CUR)
            missing = 0
        start = self._file.tell()
        line = self._file.readline()
        first = next(iter(_events_of(line, cursor)), None) if line else None
        is_past = first is not None and first.seq > cursor
        self._file.seek(0 if is_past else start)
        self._expected = 0 if is_past else cursor


def _events_of(line: bytes, expected_seq: int) -> list[Event]:
    try:
        return [codec.decode(line)]
    except codec.UNREADABLE:
        return codec.salvage(line, expected_seq)


def _repair(fd: int) -> int:
    """Cut off a torn last line; returns the next `seq`."""
    end = size = os.lseek(fd, 0, os.SEEK_END)
    tail = b""
    while end:
        start = max(0, end - _BLOCK_BYTES)
        tail = os.pread(fd, end - start, start) + tail
        end = start
        whole = tail.rfind(b"\n") + 1
        if whole < len(tail) and whole:
            os.ftruncate(fd, size - (len(tail) - whole))
            size -= len(tail) - whole
            tail = tail[:whole]
        last = _last_seq(tail, is_whole=end == 0)
        if last is not None:
            return last + 1
    if size and not tail.endswith(b"\n"):
        os.ftruncate(fd, 0)
    return 0


def _last_seq(tail: bytes, *, is_whole: bool) -> int | None:
    """The `seq` of the last readable line in a tail of the file; None when there is none in it."""
    lines = tail.split(b"\n")
    for line in reversed(lines if is_whole else lines[1:]):
        if line:
            found = [
                event
                for event in _events_of(line + b"\n", -1)
                if not isinstance(event, Unknown) or event.seq >= 0
            ]
            if found and found[-1].seq >= 0:
                return found[-1].seq
    return None
