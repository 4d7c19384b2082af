"""What Grok says of tokens and cost."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from harness.events import Usage
from harness.events.usage import CLASSES
from harness.sources.formats.fields import amount_of, besides, count_of, record_of
from harness.sources.formats.model_ledger import larger, usage_of_call


def usage_of(data: dict[str, Any]) -> Usage:
    """Reasoning is part of the output."""
    usage, reasoning = usage_of_call(data), count_of(data.get("reasoning_tokens"))
    return replace(usage, output=besides(usage.output, reasoning), reasoning=reasoning)


def total_of(record: dict[str, Any], used: Usage) -> Usage:
    """The total forgets what was used after the first answer, when sub-agents or commands come back later."""
    stated = usage_of(record_of(record.get("usage")))
    cost = amount_of(record.get("total_cost_usd")) or None
    counts = {name: larger(getattr(used, name), getattr(stated, name)) for name in CLASSES}
    return Usage(**counts, cost_usd=cost, cost_source="" if cost is None else "stated")


def without_unknown_cost(record: dict[str, Any]) -> dict[str, Any]:
    """Zero is what it says of a model whose price it does not know."""
    if record.get("total_cost_usd") != 0:
        return record
    models = {
        name: {key: value for key, value in record_of(data).items() if key != "costUSD"}
        for name, data in record_of(record.get("modelUsage")).items()
    }
    return {**record, "total_cost_usd": None, "modelUsage": models}
