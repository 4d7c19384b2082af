"""Threads: made, chosen, switched to, left, and found again."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from harness.errors import HarnessError, StoreError, UnknownSession, UsageError
from harness.events import ThreadCreated
from harness.folds.session.events import HarnessThread, ToolStartEvent
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode, Subagent
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness.session.open_thread import folded
from harness_kit import Model, Record, StoreMaker, call, later, log_of, make, opened, run, storage
from running_kit import YOLO, in_loop

__all__ = ["storage"]


def words(harness: Harness, thread_id: str = "") -> list[str]:
    thread = harness.session.thread
    found = thread.list_messages(thread_id=thread_id or thread.require_id())
    return [message.text for message in found]


def ids(threads: list[HarnessThread]) -> list[str]:
    return [thread.id for thread in threads]


def test_a_new_thread_is_reported_stored_and_empty(storage: StoreMaker) -> None:
    async def work() -> None:
        numbers = itertools.count(1)
        options: dict[str, Any] = {
            "storage": storage.open(),
            "id_generator": lambda: f"id-{next(numbers)}",
            "initial_state": {"projectPath": "/project"},
            "resource_id": "someone",
        }
        async with opened(modes=[Mode(id="plan")], **options) as (harness, record):
            assert not harness.session.thread.is_set()
            thread = await harness.create_thread(title="First")
            assert thread.id == harness.session.thread.get_id() == harness.session.thread.require_id()
            assert thread.id.startswith("id-")
            assert (thread.title, thread.resource_id, thread.token_usage) == ("First", "someone", None)
            assert thread.created_at == thread.updated_at > 0
            assert thread.metadata == {
                "currentModeId": "plan",
                "currentModelId": "test/model",
                "modeModelId_plan": "test/model",
                "projectPath": "/project",
            }
            assert record.types == ["thread_created"]
            emitted = record.wire[0]["thread"]
            assert (emitted["id"], emitted["title"], emitted["resourceId"]) == (thread.id, "First", "someone")
            assert emitted["metadata"] == thread.metadata
            assert isinstance(log_of(harness)[0], ThreadCreated)
            assert harness.session.thread.get_by_id(thread_id=thread.id) == thread
            assert ids(harness.session.thread.list()) == [thread.id]
            assert harness.get_session() == {
                "currentThreadId": thread.id,
                "currentModeId": "plan",
                "threads": harness.session.thread.list(),
            }

    run(work)


def test_a_thread_may_be_given_its_id_but_only_once() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            assert (await harness.create_thread(id="mine")).id == "mine"
            await harness.create_thread()
            record.clear()
            with pytest.raises(StoreError):
                await harness.create_thread(id="mine")
            with pytest.raises(UsageError, match="no thread can be named 'a/b'"):
                await harness.create_thread(id="a/b")
            assert record.types == []
            await harness.send_message(content="still here")
            assert record.types[-1] == "agent_end"

    run(work)


def test_the_latest_thread_of_the_resource_is_selected_without_a_word(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            made = await harness.select_or_create_thread()
            assert record.types == ["thread_created"]
            await harness.create_thread()
            await later()
            await harness.switch_thread(thread_id=made.id)
            await harness.send_message(content="the latest")
        async with opened(storage=storage.open()) as (harness, record):
            assert (await harness.select_or_create_thread()).id == made.id
            assert harness.session.thread.get_id() == made.id
            assert record.types == []
            assert (await harness.select_or_create_thread()).id == made.id
            assert record.types == []
            assert words(harness) == ["the latest", "Yes."]
            await harness.send_message(content="goes on")
            assert words(harness) == ["the latest", "Yes.", "goes on", "Yes."]
        async with opened(storage=storage.open(), resource_id="somebody else") as (harness, record):
            assert (await harness.select_or_create_thread()).id != made.id
            assert record.types[0] == "thread_created"

    run(work)


def test_selecting_another_thread_stops_the_run_in_this_one() -> None:
    async def work() -> None:
        async def wait() -> str:
            """Wait for ever."""
            await asyncio.Event().wait()
            return ""

        from harness_kit import call

        store = MemoryStore()
        model = Model(call("wait"))
        async with opened(model, storage=store, tools=[wait], initial_state={"yolo": True}) as (
            harness,
            record,
        ):
            old = await harness.create_thread()
            going_on = asyncio.create_task(harness.send_message(content="go"))
            await record.until(lambda: record.of(ToolStartEvent))
            await later()
            newer = harness.create_session(scope="other")
            thread = await newer.thread.create()
            await newer.send_message(content="newer")
            await harness.close_session(newer)
            assert (await harness.select_or_create_thread()).id == thread.id
            await going_on
            assert record.named("agent_end") == [{"type": "agent_end", "reason": "aborted"}]
            assert not store.is_live(old.id)
            assert store.is_live(thread.id)

    run(work)


def test_switching_gives_each_thread_its_own_words(storage: StoreMaker) -> None:
    async def work() -> None:
        model = Model()
        async with opened(model, storage=storage.open()) as (harness, record):
            first = await harness.create_thread()
            await harness.send_message(content="in the first")
            second = await harness.create_thread()
            await harness.send_message(content="in the second")
            assert model.received() == ["in the second"]
            record.clear()
            await later()
            await harness.switch_thread(thread_id=first.id)
            assert record.wire == [
                {"type": "thread_changed", "threadId": first.id, "previousThreadId": second.id}
            ]
            await harness.send_message(content="more")
            assert model.received() == ["in the first", "more"]
            assert words(harness, second.id) == ["in the second", "Yes."]
            record.clear()
            await harness.switch_thread(thread_id=first.id)
            assert record.wire == [
                {"type": "thread_changed", "threadId": first.id, "previousThreadId": first.id}
            ]
            assert words(harness) == ["in the first", "Yes.", "more", "Yes."]
            assert ids(harness.session.thread.list()) == [first.id, second.id]

    run(work)


def test_the_first_switch_of_all_comes_from_nowhere() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store) as (harness, _):
            thread = await harness.create_thread()
        async with opened(storage=store) as (harness, record):
            await harness.switch_thread(thread_id=thread.id)
            assert record.wire == [
                {"type": "thread_changed", "threadId": thread.id, "previousThreadId": None}
            ]

    run(work)


@pytest.mark.parametrize("missing", ["nobody", "../secret", "", "x" * 200])
def test_a_thread_that_is_not_there_is_named_and_nothing_changes(storage: StoreMaker, missing: str) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            thread = await harness.create_thread()
            record.clear()
            for attempt in (
                harness.switch_thread(thread_id=missing),
                harness.memory.delete_thread(thread_id=missing),
            ):
                with pytest.raises(UnknownSession, match=f"Thread not found: {missing}"):
                    await attempt
            assert harness.session.thread.get_id() == thread.id
            assert harness.session.thread.get_by_id(thread_id=missing) is None
            assert harness.session.thread.list_messages(thread_id=missing) == []
            assert harness.session.thread.first_user_message(thread_id=missing) is None
            assert record.types == []
            await harness.send_message(content="hi")
            assert record.types[-1] == "agent_end"

    run(work)


def test_the_log_of_a_single_run_is_no_thread() -> None:
    async def work() -> None:
        store = MemoryStore()
        store.create(Metadata(session_id="just-a-run", resource_id="h")).close()
        async with opened(storage=store) as (harness, _):
            with pytest.raises(UnknownSession, match="Thread not found: just-a-run"):
                await harness.switch_thread(thread_id="just-a-run")
            with pytest.raises(UnknownSession, match="Thread not found: just-a-run"):
                await harness.memory.delete_thread(thread_id="just-a-run")
            assert harness.session.thread.list(all_resources=True) == []

    run(work)


def test_detaching_stops_the_run_and_keeps_the_thread_until_another_is_taken() -> None:
    async def work() -> None:
        from harness_kit import call

        async def wait() -> str:
            """Wait for ever."""
            await asyncio.Event().wait()
            return ""

        store = MemoryStore()
        async with opened(Model(call("wait")), storage=store, tools=[wait], initial_state={"yolo": True}) as (
            harness,
            record,
        ):
            old = await harness.create_thread()
            going_on = asyncio.create_task(harness.send_message(content="go"))
            await record.until(lambda: record.of(ToolStartEvent))
            await harness.detach_from_current_thread()
            await going_on
            assert record.wire[-1] == {"type": "agent_end", "reason": "aborted"}
            assert harness.session.thread.get_id() == old.id
            assert store.is_live(old.id)
            await harness.create_thread()
            assert not store.is_live(old.id)

    run(work)


def test_two_who_switch_at_once_come_one_after_the_other() -> None:
    class SlowLock:
        async def acquire(self, thread_id: str) -> None:
            await asyncio.sleep(0)

        async def release(self, thread_id: str) -> None:
            await asyncio.sleep(0)

    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store, thread_lock=SlowLock()) as (harness, record):
            made = [await harness.create_thread() for _ in range(4)]
            record.clear()
            await asyncio.gather(*(harness.switch_thread(thread_id=thread.id) for thread in made[:3]))
            live = [thread.id for thread in made if store.is_live(thread.id)]
            assert live == [harness.session.thread.get_id()]
            steps = [(data["previousThreadId"], data["threadId"]) for data in record.named("thread_changed")]
            assert steps == list(itertools.pairwise([made[3].id, *(thread.id for thread in made[:3])]))

    run(work)


def test_two_who_speak_first_speak_in_one_thread() -> None:
    class SlowLock:
        async def acquire(self, thread_id: str) -> None:
            await asyncio.sleep(0.01)

        def release(self, thread_id: str) -> None:
            return

    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store, thread_lock=SlowLock()) as (harness, record):
            await asyncio.gather(harness.send_message(content="one"), harness.send_message(content="two"))
            await harness.session.wait_until_idle()
            assert record.types.count("thread_created") == 1
            said = [text for text in words(harness) if text in ("one", "two")]
            assert sorted(said) == ["one", "two"]

    run(work)


def test_a_damaged_sidecar_does_not_hide_the_thread(tmp_path: Any) -> None:

    async def work() -> None:
        store = FileStore(str(tmp_path))
        async with opened(storage=store) as (harness, _):
            thread = await harness.create_thread(title="Kept")
            await harness.send_message(content="hello")
        (tmp_path / f"{thread.id}.meta.json").write_bytes(b"{broken")
        async with opened(storage=FileStore(str(tmp_path))) as (harness, _):
            await harness.switch_thread(thread_id=thread.id)
            found = harness.session.thread.get_by_id(thread_id=thread.id)
            assert found is not None
            assert (found.title, found.resource_id) == ("Kept", "h")
            await harness.send_message(content="again")
            assert words(harness) == ["hello", "Yes.", "again", "Yes."]
            assert ids(harness.session.thread.list()) == [thread.id]
        store.close()

    run(work)


def test_a_second_harness_sees_what_the_first_one_does(storage: StoreMaker) -> None:
    async def work() -> None:
        async with (
            opened(storage=storage.open()) as (first, _),
            opened(storage=storage.open()) as (second, _),
        ):
            thread = await first.create_thread(title="Shared")
            await first.send_message(content="hello")
            assert ids(second.session.thread.list()) == [thread.id]
            assert words(second, thread.id) == ["hello", "Yes."]
            with pytest.raises(HarnessError):
                await second.switch_thread(thread_id=thread.id)

    run(work)


def test_the_record_of_a_listener_begins_when_it_subscribes() -> None:
    async def work() -> None:
        harness = make(storage=MemoryStore())
        await harness.create_thread()
        record = Record(harness.session)
        await harness.rename_thread(title="x")
        assert record.types == []
        await harness.destroy()

    run(work)


@in_loop
async def test_a_setting_that_cannot_be_stored_is_refused_and_spoils_no_other(storage: StoreMaker) -> None:
    store = storage.open()
    async with opened(storage=store) as (harness, _):
        thread = await harness.create_thread()
        with pytest.raises(UsageError, match="cannot be stored"):
            await harness.session.thread.set_setting(key="bad", value=object())
        await harness.session.thread.set_setting(key="good", value={"deep": [1]})
        kept = store.metadata(thread.id).settings
        assert (kept["good"], "bad" in kept) == ({"deep": [1]}, False)
        assert await harness.session.thread.get_setting(key="good") == {"deep": [1]}
    with pytest.raises(StoreError):
        store.create(Metadata(session_id="odd", settings={"bad": object()}))


@in_loop
async def test_a_setting_that_could_not_be_saved_is_not_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(storage=MemoryStore()) as (harness, _):
        await harness.create_thread()

        def fail(*_: Any) -> None:
            raise StoreError("full")

        with monkeypatch.context() as patch:
            patch.setattr(MemoryStore, "save_metadata", fail)
            await harness.session.thread.set_setting(key="lost", value=1)
        assert await harness.session.thread.get_setting(key="lost") is None


@in_loop
async def test_a_new_thread_says_all_that_it_begins_with_in_one_event(storage: StoreMaker) -> None:
    store = storage.open()
    async with opened(storage=store, initial_state={"color": "red"}) as (harness, record):
        thread = await harness.create_thread(title="First")
        assert record.types == ["thread_created"]
        assert record.wire[0]["thread"]["metadata"] == thread.metadata
        (created,) = log_of(harness)
        assert isinstance(created, ThreadCreated)
        assert (created.state, created.metadata) == (harness.session.state.get(), thread.metadata)
        assert folded(store, thread.id).facts.state == harness.session.state.get()


@in_loop
async def test_a_thread_is_deleted_with_the_hidden_threads_of_its_sub_agents(storage: StoreMaker) -> None:
    model = Model(call("subagent", agentType="scout", task="look", forked=True))
    scout = Subagent(id="scout", name="Scout", description="Looks.", instructions="Look.")
    options: dict[str, Any] = {"memory": Memory(), "initial_state": YOLO, "subagents": [scout]}
    store = storage.open()
    async with opened(model, storage=store, **options) as (harness, _):
        thread = await harness.create_thread()
        await harness.send_message(content="private words")
        other = await harness.create_thread()
        threads = harness.session.thread.list(include_forked_subagents=True)
        assert len(threads) == 3
        await harness.memory.delete_thread(thread_id=thread.id)
        left = [one.session_id for one in store.list() if one.resource_id == "h"]
        assert left == [other.id]
        with pytest.raises(UnknownSession):
            store.snapshot(thread.id, "session")
