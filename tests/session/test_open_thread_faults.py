"""Storage that fails at any call: a documented error or a warning, no event lost, and a session that works."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import UserTurn
from harness.errors import HarnessError, StoreError
from harness.events import Event, Unknown
from harness.log.codec import decode
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.adapters.pubsub import LocalPubSub
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness.testing.faulty_store import FaultyStore
from harness_kit import Model, Record, call, make, opened, run, used

MOST_CALLS = 200


class World:
    """A harness on a store that can be made to fail, and everything that was put into its threads."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.store = FaultyStore(inner)
        self.published: dict[str, list[Event]] = {}
        self.pubsub = LocalPubSub()
        self.harness = self._made()
        self.record = Record(self.harness.session)

    def _made(self) -> Harness:
        def answer(ask: Any) -> Any:
            said = [turn.text for turn in ask.turns if isinstance(turn, UserTurn)]
            has_asked = any("ask_user" in str(turn) for turn in ask.turns)
            return call("ask_user", question="Which?") if said[-1] == "ask me" and not has_asked else "Yes."

        script = [call("task_check"), used("Done.", inputTokens=1, outputTokens=1)]
        model = Model(*script, *[answer] * 20)
        publish = self.pubsub.publish

        def note(topic: str, message: bytes) -> None:
            self.published.setdefault(topic.partition("/")[2], []).append(decode(message))
            publish(topic, message)

        self.pubsub.publish = note  # type: ignore[method-assign]
        return make(model, storage=self.store, pubsub=self.pubsub, memory=Memory())

    async def prepare(self) -> None:
        await self.harness.init()
        await self.harness.create_thread(id="other", title="Other")
        await self.harness.send_message(content="in the other")
        await self.harness.create_thread(id="mine", title="Mine")
        await self.harness.send_message(content="in mine")

    def fail_from(self, number: int, failures: int | None) -> None:
        self.store._fails_at = self.store.calls + number
        self.store._failures = failures

    def heal(self) -> None:
        self.store._fails_at = 0

    async def check_usable(self) -> None:
        """It talks, it knows what was said, and only what it holds is held."""
        harness, session = self.harness, self.harness.session
        assert not session.run.is_running()
        self.record.clear()
        await harness.send_message(content="still there?")
        ends = [data for data in self.record.wire if data["type"] in ("agent_end", "error")]
        assert ends == [{"type": "agent_end", "reason": "complete"}], self.record.wire
        said = [message.text for message in session.thread.list_active_messages()]
        assert said[-2] == "still there?"
        live = {one.session_id for one in self.inner.list() if self.inner.is_live(one.session_id)}
        assert live == {session.thread.require_id()}

    def check_nothing_is_lost(self) -> None:
        for metadata in self.inner.list():
            events = list(read_all(self.inner, metadata.session_id))
            assert [event.seq for event in events] == list(range(len(events)))
            emitted = self.published.get(metadata.session_id, [])
            assert events[len(events) - len(emitted) :] == emitted if emitted else True


async def rename(harness: Harness) -> None:
    await harness.rename_thread(title="Renamed")


async def select(harness: Harness) -> None:
    await harness.session.thread.release()
    await harness.select_or_create_thread()


OPERATIONS: dict[str, Callable[[Harness], Awaitable[Any]]] = {
    "create": lambda harness: harness.create_thread(title="New"),
    "send": lambda harness: harness.send_message(content="go on"),
    "send in a thread just opened": lambda harness: harness.send_message(content="go on"),
    "answer a question": lambda harness: harness.respond_to_tool_suspension(resume_data="this one"),
    "switch": lambda harness: harness.switch_thread(thread_id="other"),
    "clone": lambda harness: harness.clone_thread(source_thread_id="other"),
    "rename": rename,
    "delete the other": lambda harness: harness.memory.delete_thread(thread_id="other"),
    "delete mine": lambda harness: harness.memory.delete_thread(thread_id="mine"),
    "select": select,
    "change the mode's model": lambda harness: harness.session.model.switch(model_id="x/y"),
    "change the state": lambda harness: harness.session.state.set({"x": 1}),
    "keep a setting": lambda harness: harness.session.thread.set_setting(key="a", value=1),
}


BEFORE: dict[str, Callable[[Harness], Awaitable[Any]]] = {
    "send in a thread just opened": lambda harness: harness.switch_thread(thread_id="other"),
    "answer a question": lambda harness: harness.send_message(content="ask me"),
}


async def fail_at(inner: Store, operation: str, number: int, failures: int | None) -> bool:
    """Do it with a store that fails at that call. False when there were not so many calls."""
    world = World(inner)
    await world.prepare()
    if operation in BEFORE:
        await BEFORE[operation](world.harness)
    world.fail_from(number, failures)
    try:
        await OPERATIONS[operation](world.harness)
    except HarnessError:
        pass  # the documented error
    has_failed = bool(world.store.failed)
    world.heal()
    await world.check_usable()
    await world.harness.destroy()
    world.check_nothing_is_lost()
    return has_failed


@pytest.mark.parametrize("failures", [1, None], ids=["once", "until it is mended"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_call_to_the_storage_may_fail(
    operation: str, failures: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    number = 1
    while run(fail_at, MemoryStore(), operation, number, failures):
        number += 1
        assert number < MOST_CALLS
    assert number > 1, "it asks the storage for something"


@pytest.mark.parametrize("operation", ["create", "send", "switch", "delete mine", "clone"])
def test_every_call_to_files_may_fail(
    operation: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)

    async def one(number: int) -> bool:
        store = FileStore(str(tmp_path / str(number)))
        try:
            return await fail_at(store, operation, number, 1)
        finally:
            store.close()

    number = 1
    while run(one, number):
        number += 1
        assert number < MOST_CALLS


def test_what_the_disk_refused_is_reported_and_written_when_it_can_be(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        world = World(MemoryStore())
        await world.prepare()
        world.record.clear()
        world.fail_from(1, None)
        await world.harness.session.state.set({"lost?": False})
        emitted = [data["type"] for data in world.record.wire]
        assert emitted == ["info", "state_changed"]
        assert "the log is incomplete from seq" in world.record.wire[0]["message"]
        world.heal()
        await world.harness.session.state.set({"again": True})
        await world.check_usable()
        await world.harness.destroy()
        world.check_nothing_is_lost()

    run(work)


def test_a_deletion_that_fails_leaves_the_thread_open() -> None:
    async def work() -> None:
        world = World(MemoryStore())
        await world.prepare()
        world.record.clear()
        before = world.store.calls
        world.store.delete = _refuse  # type: ignore[method-assign,assignment]
        with pytest.raises(StoreError, match="no"):
            await world.harness.memory.delete_thread(thread_id="mine")
        assert world.store.calls > before
        assert world.harness.session.thread.get_id() == "mine"
        assert "thread_deleted" not in world.record.types
        await world.check_usable()
        await world.harness.destroy()

    run(work)


def _refuse(_log_id: str) -> None:
    raise StoreError("no")


def test_a_corrupt_row_is_passed_over(tmp_path: Path) -> None:
    async def work() -> None:
        model = Model()
        store = FileStore(str(tmp_path))
        harness = make(model, storage=store)
        thread = await harness.create_thread()
        for content in ("one", "two", "three"):
            await harness.send_message(content=content)
        await harness.destroy()
        path = tmp_path / f"{thread.id}.ndjson"
        lines = path.read_bytes().split(b"\n")
        broken = next(number for number, line in enumerate(lines) if b'"two"' in line)
        lines[broken] = b'{"type":"Message","seq":' + b"\xff\xfe" * 5
        path.write_bytes(b"\n".join(lines))
        for name in os.listdir(tmp_path):
            if name.startswith("index.sqlite3"):
                os.unlink(tmp_path / name)
        harness = make(model, storage=FileStore(str(tmp_path)))
        record = Record(harness.session)
        await harness.select_or_create_thread()
        said = [message.text for message in harness.session.thread.list_active_messages()]
        assert [text for text in said if text != "Yes."] == ["one", "three"]
        await harness.send_message(content="four")
        assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
        assert model.received() == ["one", "three", "four"]
        assert harness.session.display_state.get().token_usage.total_tokens == 0
        events = list(read_all(harness.store, thread.id))
        assert sum(isinstance(event, Unknown) for event in events) == 1
        await harness.destroy()
        store.close()

    run(work)


def test_a_snapshot_that_cannot_be_read_costs_only_time() -> None:
    async def work() -> None:
        store = MemoryStore()
        harness = make(Model(used("Yes.", inputTokens=3, outputTokens=4)), storage=store)
        thread = await harness.create_thread()
        await harness.send_message(content="hi")
        await harness.session.state.set({"x": 1})
        await harness.destroy()
        log = store._logs[thread.id]
        for data in (b"", b"{}", b"null", b'{"version":1,"facts":{"relays":5}}', b"\xff"):
            log.snapshots["session"] = (log.next_seq, data)
            harness = make(storage=store)
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.get_token_usage().total_tokens == 7
            assert harness.session.state.get()["x"] == 1
            await harness.destroy()

    run(work)


def test_a_full_disk_is_said_once_and_in_words(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with opened(Model("Yes.")) as (harness, _record):
            await harness.send_message(content="go")
            save_four_times(harness)

    def save_four_times(harness: Harness) -> None:
        thread = harness.session.internals.thread.current
        assert thread is not None
        save = thread.store.save_metadata

        def full(_metadata: Any) -> None:
            raise OSError(28, "No space left on device")

        for number in range(4):
            thread.store.save_metadata = full if number != 2 else save  # type: ignore[method-assign]
            assert thread.save() == (number == 2)
        thread.store.save_metadata = save  # type: ignore[method-assign]

    run(main)
    said = [record.getMessage() for record in caplog.records if "could not be saved" in record.getMessage()]
    assert len(said) == 2, "again only after it had worked"
    assert said[0].endswith("could not be saved: No space left on device")
    assert not any(record.exc_info for record in caplog.records)
