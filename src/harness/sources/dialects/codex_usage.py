"""What Codex says that a thread has used: totals from its beginning on."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.sources.dialects.fields import count_of


def usage_of(told: dict[str, Any]) -> Usage:
    """Codex counts cached tokens into the input, and reasoning into the output."""
    cached, written = (
        count_of(told.get("cached_input_tokens")),
        count_of(told.get("cache_write_input_tokens")),
    )
    reasoning = count_of(told.get("reasoning_output_tokens"))
    return Usage(
        input=_without(count_of(told.get("input_tokens")), cached, written),
        output=_without(count_of(told.get("output_tokens")), reasoning),
        cache_read=cached,
        cache_write=written,
        reasoning=reasoning,
    )


def _without(total: int | None, *parts: int | None) -> int | None:
    return None if total is None else max(0, total - sum(part or 0 for part in parts))


def includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total goes on from an earlier one; it starts anew when the thread does."""
    return all(
        (getattr(total, name) or 0) >= (getattr(earlier, name) or 0)
        for name in ("input", "output", "cache_read", "cache_write", "reasoning")
    )
