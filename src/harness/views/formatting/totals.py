"""The total usage of a run: the sum of what it reported on the way, or what it states at the end if that is more."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.events.usage import CLASSES


def settled(used: Usage, stated: Usage | None, stated_usd: float | None) -> Usage:
    """The larger of both, class by class; None only if both are None."""
    stated = stated or Usage()
    counts: dict[str, Any] = {name: _larger(getattr(used, name), getattr(stated, name)) for name in CLASSES}
    cost_usd = _larger(used.cost_usd, _larger(stated.cost_usd, stated_usd))
    source = used.cost_source if cost_usd == used.cost_usd else ""
    return Usage(
        **counts,
        cost_usd=cost_usd,
        cost_source="" if cost_usd is None else source or stated.cost_source or "stated",
    )


def _larger(left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)
