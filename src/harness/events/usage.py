"""Tokens and money, per model call and in total.

None means that the agent does not report it; 0 that it reported zero. `input` excludes what came from
or went to the cache; `output` excludes reasoning where reasoning is given.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

from harness.events.envelope import Event

CLASSES = ("input", "output", "cache_read", "cache_write", "reasoning")
_COUNTS = (*CLASSES, "cache_write_1h", "cost_usd")


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tokens by class, and their cost. Add two with `plus`; it is falsy when nothing is known."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cache_write_1h: int | None = None
    """What of `cache_write` is stored for an hour, and thus costs more; None where there is no such difference."""
    cost_usd: float | None = None
    cost_source: Literal["", "stated", "computed"] = ""
    """`stated` by the agent, or `computed` from prices."""

    def __bool__(self) -> bool:
        return not (
            self.input
            is self.output
            is self.cache_read
            is self.cache_write
            is self.reasoning
            is self.cost_usd
            is None
        )

    @property
    def all_tokens(self) -> int:
        """Read and written, those from a cache included."""
        return sum(getattr(self, name) or 0 for name in CLASSES)

    def plus(self, other: Usage) -> Usage:
        """Add class by class; None only where both are None."""
        if self is NOTHING or other is NOTHING:
            return other if self is NOTHING else self
        return _combine(self, other, 1)

    def minus(self, other: Usage) -> Usage:
        """What is left of a total when a part of it is already known; never below zero."""
        return _combine(self, other, -1)

    def without_zeros(self) -> Usage:
        """The same with None where nothing was used: for a remainder, in which zero says nothing."""
        return Usage(
            **{name: getattr(self, name) or None for name in _COUNTS},
            cost_source=self.cost_source if self.cost_usd else "",
        )


def _combine(first: Usage, right: Usage, sign: int) -> Usage:
    cost = _sum(first.cost_usd, right.cost_usd, sign)
    return Usage(
        input=_sum(first.input, right.input, sign),
        output=_sum(first.output, right.output, sign),
        cache_read=_sum(first.cache_read, right.cache_read, sign),
        cache_write=_sum(first.cache_write, right.cache_write, sign),
        reasoning=_sum(first.reasoning, right.reasoning, sign),
        cache_write_1h=_sum(first.cache_write_1h, right.cache_write_1h, sign),
        cost_usd=None if cost is None else round(cost, 10),
        cost_source=first.cost_source or right.cost_source if cost is not None else "",
    )


NOTHING = Usage()
"""To begin a sum with."""
Number = TypeVar("Number", int, float)


def _sum(a: Number | None, b: Number | None, sign: int) -> Number | None:
    if b is None:
        return a
    if a is None:
        return b if sign > 0 else None
    return max(a + sign * b, type(a)(0))


class UsageDelta(Event, frozen=True, kw_only=True):
    """Used since the last one, by one model call or by as many as the agent reports at once.

    The deltas of a run add up to the run's total; nothing is counted twice.
    """

    usage: Usage
    model: str = ""
    id: str = ""
    """The agent's own id of the model call."""
    speed: str = ""
    """Other than the usual one, where that changes the price: `fast`."""
    counted: dict[str, Any] | None = None
    """Of a thread whose application has set its count of tokens: what it is from here on. Nothing was used."""


class LimitWindow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A window of a subscription, or another limit of a provider, as far as the agent says."""

    name: str
    """The vendor's own: `five_hour`, `seven_day_opus`; where it has none, how long it is: `5 h`, `week`."""
    status: Literal["ok", "near", "reached", "exhausted"]
    """`exhausted`: the plan or the money is used up; no window opens again by itself."""
    used_percent: float | None = None
    """May be above 100. None: it was not said."""
    resets_at_ms: int | None = None


class RateLimits(Event, frozen=True, kw_only=True):
    """How full the windows of the agent's account are, and when they open again, in the agent's own figures."""

    windows: list[LimitWindow]


class BudgetExtended(Event, frozen=True, kw_only=True):
    """A person let this conversation continue beyond a limit of `harness budget`, until the day or month is over."""

    period: Literal["day", "month"]
    project: str = ""
    """The folder that the limit is for; empty: all of them."""
    limit_usd: float
    until_usd: float
    """What may be spent under this limit now, by all runs, before this conversation asks again."""
    since_ms: int
    """When the day or month began."""
