"""Two variants on the same tasks: how much they differ, how sure that is, and where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import fmean, median

import msgspec

from harness.errors import UsageError
from harness.fleet.fleet import Fleet
from harness.fleet.overview import CaseOverview, overview
from harness.fleet.report import verdicts
from harness.fleet.statistics import Interval, is_clear, mean_interval, sign_test, tasks_needed, wilson

_MOST_PAIRS = 10


class TaskDifference(msgspec.Struct, frozen=True):
    task: str
    a: float
    """The share of runs that passed."""
    b: float


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
    is_clear: bool
    tasks_needed: int | None
    """How many tasks would make the same difference clear."""
    cost_ratio: float | None
    """What B costs for each time that A costs, per run."""
    time_ratio: float | None
    changed: list[TaskDifference]

    @property
    def verdict(self) -> str:
        if not self.is_clear:
            return "no clear winner"
        return f"{self.b if self.difference > 0 else self.a} is better"


class Side(msgspec.Struct, frozen=True):
    """One variant of a fleet."""

    title: str
    cases: list[CaseOverview]


def side_of(fleet: Fleet, variant: str, cases: Sequence[CaseOverview] | None = None) -> Side:
    """Raises UsageError where the fleet has no such variant."""
    names = [one.name for one in fleet.plan.variants]
    if not variant and len(names) == 1:
        variant = names[0]
    if variant not in names:
        what = (
            f"the fleet {fleet.name} has no variant {variant!r}"
            if variant
            else f"{fleet.name} has several variants"
        )
        raise UsageError(what, hint=f"name one of: {', '.join(f'{fleet.name}:{name}' for name in names)}")
    found = overview(fleet) if cases is None else cases
    title = f"{fleet.name}:{variant}"
    return Side(title, [one for one in found if one.case.variant.name == variant])


def compare(a: Side, b: Side) -> Comparison:
    """Only tasks that are the same on both sides count. Raises UsageError where there are none."""
    digests = [{one.case.task.id: one.case.task.digest for one in side.cases} for side in (a, b)]
    rates = [{task: fmean(group) for task, group in verdicts(side.cases).items()} for side in (a, b)]
    shared = [task for task in rates[0] if task in rates[1] and digests[0][task] == digests[1][task]]
    if not shared:
        raise UsageError(
            f"{a.title} and {b.title} have no scored task in common",
            hint="a task that was changed is another task; `harness fleet status` shows what is scored",
        )
    differences = [rates[1][task] - rates[0][task] for task in shared]
    better, worse = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    p_value = sign_test(better, worse)
    interval = _difference_interval(differences)
    return Comparison(
        a=a.title,
        b=b.title,
        tasks=len(shared),
        left_out=len({*rates[0], *rates[1]}) - len(shared),
        rate_a=fmean(rates[0][task] for task in shared),
        rate_b=fmean(rates[1][task] for task in shared),
        difference=fmean(differences),
        low=interval.low,
        high=interval.high,
        better=better,
        worse=worse,
        p_value=p_value,
        is_clear=is_clear(p_value),
        tasks_needed=None if is_clear(p_value) else tasks_needed(better, worse, len(shared)),
        cost_ratio=_ratio(_costs(a, shared), _costs(b, shared)),
        time_ratio=_ratio(_times(a, shared), _times(b, shared)),
        changed=[
            TaskDifference(task, rates[0][task], rates[1][task])
            for task in shared
            if rates[0][task] != rates[1][task]
        ],
    )


def compared_pairs(fleet: Fleet, cases: Sequence[CaseOverview]) -> list[Comparison]:
    """All variants with each other, as far as they can be compared and are not too many."""
    found = []
    for a, b in list(combinations([one.name for one in fleet.plan.variants], 2))[:_MOST_PAIRS]:
        try:
            found.append(compare(side_of(fleet, a, cases), side_of(fleet, b, cases)))
        except UsageError:  # nothing is scored on one side
            continue
    return found


def _difference_interval(differences: Sequence[float]) -> Interval:
    """Where all tasks differ by the same there is nothing to resample: then as for a share of tasks, from −1 to 1."""
    if min(differences) != max(differences):
        return mean_interval(differences)
    share = wilson((differences[0] + 1) / 2, len(differences))
    return Interval(2 * share.low - 1, 2 * share.high - 1)


def _costs(side: Side, tasks: Sequence[str]) -> float | None:
    costs = [
        one.result.cost_usd for one in side.cases if one.result is not None and one.case.task.id in tasks
    ]
    known = [cost for cost in costs if cost is not None]
    return fmean(known) if known else None


def _times(side: Side, tasks: Sequence[str]) -> float | None:
    times = [one.result.run_s for one in side.cases if one.result is not None and one.case.task.id in tasks]
    return median(times) if times else None


def _ratio(a: float | None, b: float | None) -> float | None:
    return b / a if a and b is not None else None
