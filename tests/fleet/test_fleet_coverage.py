"""Simulated fleets: how often an interval covers the truth, and how often a winner is found where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from math import exp
from statistics import fmean
from typing import TypeAlias

import pytest

from harness.fleet.compare import Comparison, Side, compare
from harness.fleet.overview import CaseOverview
from harness.fleet.plans.plan import FleetCase, FleetTask, Variant
from harness.fleet.records.attempt import Attempt
from harness.fleet.statistics import (
    LEVEL,
    corrected,
    mean_interval,
    rate_difference,
    rate_interval,
    value_difference,
)

_FLEETS = 1500
_FLEETS_OF_SCORES = 600
_TASKS_OF_TRUTH = 20_000
Chances: TypeAlias = tuple[float, float]
Population: TypeAlias = Callable[[random.Random], Chances]
"""The chances of A and B to solve a task that is drawn."""
Score: TypeAlias = Callable[[random.Random, float], float]
"""That of one run, whose mean is this chance."""


def _logistic(ease: float, spread: float, effect: float = 0.0, interaction: float = 0.0) -> Population:
    def draw(source: random.Random) -> Chances:
        difficulty = source.gauss(ease, spread)
        other = difficulty + effect + source.gauss(0.0, interaction)
        return 1 / (1 + exp(-difficulty)), 1 / (1 + exp(-other))

    return draw


def _all_or_nothing(a: float, b: float) -> Population:
    return lambda source: (float(source.random() < a), float(source.random() < b))


POPULATIONS: dict[str, Population] = {
    "equal": _logistic(0.0, 1.5),
    "better": _logistic(0.0, 1.5, 0.8, 0.5),
    "easy": _logistic(1.5, 1.5, 0.8, 0.5),
    "almost all solved": _logistic(3.0, 1.5, -1.0, 0.5),
    "very different tasks": _logistic(0.0, 3.0, 1.0, 1.0),
    "hard": _logistic(-2.0, 1.0, 1.0),
    "each task always or never": _all_or_nothing(0.7, 0.7),
}


def _groups(source: random.Random, population: Population, tasks: int, runs: int) -> list[list[list[bool]]]:
    chances = [population(source) for _ in range(tasks)]
    return [[[source.random() < pair[side] for _ in range(runs)] for pair in chances] for side in (0, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize(("tasks", "runs"), [(5, 5), (5, 1), (10, 5), (20, 5)])
def test_intervals_cover_the_truth(name: str, tasks: int, runs: int) -> None:
    population = POPULATIONS[name]
    source = random.Random(f"{name} {tasks} {runs}")
    drawn = [population(source) for _ in range(_TASKS_OF_TRUTH)]
    rate, difference = fmean(a for a, _b in drawn), fmean(b - a for a, b in drawn)
    rates = differences = 0
    for _ in range(_FLEETS):
        a, b = _groups(source, population, tasks, runs)
        low, high = rate_interval(a)
        rates += low - 0.002 <= rate <= high + 0.002  # the truth itself is known to so much
        found = rate_difference(a, b)
        low, high = found.interval()
        differences += low - 0.002 <= difference <= high + 0.002
        if found.p_value < LEVEL:
            assert (found.mean > 0) == (low > 0)
    assert rates / _FLEETS >= 0.93
    assert differences / _FLEETS >= 0.93


def _share_of(parts: int) -> Score:
    return lambda source, chance: sum(source.random() < chance for _ in range(parts)) / parts


def _beta(source: random.Random, chance: float) -> float:
    return source.betavariate(max(4 * chance, 1e-6), max(4 * (1 - chance), 1e-6))


SCORES: dict[str, Score] = {"a share of 4": _share_of(4), "a share of 20": _share_of(20), "any number": _beta}


@pytest.mark.slow
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("kind", SCORES)
def test_intervals_of_scores_cover_the_truth_at_five_tasks(name: str, kind: str) -> None:
    population, score = POPULATIONS[name], SCORES[kind]
    source = random.Random(f"{name} {kind}")
    drawn = [population(source) for _ in range(_TASKS_OF_TRUTH)]
    mean, difference = fmean(a for a, _b in drawn), fmean(b - a for a, b in drawn)
    means = differences = 0
    for _ in range(_FLEETS_OF_SCORES):
        chances = [population(source) for _ in range(5)]
        a, b = ([[score(source, pair[side]) for _ in range(5)] for pair in chances] for side in (0, 1))
        interval = mean_interval(a)
        assert interval is not None
        means += interval.low - 0.002 <= mean <= interval.high + 0.002
        low, high = value_difference(a, b).interval()
        differences += low - 0.002 <= difference <= high + 0.002
    assert means / _FLEETS_OF_SCORES >= 0.93
    assert differences / _FLEETS_OF_SCORES >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [5, 20])
def test_one_false_winner_among_five_equal_variants_is_rare(tasks: int) -> None:
    source, false_winners = random.Random(tasks), 0
    for _ in range(_FLEETS):
        eases = [1 / (1 + exp(-source.gauss(0.0, 1.5))) for _ in range(tasks)]
        variants = [[[source.random() < ease for _ in range(5)] for ease in eases] for _ in range(5)]
        tests = corrected([rate_difference(a, b).p_value for a, b in combinations(variants, 2)])
        false_winners += any(one.p_value < LEVEL for one in tests)
    assert false_winners / _FLEETS <= LEVEL


@pytest.mark.slow
def test_the_stated_number_of_tasks_finds_the_difference_in_four_of_five_fleets() -> None:
    population, source = POPULATIONS["better"], random.Random(80)
    large = rate_difference(*_groups(source, population, 4000, 5))
    needed = next(
        tasks
        for tasks in range(5, 400)
        if (large._replace(tasks=tasks).tasks_needed() or 1000)
        <= tasks  # with the true difference and deviation
    )
    hits = sum(
        rate_difference(*_groups(source, population, needed, 5)).p_value < LEVEL for _ in range(_FLEETS)
    )
    assert 0.77 <= hits / _FLEETS <= 0.86


def _side(name: str, groups: list[list[bool]]) -> Side:
    variant = Variant(name=name, agent="native", model="scripted/demo")
    cases = []
    for number, group in enumerate(groups):
        task = FleetTask(id=f"t{number}", prompt="x")
        for repeat, passed in enumerate(group):
            case = FleetCase(f"{name}-{number}-{repeat}", task, variant, repeat)
            result = Attempt(case=case.id, number=1, passed=passed)
            cases.append(CaseOverview(case, "passed" if passed else "failed", result, (), ""))
    return Side(name, cases)


def _compared(a: list[list[bool]], b: list[list[bool]]) -> Comparison:
    return compare(_side("a", a), _side("b", b))


def _agrees(found: Comparison) -> None:
    """Rates, direction, interval, p value and verdict say the same."""
    assert found.difference == pytest.approx(found.rate_b - found.rate_a, abs=1e-9)
    assert -1 <= found.low <= found.difference <= found.high <= 1
    excludes_none = found.low > 0 or found.high < 0
    assert excludes_none == found.is_clear == (found.p_value < LEVEL)
    winner = {True: "b is better", False: "a is better"}[found.difference > 0]
    assert found.verdict == (winner if found.is_clear else "no clear winner")
    assert found.low > 0 if found.is_clear and found.difference > 0 else True
    if found.difference == 0:
        assert not found.is_clear
        assert found.low == -found.high


KINDS: dict[str, Callable[[random.Random, int], list[list[bool]]]] = {
    "any": lambda source, runs: [[source.random() < 0.5 for _ in range(runs)] for _ in range(5)],
    "solved or not": lambda source, runs: [[source.random() < 0.6] * runs for _ in range(5)],
    "almost all solved": lambda source, runs: [
        [source.random() < 0.95 for _ in range(runs)] for _ in range(5)
    ],
    "none solved": lambda _source, runs: [[False] * runs] * 5,
    "all solved": lambda _source, runs: [[True] * runs] * 5,
}


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize(("a", "b"), [*combinations(KINDS, 2), *((kind, kind) for kind in KINDS)])
def test_direction_interval_and_verdict_agree_at_five_tasks(a: str, b: str, runs: int) -> None:
    source = random.Random(f"{a} {b} {runs}")
    for _ in range(25):
        one, other = KINDS[a](source, runs), KINDS[b](source, runs)
        found, turned = _compared(one, other), _compared(other, one)
        _agrees(found)
        _agrees(turned)
        assert (turned.difference, turned.p_value) == (-found.difference, found.p_value)
        assert (turned.low, turned.high) == (-found.high, -found.low)
        assert (turned.better, turned.worse) == (found.worse, found.better)


def test_five_tasks_that_end_alike_or_cancel_out_make_no_winner() -> None:
    same = [[True, False]] * 5
    cancelling = [[True, True], [False, False], *same[2:]]  # one better, one worse: the mean is 0
    for found in (_compared(same, same), _compared(same, cancelling), _compared([[True]] * 5, [[True]] * 5)):
        _agrees(found)
        assert (found.difference, found.p_value, found.tasks_needed) == (0.0, 1.0, None)
    clear = _compared([[False] * 5] * 5, [[True] * 5] * 5)
    _agrees(clear)
    assert (clear.verdict, clear.better, clear.tasks_needed) == ("b is better", 5, None)
