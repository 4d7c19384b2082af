"""The state of every case of a fleet, as its records have it now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase, FleetPlan
from harness.fleet.records.attempt import Attempt, decisive, retries_used

CaseState: TypeAlias = Literal["passed", "failed", "done", "error", "running", "waiting"]
"""`done`: it has a result, but no check. `error`: all of its attempts ended without a result, by no fault of the agent."""
STATES: tuple[CaseState, ...] = ("passed", "failed", "done", "error", "running", "waiting")


class CaseOverview(NamedTuple):
    case: FleetCase
    state: CaseState
    result: Attempt | None
    faults: Sequence[Attempt]
    log_id: str
    """Of the latest attempt."""
    started_ms: int | None = None
    """When it began."""

    @property
    def attempts(self) -> list[Attempt]:
        """In their order; the result is the last."""
        result = [] if self.result is None or self._is_among_faults else [self.result]
        return [*self.faults, *result]

    @property
    def cost_usd(self) -> float:
        return sum(attempt.cost_usd or 0.0 for attempt in self.attempts)

    @property
    def is_cost_complete(self) -> bool:
        """Whether it is known what all attempts have used, and what that costs."""
        return all(attempt.has_known_cost for attempt in self.attempts)

    @property
    def _is_among_faults(self) -> bool:
        """So it is in fleets of an earlier version; see `decisive`."""
        return self.result is not None and any(fault.number == self.result.number for fault in self.faults)


def overview(fleet: Fleet) -> list[CaseOverview]:
    """In the order of the plan: by task, variant and repeat."""
    results, faults, in_progress = (
        fleet.records.results(),
        fleet.records.faults(),
        fleet.records.in_progress(),
    )
    rows = []
    grades = fleet.grades()
    for case in in_order(fleet.plan):
        lost, stored_result = faults.get(case.id, ()), results.get(case.id)
        if stored_result is not None:
            stored_result = grades.get((case.id, stored_result.number), stored_result)
        result = decisive(stored_result, lost)
        if stored_result is not None and result is not stored_result:
            lost = (*lost, stored_result)  # it was paid for, and does not count
        progress = in_progress.get(case.id)
        latest = result or progress or (lost[-1] if lost else None)
        is_running = result is None and progress is not None and fleet.records.is_claimed(case.id)
        state = _state(fleet, result, lost, is_running=is_running)
        log_id, started_ms = (latest.log_id, latest.started_ms) if latest else ("", None)
        rows.append(CaseOverview(case, state, result, lost, log_id, started_ms))
    return rows


def in_order(plan: FleetPlan) -> list[FleetCase]:
    tasks = {task.id: number for number, task in enumerate(plan.tasks)}
    variants = {variant.name: number for number, variant in enumerate(plan.variants)}
    return sorted(
        plan.cases.values(), key=lambda case: (tasks[case.task.id], variants[case.variant.name], case.repeat)
    )


def tally(cases: Sequence[CaseOverview]) -> Counter[CaseState]:
    return Counter(case.state for case in cases)


def _state(fleet: Fleet, result: Attempt | None, lost: Sequence[Attempt], *, is_running: bool) -> CaseState:
    if result is not None:
        return "done" if result.passed is None else "passed" if result.passed else "failed"
    if is_running:
        return "running"
    return "error" if retries_used(lost) > fleet.plan.retries else "waiting"
