"""The folder that a conversation works in: files in it are read and replaced, and none outside of it.

A path is checked after following every symbolic link, and opened without following any.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from harness.contracts.tool import ToolFailure
from harness.errors import UsageError
from harness.folds.changes.fold import ChangeHistory
from harness.folds.changes.texts import ABSENT, Text
from harness.log.store import Store, read_all
from harness.workspace.files import Change, TextFile, apply, decode, open_for_reading
from harness.workspace.roots import ToolWorkspace

LARGEST_SHOWN_BYTES = 16 * 1024 * 1024


class NotInFolder(UsageError):
    """The path is outside of the folder, or leads out of it."""


class FileNow(msgspec.Struct, frozen=True):
    """A file as it is. Without `data` and without a reason there is none."""

    data: bytes | None = None
    modified_ms: int = 0
    why_unread: str = ""
    decoded: TextFile | None = None
    mode: int | None = None
    """Its permissions."""

    @property
    def digest(self) -> str:
        """Of its content; empty if there is no file."""
        return "" if self.data is None else digest_of(self.data)

    @property
    def text(self) -> Text:
        """None: it is no text, or cannot be read."""
        if self.decoded is not None:
            return self.decoded.text
        return ABSENT if self.data is None and not self.why_unread else None

    @property
    def is_binary(self) -> bool:
        return self.data is not None and self.decoded is None

    def encoded(self, text: str) -> bytes:
        """A text in the encoding and with the line ends of this file."""
        return (self.decoded or TextFile("")).encode(text)


def digest_of(data: bytes) -> str:
    return sha256(data).hexdigest()[:32]


def file_of(data: bytes, modified_ms: int = 0) -> FileNow:
    try:
        return FileNow(data, modified_ms, decoded=decode(data, "the file"))
    except ToolFailure:
        return FileNow(data, modified_ms)


class RunFolder:
    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._workspace = ToolWorkspace(self.root)

    def named(self, path: str) -> str:
        """A path for people: relative if it is in the folder."""
        absolute = os.path.normpath(os.path.join(self.root, path))
        return os.path.relpath(absolute, self.root) if self._has(absolute) else path

    def has(self, path: str) -> bool:
        try:
            self._real(path)
        except NotInFolder:
            return False
        return True

    def read(self, path: str) -> FileNow:
        """Raises NotInFolder."""
        real = self._real(path)
        try:
            descriptor = open_for_reading(real)
        except FileNotFoundError:
            return FileNow()
        except NotADirectoryError:
            return FileNow()
        except OSError as error:
            return FileNow(why_unread=f"it cannot be read: {error.strerror or error}")
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            modified_ms = status.st_mtime_ns // 1_000_000
            if status.st_size > LARGEST_SHOWN_BYTES:
                return FileNow(modified_ms=modified_ms, why_unread="it is larger than 16 MB")
            file_now = file_of(file.read(LARGEST_SHOWN_BYTES), modified_ms)
            return msgspec.structs.replace(file_now, mode=status.st_mode & 0o777)

    def replace(self, changes: Sequence[Change]) -> None:
        """All of them are made, or none. Raises UsageError."""
        try:
            apply([msgspec.structs.replace(change, path=self._writable(change.path)) for change in changes])
        except OSError as error:
            raise UsageError(
                f"nothing was changed: {error.filename or ''} {error.strerror or error}"
            ) from error

    def _real(self, path: str) -> str:
        try:
            return self._workspace.readable(path)
        except ToolFailure as error:
            raise NotInFolder(f"{path[:200]} is not in the folder of the conversation") from error

    def _writable(self, path: str) -> str:
        try:
            return self._workspace.writable(path)
        except ToolFailure as error:
            raise NotInFolder(f"{path[:200]} may not be changed: {error}") from error

    def _has(self, absolute: str) -> bool:
        return absolute.startswith(self.root if self.root.endswith(os.sep) else self.root + os.sep)


# The change histories of logs: cached, and continued when they are needed again.


_MOST_CACHED = 8


class ChangeHistories:
    """Contract: thread-safe. A history that is in use is taken out, so that no two threads feed it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._cached: dict[str, ChangeHistory] = {}
        """Most recently used last."""

    def take(self, log_id: str) -> ChangeHistory:
        """The history up to now; `put` it back. Raises UnknownSession and StoreError."""
        self._store.metadata(log_id)
        with self._lock:
            history = self._cached.pop(log_id, None) or ChangeHistory()
        for event in read_all(self._store, log_id, history.next_seq):
            history.feed(event)
        return history

    def put(self, log_id: str, history: ChangeHistory) -> None:
        with self._lock:
            self._cached[log_id] = history
            while len(self._cached) > _MOST_CACHED:
                del self._cached[next(iter(self._cached))]

    def forget(self, log_id: str) -> None:
        """It was deleted, or replaced."""
        with self._lock:
            self._cached.pop(log_id, None)
