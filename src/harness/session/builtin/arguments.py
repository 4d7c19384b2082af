"""Shared by the built-in tools: reading their arguments, and waiting for an answer.

Some models send `null` for an omitted argument; every tool here treats it as omitted.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from harness.contracts.tool import QuestionKind, ToolContext
from harness.contracts.tool_arguments import Arguments, Taken, take
from harness.contracts.tool_arguments import spec as described

__all__ = ["Arguments", "described", "read"]


def read(kind: type[Taken], arguments: dict[str, Any], tool: str) -> Taken:
    """The validated arguments. Raises ToolFailure."""
    return take(kind, _without_nulls(arguments), tool)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


async def answer_to(
    context: ToolContext,
    payload: dict[str, Any],
    *,
    kind: QuestionKind,
    question: str = "",
    options: list[str] | None = None,
    schema: dict[str, Any] | None = None,
) -> Any:
    """The answer; UNSET where a tool is called outside a run, so that no answer can arrive."""
    if not context.can_suspend:
        return UNSET
    return await context.suspend(payload, kind=kind, question=question, options=options, schema=schema)
