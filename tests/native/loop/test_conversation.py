"""Several runs on one log: each sees what was said before, whatever became of the runs before it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    Call,
    SystemTurn,
    ToolTurn,
    UserTurn,
)
from harness.contracts.tool import ToolOutput
from harness.errors import UsageError
from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    Signal,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.log.stores.files import FileStore
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from played_model import PlayedModel, calls, says

PICTURE = Attachment("image/png", "iVBORw0KGgo=", "hi.png")


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def never_ending(ask: Ask) -> AsyncIterator[Event]:
    yield TextDelta(id="m", text="I thi")
    await asyncio.Event().wait()


@in_loop
async def test_a_later_run_sees_what_was_said_before() -> None:
    talk = Talk(
        calls(("c", "add", {"a": 1, "b": 2}), text="let me see"),
        says("3"),
        calls(("c", "add", {"a": 3, "b": 4})),
        says("7"),
        tools=(add,),
        system_prompt="be brief",
    )
    first = await talk.send("1 and 2?", message_id="m-1")
    await talk.send("3 and 4?", run_id="")

    assert isinstance(first, Result)
    assert talk.model.asked[3][0] == (
        SystemTurn("be brief"),
        UserTurn("1 and 2?"),
        AssistantTurn("let me see", (Call("c", "add", {"a": 1, "b": 2}),)),
        ToolTurn("c", "3"),
        AssistantTurn("3"),
        UserTurn("3 and 4?"),
        AssistantTurn("", (Call("c-2", "add", {"a": 3, "b": 4}),)),
        ToolTurn("c-2", "7"),
    )
    assert talk.conversation.entries[0].message_id == "m-1"
    assert [start.run_id for start in talk.of(SessionStart)] == [result.run_id for result in talk.of(Result)]
    assert talk.of(SessionStart)[0].run_id != talk.log_id
    assert talk.of(Result)[1].usage.input == 20
    talk.check()


@in_loop
async def test_turns_stay_the_same_objects_and_the_prompt_may_change() -> None:
    talk = Talk(says("one"), says("two"), says("three"), system_prompt="a")
    await talk.send("1")
    await talk.send("2")
    other = type(talk.options)(model=talk.model, system_prompt="b")
    await talk.conversation.send(other, "3")

    first, second, third = (turns for turns, _tools in talk.model.asked)
    assert all(before is after for before, after in zip(first, second, strict=False))
    assert third[0] == SystemTurn("b")
    assert third[1] is first[1]


@in_loop
async def test_another_process_continues_with_the_same_words() -> None:
    talk = Talk(calls(("c", "add", {"a": 1, "b": 2})), says("3"), tools=(add,))
    await talk.send("look", attachments=(PICTURE,))
    entries = list(talk.conversation.entries)
    other = talk.elsewhere(calls(("c", "add", {"a": 1, "b": 2})), says("ok"), tools=(add,))

    assert other.conversation.entries == entries
    assert other.turns[0] == UserTurn("look", (PICTURE,))
    await other.send("more")
    assert other.of(ToolStart)[1].call_id.endswith("/c-2")
    other.check()


@in_loop
async def test_results_stand_in_the_order_of_the_calls_with_the_place_of_their_end() -> None:
    second_is_done = asyncio.Event()

    @tool
    async def slow(name: str) -> str:
        if name == "first":
            await second_is_done.wait()
        second_is_done.set()
        return name

    talk = Talk(
        calls(("a", "slow", {"name": "first"}), ("b", "slow", {"name": "second"})), says("ok"), tools=(slow,)
    )
    await talk.send()

    results = [entry for entry in talk.conversation.entries if isinstance(entry.turn, ToolTurn)]
    ends = {end.output: end for end in talk.of(ToolEnd)}
    assert [entry.turn.text for entry in results] == ["first", "second"]  # type: ignore[union-attr]
    assert [entry.seq for entry in results] == [ends["first"].seq, ends["second"].seq]
    assert results[0].seq > results[1].seq
    assert {entry.message_id for entry in results} == {talk.conversation.entries[1].message_id}
    talk.check()


@in_loop
async def test_a_run_at_a_time() -> None:
    talk = Talk(never_ending)
    running = asyncio.create_task(talk.send())
    await talk.until(TextDelta)
    with pytest.raises(UsageError, match="active already"):
        await talk.send("me too")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    talk.check()


@in_loop
async def test_steering_joins_the_run_with_files_and_all() -> None:
    talk = Talk(calls(("h", "hold", {})), says("ok"))

    @tool
    async def hold() -> str:
        assert talk.conversation.steer("look at this", (PICTURE,), message_id="m-9")
        return "held"

    await talk.conversation.send(
        type(talk.options)(model=talk.model, tools=(hold,), permissions=Permissions("allow")), "go"
    )

    assert talk.model.asked[1][0][-1] == UserTurn("look at this", (PICTURE,))
    assert talk.conversation.entries[-2].message_id == "m-9"
    assert not talk.conversation.steer("too late")
    talk.check()


def signal(id: str, category: Any = "reactive", contents: Any = "note this", **more: Any) -> Signal:
    return Signal(id=id, category=category, tag_name="system-reminder", contents=contents, **more)


@in_loop
async def test_what_is_added_while_no_run_is_active_is_seen_by_the_next_run() -> None:
    talk = Talk(says("ok"))
    talk.conversation.add(signal("s", attributes={"type": "gap", "none": None}))
    talk.conversation.add(Message(role="system", text="mind the gap", id="n"))
    talk.conversation.add(
        signal(
            "u",
            "user",
            [
                {"type": "text", "text": "hi"},
                {"type": "file", "data": "iVBORw0KGgo=", "mediaType": "image/png", "filename": "hi.png"},
            ],
        )
    )
    assert talk.of(Result) == []
    talk.check()
    await talk.send("go")

    assert talk.model.asked[0][0] == (
        UserTurn('<system-reminder type="gap">note this</system-reminder>'),
        SystemTurn("mind the gap"),
        UserTurn("hi", (PICTURE,)),
        UserTurn("go"),
    )
    assert [entry.message_id for entry in talk.conversation.entries[:3]] == ["s", "n", "u"]
    talk.check()


@in_loop
async def test_what_is_added_during_calls_comes_after_their_results() -> None:
    @tool
    async def busy() -> str:
        talk.conversation.add(signal("s"))
        return "done"

    talk = Talk(calls(("b", "busy", {})), says("ok"), tools=(busy,))
    await talk.send()

    assert talk.of(Signal)[0].seq < talk.of(ToolEnd)[0].seq
    assert talk.model.asked[1][0][-2:] == (
        ToolTurn("b", "done"),
        UserTurn("<system-reminder>note this</system-reminder>"),
    )
    talk.check()


@pytest.mark.parametrize(
    ("category", "asks"), [("user", 2), ("notification", 2), ("state", 1), ("reactive", 1)]
)
@in_loop
async def test_words_that_come_with_the_last_answer_are_answered(category: str, asks: int) -> None:
    async def interrupted(ask: Ask) -> AsyncIterator[Event]:
        talk.conversation.add(signal("s", category))
        for event in says("bye"):
            yield event

    talk = Talk(interrupted, says("yes?"))
    await talk.send()

    assert len(talk.model.asked) == asks
    assert isinstance(talk.turns[1], AssistantTurn)
    assert isinstance(talk.turns[2], UserTurn)
    talk.check()


@in_loop
async def test_what_is_masked_in_the_log_the_model_keeps_until_a_restart(tmp_path: Any) -> None:
    from harness.conversation.history import history
    from harness.native.loop.conversation import AgentConversation
    from harness.native.loop.loop_context import LoopContext

    talk = Talk(says("noted"), says("yes"), store=FileStore(str(tmp_path)))
    secret = "hunter2-correct-horse-battery"
    host = LoopContext(talk.hub, cwd=os.getcwd(), env={}, secrets={"PASSWORD": secret})
    talk.conversation = AgentConversation(host)
    await talk.send(f"it is {secret}")
    await talk.send("remember?")

    assert talk.turns[0] == UserTurn(f"it is {secret}")
    emitted = history(talk.events).entries
    assert secret not in str(emitted[0].turn)
    assert [entry.seq for entry in emitted] == [entry.seq for entry in talk.conversation.entries]


@in_loop
async def test_an_output_with_pictures_is_shown_to_the_model() -> None:
    @tool
    async def draw() -> ToolOutput:
        return ToolOutput(text="a picture", attachments=(PICTURE,))

    talk = Talk(calls(("d", "draw", {})), says("ok"), tools=(draw,))
    await talk.send()
    assert talk.model.asked[1][0][-1] == ToolTurn("d", "a picture", attachments=(PICTURE,))


@in_loop
async def test_however_long_it_is_nothing_is_copied_for_a_step() -> None:
    seen: list[int] = []

    class Watching(PlayedModel):
        def answer(self, ask: Ask) -> Any:
            seen.append(id(ask.turns))
            return super().answer(ask)

    talk = Talk()
    options = type(talk.options)(model=Watching(*(says("ok") for _ in range(20))), system_prompt="be brief")
    entries = talk.conversation.entries
    for _ in range(20):
        await talk.conversation.send(options, "hi")

    assert len(set(seen)) == 1
    assert talk.conversation.entries is entries
    assert len(entries) == 40
