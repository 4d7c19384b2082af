"""Tokens and money, per model call and in total.

None means that the agent never says; 0 that it said zero. `input` excludes what came from
or went to the cache; `output` excludes reasoning where reasoning is given.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.events.envelope import Event

CLASSES = ("input", "output", "cache_read", "cache_write", "reasoning")


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost_usd: float | None = None
    cost_source: Literal["", "stated", "computed"] = ""

    def __bool__(self) -> bool:
        return any(getattr(self, name) is not None for name in (*CLASSES, "cost_usd"))

    def plus(self, other: Usage) -> Usage:
        """Add class by class; None only where both are None."""
        return _combine(self, other, 1)

    def minus(self, other: Usage) -> Usage:
        """What is left of a total when a part of it is already known; never below zero."""
        return _combine(self, other, -1)

    def without_zeros(self) -> Usage:
        """The same with None where nothing was used: for a remainder, in which zero says nothing."""
        return Usage(
            **{name: getattr(self, name) or None for name in (*CLASSES, "cost_usd")},
            cost_source=self.cost_source if self.cost_usd else "",
        )


def _combine(left: Usage, right: Usage, sign: int) -> Usage:
    counts = {}
    for name in CLASSES:
        a, b = getattr(left, name), getattr(right, name)
        counts[name] = a if b is None else max(0, (a or 0) + sign * b) if a is not None or sign > 0 else None
    a_usd, b_usd = left.cost_usd, right.cost_usd
    cost = (
        a_usd
        if b_usd is None
        else max(0.0, (a_usd or 0.0) + sign * b_usd)
        if a_usd is not None or sign > 0
        else None
    )
    source = left.cost_source or right.cost_source if cost is not None else ""
    return Usage(**counts, cost_usd=None if cost is None else round(cost, 10), cost_source=source)


class UsageDelta(Event, frozen=True, kw_only=True):
    """Used since the last one, by one model call or by as much as the agent tells at once.

    The deltas of a run add up to the run's total; nothing is counted twice.
    """

    usage: Usage
    model: str = ""
    id: str = ""
    """The agent's own id of the model call."""
