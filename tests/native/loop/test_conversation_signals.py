"""Signals in a conversation: one may begin a run, one may be shown with the very step that is being prepared, and one
may make a run continue that would have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import Ask, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.turns import StepContext
from harness.errors import UsageError
from harness.events import Event, Result, SessionStart, Signal, Suspended, TextDelta
from harness.native.tools.function_tool import tool
from played_model import calls, says


def signal(text: str, id: str = "s1", category: Any = "reactive", tag: str = "system-reminder") -> Signal:
    return Signal(id=id, category=category, tag_name=tag, contents=text)


def marked(text: str) -> str:
    return f"<system-reminder>{text}</system-reminder>"


@tool(quick=True)
def work() -> str:
    """Work."""
    return "done"


@in_loop
async def test_a_signal_begins_a_run() -> None:
    talk = Talk(says("I am awake."))
    ended = await talk.conversation.wake(talk.options, signal("wake up"), run_id="run-1")
    assert isinstance(ended, Result)
    assert talk.model.asked[0][0] == (UserTurn(marked("wake up")),)
    [start] = talk.of(SessionStart)
    assert start.run_id == "run-1"
    assert [event.id for event in talk.of(Signal)] == ["s1"]
    assert talk.conversation.entries[0].message_id == "s1"
    talk.check()


@in_loop
async def test_a_run_that_is_active_is_not_started_again() -> None:
    async def never_ending(_ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="…")
        await asyncio.Event().wait()

    talk = Talk(never_ending)
    first = asyncio.create_task(talk.send())
    await talk.until(TextDelta)
    with pytest.raises(UsageError, match="already"):
        await talk.conversation.wake(talk.options, signal("wake up"))
    first.cancel()
    await asyncio.wait([first])
    talk.check()


@tool
async def ask(context: ToolContext) -> str:
    """Ask a person."""
    return str(await context.suspend({"question": "which?"}))


@in_loop
async def test_waking_gives_up_what_waits() -> None:
    talk = Talk(calls(("c", "ask", {})), says("I am awake."), tools=(ask,))
    assert isinstance(await talk.send("go"), Suspended)
    await talk.conversation.wake(talk.options, signal("wake up"))
    assert talk.conversation.pending is None
    assert [result.outcome for result in talk.of(Result)] == ["interrupted", "completed"]
    assert talk.model.asked[1][0][-1] == UserTurn(marked("wake up"))
    talk.check()


@in_loop
async def test_what_is_added_at_once_is_seen_by_the_step_that_is_being_prepared() -> None:
    seen: list[int] = []

    async def before_step(context: StepContext) -> None:
        talk.conversation.add(signal(f"step {context.step_number}", f"s{context.step_number}"), at_once=True)
        seen.append(len(context.entries))

    talk = Talk(calls(("c", "work", {})), says("Done."), tools=(work,), before_step=before_step)
    await talk.send("go")
    first, second = (asked[0] for asked in talk.model.asked)
    assert first == (UserTurn("go"), UserTurn(marked("step 0")))
    assert second[:2] == first
    assert isinstance(second[3], ToolTurn)
    assert second[4] == UserTurn(marked("step 1"))
    assert seen == [2, 5]  # its entry is there as well, with its place in the log
    assert [entry.message_id for entry in talk.conversation.entries if entry.message_id.startswith("s")] == [
        "s0",
        "s1",
    ]
    talk.check()


@in_loop
async def test_at_once_makes_no_run_continue() -> None:
    async def before_step(context: StepContext) -> None:
        talk.conversation.add(
            signal("note", f"n{context.step_number}", "notification", "notification"), at_once=True
        )

    talk = Talk(says("Done."), before_step=before_step)
    ended = await talk.send("go")
    assert isinstance(ended, Result)
    assert len(talk.model.asked) == 1
    talk.check()


@in_loop
async def test_without_a_run_it_is_there_for_the_next_one() -> None:
    talk = Talk(says("Hello."))
    talk.conversation.add(signal("remember"), at_once=True)
    await talk.send("go")
    assert talk.model.asked[0][0] == (UserTurn(marked("remember")), UserTurn("go"))
    talk.check()


@in_loop
async def test_after_an_answer_a_signal_makes_the_run_continue() -> None:
    reminders = [signal("not yet", "r1"), None]

    async def after_answer(answer: str) -> Signal | None:
        assert answer in ("Half.", "All.")
        return reminders.pop(0)

    talk = Talk(says("Half."), says("All."), after_answer=after_answer)
    ended = await talk.send("go")
    assert isinstance(ended, Result)
    assert ended.text == "All."
    assert talk.model.asked[1][0][-1] == UserTurn(marked("not yet"))
    assert [event.id for event in talk.of(Signal)] == ["r1"]
    talk.check()
