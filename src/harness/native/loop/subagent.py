"""Sub-agents: a run inside a run, with the same permissions, whose last message is the result of the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from harness.contracts.subagent import SubagentKind, SubagentWish
from harness.contracts.tool import Tool, ToolFailure
from harness.events import Result
from harness.native.loop.instructions import find_instructions, in_words
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.system_prompt import facts


def options_of(options: AgentOptions, wish: SubagentWish | None, context: LoopContext) -> AgentOptions:
    """Those of a sub-agent, from those of whoever starts it."""
    kind, model = wish or SubagentWish()
    if model is not None:
        options = replace(options, model=model, context_window=None)
    if kind is None:
        return options
    more, now_ms = options.more_tools, context.hub.clock()
    prompt = [kind.prompt, facts(context.cwd, context.env, now_ms), in_words(find_instructions(context.cwd))]
    return replace(
        options,
        tools=tuple(tool for tool in options.tools if kind.has(tool.spec.name)),
        more_tools=None if more is None else partial(_those_of, kind, more),
        lasting_prompt="",
        system_prompt="\n\n".join(part for part in prompt if part),
        max_iterations=kind.most_steps or options.max_iterations,
    )


def _those_of(kind: SubagentKind, more: Callable[[], Sequence[Tool]]) -> list[Tool]:
    return [tool for tool in more() if kind.has(tool.spec.name)]


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
