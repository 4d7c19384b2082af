"""What makes a memory act besides its size: pauses, other models, idle time, settings; and the titles it finds."""

from __future__ import annotations

import pytest

from harness.events import BufferingEnd, MemoryActivated, MemoryStatus, ThreadRenamed
from memory_bench import MINUTE_MS, NO_BUFFER, SMALL, Bench, buffered, noted, run, tokens


@pytest.mark.parametrize(
    ("idle", "quiet_ms", "is_activated"),
    [
        ("5m", 5 * MINUTE_MS, True),
        ("5m", 5 * MINUTE_MS - 1, False),
        (False, 999 * MINUTE_MS, False),
        ("auto", 5 * MINUTE_MS, True),
    ],
)
def test_a_pause_activates_before_the_threshold(idle: object, quiet_ms: int, is_activated: bool) -> None:
    async def check() -> None:
        bench = await buffered({**SMALL, "activateAfterIdle": idle})
        last_ms = bench.now_ms
        bench.now_ms += quiet_ms
        bench.user(tokens(10))
        await bench.settled()
        activated = bench.of(MemoryActivated)
        assert bool(activated) is is_activated
        if is_activated:
            assert activated[0].triggered_by == "ttl"
            assert activated[0].last_activity_at == last_ms
            assert (activated[0].ttl_expired_ms, activated[0].activate_after_idle) == (
                quiet_ms,
                5 * MINUTE_MS,
            )

    run(check())


def test_a_pause_in_the_middle_of_a_run_activates_nothing() -> None:
    async def check() -> None:
        bench = await buffered({**SMALL, "activateAfterIdle": "5m"})
        bench.now_ms += 60 * MINUTE_MS
        await bench.settled(4)
        assert bench.of(MemoryActivated) == []

    run(check())


@pytest.mark.parametrize("is_wanted", [True, False])
def test_another_model_activates_where_that_is_wanted(is_wanted: bool) -> None:
    async def check() -> None:
        bench = await buffered({**SMALL, "activateOnProviderChange": is_wanted})
        bench.user(tokens(10))
        bench.model.name = "openai/gpt-5"
        await bench.settled()
        activated = bench.of(MemoryActivated)
        assert bool(activated) is is_wanted
        if is_wanted:
            assert activated[0].triggered_by == "provider_change"
            assert (activated[0].previous_model, activated[0].current_model) == (
                "anthropic/claude",
                "openai/gpt-5",
            )

    run(check())


def test_what_is_left_is_buffered_when_nothing_waits() -> None:
    async def check() -> None:
        bench = Bench({"observation": {"messageTokens": 1_000, "bufferOnIdle": True}}, [noted("idle")])
        bench.user(tokens(50))
        await bench.settled()
        bench.assistant(tokens(20))
        await bench.memory.after_turn(bench.entries)
        await bench.memory.settle()
        (end,) = bench.of(BufferingEnd)
        assert end.tokens_buffered == 70
        await bench.memory.after_turn(bench.entries)  # nothing new
        await bench.memory.settle()
        assert len(bench.observer.asked) == 1

    run(check())


def test_nothing_is_buffered_when_idle_unless_asked_for() -> None:
    async def check() -> None:
        bench = Bench(SMALL, [noted("idle")])
        bench.user(tokens(50))
        await bench.settled()
        await bench.memory.after_turn()
        await bench.memory.settle()
        assert bench.observer.asked == []

    run(check())


def test_a_title_is_given_as_soon_as_it_is_found() -> None:
    async def check() -> None:
        config = {"observation": {"messageTokens": 1_000, "threadTitle": True}}
        answers = [
            noted("one", title=" Login \n rewrite "),
            noted("two", title="Login rewrite"),
            noted("three", title="ab"),
        ]
        bench = Bench(config, answers)
        for _ in range(3):
            bench.user(tokens(220))
            await bench.settled()
        (renamed,) = bench.of(ThreadRenamed)
        assert (renamed.title, renamed.old_title, renamed.cycle_id) == ("Login rewrite", "", "cycle-1")
        assert "Login rewrite" in bench.observer.last_words
        bench.memory.feed(ThreadRenamed(title="By hand"))
        bench.observer.answers.append(noted("four", title="Found anew"))
        bench.user(tokens(220))
        await bench.settled()
        assert bench.of(ThreadRenamed)[-1].old_title == "By hand"

    run(check())


def test_a_shared_budget_lets_messages_grow() -> None:
    async def check() -> None:
        config = {
            "shareTokenBudget": True,
            "observation": {"messageTokens": 500, "bufferTokens": False},
            "reflection": {"observationTokens": 1_500},
        }
        bench = Bench(config, [noted("note")])
        bench.user(tokens(500))
        bench.calls(tokens(1_200))
        await bench.settled(1)
        assert bench.observer.asked == []
        bench.calls(tokens(400))
        await bench.settled(2)
        assert len(bench.observer.asked) == 1

    run(check())


def test_thresholds_can_be_changed_while_it_runs() -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [noted("note")])
        bench.user(tokens(300))
        bench.calls(tokens(300))
        await bench.settled(1)
        assert bench.observer.asked == []
        bench.memory.set_thresholds(observation=500, reflection=2_000)
        await bench.settled(2)
        assert len(bench.observer.asked) == 1
        assert bench.of(MemoryStatus)[-1].windows["active"]["observations"]["threshold"] == 2_000

    run(check())


def test_a_pause_is_marked_once_per_message() -> None:
    bench = Bench({"temporalMarkers": True})
    assert bench.memory.before_message(bench.entries, "m1") is None
    bench.assistant("hello")
    bench.now_ms += 125 * MINUTE_MS
    signal = bench.memory.before_message(bench.entries, "m2")
    assert signal is not None
    assert (signal.category, signal.tag_name) == ("reactive", "system-reminder")
    assert signal.contents == "2 hours 5 minutes later — 2025-12-04 17:05 UTC"
    assert signal.attributes == {
        "type": "temporal-gap",
        "gapText": "2 hours 5 minutes later",
        "gapMs": 125 * MINUTE_MS,
        "timestamp": "2025-12-04 17:05 UTC",
        "precedesMessageId": "m2",
    }
    bench.user(
        f'<system-reminder type="temporal-gap" precedesMessageId="m2">{signal.contents}</system-reminder>'
    )
    assert bench.memory.before_message(bench.entries, "m2") is None
    assert bench.memory.before_message(bench.entries, "m3") is not None  # the mark itself is no message
    bench.user("now")
    assert bench.memory.before_message(bench.entries, "m4") is None
    assert Bench().memory.before_message(bench.entries, "m3", bench.now_ms + 999 * MINUTE_MS) is None
