"""The history of a stored log, of which what was read before is not read again.

A log only grows, so what was read of it stays true: the outcome is kept beside it as a snapshot, and only what came
since is read. The snapshot is a cache. It is made of the log alone, never of what a process has in memory; one that is
missing, damaged, of another version or of another log means that everything is read.

It is as long as the conversation. So it is written by whoever had to read much, and not with every message.
"""

from __future__ import annotations

import logging

import msgspec

from harness.conversation.history import EventMark, History, Rest, continued_history
from harness.errors import HarnessError
from harness.log.codec import UNENCODABLE
from harness.log.store import Store, read_all

_logger = logging.getLogger("harness.session")
_NAME = "history"
_VERSION = 2
_FEW = 500
"""Events that are read again each time rather than kept: as many as a few turns have."""
_SHARE = 4
"""So many entries are written as fast as one event is read: what is kept must be worth it."""


class _Snapshot(msgspec.Struct):
    version: int
    rest: Rest


def stored_history(store: Store, log_id: str) -> History:
    """What `history` says of the whole log. Raises UnknownSession, StoreError."""
    before = _rest_of(store, log_id)
    events = read_all(store, log_id, before.last.seq if before is not None else 0)
    if before is not None and EventMark.of(next(events, None)) != before.last:
        before, events = None, read_all(store, log_id)
    first = before.last.seq + 1 if before is not None else 0
    result, rest = continued_history(events, before)
    if rest is not None and rest.last.seq + 1 - first > max(_FEW, len(rest.entries) // _SHARE):
        _keep(store, log_id, rest)
    return result


def _rest_of(store: Store, log_id: str) -> Rest | None:
    try:
        saved = store.snapshot(log_id, _NAME)
        if saved is None:
            return None
        seq, data = saved
        snapshot = msgspec.json.decode(data, type=_Snapshot)
    except (HarnessError, msgspec.DecodeError):
        _logger.warning("the stored history of %s could not be read", log_id, exc_info=True)
        return None
    is_of_now = snapshot.version == _VERSION and snapshot.rest.last.seq == seq - 1
    return snapshot.rest if is_of_now else None


def _keep(store: Store, log_id: str, rest: Rest) -> None:
    try:
        data = msgspec.json.encode(_Snapshot(_VERSION, rest))
    except UNENCODABLE:
        return  # a store in memory may hold what no file can
    try:
        store.save_snapshot(log_id, _NAME, rest.last.seq + 1, data)
    except (HarnessError, OSError):
        _logger.warning("the history of %s could not be stored", log_id, exc_info=True)
