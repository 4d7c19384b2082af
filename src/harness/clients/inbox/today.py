"""What all sessions cost today."""

from __future__ import annotations

import msgspec

from harness.clients.inbox.labels import agent_title
from harness.formatting.amounts import cost
from harness.log.store import Store, is_copy
from harness.usage.budget_settings import money, own_value, period_start_ms
from harness.usage.ledger import rolled_up, total
from harness.usage.prices import Prices
from harness.usage.stored_accounts import StoredAccounts


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

    @property
    def words(self) -> str:
        """`≥ $12.84 of $40`; empty: unknown."""
        if self.cost_usd is None and self.limit_usd is None:
            return ""
        limit = "" if self.limit_usd is None else f" of {money(self.limit_usd).removesuffix('.00')}"
        return f"{cost(self.cost_usd or 0.0, is_complete=self.is_cost_complete)}{limit}"


def today_in(store: Store, prices: Prices) -> Today:
    """From the logs that were written today, and the limit of `harness budget`. Raises StoreError."""
    since_ms = period_start_ms("day")
    ledger = StoredAccounts.of(store).ledger(since_ms, leaves_out=is_copy)
    charges = ledger.charges(prices, lambda _at_ms: "", since_ms)
    amount = total(charges)
    return Today(
        cost_usd=amount.cost_usd,
        is_cost_complete=amount.is_cost_complete,
        limit_usd=own_value("budget.day_usd"),
        by_agent=tuple(
            TodayByAgent(
                agent=agent_title(row.key),
                agent_name=row.key,
                cost_usd=row.amount.cost_usd,
                is_cost_complete=row.amount.is_cost_complete,
            )
            for row in rolled_up(charges, "agent")
        ),
    )
