"""The rows of a few sessions at this moment, for commands that print them once."""

from __future__ import annotations

import os
from collections.abc import Collection

from harness import config
from harness.config.prices import Prices
from harness.config.prices import load as load_prices
from harness.errors import HarnessError
from harness.interfaces.inbox.rows import InboxRows, RowStatus
from harness.log.store import Query
from harness.log.stores.files import FileStore
from harness.views.inbox.row import InboxRow

_LOOKED_AT = 300


def known_prices() -> Prices:
    """Those of the settings here; none where these are broken: then only stated costs are known."""
    try:
        return load_prices(config.load(os.getcwd()))
    except (HarnessError, OSError):
        return Prices("", {})


def rows_of(store: FileStore, prices: Prices, log_ids: Collection[str]) -> dict[str, InboxRow]:
    """By id. Raises StoreError."""
    wanted = set(log_ids)
    found = [one for one in store.find(Query(limit=_LOOKED_AT)) if one.session_id in wanted]
    missing = wanted - {one.session_id for one in found}
    if missing:
        found += [one for one in store.find(Query()) if one.session_id in missing]
    rows = InboxRows(
        store, prices, status=lambda metadata: RowStatus(is_live=store.is_live(metadata.session_id))
    )
    try:
        return rows.of(found)
    finally:
        rows.close()
