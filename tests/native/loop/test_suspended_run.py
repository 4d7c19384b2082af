"""A run that waits for a person: it releases everything, and continues when there is an answer, from anywhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import AssistantTurn, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext
from harness.conversation.turns import CUT_OFF
from harness.errors import UsageError
from harness.events import (
    Message,
    Relay,
    RelayReply,
    Result,
    Resumed,
    Signal,
    Suspended,
    ToolEnd,
    ToolStart,
)
from harness.native.tools.function_tool import tool
from played_model import PlayedModel, calls, follow, says

asked: list[str] = []


@pytest.fixture(autouse=True)
def nothing_was_asked() -> None:
    asked.clear()


@tool
async def ask(question: str, context: ToolContext) -> str:
    """Ask a person."""
    asked.append(question)
    answer = await context.suspend({"question": question}, question=question, schema={"type": "string"})
    return f"answered: {answer}"


@tool
async def ask_twice(context: ToolContext) -> str:
    first = await context.suspend("first", kind="tool")
    second = await context.suspend("second", kind="tool")
    return f"{first} and {second}"


@tool(quick=True)
def note(text: str) -> str:
    asked.append(text)
    return f"noted {text}"


def one_question(*more: Any) -> tuple[Any, ...]:
    return calls(("q", "ask", {"question": "why?"})), *more


@in_loop
async def test_a_tool_that_asks_ends_the_coroutine_and_the_answer_continues_with_the_run() -> None:
    talk = Talk(*one_question(says("so be it")), tools=(ask,))

    assert isinstance(await talk.send(), Suspended)
    talk.check()
    assert talk.conversation.pending is not None
    [relay] = talk.conversation.pending.relays
    assert (relay.kind, relay.tool_name, relay.question) == ("question", "ask", "why?")
    assert (relay.input, relay.payload) == ({"question": "why?"}, {"question": "why?"})
    assert relay.resume_schema == {"type": "string"}
    assert [type(event) for event in talk.events[-2:]] == [Relay, Suspended]

    ended = await talk.answer("because")

    assert isinstance(ended, Result)
    assert (ended.text, ended.success, ended.turns) == ("so be it", True, 2)
    assert talk.model.asked[1][0][-1] == ToolTurn("q", "answered: because")
    assert asked == ["why?", "why?"]
    assert len(talk.of(ToolStart)) == len(talk.of(ToolEnd)) == 1
    assert len(talk.of(Result)) == 1
    assert talk.conversation.pending is None
    talk.check()


@in_loop
async def test_another_process_continues_with_it() -> None:
    first = Talk(*one_question(), tools=(ask,))
    await first.send("a question", message_id="m-1")

    second = first.elsewhere(says("so be it"), tools=(ask,))
    second.check()
    assert second.conversation.pending == first.conversation.pending or second.conversation.pending
    ended = await second.answer("because")

    assert isinstance(ended, Result)
    assert ended.turns == 2
    assert ended.usage is not None
    assert ended.usage.input == 20
    assert second.model.asked[0][0] == (
        UserTurn("a question"),
        AssistantTurn("", second.turns[1].calls),  # type: ignore[union-attr]
        ToolTurn("q", "answered: because"),
    )
    assert {event.run_id for event in second.events} == {second.events[0].run_id}
    second.check()


@in_loop
async def test_what_does_not_ask_runs_first_and_only_once() -> None:
    step = calls(("q", "ask", {"question": "why?"}), ("n", "note", {"text": "x"}))
    talk = Talk(step, says("ok"), tools=(ask, note))

    await talk.send()
    talk.check()
    assert talk.conversation.pending is not None
    assert set(talk.conversation.pending.results) == {"n"}
    await talk.answer("because")

    assert asked.count("x") == 1
    assert talk.model.asked[1][0][-2:] == (ToolTurn("q", "answered: because"), ToolTurn("n", "noted x"))
    talk.check()


@pytest.mark.parametrize("moves", [False, True])
@in_loop
async def test_several_questions_of_one_step_come_one_after_the_other(moves: bool) -> None:
    step = calls(*((f"q{number}", "ask", {"question": f"{number}?"}) for number in range(3)))
    talk = Talk(step, tools=(ask,))
    ended = await talk.send()
    questions = []
    for number in range(3):
        assert isinstance(ended, Suspended)
        talk.check()
        if moves:
            talk = talk.elsewhere(tools=(ask,))
        talk.model.answers = [says("thanks")]
        assert talk.conversation.pending is not None
        questions.append(talk.conversation.pending.relays[0].question)
        ended = await talk.answer(f"a{number}")

    assert questions == ["0?", "1?", "2?"]
    assert isinstance(ended, Result)
    assert [turn.text for turn in talk.turns if isinstance(turn, ToolTurn)] == [
        "answered: a0",
        "answered: a1",
        "answered: a2",
    ]
    assert len(talk.of(Relay)) == len(talk.of(RelayReply)) == 3
    assert len(talk.of(Suspended)) == len(talk.of(Resumed)) == 3
    talk.check()


@pytest.mark.parametrize("moves", [False, True])
@in_loop
async def test_one_call_may_ask_twice(moves: bool) -> None:
    talk = Talk(calls(("q", "ask_twice", {})), says("ok"), tools=(ask_twice,))
    await talk.send()
    assert isinstance(await talk.answer("one"), Suspended)
    talk.check()
    if moves:
        talk = talk.elsewhere(says("ok"), tools=(ask_twice,))
    assert isinstance(await talk.answer("two"), Result)

    assert talk.of(ToolEnd)[0].output == "one and two"
    assert [relay.payload for relay in talk.of(Relay)] == ["first", "second"]
    talk.check()


@in_loop
async def test_the_first_answer_counts() -> None:
    talk = Talk(*one_question(says("ok")), tools=(ask,))
    await talk.send()
    assert talk.conversation.pending is not None
    relay_id = talk.conversation.pending.relays[0].id
    await talk.answer("first")

    with pytest.raises(UsageError, match="nothing waits for this answer"):
        await talk.conversation.resume(
            talk.options, {relay_id: RelayReply(id=relay_id, approved=True, answer="second")}
        )
    assert [reply.answer for reply in talk.of(RelayReply)] == ["first"]
    talk.check()


@in_loop
async def test_an_answer_to_another_one_changes_nothing() -> None:
    talk = Talk(*one_question(says("ok")), tools=(ask,))
    await talk.send()
    for replies in ({}, {"other": RelayReply(id="other", approved=True)}):
        with pytest.raises(UsageError):
            await talk.conversation.resume(talk.options, replies)
    talk.check()
    assert isinstance(await talk.answer("yes"), Result)


@in_loop
async def test_a_question_that_was_refused_is_reported_to_the_model() -> None:
    talk = Talk(*one_question(says("ok")), tools=(ask,))
    await talk.send()
    await talk.answer(approved=False, reason="not now")

    assert talk.model.asked[1][0][-1] == ToolTurn("q", "not now", is_error=True)
    talk.check()


@in_loop
async def test_saying_something_else_gives_the_question_up() -> None:
    step = calls(("q", "ask", {"question": "why?"}), ("n", "note", {"text": "x"}))
    talk = Talk(step, says("never mind"), tools=(ask, note))
    await talk.send()
    ended = await talk.send("forget it")

    assert isinstance(ended, Result)
    assert talk.model.asked[1][0][-3:] == (
        ToolTurn("q", CUT_OFF, is_error=True),
        ToolTurn("n", "noted x"),
        UserTurn("forget it"),
    )
    assert [result.outcome for result in talk.of(Result)] == ["interrupted", "completed"]
    assert talk.of(RelayReply)[0].reason == "the run was given up"
    talk.check()


@in_loop
async def test_giving_up_ends_the_run_that_waits() -> None:
    talk = Talk(*one_question(), tools=(ask,))
    await talk.send()

    assert talk.conversation.give_up("Aborted by the user")
    assert not talk.conversation.give_up()
    assert talk.of(Result)[0].outcome == "interrupted"
    talk.check()


@in_loop
async def test_what_is_added_meanwhile_comes_after_the_results() -> None:
    talk = Talk(*one_question(says("ok")), tools=(ask,))
    await talk.send()
    talk.conversation.add(Signal(id="s", category="state", tag_name="tasks", contents="a <b>"))
    talk.check()
    assert talk.conversation.pending is not None
    talk = talk.elsewhere(says("ok"), tools=(ask,))
    talk.check()
    await talk.answer("because")

    assert talk.model.asked[0][0][-2:] == (
        ToolTurn("q", "answered: because"),
        UserTurn("<tasks>a &lt;b&gt;</tasks>"),
    )
    talk.check()


@in_loop
async def test_what_was_said_to_the_run_before_it_waited_is_not_lost() -> None:
    talk: Talk

    @tool
    async def hold(context: ToolContext) -> str:
        if not talk.of(Suspended):
            assert talk.conversation.steer("hurry")
        return str(await context.suspend("x"))

    talk = Talk(calls(("q", "hold", {})), says("ok"), tools=(hold,))
    await talk.send()
    talk.check()
    assert [message.text for message in talk.of(Message) if message.role == "user"] == ["go", "hurry"]
    assert not talk.conversation.steer("nobody hears this")
    await talk.answer("because")

    assert talk.model.asked[1][0][-2:] == (ToolTurn("q", "because"), UserTurn("hurry"))


@in_loop
async def test_stopping_a_resumed_run_ends_its_calls() -> None:
    started = asyncio.Event()

    @tool
    async def hang(context: ToolContext) -> str:
        await context.suspend("x")
        started.set()
        await asyncio.Event().wait()
        return "never"

    step = calls(("a", "hang", {}), ("b", "hang", {}))
    talk = Talk(step, says("back"), tools=(hang,))
    await talk.send()
    running = asyncio.create_task(talk.answer("y"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert talk.conversation.pending is None
    talk.check()
    await talk.send("again")

    assert [turn.text for turn in talk.turns if isinstance(turn, ToolTurn)] == [CUT_OFF, CUT_OFF]
    talk.check()


@in_loop
async def test_a_resumption_that_is_stopped_before_it_begins_leaves_a_whole_log() -> None:
    talk = Talk(*one_question(), tools=(ask,))
    await talk.send()
    running = asyncio.create_task(talk.answer("y"))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert talk.of(Result)[0].outcome == "interrupted"
    talk.check()


def test_where_a_run_cannot_be_suspended_the_call_waits_where_it_is() -> None:
    def answer(agents: Any, event: Any) -> None:
        if isinstance(event, Relay):
            assert event.kind == "question"
            agents._context.questions.reply(
                RelayReply(id=event.id, approved=True, answer=event.question.upper())
            )

    step = calls(("a", "ask", {"question": "why?"}), ("b", "ask", {"question": "how?"}))
    played = asyncio.run(follow(PlayedModel(step, says("ok")), tools=(ask,), on_event=answer))

    assert sorted(end.output for end in played.of(ToolEnd)) == ["answered: HOW?", "answered: WHY?"]
    assert [type(event) for event in played.events if isinstance(event, Relay | RelayReply)] == [
        Relay,
        RelayReply,
        Relay,
        RelayReply,
    ]
    assert asked == ["why?", "how?"]


def test_a_question_that_no_one_answers_in_time_has_failed() -> None:
    played = asyncio.run(follow(PlayedModel(*one_question(says("ok"))), tools=(ask,), relay_deadline_s=0.01))

    assert played.of(ToolEnd)[0].output == "no answer within 0.01 s"
    assert played.result.success
