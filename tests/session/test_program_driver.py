"""Sessions of agent programs that are held in a conversation: what a person does to them is as with our own agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness import Harness
from harness.contracts.model import Attachment
from harness.events import Error, Message, Relay, RelayReply, Result, SteeringQueued, ToolEnd
from harness.log.stores.files import FileStore
from harness.runs.audit import check
from harness.session.config import CommandAgent, Mode, PermissionAnswer
from harness_kit import Record, log_of, opened
from running_kit import NO_MODEL, fake_claude, in_loop, notes, texts


def modes(folder: Path) -> list[Mode]:
    build, plan = (fake_claude(folder, "2.1.325", permissions=rights) for rights in ("ask", "read-only"))
    return [Mode(id="build", agent=build, default=True), Mode(id="plan", agent=plan, transitions_to="build")]


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def until(record: Record, name: str, count: int = 1) -> Any:
    await record.until(lambda: len(record.named(name)) >= count, 40)
    return record.named(name)[-1]


async def answered(harness: Harness, record: Record, prompt: str, **decision: Any) -> Any:
    """Send a prompt that asks for a command, and answer it."""
    asked = len(record.named("tool_approval_required"))
    sending = asyncio.ensure_future(harness.send_message(content=prompt))
    required = await until(record, "tool_approval_required", asked + 1)
    assert harness.session.respond_to_tool_approval(tool_call_id=required["toolCallId"], **decision)
    assert not harness.session.respond_to_tool_approval(tool_call_id=required["toolCallId"], **decision)
    return await sending


@in_loop
async def test_one_process_answers_message_after_message(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "data"))
    async with opened(modes=modes(tmp_path), storage=store, initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="one")
        await harness.send_message(content="two")
        assert texts(record) == ["You said 'one'.", "You said 'two'."]
        started = [one for one in notes(tmp_path) if "pid" in one]
        assert len(started) == 1
        thread_id = harness.session.thread.require_id()
    assert check(store, thread_id).problems == []


@in_loop
async def test_a_call_is_allowed_refused_or_allowed_for_always(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        await answered(harness, record, "run it", decision="approve")
        await answered(harness, record, "run it", decision="decline", reason="not now")
        await answered(harness, record, "run it", decision="always_allow")
        await harness.send_message(content="run it")
        log = log_of(harness)
        assert sum(isinstance(event, Relay) for event in log) == 3
        replies = [(one.approved, one.by) for one in log if isinstance(one, RelayReply)]
        assert replies == [(True, "person"), (False, "person"), (True, "person"), (True, "policy")]
        ended = [event for event in log if isinstance(event, ToolEnd)]
        assert [(one.success, one.output) for one in ended] == [
            (True, "done"),
            (False, "not now"),
            (True, "done"),
            (True, "done"),
        ]
        assert [one.label for one in harness.session.permissions.list_grants()] == ["exactly: make"]


@in_loop
async def test_rules_of_the_session_answer_first(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        await harness.session.permissions.set_for_category(category="execute", policy="deny")
        outcome = await harness.send_message(content="run it")
        assert outcome.outcome == "completed"
        assert not record.named("tool_approval_required")
        [reply] = [event for event in log_of(harness) if isinstance(event, RelayReply)]
        assert (reply.approved, reply.by) == (False, "policy")


@in_loop
async def test_a_question_is_answered(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        sending = asyncio.ensure_future(harness.send_message(content="which?"))
        asked = await until(record, "tool_suspended")
        assert asked["suspendPayload"]["questions"][0]["question"] == "Which one?"
        await harness.session.respond_to_tool_suspension(resume_data="B", tool_call_id=asked["toolCallId"])
        assert (await sending).text == "You chose B."


@in_loop
async def test_a_message_in_the_middle_of_a_turn_is_taken(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        sending = asyncio.ensure_future(harness.send_message(content="wait for me"))
        await record.until(lambda: "steer" in harness.session.capabilities, 40)
        assert (await harness.send_message(content="also this")).outcome == "joined"
        assert (await sending).text == "You also said 'also this'."
        log = log_of(harness)
        [queued] = [event for event in log if isinstance(event, SteeringQueued)]
        [taken] = [event for event in log if isinstance(event, Message) and event.text == "also this"]
        assert queued.id == taken.id


@in_loop
async def test_stop_ends_the_turn_and_not_the_process(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        sending = asyncio.ensure_future(harness.send_message(content="wait for me"))
        await record.until(lambda: "steer" in harness.session.capabilities, 40)
        harness.session.abort()
        assert (await sending).outcome == "interrupted"
        assert (await harness.send_message(content="again")).text == "You said 'again'."
        assert len([one for one in notes(tmp_path) if "pid" in one]) == 1


@in_loop
async def test_a_process_that_died_is_replaced_and_resumed(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, _):
        await harness.send_message(content="one")
        assert (await harness.send_message(content="die")).outcome == "failed"
        assert (await harness.send_message(content="two")).text == "You said 'two'."
        first, second = [one for one in notes(tmp_path) if "pid" in one]
        assert "--resume" not in first["arguments"]
        assert "--resume" in second["arguments"]


@in_loop
async def test_an_approved_plan_is_carried_out_and_the_mode_follows(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, record):
        await harness.session.mode.switch(mode_id="plan")
        assert (await harness.send_message(content="run it")).outcome == "completed"
        assert not record.named("tool_approval_required"), "this mode may only read"
        sending = asyncio.ensure_future(harness.send_message(content="plan it"))
        asked = await until(record, "tool_suspended")
        assert asked["suspendPayload"]["plan"] == "1. do it"
        approved = {"action": "approved"}
        await harness.session.respond_to_tool_suspension(
            resume_data=approved, tool_call_id=asked["toolCallId"]
        )
        assert (await sending).outcome == "completed"
        await record.until(lambda: harness.session.mode.get() == "build", 40)
        await answered(harness, record, "run it", decision="approve")


@in_loop
async def test_another_thread_has_a_process_of_its_own(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, _):
        await harness.send_message(content="one")
        await harness.create_thread()
        await harness.send_message(content="two")
        first, second = [one for one in notes(tmp_path) if "pid" in one]
        assert first["pid"] != second["pid"]
        assert "--resume" not in second["arguments"]


@in_loop
async def test_pictures_reach_the_program(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, _):
        assert "files" in harness.session.capabilities
        picture = {"data": "aGVsbG8=", "mediaType": "image/png", "filename": "a.png"}
        await harness.send_message(content="look", files=[picture])
        [said] = [one for one in notes(tmp_path) if "said" in one]
        assert said["parts"] == ["image", "text"]
        [message] = [
            event for event in log_of(harness) if isinstance(event, Message) and event.role == "user"
        ]
        assert message.parts is not None
        assert message.parts[0]["media_type"] == "image/png"
        assert Attachment("image/png", "aGVsbG8=").data == message.parts[0]["data"]


@in_loop
async def test_no_process_outlives_the_session(tmp_path: Path) -> None:
    async with opened(modes=modes(tmp_path), initial_state=NO_MODEL) as (harness, _):
        await harness.send_message(content="one")
        [started] = [one for one in notes(tmp_path) if "pid" in one]
        assert is_alive(started["pid"])
        results = [event for event in log_of(harness) if isinstance(event, Result)]
        assert [result.exit_code for result in results] == [None]
    assert not is_alive(started["pid"])


@in_loop
async def test_a_turn_that_no_one_asked_for_is_a_run_of_its_own(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "data"))
    async with opened(modes=modes(tmp_path), storage=store, initial_state=NO_MODEL) as (harness, record):
        await harness.send_message(content="later")
        (tmp_path / "notes.jsonl.go").touch()
        await record.until(lambda: len(record.named("agent_end")) == 2, 40)
        await harness.session.wait_until_idle()
        log = log_of(harness)
        assert [event.text for event in log if isinstance(event, Result)] == [
            "You said 'later'.",
            "The task has ended.",
        ]
        assert [event.text for event in log if isinstance(event, Message) and event.role == "user"] == [
            "later"
        ]
        thread_id = harness.session.thread.require_id()
    assert check(store, thread_id).problems == []


@pytest.mark.parametrize("policy", ["deny", "ask"])
@in_loop
async def test_a_program_that_reads_unasked_is_not_run_under_a_rule_of_the_session_about_reading(
    policy: PermissionAnswer,
) -> None:
    for agent in ("gemini", "copilot", "droid"):
        mode = Mode(id="build", agent=CommandAgent(name=agent, permissions="ask"), default=True)
        async with opened(modes=[mode], initial_state=NO_MODEL) as (harness, _record):
            await harness.session.permissions.set_for_category(category="read", policy=policy)
            await harness.send_message(content="hello")
            [error] = [event for event in log_of(harness) if isinstance(event, Error)]
            assert "cannot be held to the rules of its session" in error.message
            assert "reads files below its folder without asking" in error.message
