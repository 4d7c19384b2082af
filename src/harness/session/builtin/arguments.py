"""Arguments of the built-in tools: described like those of all tools, and read without what is null.

Some models write `null` for what they leave out; to every tool here that is the same as leaving it out.
"""

from __future__ import annotations

from typing import Any

from harness.sources.tools.arguments import Arguments, Taken, take
from harness.sources.tools.arguments import spec as described

__all__ = ["Arguments", "described", "read"]


def read(kind: type[Taken], arguments: dict[str, Any], tool: str) -> Taken:
    """The arguments, checked. Raises ToolFailure."""
    return take(kind, _without_nulls(arguments), tool)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
