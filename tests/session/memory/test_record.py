"""The record of a memory is a fold of the log, and nothing else."""

from __future__ import annotations

from harness.events import (
    BufferingEnd,
    BufferingStart,
    MemoryActivated,
    ObservationEnd,
    ObservationStart,
    TextDelta,
    ThreadCreated,
    ThreadRenamed,
)
from harness.log.codec import decode, encode
from harness.session.memory import RecordFold
from memory_bench import Bench, noted, reflected, run, tokens


def _chunk(cycle: str, after: int, to: int) -> BufferingEnd:
    return BufferingEnd(
        cycle_id=cycle,
        observations=f"* {cycle}",
        tokens_buffered=100,
        buffered_tokens=10,
        after_seq=after,
        observed_to_seq=to,
        last_observed_ms=to,
        message_ids=[cycle],
    )


async def _lively() -> Bench:
    """A memory that has done a bit of everything."""
    config = {
        "observation": {"messageTokens": 1_000, "threadTitle": True},
        "reflection": {"observationTokens": 60},
    }
    answers = [
        noted("one", title="A title"),
        *(noted(f"thing {number}", task="go on") for number in range(30)),
    ]
    bench = Bench(config, answers, [reflected("less")] * 30)
    for number in range(8):
        bench.user(tokens(160))
        await bench.settled(number)
    for number in range(8, 14):
        bench.calls(tokens(200))
        await bench.settled(number)
    return bench


def test_reading_the_log_again_gives_what_was_known_live() -> None:
    bench = run(_lively())
    fold = RecordFold()
    for event in bench.log:
        fold.feed(decode(encode(event)))
    assert fold.known == bench.known
    assert fold.known.generation > 0
    assert fold.known.observations


def test_a_snapshot_and_the_rest_of_the_log_give_the_same() -> None:
    bench = run(_lively())
    for cut in range(len(bench.log)):
        first, second = RecordFold(), RecordFold()
        for event in bench.log[:cut]:
            first.feed(event)
        second.restore(first.snapshot())
        for event in bench.log[cut:]:
            second.feed(event)
        assert second.known == bench.known


def test_chunks_continue_one_another_or_are_left_out() -> None:
    fold = RecordFold()
    fold.feed(_chunk("a", -1, 5))
    fold.feed(_chunk("b", 5, 9))
    fold.feed(_chunk("torn", 7, 12))
    fold.feed(_chunk("double", 5, 9))
    assert [chunk.id for chunk in fold.known.chunks] == ["a", "b"]
    fold.feed(MemoryActivated(cycle_id="b"))  # only the oldest can be
    fold.feed(MemoryActivated(cycle_id="a"))
    assert fold.known.observations == "* a"
    assert (fold.progress().observed_seq, fold.covered_seq()) == (5, 9)


def test_what_was_observed_at_once_overtakes_what_is_buffered() -> None:
    fold = RecordFold()
    fold.feed(BufferingStart(cycle_id="slow", boundary_tokens=50))
    fold.feed(ObservationEnd(cycle_id="fast", observations="* fast", observed_to_seq=9, message_ids=["m"]))
    fold.feed(_chunk("slow", -1, 7))
    assert fold.known.chunks == []
    assert fold.known.observed_message_ids == ["m"]
    fold.feed(ObservationEnd(cycle_id="late", observations="* late", observed_to_seq=9))
    assert fold.known.observations == "* fast"


def test_what_a_dead_process_began_is_not_active() -> None:
    fold = RecordFold()
    fold.feed(ObservationStart(cycle_id="dead"))
    fold.feed(BufferingStart(cycle_id="dead too"))
    assert not fold.is_active("observing", ())
    assert fold.is_active("observing", {"dead"})
    bench = Bench(log=[ObservationStart(cycle_id="dead", seq=0), BufferingStart(cycle_id="dead too", seq=1)])
    record = bench.memory.record()
    assert not any((record.is_observing, record.is_buffering_observation))
    assert bench.memory.load_progress().windows["buffered"]["observations"]["status"] == "idle"


def test_activated_messages_are_not_among_the_observed_ids() -> None:
    fold = RecordFold()
    fold.feed(_chunk("a", -1, 5))
    fold.feed(MemoryActivated(cycle_id="a"))
    assert fold.known.observed_message_ids == []


def test_titles_and_other_events_are_taken_as_they_come() -> None:
    fold = RecordFold()
    fold.feed(ThreadCreated(id="t", title="First"))
    fold.feed(TextDelta(text="hello"))
    assert fold.progress().title == "First"
    fold.feed(ThreadRenamed(title="Second"))
    assert fold.progress().title == "Second"


def test_the_record_is_reported_whole() -> None:
    bench = run(_lively())
    record = bench.memory.record()
    assert record.thread_id == "thread"
    assert record.id == f"thread:thread:{record.generation_count}"
    assert record.origin_type == "reflection"
    assert record.active_observations == bench.known.observations
    assert record.observation_token_count == bench.known.observation_tokens
    assert record.metadata["threadTitle"] == "A title"
    assert record.config["observation"]["messageTokens"] == 1_000
    assert record.last_observed_at is not None
