"""Questions to the user, and other tools that wait for a person: asked, answered, and continued."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import ToolContext
from harness.errors import UsageError
from harness.events import Relay, RelayReply, ToolEnd, ToolStart
from harness.folds.session.events import HarnessEvent
from harness.native.tools.function_tool import tool
from harness.native.tools.write import WriteTool
from harness.session.builtin.ask_user import AskUserTool
from harness.session.config import Subagent
from harness.session.harness import Harness
from harness.workspace.roots import ToolWorkspace
from harness_kit import Model, call, log_of, opened
from running_kit import (
    YOLO,
    Live,
    check,
    ends,
    in_loop,
    plain,
    started,
    texts,
)

OPTIONS = [{"label": "Tests", "description": "more of them"}, {"label": "Docs"}]


def asks(*questions: str) -> dict[str, Any]:
    """One answer that asks several questions."""
    return {
        "events": [
            {"type": "tool_call", "name": "ask_user", "id": f"q{number}", "input": {"question": question}}
            for number, question in enumerate(questions, 1)
        ]
    }


@in_loop
async def test_a_question_suspends_the_run_and_its_answer_resumes_it() -> None:
    model = Model(call("ask_user", question="Which?", options=OPTIONS), "Tests it is.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        [asked] = record.named("tool_suspended")
        assert asked["toolName"] == "ask_user"
        assert asked["args"] == {"question": "Which?", "options": OPTIONS}
        assert asked["suspendPayload"] == {
            "question": "Which?",
            "options": OPTIONS,
            "selectionMode": "single_select",
        }
        assert asked["resumeSchema"] == {
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
        }
        assert ends(record) == ["suspended"]
        [pending] = harness.session.display_state.get().pending_suspensions.values()
        assert pending.tool_call_id == asked["toolCallId"]
        assert not harness.session.run.is_running()

        assert await harness.respond_to_tool_suspension(tool_call_id=asked["toolCallId"], resume_data="Tests")
        assert model.results() == ["User answered: Tests"]
        assert [data["result"] for data in record.named("tool_end")] == ["User answered: Tests"]
        assert ends(record) == ["suspended", "complete"]
        assert harness.session.display_state.get().pending_suspensions == {}
        check(harness, log_of(harness))


@in_loop
async def test_several_options_may_be_chosen() -> None:
    question = call("ask_user", question="Which?", options=OPTIONS, selectionMode="multi_select")
    model = Model(question, "Both.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        assert record.named("tool_suspended")[0]["suspendPayload"]["selectionMode"] == "multi_select"
        await harness.respond_to_tool_suspension(resume_data=["Tests", "Docs"])
        assert model.results() == ["User answered: Tests, Docs"]


@in_loop
async def test_three_questions_of_one_step_are_asked_one_at_a_time() -> None:
    model = Model(asks("one?", "two?", "three?"), "I know all.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        asked = []
        for answer in ("1", "2", "3"):
            [relay] = harness.session.suspensions.all()
            asked.append(relay.suspend_payload["question"])
            assert await harness.respond_to_tool_suspension(resume_data=answer)
        assert asked == ["one?", "two?", "three?"]
        assert model.results() == [f"User answered: {number}" for number in "123"]
        assert len(record.named("tool_suspended")) == 3
        assert len(record.named("tool_start")) == 3
        assert ends(record) == ["suspended"] * 3 + ["complete"]
        check(harness, log_of(harness))


@in_loop
async def test_calls_that_wait_for_no_one_are_done_before_and_only_once() -> None:
    done: list[str] = []

    @tool
    async def work() -> str:
        """Work."""
        done.append("x")
        return "worked"

    both = {
        "events": [*asks("why?")["events"], {"type": "tool_call", "name": "work", "id": "w", "input": {}}]
    }
    model = Model(both, "Good.")
    async with opened(model, tools=[work], initial_state=YOLO) as (harness, _):
        await harness.send_message(content="go")
        assert done == ["x"]
        await harness.respond_to_tool_suspension(resume_data="because")
        assert done == ["x"]
        assert model.results() == ["User answered: because", "worked"]
        check(harness, log_of(harness))


@in_loop
async def test_the_second_answer_to_one_question_is_refused_as_too_late() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    async with opened(model) as (harness, _):
        await harness.send_message(content="go")
        answers = await asyncio.gather(
            harness.respond_to_tool_suspension(resume_data="first"),
            harness.respond_to_tool_suspension(resume_data="second"),
        )
        assert answers == [True, False]
        assert model.results() == ["User answered: first"]
        assert not await harness.respond_to_tool_suspension(resume_data="third")


@in_loop
async def test_an_answer_to_nothing_is_nothing() -> None:
    async with opened(Model()) as (harness, record):
        assert not await harness.respond_to_tool_suspension(resume_data="what?")
        await harness.create_thread()
        assert not await harness.respond_to_tool_suspension(resume_data="what?", tool_call_id="c1")
        assert "agent_start" not in record.types


@in_loop
async def test_a_listener_may_answer_as_soon_as_it_is_called() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    async with opened(model) as (harness, record):

        async def answer(event: HarnessEvent) -> None:
            if event.type == "tool_suspended":
                call_id = event.tool_call_id  # type: ignore[attr-defined]
                await harness.respond_to_tool_suspension(tool_call_id=call_id, resume_data="this")

        harness.subscribe(answer)
        await harness.send_message(content="go")
        await record.until(lambda: len(ends(record)) == 2)
        await harness.session.wait_until_idle()
        assert ends(record) == ["suspended", "complete"]
        assert model.results() == ["User answered: this"]


@pytest.mark.parametrize("wrong", [None, 5, {}, {"a": [1, None]}, ["a", 1], True])
@in_loop
async def test_what_is_no_answer_to_a_question_decides_nothing(wrong: Any) -> None:
    model = Model(asks("Which?"), "Good.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        with pytest.raises(UsageError, match="Invalid answer: "):
            await harness.respond_to_tool_suspension(resume_data=wrong)
        assert harness.session.suspensions.has_pending()
        assert await harness.respond_to_tool_suspension(resume_data=["a", "b"])
        assert model.results() == ["User answered: a, b"]
        assert ends(record) == ["suspended", "complete"]


@in_loop
async def test_two_that_wait_are_distinguished_by_their_ids() -> None:
    """Sub-agents wait where they are, so that two of them may ask at the same time."""
    asker = Subagent(
        id="ask",
        name="Ask",
        description="Asks.",
        instructions="Ask.",
        tools=[AskUserTool()],
        default_model_id="s",
    )
    both = {
        "events": [
            {"type": "tool_call", "name": "subagent", "id": id, "input": {"agentType": "ask", "task": id}}
            for id in ("a", "b")
        ]
    }
    model = Live(both, asks("first?"), asks("second?"), "A.", "B.", "Both.")
    async with opened(model, subagents=[asker], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await record.until(lambda: len(record.named("tool_suspended")) == 2)
        one, two = (data["toolCallId"] for data in record.named("tool_suspended"))
        assert one != two
        assert harness.session.suspensions.resolve_tool_call_id() is None
        assert not await harness.respond_to_tool_suspension(resume_data="whose?")
        assert set(harness.session.display_state.get().pending_suspensions) == {one, two}
        assert await harness.respond_to_tool_suspension(tool_call_id=two, resume_data="2")
        assert harness.session.suspensions.resolve_tool_call_id() == one  # at once: that answer counts
        await record.until(lambda: len(record.named("subagent_end")) == 1)
        assert set(harness.session.display_state.get().pending_suspensions) == {one}
        assert harness.session.suspensions.resolve_tool_call_id() == one
        assert await harness.respond_to_tool_suspension(resume_data="1")
        await first
        assert texts(record)[-1] == "Both."
        check(harness, log_of(harness))


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


@tool
async def request_access(path: str, context: ToolContext) -> str:
    """Ask for a folder."""
    answer = await context.suspend({"wants": path}, kind="tool", schema=SCHEMA)
    return f"given: {answer['path']}"


@in_loop
async def test_a_tool_of_the_application_may_wait_with_a_payload_and_a_schema_of_its_own() -> None:
    model = Model(call("request_access", path="/etc"), "Thanks.")
    async with opened(model, tools=[request_access], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        [asked] = record.named("tool_suspended")
        assert (asked["toolName"], asked["args"]) == ("request_access", {"path": "/etc"})
        assert (asked["suspendPayload"], asked["resumeSchema"]) == ({"wants": "/etc"}, SCHEMA)
        await harness.respond_to_tool_suspension(resume_data={"path": "/tmp"})
        assert model.results() == ["given: /tmp"]
        events = log_of(harness)
        assert [event.kind for event in events if isinstance(event, Relay)] == ["tool"]
        assert sum(isinstance(event, ToolStart) for event in events) == 1
        assert sum(isinstance(event, ToolEnd) for event in events) == 1


@tool
async def twice(context: ToolContext) -> str:
    """Ask two things, one after the other."""
    name = await context.suspend({"ask": "name"})
    age = await context.suspend({"ask": "age"})
    return f"{name} is {age}"


@in_loop
async def test_a_tool_may_wait_again_after_it_was_answered() -> None:
    model = Model(call("twice"), "Noted.")
    async with opened(model, tools=[twice], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        await harness.respond_to_tool_suspension(resume_data="Ann")
        assert [data["suspendPayload"]["ask"] for data in record.named("tool_suspended")] == ["name", "age"]
        await harness.respond_to_tool_suspension(resume_data=40)
        assert model.results() == ["Ann is 40"]
        assert ends(record) == ["suspended", "suspended", "complete"]


@in_loop
async def test_what_is_said_instead_of_an_answer_gives_the_question_up() -> None:
    model = Model(call("ask_user", question="Which?"), "As you say.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        await harness.send_message(content="forget it")
        assert record.named("tool_suspension_cancelled")
        assert texts(record)[-1] == "As you say."
        assert not harness.session.suspensions.has_pending()
        check(harness, log_of(harness))


@in_loop
async def test_a_run_is_resumed_under_the_rules_that_hold_then() -> None:
    model = Model(call("ask_user", question="Which?"), call("work", id="w"), "Done.")
    async with opened(model, tools=[plain("work")]) as (harness, record):
        await harness.send_message(content="go")
        await harness.session.state.set({"yolo": True})
        await harness.respond_to_tool_suspension(resume_data="this")
        assert "tool_approval_required" not in record.types
        assert texts(record)[-1] == "Done."


@in_loop
async def test_a_run_that_cannot_be_resumed_now_still_waits_for_its_answer() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    is_broken = False

    def resolve(_model_id: str) -> Model:
        if is_broken:
            raise UsageError("no such model")
        return model

    async with opened(resolve_model=resolve) as (harness, record):
        await harness.send_message(content="go")
        is_broken = True
        await harness.respond_to_tool_suspension(resume_data="this")
        assert [data["error"]["message"] for data in record.named("error")] == ["no such model"]
        assert harness.session.suspensions.has_pending()
        is_broken = False
        assert await harness.respond_to_tool_suspension(resume_data="this")
        assert model.results() == ["User answered: this"]
        assert ends(record) == ["suspended", "complete"]


@in_loop
async def test_a_message_that_cannot_be_sent_is_stored_and_takes_the_place_of_the_question() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    is_broken = False

    def resolve(_model_id: str) -> Model:
        if is_broken:
            raise UsageError("no such model")
        return model

    async with opened(resolve_model=resolve) as (harness, record):
        await harness.send_message(content="go")
        is_broken = True
        await harness.send_message(content="never mind")
        assert ends(record) == ["suspended", "error"]
        assert not harness.session.suspensions.has_pending()
        is_broken = False
        await harness.send_message(content="again")
        assert model.received() == ["go", "never mind", "again"]
        check(harness, log_of(harness))


@in_loop
async def test_a_decision_that_no_one_knows_approves_nothing() -> None:
    model = Model(call("deploy"), "Well.")
    async with opened(model, tools=[plain("deploy")]) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        with pytest.raises(UsageError, match="decision cannot be 'deny'"):
            harness.session.respond_to_tool_approval(decision="deny")  # type: ignore[arg-type]
        assert harness.session.approval.is_armed()
        assert harness.session.respond_to_tool_approval(decision="decline")
        await sending
        assert model.results() == ["Tool call was not approved by the user"]


@in_loop
async def test_a_declined_call_did_nothing_in_the_log(tmp_path: Path) -> None:
    model = Model(call("write", filePath="a.txt", content="x"), "Well.")
    async with opened(model, cwd=str(tmp_path), tools=[WriteTool(ToolWorkspace(str(tmp_path)))]) as (
        harness,
        record,
    ):
        sending = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        assert harness.session.respond_to_tool_approval(decision="decline")
        await sending
        assert model.results() == ["Tool call was not approved by the user"]
        [end] = [event for event in log_of(harness) if isinstance(event, ToolEnd)]
        assert not end.has_failed
        assert end.operations is not None
        assert [one.success for one in end.operations] == [False]
        [reply] = [event for event in log_of(harness) if isinstance(event, RelayReply)]
        assert reply.reason == ""


@in_loop
async def test_an_answer_that_cannot_be_written_leaves_the_question() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        with pytest.raises(UsageError, match="Invalid answer"):
            await harness.respond_to_tool_suspension(resume_data=object())
        assert harness.session.suspensions.has_pending()
        assert await harness.respond_to_tool_suspension(resume_data="b")
        assert model.results() == ["User answered: b"]
        assert ends(record) == ["suspended", "complete"]
        check(harness, log_of(harness))


def at_the_first(harness: Harness, name: str, deed: Any) -> None:
    """Do it as soon as this is emitted."""
    done: list[str] = []

    def listen(event: HarnessEvent) -> None:
        if event.type == name and not done:
            done.append(name)
            deed(event)

    harness.subscribe(listen)


@in_loop
async def test_a_message_at_the_moment_of_the_question_takes_its_place() -> None:
    model = Model(call("ask_user", question="Which?"), "Never mind, then.")
    async with opened(model) as (harness, record):
        sending: list[asyncio.Task[Any]] = []
        at_the_first(
            harness,
            "agent_end",
            lambda _: sending.append(started(harness.send_message(content="never mind"))),
        )
        await harness.send_message(content="go")
        await asyncio.gather(*sending)
        assert harness.session.follow_ups.is_empty()
        assert not harness.session.suspensions.has_pending()
        assert model.received() == ["go", "never mind"]
        assert ends(record)[-1] == "complete"
        check(harness, log_of(harness))
