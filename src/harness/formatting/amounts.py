"""Numbers as people read them (tokens, money, time), and usage under the names of the event stream."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.events import Event, Result, Usage, UsageDelta
from harness.events.usage import CLASSES
from harness.log.run_tree import RunTree

_DAY_S = 86_400


def tokens(count: int) -> str:
    """950, 1.2k, 3.4M."""
    if count >= 999_950:
        return f"{count / 1_000_000:.1f}M"
    if count >= 1_000:
        return f"{count / 1_000:.1f}k"
    return str(count)


def money(amount_usd: float) -> str:
    return "<$0.001" if 0 < amount_usd < 0.001 else f"${amount_usd:.3f}"


# What the inbox shows, in every interface alike; the page has the same rules in `web/src/amounts.ts`.


def cost(amount_usd: float | None, *, is_complete: bool = True) -> str:
    """`$0.31`, `$0.004`, `≥ $0.31` when some of it is unknown; empty when all of it is."""
    if amount_usd is None:
        return ""
    if is_complete and 0 < amount_usd < 0.01:
        return money(amount_usd)
    digits = 3 if 0 < amount_usd < 0.01 else 2
    return f"{'' if is_complete else '≥ '}${amount_usd:.{digits}f}"


def share(part: int, limit: int) -> str:
    """`41 %`."""
    return f"{min(100, int(100 * part / limit + 0.5))} %"


def age(elapsed_ms: int) -> str:
    """`48 s`, `6 min`, `2 h`, `3 d`: how long something waits or runs."""
    seconds = max(elapsed_ms, 0) // 1000
    for size, sign in ((_DAY_S, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {sign}"
    return f"{seconds} s"


def changed_lines(added: int, removed: int, *, is_complete: bool = True) -> str:
    """`+1,200 −3`, `≥ +5 −0` when commands may have changed more."""
    return f"{'' if is_complete else '≥ '}+{added:,} −{removed:,}"


def duration(duration_ms: int) -> str:
    """0.4s, 12.3s, 2m 05s, 1h 02m."""
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}s"
    minutes, seconds = divmod(duration_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m"


def total_line(usage: Usage, duration_ms: int | None) -> str:
    """`Total: 1.2k in / 345 out, $0.043, 12.3s`, without a cost that is not known; empty when no usage is known."""
    output = (usage.output or 0) + (usage.reasoning or 0)
    if not (usage.input or output or usage.cost_usd):
        return ""
    parts = [f"{tokens(usage.input or 0)} in / {tokens(output)} out"]
    parts += [] if usage.cost_usd is None else [money(usage.cost_usd)]
    parts += [] if duration_ms is None else [f"{duration_ms / 1000:.1f}s"]
    return f"Total: {', '.join(parts)}"


# In the event stream reasoning counts as output.


class UsageData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cost_usd: float | None = None
    cost_source: Literal["", "computed"] = ""
    """Where the cost was computed from prices; otherwise the agent has stated it."""


def usage_data(usage: Usage) -> UsageData:
    output = usage.output
    if usage.reasoning is not None:
        output = (output or 0) + usage.reasoning
    return UsageData(
        input_tokens=usage.input,
        output_tokens=output,
        cache_read_tokens=usage.cache_read,
        cache_creation_tokens=usage.cache_write,
        cost_usd=usage.cost_usd,
        cost_source=computed(usage),
    )


def computed(usage: Usage | None) -> Literal["", "computed"]:
    """Whether what it cost was computed from prices."""
    return "computed" if usage is not None and usage.cost_source == "computed" else ""


# The total usage of a run: the sum of what it reported on the way, or what it states at the end if that is more.


class OpenUsage:
    """What each top run has used so far, with its sub-agents. `tree` has been fed each event before."""

    def __init__(self, tree: RunTree) -> None:
        self._tree = tree
        self._by_run: dict[str, Usage] = {}

    def add(self, event: UsageDelta) -> None:
        top = top_of(self._tree, event)
        self._by_run[top] = self._by_run.get(top, Usage()).plus(event.usage)

    def settle(self, event: Result) -> Usage:
        """The total of a top run that ends."""
        return settled(self._by_run.pop(event.run_id, Usage()), event.usage, event.total_cost_usd)


def top_of(tree: RunTree, event: Event) -> str:
    """The top run that usage belongs to. That of an unknown run belongs to the latest one, if there is any."""
    run = tree.get(event.run_id)
    over = None if run is None else tree.get(run.top)
    latest = tree.top
    return over.id if over is not None else event.run_id if latest is None else latest.id


def settled(reported: Usage, final: Usage | None, stated_usd: float | None) -> Usage:
    """The larger of both, class by class; None only if both are None."""
    final = final or Usage()
    counts: dict[str, Any] = {
        name: _larger(getattr(reported, name), getattr(final, name)) for name in CLASSES
    }
    cost_usd = _larger(reported.cost_usd, _larger(final.cost_usd, stated_usd))
    source = reported.cost_source if cost_usd == reported.cost_usd else ""
    return Usage(
        **counts,
        cost_usd=cost_usd,
        cost_source="" if cost_usd is None else source or final.cost_source or "stated",
    )


def _larger(first: float | None, right: float | None) -> float | None:
    if first is None or right is None:
        return right if first is None else first
    return max(first, right)
