"""One session per thread: the lock of the application, and those of the stores, over sessions and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import child_process
from harness.errors import LogLocked, StoreError, UnknownSession
from harness.log.store import Store
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.harness import Harness
from harness.session.locking import FileThreadLock
from harness.session.memory.config import Memory
from harness.testing.faulty_store import FaultyStore
from harness_kit import Model, StoreMaker, later, make, opened, run, storage

__all__ = ["storage"]


class Lock:
    """Records what was done with it, and refuses what it is set to refuse."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.refused: set[str] = set()
        self.fails_to_release = False

    def acquire(self, thread_id: str) -> Any:
        self.done.append(f"acquire {thread_id}")
        if thread_id in self.refused:
            raise RuntimeError(f"{thread_id} is held")

    def release(self, thread_id: str) -> Any:
        self.done.append(f"release {thread_id}")
        if self.fails_to_release:
            raise RuntimeError("it is stuck")


class AsyncLock(Lock):
    """The same, after a while."""

    async def acquire(self, thread_id: str) -> None:
        await asyncio.sleep(0)
        super().acquire(thread_id)

    async def release(self, thread_id: str) -> None:
        await asyncio.sleep(0)
        super().release(thread_id)


@pytest.fixture(params=[Lock, AsyncLock])
def lock(request: pytest.FixtureRequest) -> Lock:
    made = request.param()
    assert isinstance(made, Lock)
    return made


def test_the_new_thread_is_held_before_the_old_one_is_released(lock: Lock) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), thread_lock=lock, memory=Memory()) as (harness, _):
            await harness.create_thread(id="a")
            await harness.create_thread(id="b")
            await harness.switch_thread(thread_id="a")
            cloned = await harness.clone_thread(source_thread_id="b")
            await harness.select_or_create_thread()
            assert lock.done[:5] == ["acquire a", "acquire b", "release a", "acquire a", "release b"]
            assert lock.done[5:7] == [f"acquire {cloned.id}", "release a"]
        assert lock.done[-1].startswith("release")
        assert len(lock.done) % 2 == 0

    run(work)


def test_a_lock_that_is_refused_leaves_the_old_thread_usable(lock: Lock) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), thread_lock=lock, memory=Memory()) as (harness, record):
            await harness.create_thread(id="other")
            await harness.create_thread(id="mine")
            lock.refused = {"other", "new"}
            lock.done.clear()
            record.clear()
            for attempt in (harness.switch_thread(thread_id="other"), harness.create_thread(id="new")):
                with pytest.raises(RuntimeError, match="is held"):
                    await attempt
            assert lock.done == ["acquire other", "acquire new"]
            assert record.types == []
            assert harness.session.thread.get_id() == "mine"
            await harness.send_message(content="still mine")
            assert record.types[-1] == "agent_end"
            with pytest.raises(UnknownSession):
                harness.store.metadata("new")

    run(work)


def test_a_thread_that_cannot_be_made_gives_its_lock_back(lock: Lock) -> None:
    async def work() -> None:
        store = FaultyStore(MemoryStore())
        async with opened(storage=store, thread_lock=lock) as (harness, _):
            await harness.create_thread(id="a")
            store._fails_at = store.calls + 1
            with pytest.raises(StoreError, match="create failed"):
                await harness.create_thread(id="b")
            assert lock.done == ["acquire a", "acquire b", "release b"]
            assert harness.session.thread.get_id() == "a"

    run(work)


def test_a_thread_that_is_not_there_is_not_even_locked(lock: Lock) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), thread_lock=lock) as (harness, _):
            await harness.create_thread(id="a")
            with pytest.raises(UnknownSession):
                await harness.switch_thread(thread_id="missing")
            assert lock.done == ["acquire a"]

    run(work)


def test_deleting_releases_the_open_thread_and_no_other(lock: Lock) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), thread_lock=lock) as (harness, _):
            await harness.create_thread(id="a")
            await harness.create_thread(id="b")
            lock.done.clear()
            await harness.memory.delete_thread(thread_id="a")
            assert lock.done == []
            lock.fails_to_release = True
            await harness.memory.delete_thread(thread_id="b")
            assert lock.done == ["release b"]
            assert harness.session.thread.list() == []

    run(work)


def test_a_lock_that_cannot_be_released_holds_up_no_other(lock: Lock) -> None:
    async def work() -> None:
        lock.fails_to_release = True
        async with opened(storage=MemoryStore(), thread_lock=lock) as (harness, record):
            await harness.create_thread(id="a")
            await harness.create_thread(id="b")
            await harness.send_message(content="hi")
            assert record.types[-1] == "agent_end"

    run(work)


def test_another_resource_lets_the_lock_go(lock: Lock) -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore(), thread_lock=lock) as (harness, _):
            await harness.create_thread(id="a")
            await harness.set_resource_id(resource_id="other")
            assert lock.done == ["acquire a", "release a"]

    run(work)


def test_locks_as_files_keep_two_harnesses_apart(tmp_path: Path) -> None:
    async def work() -> None:
        store = MemoryStore()
        first = make(storage=store, thread_lock=FileThreadLock(str(tmp_path)))
        second = make(storage=store, thread_lock=FileThreadLock(str(tmp_path)))
        thread = await first.create_thread()
        with pytest.raises(LogLocked, match=f"held by process {os.getpid()}"):
            await second.switch_thread(thread_id=thread.id)
        await first.destroy()
        await second.switch_thread(thread_id=thread.id)
        await second.destroy()

    run(work)


def test_two_sessions_cannot_have_one_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with (
            opened(storage=storage.open()) as (first, _),
            opened(storage=storage.open()) as (second, record),
        ):
            thread = await first.create_thread()
            own = await second.create_thread()
            record.clear()
            with pytest.raises(LogLocked):
                await second.switch_thread(thread_id=thread.id)
            with pytest.raises(LogLocked):
                await second.memory.delete_thread(thread_id=thread.id)
            assert second.session.thread.get_id() == own.id
            assert record.types == []
            await second.send_message(content="in my own")
            await first.send_message(content="in mine")
            assert record.types[-1] == "agent_end"
            await first.create_thread()
            await second.switch_thread(thread_id=thread.id)
            assert second.session.thread.get_id() == thread.id

    run(work)


def test_two_sessions_of_one_harness_cannot_either() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, _):
            thread = await harness.create_thread()
            other = harness.create_session(scope="other")
            with pytest.raises(LogLocked):
                await other.thread.switch(thread_id=thread.id)
            assert not other.thread.is_set()
            assert (await other.thread.select_or_create()).id != thread.id
            await harness.create_thread(id="another")
            await other.thread.switch(thread_id=thread.id)
            await other.send_message(content="mine now")

    run(work)


def hold_a_thread(store_of: Any, ready: int) -> None:
    """In a process of its own: begin a run that never ends, say so, and stay."""

    async def forever() -> None:
        async def wait() -> str:
            """Wait for ever."""
            os.write(ready, b"x")
            await asyncio.Event().wait()
            return ""

        from harness_kit import call

        model = Model(call("wait"))
        harness: Harness = make(model, storage=store_of(), tools=[wait], initial_state={"yolo": True})
        await harness.create_thread(id="held")
        await harness.send_message(content="go on for ever")

    asyncio.run(forever())


def wait_until_free(store: Store, thread_id: str) -> None:
    """A server learns of the death of a process a moment later than the system."""
    deadline_s = time.monotonic() + 60
    while store.is_live(thread_id):
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


@pytest.mark.parametrize("storage", ["files", "postgres"], indirect=True)
def test_the_thread_of_a_killed_process_is_free_at_once_and_its_run_has_ended(storage: StoreMaker) -> None:
    if storage.kind == "postgres":
        storage.open().resource_ids()  # the schema is made before there are two
    reading, ready = os.pipe()
    child = child_process.begin(lambda: hold_a_thread(storage.open, ready))
    os.close(ready)
    assert os.read(reading, 1) == b"x"
    os.close(reading)

    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            with pytest.raises(LogLocked):
                await harness.switch_thread(thread_id="held")
            await harness.create_thread(id="mine")
            with pytest.raises(LogLocked):
                await harness.memory.delete_thread(thread_id="held")
            os.kill(child, signal.SIGKILL)
            assert child_process.end(child) == -signal.SIGKILL
            await asyncio.to_thread(wait_until_free, harness.store, "held")
            await harness.switch_thread(thread_id="held")
            assert not harness.session.run.is_running()
            assert not harness.session.display_state.get().is_running
            assert not harness.session.internals.bus.fold.facts.open_run
            record.clear()
            await harness.send_message(content="and now?")
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert harness.session.thread.list_active_messages()[0].role == "user"

    run(work)


def test_a_store_that_another_process_has_locked_says_who(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(storage=FileStore(str(tmp_path))) as (first, _):
            thread = await first.create_thread()
            async with opened(storage=FileStore(str(tmp_path))) as (second, _):
                with pytest.raises(LogLocked) as caught:
                    await second.switch_thread(thread_id=thread.id)
                assert caught.value.holder.startswith(str(os.getpid()))
                assert caught.value.hint

    run(work)


def test_a_thread_that_another_session_has_is_passed_over_for_the_next_free_one(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (first, _):
            oldest = await first.create_thread(title="oldest")
            await later()
            newest = await first.create_thread(title="newest")
            async with opened(storage=storage.open()) as (second, _):
                assert (await second.select_or_create_thread()).id == oldest.id
                async with opened(storage=storage.open()) as (third, record):
                    made = await third.select_or_create_thread()
                    assert made.id not in (oldest.id, newest.id)
                    assert record.types == ["thread_created"]
                assert second.session.thread.get_id() == oldest.id
            assert first.session.thread.get_id() == newest.id
        async with opened(storage=storage.open()) as (fourth, record):
            assert (await fourth.select_or_create_thread()).id in (made.id, newest.id)
            assert record.types == []

    run(work)
