"""Usage under the names of the event stream, where reasoning counts as output."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.events import Usage


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
