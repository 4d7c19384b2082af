"""What Codex counts: totals of a thread, in which parts are counted into others."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.sources.formats.fields import besides, count_of


def usage_of(data: dict[str, Any]) -> Usage:
    """The totals of a thread. Codex counts cached tokens into the input, and reasoning into the output."""
    cached = count_of(data.get("cached_input_tokens"))
    written = count_of(data.get("cache_write_input_tokens"))
    reasoning = count_of(data.get("reasoning_output_tokens"))
    return Usage(
        input=besides(count_of(data.get("input_tokens")), cached, written),
        output=besides(count_of(data.get("output_tokens")), reasoning),
        cache_read=cached,
        cache_write=written,
        reasoning=reasoning,
    )


def includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total includes an earlier one; it starts at zero when the thread does."""
    return all(
        (getattr(total, name) or 0) >= (getattr(earlier, name) or 0)
        for name in ("input", "output", "cache_read", "cache_write", "reasoning")
    )
