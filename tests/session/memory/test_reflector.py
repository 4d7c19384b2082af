"""Notes that have grown too long: reflections beforehand and at once, generations, and what fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.events import (
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    Error,
    Event,
    MemoryActivated,
    MemoryStatus,
    ObservationEnd,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
)
from harness.session.memory import MemoryFailure
from memory_bench import MINUTE_MS, Bench, reflected, run, texts

LINE = "* 🔴 (15:00) note " + "x" * 23  # ten tokens


def _notes(lines: int) -> ObservationEnd:
    """An observation of ten tokens a line, at the beginning of a log."""
    return ObservationEnd(
        cycle_id="before",
        observations="\n".join([LINE] * lines),
        observation_tokens=lines * 10,
        observed_to_seq=0,
        seq=0,
        timestamp_ms=1,
    )


def _bench(lines: int, *answers: Any, buffering: bool = True, **reflection: Any) -> Bench:
    config: dict[str, Any] = {"reflection": {"observationTokens": 1_000, **reflection}}
    if not buffering:
        config["observation"] = {"bufferTokens": False}
    bench = Bench(config, reflector=answers, log=[_notes(lines)])
    bench.next_seq = 5
    bench.user("hello")
    return bench


def _buffering(bench: Bench, kind: type[Any]) -> list[Any]:
    return [event for event in bench.of(kind) if event.operation_type == "reflection"]


def test_below_half_of_the_threshold_nothing_is_reflected_on() -> None:
    bench = _bench(49, reflected("less"))
    run(bench.settled())
    assert bench.reflector.asked == []


def test_from_half_of_the_threshold_on_the_oldest_lines_are_reflected_on_beforehand() -> None:
    async def check() -> None:
        bench = _bench(80, reflected("the older half"))
        await bench.settled()
        (start,), (end,) = _buffering(bench, BufferingStart), _buffering(bench, BufferingEnd)
        assert 480 < start.tokens_to_buffer <= 500
        assert 45 <= end.reflected_lines <= 50
        assert end.buffered_tokens < 0.75 * end.tokens_buffered
        assert bench.known.generation == 0
        assert bench.of(MemoryActivated) == []
        await bench.settled()  # there is one already
        assert len(bench.reflector.asked) == 1
        status = bench.of(MemoryStatus)[-1].windows["buffered"]["reflection"]
        assert status["status"] == "complete"
        assert status["inputObservationTokens"] == end.tokens_buffered

    run(check())


def test_at_the_threshold_it_becomes_a_new_generation_with_the_untouched_rest() -> None:
    async def check() -> None:
        bench = _bench(80, reflected("the older half"))
        await bench.settled()
        (end,) = _buffering(bench, BufferingEnd)
        more = ObservationEnd(
            cycle_id="more", observations="* newest", observation_tokens=1_000, observed_to_seq=1
        )
        bench.memory.state.put(more)
        turns = await bench.settled()
        (activated,) = bench.of(MemoryActivated)
        assert (activated.operation_type, activated.triggered_by, activated.generation_count) == (
            "reflection",
            "threshold",
            1,
        )
        known = bench.known
        assert (known.generation, known.reflection) == (1, None)
        assert known.observations.startswith("* the older half\n\n* 🔴")
        assert known.observations.count(LINE) == 80 - end.reflected_lines
        assert known.observations.endswith("* newest")
        assert known.observation_tokens == activated.observation_tokens
        assert [past["generation"] for past in known.past] == [0]
        assert "the older half" in texts(turns)
        assert bench.of(MemoryStatus)[-1].record_id == "thread:thread:1"

    run(check())


def test_between_threshold_and_block_a_reflection_is_begun_and_nothing_waits() -> None:
    async def check() -> None:
        bench = _bench(110, (asyncio.Event(), ""))
        await bench.step()
        assert len(_buffering(bench, BufferingStart)) == 1
        assert bench.of(ReflectionStart) == []
        await bench.memory.close()

    run(check())


def test_above_the_block_the_run_waits() -> None:
    async def check() -> None:
        bench = _bench(120, reflected("all of it"))
        await bench.settled()
        (start,), (end,) = bench.of(ReflectionStart), bench.of(ReflectionEnd)
        assert start.tokens_to_reflect == 1_200
        assert end.generation_count == bench.known.generation == 1
        assert bench.known.observations == "* all of it"
        assert bench.known.observation_tokens == end.compressed_tokens
        assert bench.reflector.asked[0].temperature == 0.0

    run(check())


def test_without_buffering_the_run_waits_from_the_threshold_on() -> None:
    bench = _bench(100, reflected("all of it"), buffering=False)
    run(bench.settled())
    assert len(bench.of(ReflectionEnd)) == 1


def test_what_is_not_short_enough_is_tried_again_harder_under_a_new_id() -> None:
    async def check() -> None:
        long = reflected(*["x" * 2_000] * 3)
        bench = _bench(120, long, long, reflected("short"))
        await bench.settled()
        starts, failures, (end,) = (
            bench.of(ReflectionStart),
            bench.of(ReflectionFailed),
            bench.of(ReflectionEnd),
        )
        assert [event.cycle_id for event in starts] == ["cycle-1", "cycle-2", "cycle-3"]
        assert [(event.cycle_id, event.will_retry) for event in failures] == [
            ("cycle-1", True),
            ("cycle-2", True),
        ]
        assert end.cycle_id == "cycle-3"
        said = [ask.turns[-1].text for ask in bench.reflector.asked]
        assert "eight tenths" in said[0]
        assert "six tenths" in said[1]
        assert "less than half" in said[2]

    run(check())


def test_the_shortest_of_four_tries_is_taken_if_it_is_shorter_than_before() -> None:
    async def check() -> None:
        long = [
            reflected("".join(map(str, range(3_000)))[: 4 * size]) for size in (1_190, 1_100, 1_150, 1_180)
        ]
        bench = _bench(120, *long, buffering=False)
        await bench.settled()
        assert len(bench.reflector.asked) == 4
        (end,) = bench.of(ReflectionEnd)
        assert 1_100 <= end.compressed_tokens < 1_110
        await bench.settled(1)
        await bench.settled(0)  # it would come to nothing again
        assert len(bench.reflector.asked) == 4

    run(check())


def test_a_reflection_that_gets_nowhere_ends_the_run() -> None:
    async def check() -> None:
        bench = _bench(120, *["", "again and again " * 500, "", reflected("x" * 8_000)])
        with pytest.raises(MemoryFailure, match=r"^Observational memory reflection run failed: "):
            await bench.step()
        assert isinstance(bench.log[-1], ReflectionFailed)
        assert not bench.log[-1].will_retry
        assert bench.known.generation == 0
        assert not bench.memory.record().is_reflecting

    run(check())


def test_a_reflection_in_the_background_that_fails_is_reported() -> None:
    async def check() -> None:
        bench = _bench(80, Error(message="wrong key", code="http_401"))
        await bench.settled()
        assert isinstance(bench.log[-1], BufferingFailed)
        assert [str(one) for one in bench.failures] == [
            "Observational memory reflection buffering failed: wrong key"
        ]

    run(check())


def test_a_reflection_that_was_overtaken_counts_no_more() -> None:
    async def check() -> None:
        gate = asyncio.Event()
        bench = _bench(80, (gate, reflected("too late")))
        await bench.step()
        bench.memory.state.put(ReflectionEnd(cycle_id="other", observations="* other", compressed_tokens=2))
        gate.set()
        await bench.memory.settle()
        assert bench.known.reflection is None
        assert bench.known.observations == "* other"
        assert bench.failures == []

    run(check())


@pytest.mark.parametrize(("lines", "is_activated"), [(95, True), (55, False)])
def test_a_pause_activates_a_reflection_only_where_it_is_wanted_and_worth_it(
    lines: int, is_activated: bool
) -> None:
    async def check(wanted: bool) -> Bench:
        how = {"activateAfterIdle": "5m"} if wanted else {}
        bench = _bench(lines, reflected("older"), **how)
        bench.assistant("hello")
        await bench.settled()
        bench.now_ms += 5 * MINUTE_MS
        bench.user("again")
        await bench.settled()
        return bench

    assert run(check(wanted=False)).of(MemoryActivated) == []
    activated: list[Event] = run(check(wanted=True)).of(MemoryActivated)
    assert [getattr(event, "triggered_by", "") for event in activated] == (["ttl"] if is_activated else [])


def test_chunks_that_wait_survive_a_reflection() -> None:
    async def check() -> None:
        bench = _bench(120, reflected("all of it"))
        chunk = BufferingEnd(cycle_id="chunk", observations="* waits", after_seq=0, observed_to_seq=3)
        bench.memory.state.put(chunk)
        await bench.settled()
        assert bench.known.generation == 1
        assert [one.id for one in bench.known.chunks] == ["chunk"]

    run(check())
