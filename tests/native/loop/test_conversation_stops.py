"""Runs that are stopped, or break: the conversation stays usable, and what follows sees a result for every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.approvals.call import ProposedCall
from harness.contracts.model import Ask, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.turns import CUT_OFF, NOT_BEGUN
from harness.events import Event, Relay, Result, TextDelta, ToolEnd, Warning
from harness.native.loop import cancellation
from harness.native.loop import tool_calls as calls_module
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions, PermissionVerdict
from played_model import calls, fails, says


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def hang() -> str:
    await asyncio.Event().wait()
    return "never"


async def never_ending(ask: Ask) -> AsyncIterator[Event]:
    yield TextDelta(id="m", text="I thi")
    await asyncio.Event().wait()


@in_loop
async def test_steering_that_a_broken_run_did_not_hear_is_seen_by_the_next_one() -> None:
    async def breaks(ask: Ask) -> AsyncIterator[Event]:
        talk.conversation.steer("wait")
        for event in fails("gone"):
            yield event

    talk = Talk(breaks, says("yes?"))
    await talk.send("go")
    assert not talk.of(Warning)
    talk.check()
    await talk.send("again")

    assert talk.model.asked[1][0] == (UserTurn("go"), UserTurn("wait"), UserTurn("again"))
    talk.check()


async def _cancelled(talk: Talk, *, at: type[Event], count: int = 1) -> None:
    running = asyncio.create_task(talk.send())
    await talk.until(at, count)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert talk.of(Result)[-1].outcome == "interrupted"
    talk.check()


MOMENTS: dict[str, Any] = {
    "model": (never_ending, TextDelta, []),
    "calls": (calls(("a", "add", {"a": 1, "b": 1}), ("h", "hang", {})), ToolEnd, ["2", CUT_OFF]),
    "relay": (calls(("a", "ask", {}), ("b", "ask", {})), Relay, [NOT_BEGUN, NOT_BEGUN]),
}


@pytest.mark.parametrize("moment", MOMENTS)
@in_loop
async def test_a_run_that_is_stopped_leaves_a_conversation_that_works(moment: str) -> None:
    @tool
    async def ask() -> str:
        return "never"

    class Asking(Permissions):
        def verdict(self, call: ProposedCall) -> PermissionVerdict:
            return PermissionVerdict("ask" if call.tool == "ask" else "allow")

    answer, event, results = MOMENTS[moment]
    talk = Talk(answer, says("here I am"), tools=(add, hang, ask), permissions=Asking())
    await _cancelled(talk, at=event)
    ended = await talk.send("are you there?")

    assert isinstance(ended, Result)
    assert ended.text == "here I am"
    assert [turn.text for turn in talk.model.asked[1][0] if isinstance(turn, ToolTurn)] == results
    assert talk.model.asked[1][0][-1] == UserTurn("are you there?")
    talk.check()


@in_loop
async def test_a_run_that_is_stopped_before_it_begins_has_a_whole_log() -> None:
    talk = Talk(says("first"), says("second"), says("third"), says("fourth"))
    for rests in range(4):
        running = asyncio.create_task(talk.send("go"))
        for _ in range(rests):
            await asyncio.sleep(0)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        talk.check()
    await talk.send("again")
    talk.check()


class Deaf:
    """A model that continues whatever happens, until the test is over."""

    def __init__(self) -> None:
        self.is_released = False

    async def __call__(self, ask: Ask) -> AsyncIterator[Event]:
        while not self.is_released:
            yield TextDelta(id="m", text="la")
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.005)


@in_loop
async def test_a_model_that_ignores_its_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.native.loop.agent_run.GRACE_S", 0.05)
    deaf = Deaf()
    talk = Talk(deaf, says("ok"))
    await asyncio.wait_for(_cancelled(talk, at=TextDelta), 60)
    count = len(talk.events)
    await asyncio.sleep(0.02)  # it still speaks, and nothing reads it
    assert len(talk.events) == count
    ended = await talk.send("next")
    deaf.is_released = True

    assert isinstance(ended, Result)
    assert ended.success
    talk.check()


@in_loop
async def test_an_unresponsive_model_of_a_sub_agent_is_left_behind_before_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.native.loop.agent_run.GRACE_S", 0.2)
    monkeypatch.setattr(calls_module, "_GRACE_S", 0.2)

    @tool
    async def ask_somebody(task: str, context: ToolContext) -> str:
        return await context.spawn(task)

    deaf = Deaf()
    talk = Talk(calls(("s", "ask_somebody", {"task": "t"})), deaf, says("ok"), tools=(ask_somebody,))
    await asyncio.wait_for(_cancelled(talk, at=TextDelta), 3)
    deaf.is_released = True

    assert [result.outcome for result in talk.of(Result)] == ["interrupted", "interrupted"]
    await talk.send("next")
    talk.check()


@in_loop
async def test_the_limit_of_steps_leaves_a_history_with_a_result_for_every_call() -> None:
    step = calls(("c", "add", {"a": 1, "b": 2}))
    talk = Talk(step, step, says("ok"), tools=(add,), max_iterations=1)
    ended = await talk.send()

    assert isinstance(ended, Result)
    assert ended.outcome == "limit_exceeded"
    assert talk.turns[-1] == ToolTurn("c-2", NOT_BEGUN, is_error=True)
    talk.check()
    await talk.send("go on")
    talk.check()


def test_the_grace_of_models_and_tools_is_the_same() -> None:
    assert cancellation.GRACE_S == calls_module._GRACE_S
