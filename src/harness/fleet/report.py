"""The numbers of a fleet: one row for each variant, from the results that there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median

import msgspec

from harness.events import Usage
from harness.fleet.fleet import Fleet
from harness.fleet.overview import CaseOverview, overview
from harness.fleet.statistics import mean_interval, pass_all, pass_at, rate_interval

_KS = (1, 2, 3, 5, 10)


class ScoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over tasks of the mean of their runs. A run that has not passed and has no score counts as 0."""

    mean: float
    low: float | None
    high: float | None
    """95 %, over tasks; None where they say nothing about it."""


class VariantReport(msgspec.Struct, frozen=True, kw_only=True):
    """None: there is nothing to compute it from."""

    variant: str
    cases: int
    runs: int
    """Cases that have a result."""
    passed: int
    failed: int
    crashed: int = 0
    """Runs in which the agent ended with an error of its own. They have not passed, and are among the failures."""
    errors: int
    """Cases whose attempts all ended without a result, by no fault of the agent. They are in no rate."""
    left: int
    tasks: int
    """Those with a verdict."""
    solved: int
    """Tasks that at least one run has solved."""
    pass_rate: float | None
    low: float | None
    high: float | None
    """95 %, over tasks."""
    pass_at: dict[int, float]
    pass_all: dict[int, float]
    cost_usd: float
    """Of all attempts, also those without a result."""
    cost_per_solved_usd: float | None
    """For each run that passed: what one success costs, with all that did not succeed."""
    unpriced: int
    """Attempts whose tokens or prices are not known: with any, the cost is at least so much."""
    scores: dict[str, ScoreReport] = {}
    """By the name that the check gives them."""
    median_s: float | None
    usage: Usage
    faults: dict[str, int]
    """Attempts without a result, by reason."""


class FleetReport(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    tasks: int
    repeats: int
    budget_usd: float | None
    cost_usd: float
    variants: list[VariantReport]


def report_of(fleet: Fleet, cases: Sequence[CaseOverview] | None = None) -> FleetReport:
    cases = overview(fleet) if cases is None else cases
    groups: dict[str, list[CaseOverview]] = {variant.name: [] for variant in fleet.plan.variants}
    for case in cases:
        groups[case.case.variant.name].append(case)
    return FleetReport(
        name=fleet.name,
        tasks=len(fleet.plan.tasks),
        repeats=fleet.plan.repeats,
        budget_usd=fleet.plan.budget_usd,
        cost_usd=round(sum(case.cost_usd for case in cases), 10),
        variants=[_variant_report(name, group) for name, group in groups.items()],
    )


def verdicts(cases: Iterable[CaseOverview], *, with_errors: bool = False) -> dict[str, list[bool]]:
    """By task, of the cases with a verdict. `with_errors`: those without one, by whatever fault, have not passed."""
    verdicts_by_task: dict[str, list[bool]] = {}
    for case in cases:
        if case.result is not None and case.result.passed is not None:
            verdicts_by_task.setdefault(case.case.task.id, []).append(case.result.passed)
        elif with_errors and case.state == "error":
            verdicts_by_task.setdefault(case.case.task.id, []).append(False)
    return verdicts_by_task


def scores(cases: Sequence[CaseOverview]) -> dict[str, dict[str, list[float]]]:
    """By name and task: those of its runs."""
    scored: dict[str, dict[str, list[float]]] = {}
    results = [(case.case.task.id, case.result) for case in cases if case.result is not None]
    names = dict.fromkeys(name for _task, result in results for name in result.score)
    for name in names:
        of_tasks = scored.setdefault(name, {})
        for task, result in results:
            if name in result.score or result.passed is False:
                of_tasks.setdefault(task, []).append(result.score.get(name, 0.0))
    return scored


def _variant_report(name: str, cases: Sequence[CaseOverview]) -> VariantReport:
    results = [case.result for case in cases if case.result is not None]
    by_task = verdicts(cases)
    groups = list(by_task.values())
    interval = rate_interval(groups) if groups else None
    solved = sum(any(group) for group in groups)
    cost = sum(case.cost_usd for case in cases)
    states = Counter(case.state for case in cases)
    usage = Usage()
    for result in results:
        usage = usage.plus(result.usage)
    return VariantReport(
        variant=name,
        cases=len(cases),
        runs=len(results),
        passed=states["passed"],
        failed=states["failed"],
        crashed=sum(result.crashed for result in results),
        errors=states["error"],
        left=states["waiting"] + states["running"],
        tasks=len(groups),
        solved=solved,
        pass_rate=fmean(fmean(group) for group in groups) if groups else None,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        pass_at=_mean_for_each_k(groups, pass_at),
        pass_all=_mean_for_each_k(groups, pass_all),
        cost_usd=round(cost, 10),
        cost_per_solved_usd=cost / states["passed"] if states["passed"] else None,
        unpriced=sum(not attempt.has_known_cost for case in cases for attempt in case.attempts),
        median_s=median(result.run_s for result in results) if results else None,
        usage=usage,
        faults=dict(Counter(fault.fault for case in cases for fault in case.faults if fault.fault)),
        scores={name: _score_report(list(of_tasks.values())) for name, of_tasks in scores(cases).items()},
    )


def _score_report(groups: Sequence[Sequence[float]]) -> ScoreReport:
    interval = mean_interval(groups)
    low, high = interval if interval is not None else (None, None)
    return ScoreReport(mean=fmean(map(fmean, groups)), low=low, high=high)


def _mean_for_each_k(
    groups: Sequence[Sequence[bool]], chance: Callable[[int, int, int], float]
) -> dict[int, float]:
    """For every k that all tasks have enough runs for."""
    most = min(map(len, groups), default=0)
    return {k: fmean(chance(len(group), sum(group), k) for group in groups) for k in _KS if 1 < k <= most}
