"""Everything that may be said to a session, at random moments: whatever happens, what must hold of its log holds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import Ask
from harness.conversation.history import history
from harness.errors import UsageError
from harness.events import Event
from harness.log.stores.files import FileStore
from harness.models.scripted import Scripted
from harness.session.config import Mode
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness_kit import Model, Record, call, log_of, make, opened
from running_kit import check, in_loop, plain, started

SEEDS = range(24)
MODES = [Mode(id="plan", transitions_to="build"), Mode(id="build")]


class Moody(Model):
    """Answers whatever comes into its mind, now and then with a pause."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._calls = 0

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:  # type: ignore[override]
        for event in [event async for event in Scripted([self._answer()], name=self.name).answer(ask)]:
            if self._chance.random() < 0.3:
                await asyncio.sleep(0)
            yield event

    def _answer(self) -> Any:
        self._calls += 1
        id = f"c{self._calls}"
        return self._chance.choice(
            [
                "A word.",
                {"events": [{"type": "text", "content": "Many words.", "pieces": 5}]},
                call("work", id=id),
                call("work", id=id),
                call("ask_user", id=id, question="Which?"),
                call("submit_plan", id=id, plan="P"),
                call(
                    "task_write", id=id, tasks=[{"content": "x", "status": "pending", "activeForm": "xing"}]
                ),
                {"events": [{"type": "error", "message": "down"}]},
                {"events": [{"type": "text", "content": "Cut"}], "stop_reason": "length"},
            ]
        )


def deeds(harness: Harness, chance: random.Random) -> list[Callable[[], Awaitable[object]]]:
    async def abort() -> None:
        harness.abort()

    async def approve() -> None:
        harness.session.respond_to_tool_approval(decision=chance.choice(["approve", "decline"]))

    async def answer() -> None:
        data = chance.choice(["this", {"action": "approved"}, {"action": "rejected", "feedback": "no"}])
        with suppress(UsageError):  # for what is no answer to what is asked: it then waits on
            await harness.respond_to_tool_suspension(resume_data=data)

    signal = {"type": chance.choice(["reactive", "user", "notification"]), "contents": "note"}
    note = {"source": "ci", "kind": "build", "summary": "x", "priority": chance.choice(["low", "urgent"])}
    return [
        lambda: harness.send_message(content="go"),
        lambda: harness.send_message(content="go"),
        lambda: harness.steer(content="that way"),
        lambda: harness.follow_up(content="later"),
        lambda: harness.send_signal(signal),
        lambda: harness.send_notification_signal(note),
        lambda: harness.session.mode.switch(mode_id=chance.choice(["plan", "build"])),
        abort,
        approve,
        approve,
        answer,
        answer,
    ]


async def settle(harness: Harness) -> None:
    """Until nothing runs: approvals are given, what is asked is given up."""
    while harness.session.run.is_running():
        harness.session.respond_to_tool_approval(decision="approve")
        await asyncio.sleep(0)
    harness.abort()


def holds(harness: Harness, record: Record) -> None:
    events = log_of(harness)
    check(harness, events)
    starts = [name for name in record.types if name in ("agent_start", "agent_end")]
    assert starts == ["agent_start", "agent_end"] * (len(starts) // 2)
    emitted, kept = history(events), harness.session.internals.conversation
    assert kept is not None
    assert emitted.entries == kept.entries
    assert harness.session.internals.bus.fold.facts.relays == {}
    shown = harness.session.display_state.get()
    assert not shown.is_running
    assert (shown.pending_approval, shown.pending_suspensions) == (None, {})
    assert shown.queued_follow_ups == harness.session.follow_ups.count()


@pytest.mark.parametrize("seed", SEEDS)
@in_loop
async def test_at_random(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    options: dict[str, Any] = {"modes": MODES, "tools": [plain("work")], "memory": Memory()}
    async with opened(Moody(chance), storage=FileStore(str(tmp_path)), **options) as (harness, record):
        doing: list[asyncio.Task[Any]] = []
        for _ in range(40):
            doing.append(started(chance.choice(deeds(harness, chance))()))  # type: ignore[arg-type]
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
        harness.session.follow_ups.clear()
        finishing = asyncio.gather(*doing, return_exceptions=True)
        while not finishing.done() or harness.session.run.is_running():
            harness.session.respond_to_tool_approval(decision="approve")
            await asyncio.sleep(0)
        assert [error for error in await finishing if isinstance(error, BaseException)] == []
        await settle(harness)
        holds(harness, record)
        await harness.session.state.set({"yolo": True})
    again = make(Model("Yes."), storage=FileStore(str(tmp_path)), **options)
    await again.init()
    await again.select_or_create_thread()
    await again.send_message(content="are you there?")
    await again.session.wait_until_idle()
    check(again, log_of(again))
    await again.destroy()
