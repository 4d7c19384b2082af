"""Questions and plans: what is shown, what comes back, and that it may take a new process to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from harness.contracts.model import ToolTurn
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput
from harness.conversation.history import history
from harness.errors import UsageError
from harness.events import Relay, RelayReply, Result, Suspended
from harness.native.loop.conversation import AgentConversation
from harness.session.builtin.ask_user import ANSWER_SCHEMA, AskUserTool
from harness.session.builtin.submit_plan import REPLY_SCHEMA, SubmitPlanTool, is_approved
from thread_kit import Asked, ParentThread, calls

CHOICES = [{"label": "red"}, {"label": "blue", "description": "as the sky"}]


def asks(*questions: dict[str, Any], name: str = "ask_user") -> dict[str, Any]:
    return {
        "events": [
            {"type": "tool_call", "name": name, "input": input, "id": f"q{number}"}
            for number, input in enumerate(questions)
        ]
    }


class Asking:
    """A run that asks, and is answered."""

    def __init__(self, *responses: Any) -> None:
        self.model = Asked(*responses)
        self.relays: list[Relay] = []

    async def go(self, *answers: Any, restarts: bool = False) -> ParentThread:
        tools: list[Tool] = [AskUserTool(), SubmitPlanTool()]
        thread = ParentThread(self.model, (), tools=tools)
        ended = await thread.send("go")
        for answer in answers:
            assert isinstance(ended, Suspended)
            if restarts:
                emitted = history(thread.log())
                thread.current = AgentConversation(
                    thread.loop_context(thread.hub), emitted.entries, pending=emitted.pending
                )
            assert thread.current is not None
            assert thread.working is not None
            assert thread.current.pending is not None
            (relay,) = thread.current.pending.relays
            self.relays.append(relay)
            reply = RelayReply(id=relay.id, approved=True, answer=answer)
            ended = await thread.current.resume(thread.working, {relay.id: reply})
        assert isinstance(ended, Result)
        assert ended.success
        return thread

    def play(self, *answers: Any, restarts: bool = False) -> list[str]:
        """What the model was sent, call by call."""
        asyncio.run(self.go(*answers, restarts=restarts))
        turns = self.model.asked[-1][0]
        return [turn.text for turn in turns if isinstance(turn, ToolTurn)]


def alone(tool: Tool, **arguments: Any) -> ToolOutput:
    return asyncio.run(tool.run(arguments, ToolContext(cwd="/")))


def test_a_question_is_shown_and_its_answer_is_the_result() -> None:
    asking = Asking(asks({"question": "Which?"}), "The end.")
    assert asking.play("the red one") == ["User answered: the red one"]
    (relay,) = asking.relays
    assert (relay.kind, relay.tool_name, relay.question, relay.options) == (
        "question",
        "ask_user",
        "Which?",
        None,
    )
    assert relay.payload == {"question": "Which?"}
    assert relay.resume_schema == ANSWER_SCHEMA
    assert relay.input == {"question": "Which?"}


def test_one_of_several_may_be_chosen_unless_it_says_otherwise() -> None:
    asking = Asking(asks({"question": "Which?", "options": CHOICES}), "The end.")
    assert asking.play("red") == ["User answered: red"]
    (relay,) = asking.relays
    assert relay.payload == {"question": "Which?", "options": CHOICES, "selectionMode": "single_select"}
    assert relay.options == ["red", "blue"]


def test_several_choices_come_back_as_one_text() -> None:
    question = {"question": "Which?", "options": CHOICES, "selectionMode": "multi_select"}
    asking = Asking(asks(question), "The end.")
    assert asking.play(["red", "blue"]) == ["User answered: red, blue"]
    assert asking.relays[0].payload == question


def test_three_questions_of_one_step_are_asked_one_at_a_time() -> None:
    asking = Asking(asks(*({"question": f"Number {number}?"} for number in range(3))), "The end.")
    assert asking.play("a", "b", "c") == [f"User answered: {answer}" for answer in "abc"]
    assert [relay.question for relay in asking.relays] == ["Number 0?", "Number 1?", "Number 2?"]


def test_a_question_may_be_answered_after_a_restart() -> None:
    asking = Asking(asks({"question": "Which?"}, {"question": "And?"}), "The end.")
    assert asking.play("red", "blue", restarts=True) == ["User answered: red", "User answered: blue"]


def test_a_second_answer_is_refused_as_late() -> None:
    async def go() -> None:
        asking = Asking(asks({"question": "Which?"}), "The end.")
        thread = await asking.go("red")
        (relay,) = asking.relays
        assert thread.current is not None
        assert thread.working is not None
        with pytest.raises(UsageError, match="nothing waits for this answer"):
            await thread.current.resume(
                thread.working, {relay.id: RelayReply(id=relay.id, approved=True, answer="blue")}
            )

    asyncio.run(go())


@pytest.mark.parametrize("options", [None, []])
def test_a_way_to_choose_needs_something_to_choose_from(options: Any) -> None:
    with pytest.raises(ToolFailure) as failure:
        alone(AskUserTool(), question="Which?", options=options, selectionMode="multi_select")
    assert str(failure.value) == "Failed to ask user: selectionMode requires options."


def test_what_cannot_be_asked_is_an_error_result_and_the_run_continues() -> None:
    asking = Asking(asks({"question": ""}), "The end.")
    (emitted,) = asking.play()
    assert "invalid arguments for ask_user" in emitted


def test_where_no_one_can_be_asked_the_question_is_the_result() -> None:
    assert alone(AskUserTool(), question="Which?").text == "[Question for user]: Which?"
    emitted = alone(AskUserTool(), question="Which?", options=CHOICES).text
    assert emitted == "[Question for user]: Which?\nOptions: red, blue\nSelection mode: single_select"
    assert alone(SubmitPlanTool(), plan="1. go").text == (
        "[Plan submitted for review]\n\nTitle: Implementation Plan\n\n1. go"
    )


def plan(**more: str) -> dict[str, Any]:
    return calls("submit_plan", {"plan": "1. go", **more})


def test_a_plan_that_is_approved_is_carried_out() -> None:
    asking = Asking(plan(title="Go"), "The end.")
    (emitted,) = asking.play({"action": "approved"})
    assert emitted.startswith("Plan approved.")
    (relay,) = asking.relays
    assert (relay.kind, relay.tool_name) == ("plan", "submit_plan")
    assert relay.payload == {"title": "Go", "plan": "1. go"}
    assert relay.resume_schema == REPLY_SCHEMA


def test_a_plan_that_is_sent_back_is_to_be_changed_and_submitted_again() -> None:
    asking = Asking(plan(), plan(title="Better"), "The end.")
    first, second = asking.play({"action": "rejected", "feedback": "more detail"}, {"action": "rejected"})
    assert first.startswith("Plan was not approved.")
    assert "User feedback: more detail" in first
    assert "submit_plan" in first
    assert "feedback:" not in second
    assert asking.relays[0].payload["title"] == "Implementation Plan"
    assert asking.relays[1].payload["title"] == "Better"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"action": "approved"}, True),
        ("approved", True),
        ({"action": "rejected"}, False),
        ({}, False),
        (None, False),
        ("yes", False),
    ],
)
def test_only_a_clear_yes_is_one(reply: Any, expected: bool) -> None:
    assert is_approved(reply) is expected


def test_specs_say_what_is_needed() -> None:
    tools: Sequence[Tool] = (AskUserTool(), SubmitPlanTool())
    ask, submit = [tool.spec.schema for tool in tools]
    assert ask["required"] == ["question"]
    assert ask["properties"]["options"]["items"]["required"] == ["label"]
    assert ask["properties"]["selectionMode"]["enum"] == ["multi_select", "single_select"]
    assert submit["required"] == ["plan"]


@pytest.mark.parametrize("restarts", [False, True])
def test_questions_may_be_asked_as_other_agents_models_do(restarts: bool) -> None:
    first = {"question": "Which?", "header": "Colour", "multiSelect": False, "options": CHOICES}
    second = {"question": "Sure?", "options": ["yes", "no"], "multiSelect": True}
    asking = Asking(asks({"questions": [first, second]}, name="AskUserQuestion"), "The end.")
    assert asking.play("red", ["yes", "no"], restarts=restarts) == [
        "Which?\nUser answered: red\nSure?\nUser answered: yes, no"
    ]
    assert [relay.question for relay in asking.relays] == ["Which?", "Sure?"]
    assert asking.relays[0].payload == {
        "question": "Which?",
        "options": CHOICES,
        "selectionMode": "single_select",
    }
    assert asking.relays[1].payload["selectionMode"] == "multi_select"
    single = Asking(asks({"questions": [first]}, name="question"), "The end.")
    assert single.play("blue", restarts=restarts) == ["User answered: blue"]


def test_a_plan_may_be_handed_in_as_other_agents_models_do() -> None:
    asking = Asking(asks({"plan": "1. look"}, name="ExitPlanMode"), "The end.")
    assert asking.play({"action": "approved"}) == ["Plan approved. Carry it out as it was approved."]
