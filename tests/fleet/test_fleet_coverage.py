"""Simulated fleets: how often an interval covers the truth, and how often a winner is found where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations
from math import exp
from statistics import fmean
from typing import TypeAlias

import pytest

from harness.fleet.statistics import LEVEL, corrected, rate_difference, rate_interval

_FLEETS = 1500
_TASKS_OF_TRUTH = 20_000
Chances: TypeAlias = tuple[float, float]
Population: TypeAlias = Callable[[random.Random], Chances]
"""The chances of A and B to solve a task that is drawn."""


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
