"""What Goose says at its end that the session has used."""

from __future__ import annotations

from typing import Any

from harness.events import Usage
from harness.sources.formats.fields import amount_of, besides, count_of


def usage_of(told: dict[str, Any]) -> Usage:
    """Goose counts cached tokens into the input. How many there are, it tells from 1.50 on."""
    read, written = (count_of(told.get(f"cache_{kind}_input_tokens")) for kind in ("read", "write"))
    total = count_of(told.get("input_tokens"))
    cost = amount_of(told.get("cost_usd"))
    return Usage(
        input=besides(total, read, written),
        output=count_of(told.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        # Goose adds up prices of single tokens, and tells what that makes of them.
        cost_usd=None if cost is None else round(cost, 10),
        cost_source="" if cost is None else "stated",
    )
