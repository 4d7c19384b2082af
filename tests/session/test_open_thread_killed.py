"""Killed at any moment: what any listener received is in the log, no thread stays locked, and no run stays open."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import time
import zlib
from typing import Any

import pytest

import child_process
from harness.log.codec import encode
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.session.adapters.pubsub import LocalPubSub
from harness.session.config import Mode
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness_kit import Model, Record, StoreMaker, call, make, run, storage, used

__all__ = ["storage"]

KILLS = 40
PARTS = 4
LONGEST_S = 0.12
MODES = (Mode(id="plan", transitions_to="build"), Mode(id="build"))


class Witness(LocalPubSub):
    """Reports every event to the parent as soon as a listener has received it."""

    def __init__(self, tell: int) -> None:
        super().__init__()
        self._tell = tell

    def publish(self, topic: str, message: bytes) -> None:
        thread_id = topic.partition("/")[2]
        os.write(self._tell, f"{thread_id} {zlib.crc32(message)}\n".encode())
        super().publish(topic, message)


def deploy() -> str:
    """Deploy it."""
    return "deployed"


def script(number: int) -> list[Any]:
    task = {"content": f"Task {number}", "status": "pending", "activeForm": "Doing it"}
    return [
        {"events": [{"type": "text", "content": "word " * 20, "pieces": 20}]},
        call("deploy", id=f"d{number}"),
        used("Deployed.", inputTokens=10, outputTokens=5),
        call("task_write", id=f"t{number}", tasks=[task]),
        call("ask_user", id=f"a{number}", question="Which?"),
        "Thank you.",
    ]


def new_harness(storage: StoreMaker, **options: Any) -> Harness:
    model = Model(*itertools.chain.from_iterable(script(number) for number in range(100)))
    return make(
        model,
        storage=storage.open(),
        tools=[deploy],
        modes=MODES,
        memory=Memory(),
        **options,
    )


async def chat(storage: StoreMaker, tell: int) -> None:
    """Everything that a person does, again and again."""
    harness = new_harness(storage, pubsub=Witness(tell), initial_state={"yolo": True})
    await harness.init()
    await harness.select_or_create_thread()
    for number in itertools.count():
        if number % 3 == 0:
            await harness.create_thread(title=f"Thread {number}")
        await harness.send_message(content=f"message {number}")
        await harness.send_message(content=f"deploy {number}")
        await harness.send_message(content=f"plan {number}")
        await harness.rename_thread(title=f"Renamed {number}")
        await harness.session.state.set({"number": number})
        if number % 2:
            await harness.respond_to_tool_suspension(resume_data="this one")
        await harness.session.mode.switch(mode_id="build" if number % 2 else "plan")
        if number % 5 == 4:
            await harness.clone_thread()


def kill_one(storage: StoreMaker, after_s: float, *, has_begun: bool) -> dict[str, list[int]]:
    """By thread: what the killed process had reported. `has_begun`: it is killed so long after its first word."""
    received, tell = os.pipe()

    def work() -> None:
        os.close(received)
        asyncio.run(chat(storage, tell))

    child = child_process.begin(work)
    os.close(tell)
    begun = os.read(received, 1) if has_begun else b""
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    emitted: dict[str, list[int]] = {}
    with os.fdopen(received, "rb") as pipe:
        for line in (begun + pipe.read()).split(b"\n")[:-1]:
            thread_id, checksum = line.split(b" ")
            emitted.setdefault(thread_id.decode(), []).append(int(checksum))
    assert child_process.end(child) == -signal.SIGKILL
    return emitted


def check_logs(storage: StoreMaker, emitted: dict[str, list[int]]) -> None:
    """Everything that was emitted is there, in its order, and nothing is missing in between."""
    store = storage.open()
    for thread_id, checksums in emitted.items():
        events = list(read_all(store, thread_id))
        assert [event.seq for event in events] == list(range(len(events)))
        kept = iter([zlib.crc32(encode(event)) for event in events])
        assert all(checksum in kept for checksum in checksums), "in this order"
    store.close()


async def check_threads(storage: StoreMaker, thread_ids: list[str]) -> None:
    harness = new_harness(storage)
    record = Record(harness.session)
    await harness.init()
    for thread_id in thread_ids:
        await asyncio.to_thread(wait_until_free, harness.store, thread_id)
        await harness.switch_thread(thread_id=thread_id)
        session = harness.session
        assert not session.run.is_running()
        assert not session.display_state.get().is_running
        facts = session.internals.bus.fold.facts
        assert bool(facts.open_run) == facts.is_suspended == bool(session.suspensions.all())
    record.clear()
    await harness.send_message(content="and now?")
    assert record.named("agent_end")[-1] == {"type": "agent_end", "reason": "complete"}
    await harness.destroy()
    harness.store.close()


def wait_until_free(store: Store, thread_id: str) -> None:
    """At once; but a server learns of the death of a process a moment later than the system."""
    if isinstance(store, FileStore):
        assert not store.is_live(thread_id)
    deadline_s = time.monotonic() + 60
    while store.is_live(thread_id):
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("storage", "seed", "kills"),
    [*(("files", part, KILLS // PARTS) for part in range(PARTS)), ("postgres", 0, 20)],
    indirect=["storage"],
)
def test_a_process_that_is_killed_at_any_moment_loses_nothing_and_holds_nothing(
    storage: StoreMaker, seed: int, kills: int
) -> None:
    chance = random.Random(seed)
    run(prepare, storage)
    received = 0
    for number in range(kills):
        emitted = kill_one(storage, chance.random() * LONGEST_S, has_begun=number % 4 > 0)
        received += sum(map(len, emitted.values()))
        check_logs(storage, emitted)
        run(check_threads, storage, [*emitted] or ["first"])
    assert received >= kills * 3 // 4


async def prepare(storage: StoreMaker) -> None:
    harness = new_harness(storage)
    await harness.create_thread(id="first")
    await harness.destroy()
    harness.store.close()
