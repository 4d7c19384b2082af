"""Heartbeats beat, and bring nothing down."""

from __future__ import annotations

import asyncio
import logging

import pytest

from harness.session.config import HeartbeatHandler
from harness.session.harness_parts import Heartbeats


class Counter:
    def __init__(self) -> None:
        self.beats = 0
        self.came = asyncio.Event()

    async def beat(self) -> None:
        self.beats += 1
        self.came.set()


def test_it_beats_at_once_and_again() -> None:
    async def run() -> None:
        hearts, counter = Heartbeats(), Counter()
        hearts.start([HeartbeatHandler(id="a", interval_ms=1, handler=counter.beat)])
        for _ in range(3):
            await counter.came.wait()
            counter.came.clear()
        await hearts.stop()
        seen = counter.beats
        await asyncio.sleep(0.01)
        assert counter.beats == seen >= 3

    asyncio.run(run())


def test_one_that_is_not_immediate_waits_first() -> None:
    async def run() -> None:
        hearts, counter = Heartbeats(), Counter()
        hearts.start([HeartbeatHandler(id="a", interval_ms=60_000, handler=counter.beat, immediate=False)])
        await asyncio.sleep(0)
        await hearts.stop()
        assert counter.beats == 0

    asyncio.run(run())


def test_a_second_one_of_the_same_id_is_passed_over_at_the_start_and_takes_its_place_when_registered() -> (
    None
):
    async def run() -> None:
        closed: list[str] = []
        hearts, first, second = Heartbeats(), Counter(), Counter()
        hearts.start(
            [
                HeartbeatHandler(
                    id="a", interval_ms=60_000, handler=first.beat, shutdown=lambda: closed.append("first")
                ),
                HeartbeatHandler(id="a", interval_ms=60_000, handler=second.beat),
            ]
        )
        await first.came.wait()
        assert second.beats == 0
        await hearts.register(HeartbeatHandler(id="a", interval_ms=60_000, handler=second.beat))
        await second.came.wait()
        assert closed == ["first"]
        assert hearts.ids == ["a"]
        await hearts.stop()

    asyncio.run(run())


def test_what_fails_is_logged_and_continues(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        hearts, counter = Heartbeats(), Counter()

        async def fail() -> None:
            await counter.beat()
            raise RuntimeError("ill")

        def fail_to_close() -> None:
            raise RuntimeError("stuck")

        hearts.start([HeartbeatHandler(id="a", interval_ms=1, handler=fail, shutdown=fail_to_close)])
        for _ in range(2):
            await counter.came.wait()
            counter.came.clear()
        await hearts.remove("a")
        await hearts.remove("never there")

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "heartbeat a failed" in caplog.text
    assert "shutdown of heartbeat a failed" in caplog.text
