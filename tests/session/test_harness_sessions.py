"""One harness, many sessions: each with its own thread, mode, state and listeners."""

from __future__ import annotations

import asyncio

from harness_kit import Model, Record, StoreMaker, opened, run, storage

from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode

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
            for session, told, name in zip(sessions, records, names, strict=True):
                assert told.types.count("agent_start") == told.types.count("agent_end") == 1
                assert told.named("message_end")[0]["message"]["content"][0]["text"] == f"I am {name}"
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


def test_a_session_that_is_closed_lets_its_thread_go() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store) as (harness, _):
            ann = harness.create_session(resource_id="ann")
            thread = await ann.binding.create()
            assert store.is_live(thread.id)
            await harness.close_session(ann)
            assert not store.is_live(thread.id)
            again = harness.create_session(resource_id="ann")
            assert again is not ann
            assert (await again.binding.select_or_create()).id == thread.id
        assert not store.is_live(thread.id)

    run(work)


def test_the_same_thread_goes_from_one_session_to_another() -> None:
    async def work() -> None:
        model = Model()
        async with opened(model, storage=MemoryStore()) as (harness, _):
            thread = await harness.create_thread()
            await harness.send_message(content="from the first")
            await harness.session.binding.let_go()
            other = harness.create_session(scope="other")
            await other.binding.switch(thread_id=thread.id)
            await other.send_message(content="from the second")
            assert model.heard() == ["from the first", "from the second"]

    run(work)
