"""Small logs for the ledger's tests, and what it makes of them."""

from __future__ import annotations

from typing import Any

from harness.events import Event, ModelCall, Result, SessionStart, Usage, UsageDelta, Warning
from harness.log.store import Metadata
from harness.usage.ledger import Amount, Charge, Ledger, total
from harness.usage.prices import Price, Prices

PRICES = Prices(
    "2026-01-01", {"big": Price(input=10, cache_read=1, output=50), "small": Price(input=1, output=5)}
)
DAY_MS = 86_400_000


def day_of(at_ms: int) -> str:
    return f"day {at_ms // DAY_MS}"


def started(run: str, **fields: Any) -> SessionStart:
    fields = {"agent": "claude", "model": "big", "session_id": f"session of {run}", **fields}
    return SessionStart(run_id=run, timestamp_ms=fields.pop("at", 0), **fields)


def used(run: str, usage: Usage, *, at: int = 0, model: str = "", call: str = "") -> UsageDelta:
    return UsageDelta(run_id=run, usage=usage, timestamp_ms=at, model=model, id=call)


def asked(run: str, call: str) -> ModelCall:
    """What a gateway says of a call, ahead of what the call used."""
    return ModelCall(run_id=run, id=call, wire="anthropic", model="big", status=200)


def ended(run: str, usage: Usage | None = None) -> Result:
    return Result(run_id=run, success=True, usage=usage)


def cumulative(run: str) -> Warning:
    return Warning(message="the whole thread", code="usage_cumulative", run_id=run)


def stated(usd: float, **counts: int) -> Usage:
    return Usage(**counts, cost_usd=usd, cost_source="stated")


def charges(*logs: list[Event], since_ms: int = -1) -> list[Charge]:
    ledger = Ledger()
    for number, events in enumerate(logs):
        ledger.add(Metadata(session_id=f"log {number}", agent_name="claude"), events)
    return ledger.charges(PRICES, day_of, since_ms)


def sum_of(*logs: list[Event]) -> Amount:
    return total(charges(*logs))
