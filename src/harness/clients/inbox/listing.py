"""The rows of a few sessions at this moment, for commands that print them once."""

from __future__ import annotations

import os
from collections.abc import Collection

from harness import config
from harness.clients.conversations.local_socket import reachable_ids
from harness.clients.inbox.rows import InboxRows, RowStatus, held_status
from harness.errors import HarnessError
from harness.folds.inbox.row import InboxRow
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.usage.prices import Prices
from harness.usage.prices import load as load_prices

_LOOKED_AT = 300


def known_prices() -> Prices:
    """Those of the settings here; none where these are broken: then only stated costs are known."""
    try:
        return load_prices(config.load(os.getcwd()))
    except (HarnessError, OSError):
        return Prices("", {})


def rows_of(store: FileStore, prices: Prices, log_ids: Collection[str]) -> dict[str, InboxRow]:
    """By id. Raises StoreError."""
    ids = set(log_ids)
    sessions = [session for session in store.find(Query(limit=_LOOKED_AT)) if session.session_id in ids]
    missing = ids - {session.session_id for session in sessions}
    if missing:
        sessions += [session for session in store.find(Query()) if session.session_id in missing]
    reachable = reachable_ids()

    def status(metadata: Metadata) -> RowStatus:
        log_id = metadata.session_id
        if not store.is_live(log_id):
            return RowStatus()
        return held_status(metadata, is_reachable=log_id in reachable)

    rows = InboxRows(store, prices, status=status)
    try:
        return rows.of(sessions)
    finally:
        rows.close()
