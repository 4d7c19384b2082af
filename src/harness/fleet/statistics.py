"""How sure a result is: intervals over tasks, pass@k, pass^k, and the sign test. Pure; the same input, the same numbers.

Runs of one task are not independent of each other, so everything is computed from one value for each task.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import comb, prod, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

_Z = 1.959964
_ROUNDS = 2000
_MANY = 300
"""From so many tasks on, the mean is normal enough, and a bootstrap would only take time."""
_CLEAR = 0.05
_MOST_TASKS = 100_000


class Interval(NamedTuple):
    """95 %."""

    low: float
    high: float


def wilson(share: float, count: int) -> Interval:
    """Of a share of `count` independent trials; not empty at 0 and 1."""
    if not count:
        return Interval(0.0, 1.0)
    scale = 1 + _Z * _Z / count
    middle = (share + _Z * _Z / (2 * count)) / scale
    half = _Z * sqrt(share * (1 - share) / count + _Z * _Z / (4 * count * count)) / scale
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def mean_interval(values: Sequence[float]) -> Interval:
    """Of the mean, from resampled tasks with a fixed seed."""
    if len(values) < 2:
        return Interval(float("-inf"), float("inf"))
    if len(values) > _MANY:
        middle, half = fmean(values), _Z * stdev(values) / sqrt(len(values))
        return Interval(middle - half, middle + half)
    source, count = random.Random(0), len(values)
    means = sorted(sum(source.choices(values, k=count)) / count for _ in range(_ROUNDS))
    return Interval(means[int(0.025 * _ROUNDS)], means[int(0.975 * _ROUNDS)])


def rate_interval(groups: Sequence[Sequence[bool]]) -> Interval:
    """Of the pass rate; one group for each task.

    Resampling tasks that all have the same rate gives an interval without width, which would claim a certainty that
    is not there: then, and for one task, Wilson's interval.
    """
    rates = [fmean(group) for group in groups if group]
    if len(rates) == 1:
        return wilson(rates[0], len(next(group for group in groups if group)))
    if not rates or min(rates) == max(rates):
        return wilson(rates[0] if rates else 0.0, len(rates))
    return mean_interval(rates)


def pass_at(runs: int, passed: int, k: int) -> float:
    """The chance that at least one of k runs passes, unbiased (Chen et al. 2021)."""
    if runs - passed < k:
        return 1.0
    return 1 - prod((runs - passed - j) / (runs - j) for j in range(k))


def pass_all(runs: int, passed: int, k: int) -> float:
    """The chance that all of k runs pass (pass^k), unbiased."""
    return comb(passed, k) / comb(runs, k)


def sign_test(better: int, worse: int) -> float:
    """The chance of a difference at least this one-sided if there were none; both directions."""
    count = better + worse
    if not count:
        return 1.0
    tail = sum(comb(count, k) for k in range(max(better, worse), count + 1))
    chance: float = 2 * tail / (1 << count)
    return min(1.0, chance)


def is_clear(p_value: float) -> bool:
    return p_value < _CLEAR


def tasks_needed(better: int, worse: int, tasks: int) -> int | None:
    """How many tasks would make the same difference clear; None: no number would."""
    if better == worse or not tasks:
        return None
    differing, share = (better + worse) / tasks, max(better, worse) / (better + worse)
    low, high = tasks, tasks
    while not _would_be_clear(high, differing, share):
        low, high = high, high * 2
        if high > _MOST_TASKS:
            return None
    while low < high:  # the smallest, up to rounding
        middle = (low + high) // 2
        if _would_be_clear(middle, differing, share):
            high = middle
        else:
            low = middle + 1
    return high


def _would_be_clear(tasks: int, differing: float, share: float) -> bool:
    count = int(tasks * differing)
    wins = int(count * share)
    if count > 2000:  # normal, since the sum of the exact test would be long
        return (2 * wins - count) / sqrt(count) > _Z
    return is_clear(sign_test(wins, count - wins))
