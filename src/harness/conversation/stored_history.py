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
_VERSION = 1
_FEW = 500
"""Events that are read again each time rather than kept: as many as a few turns have."""
_SHARE = 4
"""So many entries are written as fast as one event is read: what is kept must be worth it."""


class _Snapshot(msgspec.Struct):
    version: int
    rest: Rest


def stored_history(store: Store, log_id: str) -> History:
    """What `history` says of the whole log. Raises UnknownSession, StoreError."""
    known = _known(store, log_id)
    events = read_all(store, log_id, known.last.seq if known is not None else 0)
    if known is not None and EventMark.of(next(events, None)) != known.last:
        known, events = None, read_all(store, log_id)
    found, rest = continued_history(events, known)
    if rest is not None:
        fresh = rest.last.seq - (known.last.seq if known is not None else -1)
        if fresh > max(_FEW, len(rest.entries) // _SHARE):
            _keep(store, log_id, rest)
    return found


def _known(store: Store, log_id: str) -> Rest | None:
    try:
        saved = store.snapshot(log_id, _NAME)
        if saved is None:
            return None
        found = msgspec.json.decode(saved[1], type=_Snapshot)
    except (HarnessError, msgspec.DecodeError):
        _logger.warning("the stored history of %s could not be read", log_id, exc_info=True)
        return None
    return found.rest if found.version == _VERSION and found.rest.last.seq == saved[0] - 1 else None


def _keep(store: Store, log_id: str, rest: Rest) -> None:
    try:
        data = msgspec.json.encode(_Snapshot(_VERSION, rest))
    except UNENCODABLE:
        return  # a store in memory may hold what no file can
    try:
        store.save_snapshot(log_id, _NAME, rest.last.seq + 1, data)
    except (HarnessError, OSError):
        _logger.warning("the history of %s could not be stored", log_id, exc_info=True)
