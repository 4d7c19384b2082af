"""Rows of logs at rest: folded once, and saved in the index of the store, so that a list reads no log.

A saved row is that of a log without a process. What changes without a change of the log (whether a process has it open,
its project, which commands it accepts) is added when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from harness.agents.registry import load
from harness.errors import HarnessError
from harness.folds.inbox.fold import InboxFold
from harness.folds.inbox.row import InboxRow
from harness.log.store import Metadata, Store, read_all
from harness.log.stores.files import FileStore
from harness.models.registry import known_window
from harness.usage.prices import Prices

_ROW, _FOLD = "inbox", "inbox-fold"
_VERSION = 3
"""One higher whenever a row says something else of the same log. A new field needs none: the names are in the mark."""
_AT_REST_MS = 5_000
"""A log that has changed within this time may still be written: its row is not saved."""
_LONG_EVENTS = 2_000
"""From here on, reading a log again costs more than saving its fold."""
_SAVED_AT_ONCE = 500
_FEW = 50
"""Up to so many rows are read one by one."""


class StoredRow(NamedTuple):
    metadata: Metadata
    row: InboxRow
    is_unfinished: bool


class _SavedRow(msgspec.Struct, omit_defaults=True):
    mark: str
    """Of the log as it was then, of this version, and of the prices."""
    row: InboxRow
    is_unfinished: bool = False


class StoredRows:
    """Contract: thread-safe as far as the store is. A log that cannot be read does not make the others fail."""

    def __init__(self, store: Store, prices: Prices) -> None:
        self._store = store
        self._prices = prices
        fields = [field.name for field in msgspec.structs.fields(InboxRow)]
        made_with = msgspec.json.encode([_VERSION, fields, prices.date, sorted(prices.by_model.items())])
        self._mark = sha256(made_with).hexdigest()[:12]

    def of(self, sessions: Iterable[Metadata]) -> list[StoredRow]:
        """The rows of these logs; those that are not saved are folded now, and saved if they are at rest."""
        logs = list(sessions)
        saved = self._saved(logs)
        rows: list[StoredRow] = []
        new: list[tuple[str, int, bytes]] = []
        for metadata in logs:
            known_row = saved.get(metadata.session_id)
            if known_row is not None and known_row.mark == self._mark_of(metadata):
                rows.append(StoredRow(metadata, known_row.row, known_row.is_unfinished))
                continue
            fold = self.fold(metadata)
            rows.append(StoredRow(metadata, fold.value, fold.is_open))
            if _is_at_rest(metadata):
                row = _SavedRow(self._mark_of(metadata), fold.value, fold.is_open)
                new.append((metadata.session_id, fold.next_seq, msgspec.json.encode(row)))
        self._save(_ROW, new)
        return rows

    def fold(self, metadata: Metadata) -> InboxFold:
        """The fold of the log as it is now; of a log that cannot be read, what could be."""
        fold = self._new(metadata)
        with suppress(HarnessError, OSError):
            if restored := self._restored(metadata):
                fold = restored
            start = fold.next_seq
            for event in read_all(self._store, metadata.session_id, start):
                fold.feed(event)
            if fold.next_seq - start >= _LONG_EVENTS and _is_at_rest(metadata):
                data = msgspec.json.encode([self._mark, metadata.created_ms, fold.snapshot()])
                self._save(_FOLD, [(metadata.session_id, fold.next_seq, data)])
        return fold

    def _new(self, metadata: Metadata) -> InboxFold:
        return InboxFold(metadata, prices=self._prices, limit_of=known_window, login_of=_login_of)

    def _restored(self, metadata: Metadata) -> InboxFold | None:
        if metadata.fork is not None:
            return None
        saved_fold = self._store.snapshot(metadata.session_id, _FOLD)
        if saved_fold is None:
            return None
        try:
            mark, created_ms, snapshot = msgspec.json.decode(saved_fold[1], type=tuple[str, int, Any])
            if (mark, created_ms) != (self._mark, metadata.created_ms):
                return None
            fold = self._new(metadata)
            fold.restore(snapshot)
        except (msgspec.MsgspecError, KeyError, TypeError):
            return None
        return fold

    def _mark_of(self, metadata: Metadata) -> str:
        own = (metadata.created_ms, metadata.updated_ms, metadata.outcome, metadata.name, metadata.model)
        return f"{self._mark} {hash_of((*own, *metadata.tags))}"

    def _saved(self, logs: list[Metadata]) -> dict[str, _SavedRow]:
        data: dict[str, bytes] = {}
        with suppress(HarnessError):
            if isinstance(self._store, FileStore) and len(logs) > _FEW:
                data = self._store.snapshots(_ROW)
            else:
                for metadata in logs:
                    if snapshot := self._store.snapshot(metadata.session_id, _ROW):
                        data[metadata.session_id] = snapshot[1]
        decoded: dict[str, _SavedRow] = {}
        for log_id, saved_row in data.items():
            with suppress(msgspec.MsgspecError):
                decoded[log_id] = _decoder.decode(saved_row)
        return decoded

    def _save(self, name: str, new: list[tuple[str, int, bytes]]) -> None:
        with suppress(HarnessError, OSError):  # a cache
            if isinstance(self._store, FileStore):
                for start in range(0, len(new), _SAVED_AT_ONCE):
                    self._store.save_snapshots(name, new[start : start + _SAVED_AT_ONCE])
            else:
                for log_id, seq, data in new:
                    self._store.save_snapshot(log_id, name, seq, data)


def _login_of(agent: str) -> str:
    with suppress(HarnessError):  # an agent that is not known here
        return load(agent).login
    return ""


_decoder = msgspec.json.Decoder(_SavedRow)


def hash_of(values: tuple[Any, ...]) -> str:
    return sha256(repr(values).encode("utf-8", "replace")).hexdigest()[:12]


def _is_at_rest(metadata: Metadata) -> bool:
    return time.time() * 1000 - metadata.updated_ms >= _AT_REST_MS
