"""When a memory cannot do its work, the log says so and the run ends."""

from __future__ import annotations

import asyncio

import pytest

from harness.events import BufferingFailed, Error, ObservationFailed
from harness.session.memory import MemoryFailure
from memory_bench import NO_BUFFER, SMALL, Bench, run, tokens


def test_an_observation_that_fails_ends_the_run() -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [Error(message="wrong key", code="http_401")])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        with pytest.raises(MemoryFailure, match=r"^Observational memory observation run failed: wrong key$"):
            await bench.step(1)
        assert isinstance(bench.log[-1], ObservationFailed)
        assert bench.log[-1].error == "wrong key"
        assert not bench.memory.record().is_observing

    run(check())


def test_buffering_that_fails_is_reported_at_once_and_ends_the_run() -> None:
    async def check() -> None:
        bench = Bench(SMALL, [Error(message="wrong key", code="http_401")])
        bench.user(tokens(210))
        await bench.settled()
        assert isinstance(bench.log[-1], BufferingFailed)
        (failure,) = bench.failures
        assert str(failure) == "Observational memory observation buffering failed: wrong key"
        bench.assistant(tokens(10))
        with pytest.raises(MemoryFailure):
            await bench.step(1)

    run(check())


def test_a_failure_of_the_last_run_is_not_one_of_the_next() -> None:
    async def check() -> None:
        bench = Bench(SMALL, [Error(message="wrong key", code="http_401")])
        bench.user(tokens(210))
        await bench.settled()
        bench.user(tokens(10))
        assert await bench.step(0) is None

    run(check())


@pytest.mark.parametrize("answer", ["", "I would rather not.", "again and again " * 500])
def test_an_observer_that_notes_nothing_has_failed(answer: str) -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [answer, answer])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        with pytest.raises(MemoryFailure):
            await bench.step(1)
        assert len(bench.observer.asked) == (2 if len(answer) > 2_000 else 1)
        assert bench.memory.state.pending >= 1_000  # nothing was lost

    run(check())


def test_what_is_stopped_is_closed_in_the_log() -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [(asyncio.Event(), "")])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        step = asyncio.create_task(bench.step(1))
        await bench.observer.was_asked.wait()
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert isinstance(bench.log[-1], ObservationFailed)
        bench = Bench(SMALL, [(asyncio.Event(), "")])
        bench.user(tokens(210))
        await bench.step()
        await asyncio.sleep(0)
        await bench.memory.close()
        assert isinstance(bench.log[-1], BufferingFailed)
        assert bench.failures == []

    run(check())
