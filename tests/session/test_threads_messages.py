"""Reading the messages of a thread: the newest first found, the oldest first given, and never all of a long one."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    ThreadCreated,
)
from harness.log.hub import Hub
from harness.log.store import LogReader, Metadata, Store
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness_kit import Model, opened, run

TURNS = 2500


class CountingStore:
    """Passes everything on, and counts the events that are read."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.events_read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def reader(self, log_id: str, cursor: int = 0) -> LogReader:
        return _CountingReader(self, self._inner.reader(log_id, cursor))


class _CountingReader:
    def __init__(self, store: CountingStore, inner: LogReader) -> None:
        self._store, self._inner = store, inner

    def read(self, most: int = 1000) -> builtins.list[Event]:
        batch = self._inner.read(most)
        self._store.events_read += len(batch)
        return batch

    def close(self) -> None:
        self._inner.close()


def turn(number: int) -> Sequence[Event]:
    """What one run leaves in the log."""
    words = [f"word{piece} " for piece in range(5)]
    return [
        SessionStart(agent="native"),
        Message(role="user", text=f"question {number}", id=f"user-{number}"),
        StepStart(id="s"),
        *(TextDelta(id="0", text=word) for word in words),
        Message(role="assistant", text="".join(words) + str(number), id=f"agent-{number}"),
        StepEnd(id="s", stop_reason="end"),
        Result(success=True, outcome="completed", text=f"answer {number}"),
    ]


def write_long_thread(store: Store) -> int:
    """5,000 messages; how many events they are."""
    hub = Hub(
        store, "long", store.create(Metadata(session_id="long", kind="thread", resource_id="h", name="Long"))
    )
    hub.source("long").append([ThreadCreated(id="long", resource_id="h", title="Long")])
    for number in range(TURNS):
        hub.source(f"run-{number}").append(turn(number))
    hub.close()
    return hub.next_seq


def long_store(kind: str, folder: Path) -> tuple[CountingStore, int]:
    store: Store = MemoryStore() if kind == "memory" else FileStore(str(folder))
    events = write_long_thread(store)
    return CountingStore(store), events


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_the_newest_messages_of_a_long_thread_are_found_without_reading_it(kind: str, tmp_path: Path) -> None:
    store, events = long_store(kind, tmp_path)

    async def work() -> None:
        async with opened(storage=store) as (harness, _):
            thread = harness.session.thread
            found = thread.list_messages(thread_id="long", limit=4)
            assert [message.text.split(" ")[-1] for message in found] == ["2498", "2498", "2499", "2499"]
            assert [message.role for message in found] == ["user", "assistant"] * 2
            assert store.events_read < 100 < events
            assert thread.list_messages(thread_id="long", limit=0) == []
            assert len(thread.list_messages(thread_id="long", limit=10**9)) == 2 * TURNS
            store.events_read = 0
            assert len(thread.list_messages(thread_id="long")) == 2 * TURNS
            assert store.events_read == events
            store.events_read = 0
            first = thread.first_user_message(thread_id="long")
            assert first is not None
            assert first.text == "question 0"
            assert store.events_read < 100

    run(work)
    store.close()


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_long_thread_that_was_put_away_is_opened_without_reading_it(kind: str, tmp_path: Path) -> None:
    store, events = long_store(kind, tmp_path)

    async def work() -> None:
        async with opened(storage=store) as (harness, _):
            await harness.select_or_create_thread()
            await harness.session.state.set({"x": 1})
        store.events_read = 0
        async with opened(storage=store) as (harness, _):
            thread = await harness.select_or_create_thread()
            assert thread.id == "long"
            assert harness.session.state.get()["x"] == 1
            assert store.events_read < 100 < events
            await harness.switch_thread(thread_id=(await harness.create_thread()).id)
            await harness.switch_thread(thread_id="long")
            assert store.events_read < 100
            model_sees = len(harness.session.thread.list_active_messages(limit=3))
            assert model_sees == 3

    run(work)
    store.close()


def test_the_active_thread_is_listed_without_its_id() -> None:
    async def work() -> None:
        async with opened(Model("one", "two"), storage=MemoryStore()) as (harness, _):
            thread = harness.session.thread
            assert thread.list_active_messages() == []
            await harness.send_message(content="a")
            await harness.send_message(content="b")
            listed = thread.list_active_messages()
            assert [message.text for message in listed] == ["a", "one", "b", "two"]
            assert thread.list_active_messages(limit=1) == listed[-1:]
            assert thread.list_active_messages(limit=3) == listed[-3:]
            assert [message.id for message in thread.list_active_messages(limit=3)] == [
                message.id for message in listed[-3:]
            ]

    run(work)


def test_messages_have_the_ids_that_listeners_received() -> None:
    async def work() -> None:
        async with opened(Model("one", "two"), storage=MemoryStore()) as (harness, record):
            await harness.send_message(content="a")
            await harness.send_message(content="b")
            emitted = [data["message"]["id"] for data in record.named("message_end")]
            assert [message.id for message in harness.session.thread.list_active_messages()] == emitted
            assert len(set(emitted)) == 4

    run(work)


def cpu_of(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.slow
def test_the_last_messages_cost_no_more_in_a_long_thread_than_in_a_short_one(tmp_path: Path) -> None:
    store, _ = long_store("files", tmp_path)

    async def work() -> None:
        async with opened(storage=store) as (harness, _):
            thread = harness.session.thread
            short = await harness.create_thread()
            for _ in range(10):
                await harness.send_message(content="hi")
            for thread_id in ("long", short.id):
                thread.list_messages(thread_id=thread_id, limit=10)
            few = min(cpu_of(lambda: thread.list_messages(thread_id=short.id, limit=10)) for _ in range(20))
            many = min(cpu_of(lambda: thread.list_messages(thread_id="long", limit=10)) for _ in range(20))
            assert many < 5 * few + 0.002

    run(work)
    store.close()
