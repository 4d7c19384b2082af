"""What the tasks of a whole tree of servers have cost: one file, to which all of them append.

A server is started by a task of another server, and gives tasks itself. Each of them has an entry, the server that was started
first at the top, and each may have a limit: what an entry costs counts for all those above it.

A line is `{"task": ID, "above": ID, "limit_usd": USD or null}` where a task begins a turn, which counts from zero, or
`{"task": ID, "usd": USD}` for a call of a model.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from harness.config import data_directory
from harness.errors import UsageError
from harness.log.private_files import append_all, make_private_directory, open_private

FOLDER = "task-budgets"
_KEPT_S = 30 * 86_400
"""What the server of a killed process has left behind."""


class _Entry(msgspec.Struct):
    above: str = ""
    limit_usd: float | None = None
    spent_usd: float = 0.0


class TaskLedger:
    """Contract: used by one thread. Everything raises UsageError where the file cannot be read or written."""

    def __init__(self, path: str, fd: int, *, is_owner: bool) -> None:
        self.path = path
        self._fd, self._is_owner = fd, is_owner
        self._at = 0
        self._entries: dict[str, _Entry] = {}

    @classmethod
    def create(cls, name: str) -> TaskLedger:
        folder = os.path.join(data_directory(), FOLDER)
        path = os.path.join(folder, f"{name}.ndjson")
        try:
            make_private_directory(folder)
            _remove_old(folder)
            return cls(
                path, open_private(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL), is_owner=True
            )
        except OSError as error:
            raise _unusable(path, error) from error

    @classmethod
    def open(cls, path: str) -> TaskLedger:
        """That of a server above."""
        try:
            return cls(path, open_private(path, os.O_RDWR | os.O_APPEND), is_owner=False)
        except OSError as error:
            raise _unusable(path, error) from error

    def close(self) -> None:
        os.close(self._fd)
        if self._is_owner:
            with suppress(OSError):
                os.unlink(self.path)

    def begin(self, task: str, above: str, limit_usd: float | None) -> None:
        self._append({"task": task, "above": above, "limit_usd": limit_usd})

    def spend(self, task: str, usd: float) -> None:
        self._append({"task": task, "usd": usd})

    def left_usd(self, task: str) -> float | None:
        """The least that it and all those above it may still spend; None: nobody has set a limit."""
        self._read()
        limits = [
            max(0.0, entry.limit_usd - entry.spent_usd)
            for entry in self._chain(task)
            if entry.limit_usd is not None
        ]
        return min(limits, default=None)

    def _append(self, record: dict[str, Any]) -> None:
        try:
            append_all(self._fd, (msgspec.json.encode(record) + b"\n",))
        except OSError as error:
            raise _unusable(self.path, error) from error

    def _read(self) -> None:
        """What others and this one have appended since."""
        try:
            size = os.fstat(self._fd).st_size
            data = os.pread(self._fd, size - self._at, self._at)
        except OSError as error:
            raise _unusable(self.path, error) from error
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.split(b"\n"):
            with suppress(msgspec.DecodeError):
                if isinstance(record := msgspec.json.decode(line), dict):
                    self._take(record)

    def _take(self, record: dict[str, Any]) -> None:
        task, usd = str(record.get("task", "")), record.get("usd")
        if "above" in record:
            entry = self._entries.setdefault(task, _Entry())
            limit_usd = record.get("limit_usd")
            entry.limit_usd = float(limit_usd) if isinstance(limit_usd, int | float) else None
            entry.above, entry.spent_usd = str(record["above"]), 0.0
        elif isinstance(usd, int | float) and math.isfinite(usd) and usd > 0:
            for entry in self._chain(task):
                entry.spent_usd += usd

    def _chain(self, task: str) -> Iterator[_Entry]:
        """It, and those above it, up to the first server."""
        seen: set[str] = set()
        while task not in seen and (entry := self._entries.get(task)) is not None:
            seen.add(task)
            yield entry
            task = entry.above


def _remove_old(folder: str) -> None:
    oldest_s = time.time() - _KEPT_S
    for entry in os.scandir(folder):
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < oldest_s:
                os.unlink(entry.path)


def _unusable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"what tasks may spend together is kept in {path}, which cannot be used: {error.strerror or error}",
        hint="let this program write there, or do this task without other agents",
    )
