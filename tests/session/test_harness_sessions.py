"""One harness, many sessions: each with its own thread, mode, state and listeners."""

from __future__ import annotations

import asyncio

import pytest

from harness.errors import UsageError
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode
from harness.session.memory.config import Memory
from harness_kit import Model, Record, StoreMaker, later, opened, run, storage
from running_kit import in_loop

__all__ = ["storage"]

MODES = (Mode(id="plan"), Mode(id="build"))


def test_a_session_is_made_once_for_each_resource_and_scope() -> None:
    async def work() -> None:
        async with opened() as (harness, _):
            ann = harness.create_session(resource_id="ann")
            assert harness.create_session(resource_id="ann") is ann
            assert harness.create_session(resource_id="ann", scope="editor") is not ann
            assert harness.create_session(resource_id="bob") is not ann
            assert ann is not harness.session
            assert ann.identity.get_resource_id() == "ann"
            assert len({session.identity.get_id() for session in harness.sessions()}) == 4

    run(work)


def test_sessions_talk_at_the_same_time_and_hear_only_themselves(storage: StoreMaker) -> None:
    async def work() -> None:
        model = Model(default="Yes.")
        async with opened(model, storage=storage.open(), modes=MODES) as (harness, record):
            names = [f"user-{number}" for number in range(8)]
            sessions = [harness.create_session(resource_id=name) for name in names]
            records = [Record(session) for session in sessions]
            await asyncio.gather(
                *(
                    session.send_message(content=f"I am {name}")
                    for session, name in zip(sessions, names, strict=True)
                )
            )
            assert record.types == []
            for session, emitted, name in zip(sessions, records, names, strict=True):
                assert emitted.types.count("agent_start") == emitted.types.count("agent_end") == 1
                assert emitted.named("message_end")[0]["message"]["content"][0]["text"] == f"I am {name}"
                assert [thread.id for thread in session.thread.list()] == [session.thread.get_id()]
            assert harness.get_known_resource_ids() == names

    run(work)


def test_mode_model_state_and_grants_are_each_sessions_own() -> None:
    async def work() -> None:
        async with opened(modes=MODES) as (harness, record):
            ann, bob = harness.create_session(resource_id="ann"), harness.create_session(resource_id="bob")
            await ann.mode.switch(mode_id="build")
            await ann.model.switch(model_id="a/x")
            await ann.state.set({"x": 1})
            ann.permissions.grant_tool("deploy")
            assert (bob.mode.get(), bob.model.get()) == ("plan", "test/model")
            assert "x" not in bob.state.get()
            assert not bob.permissions.has_tool_grant("deploy")
            assert harness.session.mode.get() == "plan"
            assert record.types == []

    run(work)


def test_a_closed_session_releases_its_thread_and_opens_no_other() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store) as (harness, _):
            ann = harness.create_session(resource_id="ann")
            thread = await ann.thread.create()
            assert store.is_live(thread.id)
            await harness.close_session(ann)
            assert not store.is_live(thread.id)
            for late in (
                ann.send_message(content="Hello!"),
                ann.thread.create(),
                ann.thread.switch(thread_id=thread.id),
            ):
                with pytest.raises(UsageError, match="closed"):
                    await late
            again = harness.create_session(resource_id="ann")
            assert again is not ann
            assert (await again.thread.select_or_create()).id == thread.id
        assert not store.is_live(thread.id)

    run(work)


def test_the_same_thread_goes_from_one_session_to_another() -> None:
    async def work() -> None:
        model = Model()
        async with opened(model, storage=MemoryStore()) as (harness, _):
            thread = await harness.create_thread()
            await harness.send_message(content="from the first")
            await harness.session.thread.release()
            other = harness.create_session(scope="other")
            await other.thread.switch(thread_id=thread.id)
            await other.send_message(content="from the second")
            assert model.received() == ["from the first", "from the second"]

    run(work)


def test_every_session_has_the_work_on_its_threads_and_signals_of_its_own() -> None:
    async def work() -> None:
        model = Model()
        async with opened(model, storage=MemoryStore(), memory=Memory()) as (harness, record):
            ann = harness.create_session(resource_id="ann")
            emitted = Record(ann)
            first = await ann.thread.create(title="first", id="t-1")
            assert (first.id, first.resource_id, first.title) == ("t-1", "ann", "first")
            await ann.send_message(content="hello")
            await later()
            clone = await ann.thread.clone(title="another way")
            await ann.thread.rename(title="a better way")
            assert [thread.title for thread in ann.thread.list()] == ["a better way", "first"]
            await ann.thread.switch(thread_id=first.id)
            await ann.thread.delete(thread_id=clone.id)
            names = ("thread_created", "thread_changed", "thread_deleted")
            assert [name for name in emitted.types if name in names] == [names[0], *names]

            sent = await ann.send_signal("and this", if_idle={"behavior": "persist"})
            assert (sent.type, sent.accepted.action) == ("user", "persist")
            kept = await ann.save_system_reminder_message(message="be brief", reminder_type="style")
            assert kept is not None
            await ann.send_notification_signal({"source": "ci", "kind": "build", "summary": "it is green"})
            await ann.wait_until_idle()
            assert any("it is green" in text for text in model.received())
            assert ann.goals.get() is None
            assert record.types == []

    run(work)


def test_the_time_of_a_thread_is_the_same_wherever_it_is_read(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, _):
            thread = await harness.create_thread()
            await later()
            await harness.rename_thread(title="renamed")
            read = harness.session.thread.get_by_id(thread_id=thread.id)
            assert read is not None
            assert read.updated_at > thread.updated_at
            assert abs(harness.session.thread.list()[0].updated_at - read.updated_at) < 1000

    run(work)


@in_loop
async def test_the_session_of_the_harness_s_own_resource_is_its_own_session() -> None:
    async with opened(resource_id="ann") as (harness, _):
        assert harness.create_session() is harness.create_session(resource_id="ann") is harness.session
        assert harness.sessions() == [harness.session]
        assert harness.create_session(scope="editor") is not harness.session
        await harness.set_resource_id(resource_id="bob")
        assert harness.create_session(resource_id="bob") is harness.session
        assert harness.create_session(resource_id="ann") is not harness.session
