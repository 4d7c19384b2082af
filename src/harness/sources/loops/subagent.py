"""A task for somebody else: a run inside a run, bound by the same permissions, with an answer at its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.sources.tool import ToolFailure

if TYPE_CHECKING:
    from harness.sources.loops.agent import AgentRun


async def spawn(parent: AgentRun, call_id: str, task: str, name: str = "") -> str:
    """Run a sub-agent to its end; its last words. Raises ToolFailure when there are none."""
    if parent.depth >= parent.options.max_depth:
        raise ToolFailure(
            f"sub-agents may not nest deeper than {parent.options.max_depth}: do this task yourself"
        )
    child = parent.child(call_id, name)
    running = asyncio.create_task(child.run(task))
    parent.host.runs[child.run_id] = running
    try:
        result = await running
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if waiting is None or waiting.cancelling():
            raise
        raise ToolFailure("the sub-agent was stopped") from None
    finally:
        parent.host.runs.pop(child.run_id, None)
    if result.outcome not in ("completed", "limit_exceeded"):
        raise ToolFailure(f"the sub-agent failed: {child.failure or result.outcome}")
    return result.text
