"""Waiting for somebody outside of the run, where the run can wait."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from harness.sources.tool import QuestionKind, ToolContext


async def answer_to(
    context: ToolContext,
    payload: dict[str, Any],
    *,
    kind: QuestionKind,
    question: str = "",
    options: list[str] | None = None,
    schema: dict[str, Any] | None = None,
) -> Any:
    """The answer; UNSET where a tool is called without a run, and nobody can be waited for."""
    if not context.can_suspend:
        return UNSET
    return await context.suspend(payload, kind=kind, question=question, options=options, schema=schema)
