"""Questions are one class, live, pending and after a restart, and are answered by the object itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

import child_process
from harness import Question, QuestionOption, SessionEvent, ToolApprovalRequiredEvent, ToolSuspendedEvent
from harness.errors import UsageError
from harness.folds.session.events import from_wire, to_wire
from harness.log.stores.files import FileStore
from harness.session.config import Mode
from harness_kit import Model, StoreMaker, call, opened, run, storage
from running_kit import fake_claude

__all__ = ["storage"]
MODES = (Mode(id="plan", transitions_to="build", default=True), Mode(id="build"))


async def deploy(place: str) -> str:
    "Deploy it."
    return f"deployed to {place}"


def test_a_listener_answers_the_event_itself() -> None:
    async def main() -> None:
        model = Model(call("deploy", place="here"), call("deploy", id="c2", place="there"), "Done.")
        async with opened(model, tools=[deploy]) as (harness, record):

            def answer(event: SessionEvent) -> None:
                if event.type == "tool_approval_required":
                    taken = event.approve() if event.args["place"] == "here" else event.decline("not there")
                    assert taken
                    assert not event.approve()  # the first answer counts

            harness.subscribe(answer)
            outcome = await harness.send_message(content="go")
            assert outcome.text == "Done."
            assert record.named("tool_end")[0]["result"] == "deployed to here"
            assert "not there" in model.results()[-1]

    run(main)


def test_pending_questions_are_the_objects_that_listeners_get() -> None:
    async def main() -> None:
        async with opened(Model(call("ask_user", question="Which?"), "Blue it is.")) as (harness, record):
            assert (await harness.send_message(content="go")).outcome == "suspended"
            [emitted] = record.of(ToolSuspendedEvent)
            [pending] = harness.questions()
            assert pending == emitted == harness.session.suspensions.all()[0]
            assert isinstance(pending, ToolSuspendedEvent)
            assert pending.question == "Which?"
            with pytest.raises(UsageError):
                pending.answer({"no": "answer"})
            assert harness.questions() == [pending]
            assert pending.answer("blue")
            assert harness.questions() == []
            assert not emitted.answer("red")
            await harness.wait_until_idle()
            assert record.named("agent_end")[-1]["reason"] == "complete"
            assert harness.session.thread.get_id() is not None

    run(main)


def test_a_plan_is_approved_by_its_question() -> None:
    async def main() -> None:
        async with opened(Model(call("submit_plan", plan="1. do it")), modes=MODES) as (harness, _):
            await harness.send_message(content="go")
            [plan] = harness.questions()
            assert isinstance(plan, ToolSuspendedEvent)
            assert plan.plan == "1. do it"
            assert plan.approve()
            await harness.wait_until_idle()
            assert harness.session.mode.get() == "build"

    run(main)


def test_questions_are_the_same_after_a_restart(storage: StoreMaker) -> None:
    async def ask() -> Question:
        model, asked = Model(call("deploy", place="here")), asyncio.Event()
        async with opened(model, storage=storage.open(), tools=[deploy]) as (harness, record):
            harness.subscribe(lambda event: asked.set() if event.type == "tool_approval_required" else None)
            sending = asyncio.create_task(harness.send_message(content="go"))
            await asked.wait()
            [emitted] = record.of(ToolApprovalRequiredEvent)
        await sending
        return emitted

    async def answer(emitted: Question) -> None:
        async with opened(Model("Done."), storage=storage.open(), tools=[deploy]) as (harness, record):
            await harness.select_or_create_thread()
            [found] = harness.questions()
            assert found == emitted
            assert isinstance(found, ToolApprovalRequiredEvent)
            assert found.approve()
            await harness.wait_until_idle()
            assert record.named("tool_end")[0]["result"] == "deployed to here"

    run(answer, run(ask))


def test_the_thread_that_waits_is_opened_first(storage: StoreMaker) -> None:
    async def main() -> None:
        store = storage.open()
        async with opened(Model(call("ask_user", question="Which?")), storage=store) as (harness, _):
            await harness.send_message(content="go")
            waiting = harness.session.thread.require_id()
        async with opened(storage=store) as (harness, _):
            await harness.create_thread()
            await harness.send_message(content="something else")
        async with opened(storage=store) as (harness, _):
            activities = {thread.id: thread.activity for thread in harness.memory.list_threads()}
            assert activities[waiting] == "waiting"
            assert (await harness.select_or_create_thread()).id == waiting
            assert len(harness.questions()) == 1

    run(main)


def test_a_question_from_the_wire_says_where_it_is_answered() -> None:
    asked = ToolApprovalRequiredEvent(tool_call_id="c1", tool_name="deploy", args={})
    read = from_wire(to_wire(asked))
    assert isinstance(read, ToolApprovalRequiredEvent)
    assert read == asked
    with pytest.raises(UsageError, match="session of this process"):
        read.approve()


def test_the_options_of_a_question_have_types_and_are_plain_data() -> None:
    async def main() -> None:
        asked: list[ToolApprovalRequiredEvent] = []

        def note(event: SessionEvent) -> None:
            if event.type == "tool_approval_required":
                asked.append(event)
                event.decline()

        async with opened(Model(call("deploy", place="here"), "Done."), tools=[deploy]) as (harness, _):
            harness.subscribe(note)
            await harness.send_message(content="go")
        [question] = asked
        options: list[QuestionOption] = question.options or []
        labels: dict[str, str] = {option["kind"]: option["label"] for option in options}
        assert set(labels) == {"allow-once", "allow-always", "reject-once"}
        assert json.loads(json.dumps(options)) == options  # a page is sent them as they are
        assert from_wire(to_wire(question)) == question
        bare = {**to_wire(question), "options": [{"id": "once", "kind": "allow-once", "label": "Allow once"}]}
        old = from_wire(bare)  # as one without grants would say it
        assert isinstance(old, ToolApprovalRequiredEvent)
        assert [option["label"] for option in old.options or ()] == ["Allow once"]

    run(main)


def test_the_question_of_a_program_that_died_is_said_to_be_lost(tmp_path: Path) -> None:
    agent = fake_claude(tmp_path, version="2.1.325", permissions="ask")
    modes = [Mode(id="m", agent=agent)]
    reader, writer = os.pipe()

    async def wait_to_be_killed() -> None:
        store = FileStore(str(tmp_path / "data"))
        async with opened(modes=modes, storage=store, cwd=str(tmp_path)) as (harness, record):
            sending = asyncio.create_task(harness.send_message(content="run"))
            await record.until_emitted("tool_approval_required")
            os.write(writer, b"ready")
            await sending

    victim = child_process.begin(lambda: asyncio.run(wait_to_be_killed()))
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read(5) == b"ready"
        os.kill(victim, signal.SIGKILL)
    assert child_process.end(victim) == -signal.SIGKILL

    async def come_back() -> None:
        store = FileStore(str(tmp_path / "data"))
        async with opened(modes=modes, storage=store, cwd=str(tmp_path)) as (harness, record):
            await harness.select_or_create_thread()
            assert harness.questions() == []
            said = await record.until_emitted("info")
            assert "ended before there was an answer" in said["message"]
            assert (await harness.send_message(content="and now?")).success

    run(come_back)
