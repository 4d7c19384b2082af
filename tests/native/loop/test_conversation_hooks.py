"""What a program around the loop may decide: what the model sees, whether it continues, and who else works on the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import Ask, AssistantTurn, Call, SystemTurn, ToolTurn, Turn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.turns import StepContext
from harness.events import (
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    Signal,
    StepEnd,
    StepStart,
    ToolEnd,
)
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from played_model import calls, says


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@in_loop
async def test_before_each_step_the_application_may_choose_what_the_model_sees() -> None:
    contexts: list[tuple[int, str, int, list[Turn]]] = []

    async def choose(context: StepContext) -> Sequence[Turn] | None:
        turns = [entry.turn for entry in context.entries]
        contexts.append((context.step_number, context.model.name, len(context.entries), turns))
        if context.step_number == 0:
            return None
        return [SystemTurn("memory"), *turns[-2:]]

    talk = Talk(
        calls(("c", "add", {"a": 1, "b": 2})),
        says("3"),
        says("bye"),
        tools=(add,),
        system_prompt="be brief",
        before_step=choose,
    )
    await talk.send("go")
    await talk.send("and")

    assert [(step, name, count) for step, name, count, _ in contexts] == [
        (0, "test/played", 1),
        (1, "test/played", 3),
        (0, "test/played", 5),
    ]
    assert talk.model.asked[1][0] == (
        SystemTurn("be brief"),
        SystemTurn("memory"),
        AssistantTurn("", (Call("c", "add", {"a": 1, "b": 2}),)),
        ToolTurn("c", "3"),
    )
    assert talk.model.asked[1][0][2] is talk.conversation.entries[1].turn
    talk.check()


@in_loop
async def test_a_failure_before_a_step_ends_the_run_and_nothing_else() -> None:
    async def breaks(context: StepContext) -> None:
        raise RuntimeError("no memory")

    talk = Talk(says("ok"), before_step=breaks)
    with pytest.raises(RuntimeError):
        await talk.send()
    assert talk.of(Result)[0].outcome == "failed"
    talk.check()
    await talk.conversation.send(type(talk.options)(model=talk.model), "again")
    talk.check()


@in_loop
async def test_after_an_answer_the_application_may_send_the_model_on() -> None:
    reminders = ["not done yet", None]

    async def judge(answer: str) -> str | None:
        return reminders.pop(0)

    talk = Talk(says("done?"), says("done!"), after_answer=judge)
    ended = await talk.send()

    assert isinstance(ended, Result)
    assert ended.text == "done!"
    assert talk.model.asked[1][0][-1] == SystemTurn("not done yet")
    assert [message.role for message in talk.of(Message)] == ["user", "assistant", "system", "assistant"]
    talk.check()


@in_loop
async def test_words_that_come_while_an_answer_is_judged_are_answered() -> None:
    async def judge(answer: str) -> str | None:
        if answer == "done?":
            assert talk.conversation.steer("wait")
        return None

    talk = Talk(says("done?"), says("what?"), after_answer=judge)
    await talk.send()

    assert talk.model.asked[1][0][-1] == UserTurn("wait")
    talk.check()


@in_loop
async def test_a_run_may_be_ended_after_a_step() -> None:
    step = calls(("c", "add", {"a": 1, "b": 2}))
    talk = Talk(step, step, says("never"), tools=(add,), stop_when=lambda context: context.step_number == 2)
    ended = await talk.send()

    assert isinstance(ended, Result)
    assert (ended.outcome, ended.turns) == ("completed", 2)
    talk.check()


@in_loop
async def test_sub_agents_are_no_part_of_the_history() -> None:
    @tool
    async def ask_somebody(task: str, context: ToolContext) -> str:
        return await context.spawn(task, "scout")

    async def never_asked(context: StepContext) -> None:
        assert not talk.of(StepStart) or talk.of(StepEnd)

    talk = Talk(
        calls(("s", "ask_somebody", {"task": "t"})),
        calls(("x", "add", {"a": 1, "b": 1})),
        says("found"),
        says("ok"),
        tools=(ask_somebody, add),
        before_step=never_asked,
    )
    await talk.send()

    assert [type(turn) for turn in talk.turns] == [UserTurn, AssistantTurn, ToolTurn, AssistantTurn]
    talk.check()


@in_loop
async def test_a_nested_conversation_on_the_same_log_is_no_part_of_it_and_waits_where_it_is() -> None:
    from harness.native.loop.conversation import AgentConversation

    @tool
    async def wonder(context: ToolContext) -> str:
        return str(await context.suspend("?"))

    @tool
    async def delegate(context: ToolContext) -> str:
        nested = AgentConversation(talk.context)
        options = type(talk.options)(model=talk.model, tools=(wonder,), permissions=Permissions("allow"))
        ended = await nested.send(options, "inner", parent_id=context.call_id, name="scout")
        assert isinstance(ended, Result)
        return ended.text

    talk = Talk(
        calls(("d", "delegate", {})),
        calls(("w", "wonder", {})),
        says("inner done"),
        says("ok"),
        tools=(delegate,),
    )
    running = asyncio.create_task(talk.send())
    relay = await talk.until(Relay)
    talk.context.questions.reply(RelayReply(id=relay.id, approved=True, answer="yes"))
    await running

    assert [end.output for end in talk.of(ToolEnd)] == ["yes", "inner done"]
    assert [turn.text for turn in talk.turns] == ["go", "", "inner done", "ok"]
    talk.check()


@pytest.mark.parametrize("chooses", [False, True])
@in_loop
async def test_what_is_added_before_a_step_is_seen_in_that_step(chooses: bool) -> None:
    async def remind(context: StepContext) -> Sequence[Turn] | None:
        before = [entry.turn for entry in context.entries]
        talk.conversation.add(Signal(id="s", category="reactive", tag_name="note", contents="mind"))
        return before if chooses else None

    talk = Talk(says("ok"), before_step=remind)
    await talk.send()

    assert talk.model.asked[0][0] == (UserTurn("go"), UserTurn("<note>mind</note>"))
    assert talk.turns[1:] == [UserTurn("<note>mind</note>"), AssistantTurn("ok")]
    talk.check()


@in_loop
async def test_what_a_judge_adds_comes_before_its_reminder() -> None:
    async def judge(answer: str) -> str | None:
        talk.conversation.add(Signal(id=answer, category="state", tag_name="goal", contents=answer))
        return "go on" if answer == "done?" else None

    talk = Talk(says("done?"), says("done!"), after_answer=judge)
    await talk.send()

    assert [turn.text for turn in talk.turns] == [
        "go",
        "done?",
        "<goal>done?</goal>",
        "go on",
        "done!",
        "<goal>done!</goal>",
    ]
    talk.check()


@in_loop
async def test_what_is_added_during_a_last_answer_comes_right_after_it() -> None:
    async def adding(ask: Ask) -> AsyncIterator[Event]:
        talk.conversation.add(Signal(id="s", category="state", tag_name="note", contents="mind"))
        for event in says("done?"):
            yield event

    async def judge(answer: str) -> str | None:
        return "go on" if answer == "done?" else None

    talk = Talk(adding, says("done!"), after_answer=judge)
    await talk.send()

    assert [turn.text for turn in talk.turns] == ["go", "done?", "<note>mind</note>", "go on", "done!"]
    talk.check()
