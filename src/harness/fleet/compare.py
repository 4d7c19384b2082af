"""Two variants on the same tasks: how much they differ, how sure that is, and where.

One method decides everything: a paired t test over tasks (`statistics`). Where a fleet has more than two variants, all
of its pairs are one family, and p values and intervals are corrected for that, whichever of them is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median
from typing import NamedTuple

import msgspec

from harness.errors import UsageError
from harness.fleet.fleet import Fleet
from harness.fleet.overview import CaseOverview, overview
from harness.fleet.report import scores, verdicts
from harness.fleet.statistics import (
    LEVEL,
    Corrected,
    Difference,
    corrected,
    rate_difference,
    value_difference,
)


class TaskDifference(msgspec.Struct, frozen=True):
    task: str
    a: float
    """The share of runs that passed."""
    b: float


class ScoreDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Of one score, over the tasks that have it on both sides."""

    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    """Of the same confidence as the interval of the pass rates; None where the tasks say nothing about it."""
    tasks: int


class SideTrouble(msgspec.Struct, frozen=True):
    """Of the tasks that are compared: what one side has besides passes and wrong answers."""

    crashed: int
    """Runs in which the agent ended with an error of its own: not passed."""
    errors: int
    """Cases without a result, by no fault of the agent: in no rate."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Of B with A: a difference above 0 means that B is better."""

    a: str
    b: str
    tasks: int
    """Tasks with the same digest and a verdict on both sides."""
    left_out: int
    """Tasks that only one side has."""
    rate_a: float
    rate_b: float
    difference: float
    low: float
    high: float
    better: int
    """Tasks on which B does better."""
    worse: int
    p_value: float
    """Of the paired t test over tasks, corrected for all comparisons of the fleet."""
    is_clear: bool
    tasks_needed: int | None
    """With so many tasks a difference of this size would be found in 80 % of fleets."""
    cost_ratio: float | None
    """What B costs for each time that A costs, per run."""
    time_ratio: float | None
    changed: list[TaskDifference]
    confidence: float = 1 - LEVEL
    """Of the interval. Higher where there are several comparisons, so that it says the same as the p value."""
    comparisons: int = 1
    """How many the p value is corrected for."""
    depends_on_errors: bool = False
    """If errors were failures, the verdict would be another one: then there is none."""
    trouble_a: SideTrouble = SideTrouble(0, 0)
    trouble_b: SideTrouble = SideTrouble(0, 0)
    scores: dict[str, ScoreDifference] = {}

    @property
    def verdict(self) -> str:
        if self.depends_on_errors:
            return "no clear winner: it depends on whether the errors count as failures"
        if not self.is_clear:
            return "no clear winner"
        return f"{self.b if self.difference > 0 else self.a} is better"


class Side(msgspec.Struct, frozen=True):
    """One variant of a fleet."""

    title: str
    cases: list[CaseOverview]


class _Pair(NamedTuple):
    """Two sides, compared for themselves."""

    a: Side
    b: Side
    tasks: list[str]
    left_out: int
    difference: Difference
    with_errors: Difference


def side_of(fleet: Fleet, variant: str, cases: Sequence[CaseOverview] | None = None) -> Side:
    """Raises UsageError where the fleet has no such variant."""
    names = [variant.name for variant in fleet.plan.variants]
    if not variant and len(names) == 1:
        variant = names[0]
    if variant not in names:
        what = (
            f"the fleet {fleet.name} has no variant {variant!r}"
            if variant
            else f"{fleet.name} has several variants"
        )
        raise UsageError(what, hint=f"name one of: {', '.join(f'{fleet.name}:{name}' for name in names)}")
    cases_listed = overview(fleet) if cases is None else cases
    title = f"{fleet.name}:{variant}"
    return Side(
        title, [listed_case for listed_case in cases_listed if listed_case.case.variant.name == variant]
    )


def compare(a: Side, b: Side) -> Comparison:
    """Only tasks that are the same on both sides count. Raises UsageError where there are none."""
    return _concluded([_paired(a, b)])[0]


def compare_variants(fleet: Fleet, a: str, b: str, cases: Sequence[CaseOverview] | None = None) -> Comparison:
    """Two variants of one fleet, as one of all of its comparisons. Raises UsageError where nothing can be compared."""
    cases_listed = overview(fleet) if cases is None else cases
    pairs = _paired(side_of(fleet, a, cases_listed), side_of(fleet, b, cases_listed))
    others = [pair for pair in _pairs(fleet, cases_listed) if {pair.a.title, pair.b.title} != _titles(pairs)]
    return _concluded([pairs, *others])[0]


def compared_pairs(fleet: Fleet, cases: Sequence[CaseOverview]) -> list[Comparison]:
    """All variants with each other, as far as they can be compared."""
    return _concluded(_pairs(fleet, cases))


def _titles(pair: _Pair) -> set[str]:
    return {pair.a.title, pair.b.title}


def _pairs(fleet: Fleet, cases: Sequence[CaseOverview]) -> list[_Pair]:
    sides = [side_of(fleet, variant.name, cases) for variant in fleet.plan.variants]
    pairs = []
    for a, b in combinations(sides, 2):
        try:
            pairs.append(_paired(a, b))
        except UsageError:  # nothing is scored on one side
            continue
    return pairs


def _paired(a: Side, b: Side) -> _Pair:
    digests = [{case.case.task.id: case.case.task.digest for case in side.cases} for side in (a, b)]
    same = {task for task in digests[0] if digests[1].get(task) == digests[0][task]}
    groups = [verdicts(side.cases) for side in (a, b)]
    tasks = [task for task in groups[0] if task in groups[1] and task in same]
    if not tasks:
        raise UsageError(
            f"{a.title} and {b.title} have no scored task in common",
            hint="a task that was changed is another task; `harness fleet status` shows what is scored",
        )
    strict = [verdicts(side.cases, with_errors=True) for side in (a, b)]
    strict_tasks = [task for task in strict[0] if task in strict[1] and task in same]
    return _Pair(
        a,
        b,
        tasks,
        len({*groups[0], *groups[1]}) - len(tasks),
        rate_difference(*([group[task] for task in tasks] for group in groups)),
        rate_difference(*([group[task] for task in strict_tasks] for group in strict)),
    )


def _concluded(pairs: Sequence[_Pair]) -> list[Comparison]:
    tests = corrected([pair.difference.p_value for pair in pairs])
    strict = corrected([pair.with_errors.p_value for pair in pairs])
    return [
        _comparison(pair, test, len(pairs), _says(pair.with_errors, other))
        for pair, test, other in zip(pairs, tests, strict, strict=True)
    ]


def _says(difference: Difference, test: Corrected) -> int:
    """1: B is better, -1: A is, 0: that is not clear."""
    if test.p_value >= LEVEL:
        return 0
    return 1 if difference.mean > 0 else -1


def _comparison(pair: _Pair, test: Corrected, count: int, with_errors: int) -> Comparison:
    a, b, tasks, difference = pair.a, pair.b, pair.tasks, pair.difference
    rates = [{task: fmean(group) for task, group in verdicts(side.cases).items()} for side in (a, b)]
    changes = [rates[1][task] - rates[0][task] for task in tasks]
    interval = difference.interval(test.level)
    says = _says(difference, test)
    return Comparison(
        a=a.title,
        b=b.title,
        tasks=len(tasks),
        left_out=pair.left_out,
        rate_a=fmean(rates[0][task] for task in tasks),
        rate_b=fmean(rates[1][task] for task in tasks),
        difference=difference.mean,
        low=max(-1.0, interval.low),
        high=min(1.0, interval.high),
        better=sum(change > 0 for change in changes),
        worse=sum(change < 0 for change in changes),
        p_value=test.p_value,
        is_clear=says != 0 and says == with_errors,
        tasks_needed=None if says else difference.tasks_needed(test),
        cost_ratio=_ratio(_costs(a, tasks), _costs(b, tasks)),
        time_ratio=_ratio(_times(a, tasks), _times(b, tasks)),
        changed=[
            TaskDifference(task, rates[0][task], rates[1][task])
            for task in tasks
            if rates[0][task] != rates[1][task]
        ],
        confidence=1 - test.level,
        comparisons=count,
        depends_on_errors=says not in (0, with_errors),
        trouble_a=_trouble(a),
        trouble_b=_trouble(b),
        scores=_score_differences(pair, test.level),
    )


def _trouble(side: Side) -> SideTrouble:
    crashed = sum(case.result is not None and case.result.crashed for case in side.cases)
    return SideTrouble(crashed, sum(case.state == "error" for case in side.cases))


def _score_differences(pair: _Pair, level: float) -> dict[str, ScoreDifference]:
    of_a, of_b = scores(pair.a.cases), scores(pair.b.cases)
    differences = {}
    for name in of_a.keys() & of_b.keys():
        tasks = [task for task in pair.tasks if task in of_a[name] and task in of_b[name]]
        if not tasks:
            continue
        a, b = [of_a[name][task] for task in tasks], [of_b[name][task] for task in tasks]
        difference = value_difference(a, b)
        interval = difference.interval(level)
        is_known = difference.tasks > 1 and difference.deviation > 0
        differences[name] = ScoreDifference(
            a=fmean(map(fmean, a)),
            b=fmean(map(fmean, b)),
            difference=difference.mean,
            low=interval.low if is_known else None,
            high=interval.high if is_known else None,
            tasks=len(tasks),
        )
    return dict(sorted(differences.items()))


def _costs(side: Side, tasks: Sequence[str]) -> float | None:
    """None where it is not known of each run: a ratio of parts would be that of nothing."""
    results = [case.result for case in side.cases if case.result is not None and case.case.task.id in tasks]
    if not results or not all(case.has_known_cost for case in results):
        return None
    return fmean(case.cost_usd or 0.0 for case in results)


def _times(side: Side, tasks: Sequence[str]) -> float | None:
    times = [
        case.result.run_s for case in side.cases if case.result is not None and case.case.task.id in tasks
    ]
    return median(times) if times else None


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a and b is not None else None
