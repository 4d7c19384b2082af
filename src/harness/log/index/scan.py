"""What is in a folder of logs, and what is new in a log since it was last read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from harness.events import Event
from harness.log import codec, metadata_file
from harness.log.event_file import HIDDEN, LOG, SIDECAR, LinePosition
from harness.log.ids import is_log_id
from harness.log.log_summary import KINDS, Gain, LogSummary
from harness.log.private_files import open_private
from harness.log.store import Metadata

_BLOCK_BYTES = 1024 * 1024
_TYPE_AT = len(b'{"type":"')
_TYPE_BYTES = 5
_CALL = b'{"type":"ToolStart"'
_BEGINNINGS = frozenset(kind.__name__.encode()[:_TYPE_BYTES] for kind in KINDS)
"""Enough of a type to skip irrelevant lines, which are nearly all."""


class FoundLog(NamedTuple):
    """A log as the folder shows it."""

    log_id: str
    path: str
    inode: int
    size: int
    sidecar_path: str
    sidecar_mark: str
    """Changes when the sidecar is rewritten."""
    written_ns: int
    """When the log was written last."""


class Addition(NamedTuple):
    """What a log has more than was known of it."""

    digest: LogSummary
    gain: Gain
    places: list[LinePosition]
    read_bytes: int
    operations: list[str]
    """Commands that were run, and paths of files that were read or written."""


class _Operation(msgspec.Struct, gc=False):
    command: str = ""
    path: str = ""


class _Call(msgspec.Struct, gc=False):
    operations: list[_Operation] = []


_decode_call = msgspec.json.Decoder(_Call).decode


class Rewritten(Exception):
    """The file does not continue where it was left: what is known of it is void."""


def scan(directory: str) -> dict[str, FoundLog]:
    """All logs, the hidden ones too."""
    logs: dict[str, tuple[str, os.stat_result]] = {}
    sidecars: dict[str, str] = {}
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return {}
    for entry in entries:
        log_id, dot, suffix = entry.name.partition(".")
        is_log, is_sidecar = suffix.startswith(LOG[1:]), suffix.startswith(SIDECAR[1:])
        if not (is_log or is_sidecar) or not is_log_id(log_id):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        if dot + suffix in (LOG, LOG + HIDDEN):
            logs[log_id] = entry.path, status
        elif dot + suffix in (SIDECAR, SIDECAR + HIDDEN):
            sidecars[entry.path] = _mark(status)
    return {log_id: _found(log_id, path, status, sidecars) for log_id, (path, status) in logs.items()}


def look(directory: str, log_id: str) -> FoundLog | None:
    """One of them."""
    for hidden in ("", HIDDEN):
        path = os.path.join(directory, log_id + LOG + hidden)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            continue
        sidecar_path = _sidecar_of(path, log_id)
        try:
            sidecars = {sidecar_path: _mark(os.lstat(sidecar_path))}
        except FileNotFoundError:
            sidecars = {}
        return _found(log_id, path, status, sidecars)
    return None


def read_metadata(log: FoundLog) -> Metadata:
    """Of a damaged sidecar nothing but the id is known."""
    try:
        with os.fdopen(open_private(log.sidecar_path, os.O_RDONLY), "rb") as file:
            metadata = metadata_file.decode(file.read(), log.log_id)
    except OSError:
        metadata = Metadata(session_id=log.log_id)
    metadata.deleted = log.path.endswith(HIDDEN)
    return metadata


def read_new(log: FoundLog, digest: LogSummary, read_bytes: int) -> Addition:
    """Read on where it was left, up to the last whole line. Raises Rewritten, OSError."""
    gain, places, operations = Gain([], []), list[LinePosition](), dict[str, None]()
    first_seq, start = digest.next_seq, read_bytes
    fd = open_private(log.path, os.O_RDONLY)
    try:
        if read_bytes and os.pread(fd, 1, read_bytes - 1) != b"\n":
            raise Rewritten
        for offset, lines in _whole_lines(fd, read_bytes):
            if start and offset == start and _seq_of(lines[: lines.index(b"\n")]) not in (first_seq, -1):
                raise Rewritten
            places.append(LinePosition(digest.next_seq, offset))
            added = digest.feed(_relevant_events(lines, operations))
            gain.starts.extend(added.starts)
            gain.texts.extend(added.texts)
            _finish_block(digest, places[-1].seq, lines)
            read_bytes = offset + len(lines)
    finally:
        os.close(fd)
    operations.pop("", None)
    return Addition(digest, gain, [place for place in places if place.offset], read_bytes, [*operations])


def _whole_lines(fd: int, offset: int) -> Iterator[tuple[int, bytes]]:
    """Blocks that begin and end with a line, each with its place."""
    parts: list[bytes] = []
    position = offset
    while block := os.pread(fd, _BLOCK_BYTES, position):
        position += len(block)
        end = block.rfind(b"\n") + 1
        if end:
            lines = b"".join((*parts, block[:end]))
            yield offset, lines
            offset += len(lines)
            parts = [block[end:]]
        else:
            parts.append(block)


def _relevant_events(lines: bytes, operations: dict[str, None]) -> Iterator[Event]:
    """What a summary is made of. The operations of calls are put into a list instead: few ask for them."""
    for line in lines.split(b"\n"):
        if line.startswith(_CALL):
            with suppress(*codec.UNREADABLE):
                for operation in _decode_call(line).operations:
                    operations[operation.command or operation.path] = None
        elif line[_TYPE_AT : _TYPE_AT + _TYPE_BYTES] in _BEGINNINGS:
            try:
                event = codec.decode(line)
            except codec.UNREADABLE:
                continue
            if event.seq >= 0:
                yield event


def _finish_block(digest: LogSummary, first_seq: int, lines: bytes) -> None:
    """The last line says how far the log has come; if it is damaged, the number of lines does."""
    try:
        last = codec.decode(lines[lines.rfind(b"\n", 0, -1) + 1 :])
    except codec.UNREADABLE:
        digest.next_seq = max(digest.next_seq, first_seq + lines.count(b"\n"))
    else:
        digest.next_seq = max(digest.next_seq, last.seq + 1)
        digest.updated_ms = max(digest.updated_ms, last.timestamp_ms)


def _seq_of(line: bytes) -> int:
    try:
        return codec.decode(line).seq
    except codec.UNREADABLE:
        return -1


def _found(log_id: str, path: str, status: os.stat_result, sidecars: dict[str, str]) -> FoundLog:
    sidecar_path = _sidecar_of(path, log_id)
    mark = sidecars.get(sidecar_path, "")
    return FoundLog(log_id, path, status.st_ino, status.st_size, sidecar_path, mark, status.st_mtime_ns)


def _sidecar_of(path: str, log_id: str) -> str:
    hidden = HIDDEN if path.endswith(HIDDEN) else ""
    return os.path.join(os.path.dirname(path), log_id + SIDECAR + hidden)


def _mark(status: os.stat_result) -> str:
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
