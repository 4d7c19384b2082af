"""How sure a result is: intervals over tasks, pass@k, pass^k, and the paired test. Pure; the same input, the same numbers.

Runs of one task are not independent of each other, so everything is computed from one value for each task. Two variants
are compared by a paired t test over tasks, and by nothing else: the direction is the sign of the mean difference, the
interval has all differences that the test does not reject, and a difference is clear when the interval excludes 0.
`tests/fleet/test_fleet_coverage.py` simulates how often these intervals cover the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import comb, isfinite, prod, sqrt
from statistics import fmean, variance
from typing import NamedTuple

from harness.fleet.student import quantile, two_sided

LEVEL = 0.05
"""How often a difference may be called clear where there is none, over all comparisons of a fleet together."""
_POWER_TAIL = 0.4
"""Both tails outside of a power of 80 %."""
_MOST_TASKS = 100_000
_HALF = 0.5
_DIGITS = 12
_ROUNDING = 1e-12
_LEAST_OF_PASSES = 0.5
_LEAST_OF_SCORES = 0.25
"""Of the variance between runs. Scores mostly vary less than passes, and a test of them that believes in as much finds
nothing; with so much the simulated intervals cover the truth.
"""


class Interval(NamedTuple):
    """95 %, unless another level was asked for."""

    low: float
    high: float


class Difference(NamedTuple):
    """Of paired values, one pair for each task."""

    mean: float
    deviation: float
    """The standard deviation between tasks."""
    tasks: int

    @property
    def p_value(self) -> float:
        """The chance of a mean at least as far from 0 if there were no difference; 1 where that cannot be known."""
        if self.tasks < 2 or not self.deviation:
            return 1.0
        return two_sided(self.mean / self._error, self.tasks - 1)

    def interval(self, level: float = LEVEL) -> Interval:
        """Excludes 0 exactly if the p value is below the level. Without bounds where there is one task."""
        if self.tasks < 2 or not self.deviation:
            return Interval(float("-inf"), float("inf"))
        half = quantile(level, self.tasks - 1) * self._error
        return Interval(self.mean - half, self.mean + half)

    def tasks_needed(self, test: Corrected | None = None) -> int | None:
        """With how many tasks a difference as large as this one would be found in 80 % of fleets; None where no number
        can be named: where this says nothing about a difference (p > 0.5), or hundreds of thousands would be needed.

        `test`: where this is one of several comparisons, which need more tasks to be as sure of all of them.
        """
        p_value, level = (self.p_value, LEVEL) if test is None else test
        if p_value > _HALF or not self.mean:
            return None
        low = high = self.tasks
        while not self._is_enough(high, level):
            low, high = high + 1, high * 2
            if high > _MOST_TASKS:
                return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_enough(middle, level) else (middle + 1, high)
        return high

    def _is_enough(self, tasks: int, level: float) -> bool:
        distance = quantile(level, tasks - 1) + quantile(_POWER_TAIL, tasks - 1)
        return distance * self.deviation / sqrt(tasks) <= abs(self.mean)

    @property
    def _error(self) -> float:
        return self.deviation / sqrt(self.tasks)


def rate_difference(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Difference:
    """B's pass rates less A's, one group of runs for each task on both sides."""
    return _difference(a, b, _LEAST_OF_PASSES)


def value_difference(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]]) -> Difference:
    """B's scores less A's, one group of runs for each task on both sides."""
    return _difference(a, b, _LEAST_OF_SCORES if _are_shares(*a, *b) else 0.0)


def _difference(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], least: float) -> Difference:
    """With few tasks the deviation between them can be far too small by chance, or 0, and would claim a certainty that
    is not there. The runs of a task vary too, whatever the tasks do: this part of that variance is the least that is
    believed. How much scores without bounds vary cannot be known from few runs: nothing is added to theirs.
    """
    values = [fmean(after) - fmean(before) for before, after in zip(a, b, strict=True)]
    if len(values) < 2:
        return Difference(_mean(values), 0.0, len(values))
    of_runs = fmean(_run_variance(before) + _run_variance(after) for before, after in zip(a, b, strict=True))
    deviation = sqrt(max(variance(values), least * of_runs)) if least else sqrt(variance(values))
    is_rounding = deviation <= _ROUNDING * max(map(abs, chain(*a, *b)))
    return Difference(_mean(values), 0.0 if is_rounding else deviation, len(values))


def _are_shares(*groups: Sequence[float]) -> bool:
    return all(0 <= value <= 1 for group in groups for value in group)


def _mean(values: Sequence[float]) -> float:
    """Without the last digits: shares of runs are no binary fractions, and a mean of 0 must be 0."""
    return round(fmean(values), _DIGITS) + 0.0


def _run_variance(runs: Sequence[float]) -> float:
    """Of the pass rate of one task; not 0 where all of its runs ended the same (Jeffreys' estimate of the rate).
    Scores between 0 and 1 vary at most as much.
    """
    rate = (sum(runs) + 0.5) / (len(runs) + 1)
    return rate * (1 - rate) / len(runs)


def mean_interval(groups: Sequence[Sequence[float]]) -> Interval | None:
    """Of the mean of scores, one group of runs for each task; None where they say nothing about how far it may be off.

    A score between 0 and 1 varies at most as much as passes with its mean do: it has their interval, which also covers
    the truth where nearly all is solved, and few tasks are much harder. Others have a t interval over tasks.
    """
    if len(groups) < 2:
        return None
    if _are_shares(*groups):
        return rate_interval(groups)
    interval = value_difference([[0.0]] * len(groups), groups).interval()
    return interval if isfinite(interval.low) else None


def wilson(share: float, count: float, distance: float = 1.959964) -> Interval:
    """Of a share of `count` independent trials; not empty at 0 and 1."""
    if not count:
        return Interval(0.0, 1.0)
    scale = 1 + distance * distance / count
    middle = (share + distance * distance / (2 * count)) / scale
    half = distance * sqrt(share * (1 - share) / count + distance * distance / (4 * count * count)) / scale
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def rate_interval(groups: Sequence[Sequence[float]]) -> Interval:
    """Of the pass rate; one group of runs for each task.

    Wilson's interval for as many independent trials as the runs are worth: fewer than there are, because those of one
    task resemble each other (Korn and Graubard 1998), and with the t distribution, because there may be few tasks.
    For one task it is that of its runs: it says nothing about other tasks.
    """
    rates = [fmean(group) for group in groups if group]
    runs = sum(map(len, groups))
    if len(rates) < 2:
        return wilson(rates[0] if rates else 0.0, runs)
    middle, spread = fmean(rates), variance(rates) / len(rates)
    spread = 0.0 if sqrt(spread) <= _ROUNDING else spread
    trials = min(middle * (1 - middle) / spread, runs) if spread else len(rates)
    return wilson(middle, trials, quantile(LEVEL, len(rates) - 1))


def pass_at(runs: int, passed: int, k: int) -> float:
    """The chance that at least one of k runs passes, unbiased (Chen et al. 2021)."""
    if runs - passed < k:
        return 1.0
    return 1 - prod((runs - passed - j) / (runs - j) for j in range(k))


def pass_all(runs: int, passed: int, k: int) -> float:
    """The chance that all of k runs pass (pass^k), unbiased."""
    return comb(passed, k) / comb(runs, k)


class Corrected(NamedTuple):
    """A p value among several, after Holm (1979): below `LEVEL` it is clear."""

    p_value: float
    level: float
    """That of the interval which excludes 0 exactly if the corrected p value is below `LEVEL`."""


def corrected(p_values: Sequence[float]) -> list[Corrected]:
    """For comparisons that are looked at together: one false winner among all of them in at most 5 % of fleets."""
    corrections: dict[int, Corrected] = {}
    count, highest, level, is_stopped = len(p_values), 0.0, LEVEL, False
    for rank, number in enumerate(sorted(range(count), key=lambda number: p_values[number])):
        highest = max(highest, min(1.0, (count - rank) * p_values[number]))
        if not is_stopped:  # the first that is not clear is the last that is tested
            level, is_stopped = LEVEL / (count - rank), highest >= LEVEL
        corrections[number] = Corrected(highest, level)
    return [corrections[number] for number in range(count)]
