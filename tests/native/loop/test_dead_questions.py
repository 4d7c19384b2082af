"""Questions that were open when the process died: another process answers them, and continues the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import ToolTurn, UserTurn
from harness.conversation.turns import CUT_OFF
from harness.events import Relay, RelayReply, Result, Resumed, ToolEnd
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from played_model import calls, says

asked: list[str] = []


@pytest.fixture(autouse=True)
def nothing_was_asked() -> None:
    asked.clear()


@tool(quick=True)
def note(text: str) -> str:
    asked.append(text)
    return f"noted {text}"


def three_notes() -> Any:
    return calls(*((name, "note", {"text": name}) for name in "abc"))


@in_loop
async def test_an_approval_that_waited_when_the_process_died_is_answered_in_another_one() -> None:
    dying = Talk(three_notes(), tools=(note,), permissions=Permissions("ask"))
    running = asyncio.create_task(dying.send())
    first = await dying.until(Relay)
    dying.context.questions.reply(RelayReply(id=first.id, approved=True))
    second = await dying.until(Relay, 2)
    talk = dying.after_death(says("ok"), tools=(note,), permissions=Permissions("ask"))
    running.cancel()

    assert asked == []
    assert talk.conversation.pending is not None
    assert [relay.id for relay in talk.conversation.pending.relays] == [second.id]
    assert talk.conversation.pending.started == {"a"}
    going_on = asyncio.create_task(talk.answer(approved=False, reason="no"))
    third = await talk.until(Relay, 3)
    talk.context.questions.reply(RelayReply(id=third.id, approved=True))
    ended = await going_on

    assert isinstance(ended, Result)
    assert asked == ["a", "c"]
    assert [relay.call_id.rpartition("/")[2] for relay in talk.of(Relay)] == ["a", "b", "c"]
    assert [turn.is_error for turn in talk.model.asked[0][0][-3:]] == [False, True, False]  # type: ignore[union-attr]
    talk.check()


@in_loop
async def test_an_approval_may_be_waited_for_again_in_another_process() -> None:
    dying = Talk(three_notes(), tools=(note,), permissions=Permissions("ask"))
    running = asyncio.create_task(dying.send())
    relay = await dying.until(Relay)
    permissions = Permissions("ask")
    talk = dying.after_death(says("ok"), tools=(note,), permissions=permissions)
    running.cancel()

    going_on = asyncio.create_task(talk.conversation.resume(talk.options, {}))
    await talk.until(Resumed)
    assert talk.context.questions.reply(RelayReply(id=relay.id, approved=True, always=True))
    await talk.until(Relay, 2)
    going_on.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going_on

    assert permissions.allowlist
    assert [type(event) for event in talk.of(Relay | RelayReply)] == [Relay, RelayReply, Relay, RelayReply]  # type: ignore[arg-type]
    talk.check()


@in_loop
async def test_calls_that_were_running_when_the_process_died_are_not_run_again() -> None:
    @tool
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    dying = Talk(calls(("n", "note", {"text": "x"}), ("h", "hang", {})), tools=(note, hang))
    running = asyncio.create_task(dying.send())
    await dying.until(ToolEnd)
    talk = dying.after_death(says("back"), tools=(note, hang))
    running.cancel()

    assert talk.conversation.pending is None
    await talk.send("again")
    assert talk.model.asked[0][0][-3:] == (
        ToolTurn("n", "noted x"),
        ToolTurn("h", CUT_OFF, is_error=True),
        UserTurn("again"),
    )
