"""A mark that older threads have at the end of a sub-agent's answer. It is read, and never written any more."""

from __future__ import annotations

import re

import msgspec

_MARK = re.compile(r"\s*<subagent-meta\s+(?P<attributes>[^<>]*?)\s*/>\s*\Z")
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


class SubagentTrace(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    """Without the mark."""
    model_id: str = ""
    duration_ms: int | None = None
    tools: tuple[tuple[str, bool], ...] = ()
    """The name of each call, and whether it failed."""


def read_trace(content: str) -> SubagentTrace:
    mark = _MARK.search(content)
    if mark is None:
        return SubagentTrace(text=content)
    attributes = dict(_ATTRIBUTE.findall(mark["attributes"]))
    duration = attributes.get("durationMs", "")
    calls = [call.rpartition(":") for call in attributes.get("tools", "").split(",") if ":" in call]
    return SubagentTrace(
        text=content[: mark.start()],
        model_id=attributes.get("modelId", ""),
        duration_ms=int(duration) if duration.isdecimal() else None,
        tools=tuple((name, outcome == "err") for name, _, outcome in calls),
    )
