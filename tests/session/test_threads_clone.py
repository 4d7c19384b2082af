"""A clone is a fork of the log: everything before is shared, nothing after is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import ToolContext
from harness.errors import LogLocked, UnknownSession, UsageError
from harness.events import ThreadCreated
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness_kit import Model, StoreMaker, call, log_of, opened, run, storage, used
from running_kit import YOLO, in_loop

__all__ = ["storage"]

MODES = (Mode(id="plan"), Mode(id="build"))


def words(harness: Harness, thread_id: str = "") -> list[str]:
    thread = harness.session.thread
    found = thread.list_messages(thread_id=thread_id or thread.require_id())
    return [message.text for message in found]


def test_a_clone_begins_with_what_was_said_and_goes_its_own_way(storage: StoreMaker) -> None:
    async def work() -> None:
        model = Model()
        async with opened(model, storage=storage.open(), memory=Memory()) as (harness, record):
            source = await harness.create_thread(title="Source")
            await harness.send_message(content="shared")
            end = len(log_of(harness))
            record.clear()
            cloned = await harness.clone_thread()
            assert harness.session.thread.get_id() == cloned.id != source.id
            assert cloned.title == "Source"
            assert record.types == ["thread_created"]
            assert record.wire[0]["thread"]["id"] == cloned.id
            own = log_of(harness)[end]
            assert isinstance(own, ThreadCreated)
            assert own.cloned_from == source.id
            await harness.send_message(content="only in the clone")
            assert model.received() == ["shared", "only in the clone"]
            assert words(harness, source.id) == ["shared", "Yes."]
            await harness.switch_thread(thread_id=source.id)
            await harness.send_message(content="only in the source")
            assert words(harness, source.id) == ["shared", "Yes.", "only in the source", "Yes."]
            assert words(harness, cloned.id) == ["shared", "Yes.", "only in the clone", "Yes."]
            assert model.received() == ["shared", "only in the source"]
        async with opened(model, storage=storage.open(), memory=Memory()) as (harness, _):
            await harness.switch_thread(thread_id=cloned.id)
            await harness.send_message(content="later")
            assert model.received() == ["shared", "only in the clone", "later"]

    run(work)


def test_a_clone_copies_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        store = FileStore(str(tmp_path))
        async with opened(storage=store, memory=Memory()) as (harness, _):
            source = await harness.create_thread()
            await harness.send_message(content="said once " * 2000)
            cloned = await harness.clone_thread()
            await harness.send_message(content="small")
            assert (tmp_path / f"{source.id}.ndjson").stat().st_size > 20_000
            assert b"said once" not in (tmp_path / f"{cloned.id}.ndjson").read_bytes()
            assert words(harness)[0].startswith("said once")
        store.close()

    run(work)


def test_a_clone_has_used_nothing_yet(storage: StoreMaker) -> None:
    async def work() -> None:
        model = Model(used("a", inputTokens=10, outputTokens=1), used("b", inputTokens=20, outputTokens=2))
        async with opened(model, storage=storage.open(), memory=Memory()) as (harness, _):
            source = await harness.create_thread()
            await harness.send_message(content="one")
            assert harness.session.get_token_usage().total_tokens == 11
            cloned = await harness.clone_thread()
            assert cloned.token_usage is None
            assert harness.session.get_token_usage().total_tokens == 0
            assert harness.session.display_state.get().token_usage.total_tokens == 0
            await harness.send_message(content="two")
            assert harness.session.get_token_usage().total_tokens == 22
        async with opened(storage=storage.open(), memory=Memory()) as (harness, _):
            await harness.switch_thread(thread_id=cloned.id)
            assert harness.session.get_token_usage().total_tokens == 22
            await harness.switch_thread(thread_id=source.id)
            assert harness.session.get_token_usage().total_tokens == 11

    run(work)


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [("", "", "Cloned Thread"), ("Mine", "", "Mine"), ("Mine", "Other", "Other")],
)
def test_the_title_of_a_clone(source: str, given: str, expected: str) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), memory=Memory()) as (harness, _):
            await harness.create_thread(title=source)
            cloned = await harness.clone_thread(title=given)
            assert cloned.title == expected
            assert {thread.id: thread.title for thread in harness.session.thread.list()}[
                cloned.id
            ] == expected

    run(work)


def test_another_thread_may_be_cloned_for_another_resource(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), memory=Memory(), modes=MODES) as (harness, record):
            source = await harness.create_thread(title="Plan")
            await harness.session.thread.set_setting(key="kept", value="yes")
            await harness.send_message(content="from the source")
            await harness.create_thread()
            await harness.session.mode.switch(mode_id="build")
            record.clear()
            cloned = await harness.clone_thread(source_thread_id=source.id, resource_id="project")
            assert cloned.resource_id == "project"
            assert cloned.metadata is not None
            assert cloned.metadata["kept"] == "yes"
            assert words(harness) == ["from the source", "Yes."]
            assert harness.session.mode.get() == "plan"
            assert record.types == ["thread_created", "mode_changed"]
            assert harness.get_known_resource_ids() == ["h", "project"]

    run(work)


@pytest.mark.parametrize(
    ("memory", "source", "message"),
    [
        (Memory(), "", "No source thread to clone"),
        (None, "t", "Memory is not configured on this Harness"),
        (lambda _context: None, "t", "Dynamic memory factory returned empty value"),
        (Memory(), "missing", "Thread not found: missing"),
    ],
)
def test_what_cannot_be_cloned(memory: Any, source: str, message: str) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), memory=memory) as (harness, record):
            if source:
                await harness.create_thread(id="t")
            record.clear()
            with pytest.raises(UsageError, match=message):
                await harness.clone_thread(source_thread_id="" if source == "t" else source)
            assert harness.session.thread.get_id() == ((source and "t") or None)
            assert record.types == []

    run(work)


def test_memory_may_come_from_a_factory() -> None:
    async def work() -> None:
        async def factory(_context: Any) -> Memory:
            return Memory()

        async with opened(storage=MemoryStore(), memory=factory) as (harness, _):
            assert await harness.get_resolved_memory() == Memory()
            await harness.create_thread()
            await harness.clone_thread()
        async with opened() as (harness, _):
            assert await harness.get_resolved_memory() is None

    run(work)


def test_a_thread_that_has_clones_may_be_deleted_and_they_keep_everything(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), memory=Memory()) as (harness, _):
            source = await harness.create_thread()
            await harness.send_message(content="shared")
            cloned = await harness.clone_thread()
            again = await harness.clone_thread(title="clone of a clone")
            await harness.memory.delete_thread(thread_id=source.id)
            with pytest.raises(UnknownSession, match="Thread not found"):
                await harness.switch_thread(thread_id=source.id)
            with pytest.raises(UnknownSession, match="Thread not found"):
                await harness.clone_thread(source_thread_id=source.id)
            assert words(harness) == ["shared", "Yes."]
            assert {thread.id for thread in harness.session.thread.list()} == {cloned.id, again.id}
            await harness.send_message(content="more")
            assert words(harness) == ["shared", "Yes.", "more", "Yes."]

    run(work)


def test_a_thread_that_another_session_writes_can_be_cloned_as_far_as_it_has_come(
    storage: StoreMaker,
) -> None:
    async def work() -> None:
        async with (
            opened(storage=storage.open(), memory=Memory()) as (first, _),
            opened(storage=storage.open(), memory=Memory()) as (second, _),
        ):
            source = await first.create_thread()
            await first.send_message(content="so far")
            await second.clone_thread(source_thread_id=source.id)
            await first.send_message(content="further")
            assert words(second) == ["so far", "Yes."]
            with pytest.raises(LogLocked):
                await second.memory.delete_thread(thread_id=source.id)
            assert second.session.thread.is_set()

    run(work)


async def deploy() -> str:
    """Deploy."""
    return "done"


@in_loop
async def test_a_tool_that_waits_is_answered_once_whatever_is_cloned(storage: StoreMaker) -> None:
    answers: list[Any] = []

    async def deploy(context: ToolContext) -> str:
        """Deploy."""
        answers.append(await context.suspend({"to": "where?"}, kind="tool"))
        return "done"

    options: dict[str, Any] = {"memory": Memory(), "tools": [deploy], "initial_state": YOLO}
    store = storage.open()
    async with opened(Model(call("deploy")), storage=store, **options) as (harness, record):
        source = await harness.create_thread()
        await harness.send_message(content="go")
        harness.session.follow_ups.enqueue(content="later")
        clone = await harness.clone_thread()
        assert not harness.session.suspensions.has_pending()
        assert harness.session.follow_ups.is_empty()
        assert not await harness.respond_to_tool_suspension(resume_data="in the clone")
        assert record.types[-4:] == [
            "thread_created",
            "follow_up_queued",
            "tool_suspension_cancelled",
            "tool_end",
        ]
        assert not harness.session.display_state.get().is_running
        await harness.send_message(content="and here?")
        await harness.switch_thread(thread_id=source.id)
        assert await harness.respond_to_tool_suspension(resume_data="in the source")
    assert answers == ["in the source"]
    async with opened(storage=storage.open(), **options) as (harness, _):
        await harness.switch_thread(thread_id=clone.id)
        assert not harness.session.suspensions.has_pending()


@in_loop
async def test_a_clone_of_a_thread_that_works_elsewhere_has_no_run_that_never_ends() -> None:
    store = MemoryStore()
    asking = Model(call("ask_user", question="Which?"))
    async with opened(asking, storage=store, memory=Memory()) as (harness, _):
        ann = harness.create_session(resource_id="ann")
        async with opened(Model(call("deploy")), storage=store, tools=[deploy]) as (other, emitted):
            thread = await other.create_thread()
            working = asyncio.create_task(other.send_message(content="go"))
            await emitted.until_emitted("tool_approval_required")
            await ann.thread.clone(source_thread_id=thread.id)
            facts = ann.internals.bus.fold.facts
            assert (facts.open_run, facts.relays, facts.last_outcome) == ("", {}, "interrupted")
            await ann.send_message(content="and here?")
            assert facts.last_outcome == "suspended"
            assert other.session.respond_to_tool_approval(decision="approve")
            await working
            assert emitted.wire[-1] == {"type": "agent_end", "reason": "complete"}
