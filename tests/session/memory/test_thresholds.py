"""The arithmetic of a memory, on numbers that can be checked by hand."""

from __future__ import annotations

import pytest

from harness.session.memory import thresholds
from harness.session.memory.thresholds import ThresholdRange

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@pytest.mark.parametrize(
    ("observations", "threshold"), [(0, 70_000), (10_000, 60_000), (40_000, 30_000), (90_000, 30_000)]
)
def test_a_range_gives_messages_what_observations_leave(observations: int, threshold: int) -> None:
    given = ThresholdRange(min=30_000, max=70_000)
    assert thresholds.message_threshold(given, observations) == threshold


def test_a_plain_threshold_does_not_move() -> None:
    assert thresholds.message_threshold(30_000, 10_000) == 30_000


@pytest.mark.parametrize(
    ("given", "threshold", "interval"),
    [
        (0.2, 30_000, 6_000),
        (0.25, 20_000, 5_000),
        (5_000, 30_000, 5_000),
        (0.1, ThresholdRange(min=1, max=700), 70),
    ],
)
def test_an_interval_below_one_is_a_share(
    given: float, threshold: thresholds.Threshold, interval: int
) -> None:
    assert thresholds.buffer_interval(given, threshold) == interval


@pytest.mark.parametrize(
    ("given", "limit"), [(1.5, 30_000), (1, 20_000), (99, 1_980_000), (100, 100), (25_000, 25_000)]
)
def test_blocking_begins_at_a_multiple_or_at_an_amount(given: float, limit: int) -> None:
    assert thresholds.block_after(given, 20_000) == limit


@pytest.mark.parametrize(("activation", "floor"), [(0.7, 9_000), (1.0, 0), (5_000, 5_000), (1_000, 1_000)])
def test_the_floor_is_what_an_activation_leaves(activation: float, floor: float) -> None:
    assert thresholds.retention_floor(activation, 30_000) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("pending", "boundary", "unbuffered", "is_due"),
    [
        (5_999, 0, 5_999, False),
        (6_000, 0, 6_000, True),
        (7_000, 6_500, 500, False),
        (12_000, 6_500, 5_500, True),
        (12_000, 6_500, 2_999, False),  # an interval was crossed, but hardly anything is new
        (23_400, 20_900, 2_500, True),  # near the threshold the interval is half as long
        (23_399, 20_900, 2_499, False),
        (30_000, 21_100, 9_000, False),  # from the threshold on nothing is buffered any more
    ],
)
def test_buffering_is_due_at_each_interval(
    pending: int, boundary: int, unbuffered: int, is_due: bool
) -> None:
    assert thresholds.is_buffering_due(pending, boundary, 6_000, 30_000, unbuffered) is is_due


@pytest.mark.parametrize(
    ("chunks", "pending", "count"),
    [
        ([], 30_000, 0),
        ([6_000] * 5, 30_000, 4),  # 24 000 leave exactly the floor of 6 000
        (
            [10_000, 10_000, 10_000],
            31_000,
            3,
        ),  # over by 5 000, which is within 95 % of the floor, and 1 000 are left
        ([10_000, 10_000, 10_500], 31_000, 2),  # over would leave 500
        ([10_000, 20_000], 31_000, 2),
        ([29_900], 30_000, 1),  # nothing fits, but one is better than none
        ([2_000], 30_000, 1),
    ],
)
def test_activation_takes_chunks_until_about_the_floor_is_left(
    chunks: list[int], pending: int, count: int
) -> None:
    assert thresholds.chunks_to_activate(chunks, pending, 30_000, 0.8) == count


def test_more_than_95_percent_of_the_floor_is_taken_only_when_it_is_pressing() -> None:
    chunks = [30_000, 38_700]  # both leave 1 300 of a floor of 30 000
    assert thresholds.chunks_to_activate(chunks, 70_000, 60_000, 30_000, block=72_000) == 1
    assert thresholds.chunks_to_activate(chunks, 70_000, 60_000, 30_000, block=70_000) == 2


@pytest.mark.parametrize(
    ("model", "retention", "idle_ms"),
    [
        ("anthropic/claude-sonnet", "", 5 * MINUTE_MS),
        ("openrouter/openai/gpt-6", "", 5 * MINUTE_MS),
        ("xai/grok", "", 5 * MINUTE_MS),
        ("whoever/model", "", 5 * MINUTE_MS),
        ("", "", 5 * MINUTE_MS),
        ("deepseek/chat", "", HOUR_MS),
        ("google/gemini-2.5-flash", "", 24 * HOUR_MS),
        ("groq/llama", "", 2 * HOUR_MS),
        ("openai/gpt-4o", "", 5 * MINUTE_MS),
        ("openai/gpt-5", "", 5 * MINUTE_MS),
        ("openai/gpt-5-mini", "", 5 * MINUTE_MS),
        ("openai/gpt-5.4-codex", "", 5 * MINUTE_MS),
        ("openai/gpt-5.5", "", HOUR_MS),
        ("openai/o3", "", HOUR_MS),
        ("openai/gpt-4o", "24h", HOUR_MS),
        ("openai/o3", "in_memory", 5 * MINUTE_MS),
    ],
)
def test_each_provider_keeps_its_cache_as_long_as_it_says(model: str, retention: str, idle_ms: int) -> None:
    assert thresholds.automatic_idle_ms(model, retention) == idle_ms


def test_reflections_beforehand_take_half_and_must_become_three_quarters_of_it() -> None:
    assert thresholds.reflection_slice(0.5, 40_000) == 20_000
    assert thresholds.slice_target(20_000) == 15_000


@pytest.mark.parametrize(
    ("reflection", "tail", "is_worthwhile"),
    [(8_000, 8_000, True), (8_000, 7_999, False), (7_000, 7_999, False), (7_000, 8_000, True)],
)
def test_an_early_reflection_must_not_take_too_much(reflection: int, tail: int, is_worthwhile: bool) -> None:
    assert thresholds.is_early_reflection_worthwhile(reflection, tail, 40_000, 0.5) is is_worthwhile


def test_compression_rises_from_level_to_level() -> None:
    assert list(thresholds.compression_levels("anthropic/claude")) == [1, 2, 3, 4]
    assert list(thresholds.compression_levels("google/gemini-2.5-flash")) == [2, 3, 4]
