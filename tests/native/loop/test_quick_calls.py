"""A call of a quick tool makes no task of its own, and still nobody else is starved."""

from __future__ import annotations

import asyncio
from typing import Any

from conversation_kit import Talk, in_loop
from harness.contracts.tool import Renamed
from harness.events import ToolEnd
from harness.events.usage import NOTHING, Usage
from harness.native.tools.function_tool import is_quick, tool
from played_model import calls, says

STEPS = 40


@tool(quick=True)
def note(text: str) -> str:
    """Note it."""
    return text


@tool(quick=True)
async def wait_for(text: str) -> str:
    """Wait."""
    await asyncio.sleep(0)
    return text


def test_only_what_never_waits_is_quick() -> None:
    assert is_quick(note)
    assert is_quick(Renamed(note, "other"))
    assert not is_quick(wait_for)


@in_loop
async def test_a_quick_call_runs_in_the_task_of_its_run_and_others_have_their_turns() -> None:
    turns = 0
    tasks: set[Any] = set()

    @tool(quick=True)
    def who(text: str) -> str:
        """Say which task it is."""
        tasks.add(asyncio.current_task())
        return text

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    steps = [calls((f"c{number}", "who", {"text": "x"})) for number in range(STEPS)]
    talk = Talk(*steps, says("done"), tools=(who,), max_iterations=STEPS + 1)
    counting = asyncio.create_task(count())
    await talk.send()
    counting.cancel()
    assert len(tasks) == 1
    assert turns >= STEPS
    assert [end.success for end in talk.of(ToolEnd)] == [True] * STEPS


@in_loop
async def test_a_quick_call_that_fails_is_a_result_like_any_other() -> None:
    @tool(quick=True)
    def fail() -> str:
        """Fail."""
        raise asyncio.CancelledError

    talk = Talk(calls(("c", "fail", {})), says("done"), tools=(fail,))
    await talk.send()
    [end] = talk.of(ToolEnd)
    assert end.success is False


def test_nothing_is_the_beginning_of_a_sum() -> None:
    used = Usage(input=1, cost_usd=0.5)
    assert NOTHING.plus(used) == used == used.plus(NOTHING)
    assert not NOTHING
    assert all(
        Usage(**{name: 0})
        for name in ("input", "output", "cache_read", "cache_write", "reasoning", "cost_usd")
    )
