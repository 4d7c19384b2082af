"""What a person says while an agent runs: taken at the next boundary, in the log, never lost silently."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.contracts.model import Ask, ToolTurn, UserTurn
from harness.conversation.inbox import Inbox
from harness.errors import UsageError
from harness.events import Event, Message, StepStart, TextDelta, ToolStart, Warning
from harness.native.tools.function_tool import tool
from played_model import calls, fails, play, says


def test_a_message_is_taken_before_the_next_step_and_logged() -> None:
    def steer(agents: Any, event: Event) -> None:
        if isinstance(event, ToolStart):
            agents.steer(event.run_id, "rather multiply")

    @tool
    async def rest() -> str:
        for _ in range(5):
            await asyncio.sleep(0)
        return "rested"

    played = play(calls(("tc", "rest", {})), says("ok"), tools=(rest,), on_event=steer)

    assert played.model.asked[1][0][-2:] == (ToolTurn("tc", "rested"), UserTurn("rather multiply"))
    assert [(m.role, m.text) for m in played.of(Message) if m.role == "user"][1] == (
        "user",
        "rather multiply",
    )


def test_a_message_that_comes_with_the_last_answer_is_still_taken() -> None:
    async def waits(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="bye")
        for _ in range(5):
            await asyncio.sleep(0)
        for event in says("bye")[1:]:
            yield event

    def steer(agents: Any, event: Event) -> None:
        if isinstance(event, TextDelta) and event.text == "bye":
            agents.steer(event.run_id, "wait!")

    played = play(waits, says("yes?"), on_event=steer)

    assert played.result.text == "yes?"
    assert len(played.model.asked) == 2


def test_a_follow_up_waits_until_the_run_would_end() -> None:
    inbox = Inbox()
    inbox.follow_up("then that")
    inbox.follow_up("and that")
    inbox.steer("quick")
    assert [said.text for said in inbox.take_steering()] == ["quick"]
    assert inbox.take_steering() == []
    taken = [[said.text for said in inbox.take_last()] for _ in range(3)]
    assert taken == [["then that"], ["and that"], []]
    with pytest.raises(UsageError, match="takes no more messages"):
        inbox.steer("too late")


def test_messages_that_no_one_took_are_reported() -> None:
    def steer(agents: Any, event: Event) -> None:
        if isinstance(event, StepStart):
            agents.steer(event.run_id, "too late")

    async def breaks_later(ask: Ask) -> AsyncIterator[Event]:
        for _ in range(5):
            await asyncio.sleep(0)
        for event in fails("gone"):
            yield event

    played = play(breaks_later, on_event=steer)

    assert played.of(Warning)[0].message == "1 message was not taken any more"
