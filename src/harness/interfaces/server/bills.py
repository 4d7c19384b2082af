"""The bill over all sessions, for a server that is asked for it again and again: of each log, only what is new is read.

What was read is kept beside the index of a folder, so that a server that is started again need not read everything.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict

from harness.config import Settings
from harness.config.prices import load as load_prices
from harness.errors import HarnessError
from harness.events import Event
from harness.interfaces.cli import inventory
from harness.ledger import WORDS, Account, By, Ledger, rolled_up, total
from harness.log.grep_events import grep_events
from harness.log.private_files import open_private
from harness.log.query import is_active
from harness.log.store import Metadata, Query, Store, read_all
from harness.log.stores.files import FileStore

_KEPT_AS = "account 1"
"""Another number when an account has another form, or is made by other rules."""
_SAVED_AT_ONCE = 500
_MOST_MADE = 50
_QUARTER_HOUR_MS = 15 * 60 * 1000
"""No day begins between two of them, anywhere."""
_RECENT_MS = 10_000
"""What was written just now may have more of the same moment."""


class _Known(NamedTuple):
    updated_ms: int
    created_ms: int
    account: Account


class UsageReports:
    """Contract: may be asked by several threads."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._version: int | None = None
        self._has_loaded = False
        self._made: dict[tuple[By, int], dict[str, Any]] = {}

    def bill(self, by: By, since_ms: int) -> dict[str, Any]:
        """As `harness usage --json`. Raises StoreError."""
        with self._lock:
            if self._catch_up() or len(self._made) > _MOST_MADE:
                self._made.clear()
            if (by, since_ms) not in self._made:
                self._made[by, since_ms] = self._make(by, since_ms)
            return self._made[by, since_ms]

    def _make(self, by: By, since_ms: int) -> dict[str, Any]:
        ledger = Ledger(known.account for known in self._known.values())
        prices = load_prices(self._settings, "")
        charges = ledger.charges(prices, _day_of, since_ms)
        name = by.replace("-", "_")
        return {
            "by": by,
            "rows": [{name: row.key or None, **asdict(row.amount)} for row in rolled_up(charges, by)],
            "total": asdict(total(charges)),
            "prices_date": prices.date,
        }

    def _catch_up(self) -> bool:
        """Whether there may be something new."""
        version = self._store.version()
        if version is not None and version == self._version:
            return False
        player = inventory.player()
        kept = self._load()
        found = [one for one in self._store.find(Query()) if player is None or one.agent_name != player.name]
        new: list[tuple[str, int, bytes]] = []
        for metadata in reversed(found):
            self._read(metadata, kept.get(metadata.session_id), new)
        there = {metadata.session_id for metadata in found}
        self._known = {log_id: known for log_id, known in self._known.items() if log_id in there}
        self._save(new)
        self._version = version
        return True

    def _read(self, metadata: Metadata, kept: bytes | None, new: list[tuple[str, int, bytes]]) -> None:
        log_id = metadata.session_id
        known = self._known.get(log_id)
        if known is not None and known.created_ms != metadata.created_ms:
            known, kept = None, None  # another log under its id
        is_recent = time.time() * 1000 - metadata.updated_ms < _RECENT_MS or is_active(metadata)
        if known is not None and known.updated_ms == metadata.updated_ms and not is_recent:
            return
        account = known.account if known is not None else _decoded(kept) or Account()
        before = account.next_seq
        try:
            account.feed(metadata, self._events(metadata, account.next_seq))
        except (HarnessError, OSError):
            return  # it was deleted meanwhile, or cannot be read: then it is not on the bill
        self._known[log_id] = _Known(metadata.updated_ms, metadata.created_ms, account)
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

    def _load(self) -> dict[str, bytes]:
        """What an earlier server has read; asked for once."""
        if self._has_loaded or not isinstance(self._store, FileStore):
            return {}
        self._has_loaded = True
        return self._store.snapshots(_KEPT_AS)

    def _save(self, new: list[tuple[str, int, bytes]]) -> None:
        if isinstance(self._store, FileStore):
            for start in range(0, len(new), _SAVED_AT_ONCE):
                self._store.save_snapshots(_KEPT_AS, new[start : start + _SAVED_AT_ONCE])


def _decoded(kept: bytes | None) -> Account | None:
    try:
        return msgspec.json.decode(kept, type=Account) if kept else None
    except msgspec.MsgspecError:
        return None


def _day_of(at_ms: int) -> str:
    return _day_of_quarter(at_ms // _QUARTER_HOUR_MS) if at_ms >= 0 else ""


@cache
def _day_of_quarter(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(number * _QUARTER_HOUR_MS / 1000))
