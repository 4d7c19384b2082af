"""What Codex says that a thread has used: totals from its beginning on."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.sources.formats.fields import besides, count_of


def usage_of(told: dict[str, Any]) -> Usage:
    """Codex counts cached tokens into the input, and reasoning into the output."""
    cached = count_of(told.get("cached_input_tokens"))
    written = count_of(told.get("cache_write_input_tokens"))
    reasoning = count_of(told.get("reasoning_output_tokens"))
    return Usage(
        input=besides(count_of(told.get("input_tokens")), cached, written),
        output=besides(count_of(told.get("output_tokens")), reasoning),
        cache_read=cached,
        cache_write=written,
        reasoning=reasoning,
    )


def includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total goes on from an earlier one; it starts anew when the thread does."""
    return all(
        (getattr(total, name) or 0) >= (getattr(earlier, name) or 0)
        for name in ("input", "output", "cache_read", "cache_write", "reasoning")
    )
