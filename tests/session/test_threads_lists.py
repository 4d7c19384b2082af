"""Threads in their lists: titles, settings, first words, resources, and what is left of the deleted ones."""

from __future__ import annotations

import pytest

from harness.errors import UnknownSession, UsageError
from harness.events import ThreadRenamed
from harness.folds.session.events import HarnessThread
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.session.harness import Harness
from harness_kit import Model, StoreMaker, log_of, opened, run, storage, used

__all__ = ["storage"]


def words(harness: Harness, thread_id: str = "") -> list[str]:
    thread = harness.session.thread
    found = thread.list_messages(thread_id=thread_id or thread.require_id())
    return [message.text for message in found]


def ids(threads: list[HarnessThread]) -> list[str]:
    return [thread.id for thread in threads]


def test_renaming_says_nothing_and_stays(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            await harness.rename_thread(title="nobody listens")
            thread = await harness.create_thread(title="Old")
            record.clear()
            await harness.rename_thread(title="New")
            await harness.memory.rename_thread(title="Newer")
            assert record.types == []
            assert harness.session.thread.list()[0].title == "Newer"
            emitted = [
                (event.old_title, event.title)
                for event in log_of(harness)
                if isinstance(event, ThreadRenamed)
            ]
            assert emitted == [("Old", "New"), ("New", "Newer")]
        async with opened(storage=storage.open()) as (harness, _):
            found = harness.session.thread.get_by_id(thread_id=thread.id)
            assert found is not None
            assert found.title == "Newer"

    run(work)


def test_deleting_the_open_thread_leaves_none(storage: StoreMaker) -> None:
    async def work() -> None:
        model = Model(used("Costly.", inputTokens=5, outputTokens=2))
        async with opened(model, storage=storage.open()) as (harness, record):
            other = await harness.create_thread()
            thread = await harness.create_thread()
            await harness.send_message(content="hi")
            assert harness.session.get_token_usage().total_tokens == 7
            record.clear()
            await harness.memory.delete_thread(thread_id=thread.id)
            assert record.wire == [{"type": "thread_deleted", "threadId": thread.id, "wasCurrent": True}]
            assert harness.session.thread.get_id() is None
            with pytest.raises(UsageError, match="No active thread on here"):
                harness.session.thread.require_id()
            assert harness.session.get_token_usage().total_tokens == 0
            assert harness.session.display_state.get().current_message is None
            assert ids(harness.session.thread.list()) == [other.id]
            with pytest.raises(UnknownSession):
                harness.store.metadata(thread.id)
            await harness.send_message(content="makes a new one")
            assert len(harness.session.thread.list()) == 2

    run(work)


def test_deleting_another_thread_leaves_this_one_alone(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            other = await harness.create_thread()
            thread = await harness.create_thread()
            await harness.send_message(content="hi")
            before = harness.session.display_state.get()
            record.clear()
            await harness.memory.delete_thread(thread_id=other.id)
            assert record.wire == [{"type": "thread_deleted", "threadId": other.id}]
            assert harness.session.thread.get_id() == thread.id
            assert harness.session.display_state.get() is before
            assert before.current_message is not None

    run(work)


def test_lists_hide_forks_and_other_resources_unless_they_are_asked_for(storage: StoreMaker) -> None:
    async def work() -> None:
        store = storage.open()
        async with opened(storage=store, resource_id="me") as (harness, _):
            mine = await harness.create_thread()
            hidden = Metadata(
                session_id="fork", kind="thread", resource_id="me", settings={"forkedSubagent": True}
            )
            store.create(hidden).close()
            shown = Metadata(
                session_id="not-a-fork", kind="thread", resource_id="me", settings={"forkedSubagent": False}
            )
            store.create(shown).close()
            theirs = Metadata(session_id="theirs", kind="thread", resource_id="them")
            store.create(theirs).close()
            thread = harness.session.thread
            assert set(ids(thread.list())) == {mine.id, "not-a-fork"}
            assert set(ids(thread.list(include_forked_subagents=True))) == {mine.id, "not-a-fork", "fork"}
            assert set(ids(thread.list(all_resources=True))) == {mine.id, "not-a-fork", "theirs"}
            everything = thread.list(all_resources=True, include_forked_subagents=True)
            assert len(everything) == 4
            assert (
                harness.memory.list_threads(all_resources=True, include_forked_subagents=True) == everything
            )
            assert harness.get_known_resource_ids() == ["me", "them"]

    run(work)


def test_another_resource_has_other_threads_and_the_default_stays_known(storage: StoreMaker) -> None:
    async def work() -> None:
        store = storage.open()
        async with opened(storage=store) as (harness, _):
            identity = harness.session.identity
            assert identity.get_resource_id() == identity.get_default_resource_id() == "h"
            thread = await harness.create_thread()
            await harness.set_resource_id(resource_id="project")
            assert not harness.session.thread.is_set()
            assert not store.is_live(thread.id)
            assert harness.session.thread.list() == []
            made = await harness.select_or_create_thread()
            assert made.resource_id == "project"
            assert identity.get_resource_id() == "project"
            assert identity.get_default_resource_id() == "h"
            assert harness.get_known_resource_ids() == ["h", "project"]
            await harness.set_resource_id(resource_id="h")
            assert (await harness.select_or_create_thread()).id == thread.id

    run(work)


def test_settings_stay_with_the_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            thread = harness.session.thread
            await thread.set_setting(key="early", value=1)
            assert await thread.get_setting(key="early") is None
            first = await harness.create_thread()
            record.clear()
            await thread.set_setting(key="colour", value={"name": "red"})
            await thread.set_setting(key="size", value=3)
            await thread.delete_setting(key="size")
            await thread.delete_setting(key="never there")
            assert record.types == []
            await harness.create_thread()
            assert await thread.get_setting(key="colour") is None
        async with opened(storage=storage.open()) as (harness, _):
            await harness.switch_thread(thread_id=first.id)
            assert await harness.session.thread.get_setting(key="colour") == {"name": "red"}
            assert await harness.session.thread.get_setting(key="size") is None

    run(work)


def test_a_thread_without_settings_has_no_metadata() -> None:
    async def work() -> None:
        store = MemoryStore()
        store.create(Metadata(session_id="bare", kind="thread", resource_id="h", settings={"a": 1})).close()
        async with opened(storage=store) as (harness, _):
            metadata = store.metadata("bare")
            metadata.settings = {}
            store.save_metadata(metadata)
            found = harness.session.thread.get_by_id(thread_id="bare")
            assert found is not None
            assert found.metadata is None

    run(work)


def test_the_first_words_of_threads_are_what_a_person_said() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, _):
            first = await harness.create_thread()
            await harness.save_system_reminder_message(message="mind the gap", reminder_type="gap")
            await harness.send_message(content="first words")
            await harness.send_message(content="second words")
            second = await harness.create_thread()
            empty = await harness.create_thread()
            await harness.switch_thread(thread_id=second.id)
            await harness.send_message(content="other words")
            thread = harness.session.thread
            found = thread.first_user_message(thread_id=first.id)
            assert found is not None
            assert (found.role, found.text) == ("user", "first words")
            many = thread.first_user_messages(thread_ids=[first.id, second.id, empty.id, "missing"])
            assert {id: message.text for id, message in many.items()} == {
                first.id: "first words",
                second.id: "other words",
            }

    run(work)


def test_without_storage_nothing_is_listed_and_nothing_is_stored() -> None:
    async def work() -> None:
        async with opened() as (harness, record):
            thread = await harness.select_or_create_thread()
            assert thread.id == harness.session.thread.get_id()
            await harness.send_message(content="hi")
            reads = harness.session.thread
            assert reads.list() == []
            assert reads.get_by_id(thread_id=thread.id) is None
            assert reads.list_messages(thread_id=thread.id) == []
            assert reads.list_active_messages() == []
            assert reads.first_user_message(thread_id=thread.id) is None
            await reads.set_setting(key="a", value=1)
            assert await reads.get_setting(key="a") is None
            assert harness.get_known_resource_ids() == []
            record.clear()
            await harness.memory.delete_thread(thread_id=thread.id)
            assert record.types == []
            assert reads.is_set()

    run(work)
