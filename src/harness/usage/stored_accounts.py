"""The accounts of a store: what its logs say was used, read once and continued.

Only what is new in each log is read. What was read is stored beside the index of a folder, for the next process.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple

import msgspec

from harness.errors import HarnessError
from harness.events import Event
from harness.log.private_files import open_private
from harness.log.query import grep_events, is_active
from harness.log.store import Metadata, Query, Store, read_all
from harness.log.stores.files import FileStore
from harness.usage.ledger import WORDS, Account, Ledger

_KEPT_AS = "account 4"
"""Another number when an account has another form, or is made by other rules."""
_SAVED_AT_ONCE = 500
_MANY = 50
"""So many logs to read: what an earlier process has stored of them is loaded first."""
_PAGE = 200
_UNSURE_MS = 60_000
"""Times of files are coarse, and clocks differ."""
_RECENT_MS = 10_000
"""What was written just now may have more of the same moment."""
_QUARTER_HOUR_MS = 15 * 60 * 1000
"""No day begins between two of them, anywhere."""
REPLAYS = "replay"
"""The agent that plays recordings: nothing is used a second time."""


class _Known(NamedTuple):
    metadata: Metadata
    account: Account


class StoredAccounts:
    """Contract: thread-safe. `of` gives all users of a store the same one."""

    def __init__(self, store: Store) -> None:
        self._place = weakref.ref(store)  # `_made` must not hold it
        self.number: int = 0
        """Another one when there may be something new."""
        self._lock = threading.Lock()
        self._entries: dict[str, _Known] = {}
        self._version: int | None = None
        self._since_ms: float = float("inf")
        """All logs that were changed since then are known."""
        self._read_ms = 0
        """When logs were read last."""
        self._has_loaded = False

    @classmethod
    def of(cls, store: Store) -> StoredAccounts:
        with _making:
            accounts = _by_store.get(store)
            if accounts is None:
                accounts = _by_store[store] = cls(store)
            return accounts

    @property
    def _store(self) -> Store:
        store = self._place()
        assert store is not None, "who asks for accounts has the store"
        return store

    def ledger(
        self, since_ms: int = -1, *, leaves_out: Callable[[Metadata], bool] = lambda _log: False
    ) -> Ledger:
        """Of all logs that were changed since then, without those that are left out. Raises StoreError.

        A run that states the total of its session needs the runs before it: then every log is read.
        """
        with self._lock:
            self._catch_up(since_ms)
            if since_ms > 0 and any(_has_total(entry.account) for entry in self._entries.values()):
                self._catch_up(-1)
            return Ledger(entry.account for entry in self._entries.values() if not leaves_out(entry.metadata))

    def _catch_up(self, since_ms: int) -> None:
        """What changed long ago is known already, but that it was deleted is only noticed when everything is read."""
        version, now_ms = self._store.version(), int(time.time() * 1000)
        is_known = since_ms >= self._since_ms
        if version is not None and version == self._version and is_known:
            return
        is_partial = is_known and since_ms > 0
        changes = self._changed(max(since_ms, self._read_ms - _UNSURE_MS) if is_partial else since_ms)
        new: list[tuple[str, int, bytes]] = []
        snapshots = self._load(changes)
        for metadata in reversed(changes):
            self._read(metadata, snapshots.get(metadata.session_id), new)
        if not is_partial:
            there = {metadata.session_id for metadata in changes}
            self._entries = {log_id: entry for log_id, entry in self._entries.items() if log_id in there}
            self._since_ms = since_ms
        self._save(new)
        self._version, self._read_ms = version, now_ms
        self.number += 1

    def _changed(self, since_ms: int) -> list[Metadata]:
        """The logs that were changed since then, but replays: the last changed first, and no more than are needed."""
        all_metadata: list[Metadata] = []
        page: list[Metadata] = []
        while not all_metadata or (len(page) == _PAGE and page[-1].updated_ms >= since_ms):
            limit = None if since_ms <= 0 else _PAGE
            page = self._store.find(Query(limit=limit, offset=len(all_metadata)))
            all_metadata += page
            if not page or limit is None:
                break
        return [log for log in all_metadata if log.updated_ms >= since_ms and log.agent_name != REPLAYS]

    def _read(self, metadata: Metadata, snapshot: bytes | None, new: list[tuple[str, int, bytes]]) -> None:
        log_id = metadata.session_id
        entry = self._entries.get(log_id)
        if entry is not None and entry.metadata.created_ms != metadata.created_ms:
            entry, snapshot = None, None  # another log under its id
        is_recent = time.time() * 1000 - metadata.updated_ms < _RECENT_MS or is_active(metadata)
        if entry is not None and entry.metadata.updated_ms == metadata.updated_ms and not is_recent:
            return
        account = entry.account if entry is not None else _decoded(snapshot) or Account(runs=None)
        before = account.next_seq
        try:
            account.feed(metadata, self._events(metadata, account.next_seq))
        except (HarnessError, OSError):
            return  # it was deleted meanwhile, or cannot be read: then it is not on the bill
        self._entries[log_id] = _Known(metadata, account)
        if account.next_seq > before and not is_recent:
            new.append((log_id, account.next_seq, msgspec.json.encode(account)))

    def _events(self, metadata: Metadata, cursor: int) -> Iterable[Event]:
        """Its own: what was used before a fork is on the bill of the log that it left."""
        own = 0 if metadata.fork is None else metadata.fork.seq
        if cursor == 0 and isinstance(self._store, FileStore):
            path = self._store.path(metadata.session_id)
            with os.fdopen(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:
                yield from grep_events(file, WORDS)
        else:
            yield from read_all(self._store, metadata.session_id, max(own, cursor))

    def _load(self, all_metadata: list[Metadata]) -> dict[str, bytes]:
        """What an earlier process has read; asked for once, and not for a few logs."""
        store = self._store
        is_worth_it = not self._has_loaded and len(all_metadata) - len(self._entries) >= _MANY
        if not is_worth_it or not isinstance(store, FileStore):
            return {}
        self._has_loaded = True
        return store.snapshots(_KEPT_AS)

    def _save(self, new: list[tuple[str, int, bytes]]) -> None:
        store = self._store
        if isinstance(store, FileStore):
            for start in range(0, len(new), _SAVED_AT_ONCE):
                store.save_snapshots(_KEPT_AS, new[start : start + _SAVED_AT_ONCE])


_by_store: weakref.WeakKeyDictionary[Store, StoredAccounts] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def day_of(at_ms: int) -> str:
    """The day of the local time zone; empty for an unknown time."""
    return _day_of_quarter(at_ms // _QUARTER_HOUR_MS) if at_ms >= 0 else ""


@cache
def _day_of_quarter(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(number * _QUARTER_HOUR_MS / 1000))


def _has_total(account: Account) -> bool:
    return any(invocation.states_session for invocation in account.invocations)


def _decoded(snapshot: bytes | None) -> Account | None:
    try:
        return msgspec.json.decode(snapshot, type=Account) if snapshot else None
    except msgspec.MsgspecError:
        return None
