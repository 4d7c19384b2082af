"""Sub-agents: a run inside a run, with the same permissions, whose last message is the result of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from harness.contracts.tool import ToolFailure
from harness.events import Result
from harness.native.loop.loop_context import LoopContext

if TYPE_CHECKING:
    from harness.native.loop.agent_run import AgentRun


async def spawn(parent: AgentRun, call_id: str, task: str, name: str = "") -> str:
    """Run a sub-agent to its end; its last message. Raises ToolFailure when it has none."""
    if parent.depth >= parent.options.max_depth:
        raise ToolFailure(
            f"sub-agents may not nest deeper than {parent.options.max_depth}: do this task yourself"
        )
    child = parent.child(call_id, name)
    result = await ended(
        parent.context, child.run_id, child.run(task), if_stopped="the sub-agent was stopped"
    )
    if result.outcome not in ("completed", "limit_exceeded"):
        raise ToolFailure(f"the sub-agent failed: {child.failure or result.outcome}")
    return result.text


async def ended(
    context: LoopContext, run_id: str, run: Coroutine[Any, Any, Result], *, if_stopped: str
) -> Result:
    """Run what is inside of another run. Raises ToolFailure when it alone was stopped."""
    running = asyncio.create_task(run)
    context.runs[run_id] = running
    try:
        return await running
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if waiting is None or waiting.cancelling():
            raise
        raise ToolFailure(if_stopped) from None
    finally:
        context.runs.pop(run_id, None)
