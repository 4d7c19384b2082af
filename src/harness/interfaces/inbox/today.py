"""What all sessions cost today."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Any

import msgspec

from harness.config.prices import Prices
from harness.errors import HarnessError
from harness.ledger import WORDS, Ledger, rolled_up, total
from harness.log.grep_events import grep_events
from harness.log.private_files import open_private
from harness.log.store import Query
from harness.log.stores.files import FileStore
from harness.sources.registry import load


class TodayByAgent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent: str
    """Its display name."""
    agent_name: str
    cost_usd: float | None
    is_cost_complete: bool


class Today(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    cost_usd: float | None = None
    is_cost_complete: bool = True
    limit_usd: float | None = None
    by_agent: tuple[TodayByAgent, ...] = ()


def today_of(bill: dict[str, Any]) -> Today:
    """From a bill by agent, of `harness usage --json`."""
    return Today(
        cost_usd=bill["total"]["cost_usd"],
        is_cost_complete=bill["total"]["is_cost_complete"],
        by_agent=tuple(
            TodayByAgent(
                agent=_title(row["agent"] or ""),
                agent_name=row["agent"] or "",
                cost_usd=row["cost_usd"],
                is_cost_complete=row["is_cost_complete"],
            )
            for row in bill["rows"]
        ),
    )


def today_in(store: FileStore, prices: Prices) -> Today:
    """From the logs that were written today. Raises StoreError."""
    since_ms = midnight_ms()
    ledger = Ledger()
    for metadata in store.find(Query()):
        if metadata.updated_ms < since_ms:
            break
        with suppress(HarnessError, OSError):
            path = store.path(metadata.session_id)
            with os.fdopen(open_private(path, os.O_RDONLY), "rb", buffering=0) as file:
                ledger.add(metadata, grep_events(file, WORDS))
    charges = ledger.charges(prices, lambda _at_ms: "", since_ms)
    rows = [{"agent": row.key, **msgspec.structs.asdict(row.amount)} for row in rolled_up(charges, "agent")]
    return today_of({"rows": rows, "total": msgspec.structs.asdict(total(charges))})


def midnight_ms() -> int:
    now = time.localtime()
    return int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1)) * 1000)


def _title(agent_name: str) -> str:
    try:
        return load(agent_name).title
    except HarnessError:
        return agent_name
