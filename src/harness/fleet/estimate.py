"""What a fleet will probably cost: from what runs of the same agent and model have cost in other fleets."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import msgspec

from harness.errors import HarnessError
from harness.fleet.fleet import fleet_names, open_fleet
from harness.fleet.plans.plan import FleetCase, FleetPlan

_MOST_FLEETS = 50


class VariantEstimate(msgspec.Struct, frozen=True, kw_only=True):
    variant: str
    cases: int
    runs_known: int
    """Runs of the same agent and model that the estimate is made from."""
    cost_usd: float | None
    """None: nothing is known about it."""
    most_usd: float | None
    """What it costs at most, if every run reaches its limit; None: there is no limit."""


def estimates(plan: FleetPlan, cases: Sequence[FleetCase], database: str = "") -> list[VariantEstimate]:
    costs_by_task = _known_costs(database)
    cap = plan.limits.run_budget_usd
    estimates_made = []
    for variant in plan.variants:
        count = sum(case.variant.name == variant.name for case in cases)
        costs = costs_by_task.get((variant.agent, variant.model), [])
        estimates_made.append(
            VariantEstimate(
                variant=variant.name,
                cases=count,
                runs_known=len(costs),
                cost_usd=count * fmean(costs) if costs else None,
                most_usd=None if cap is None else count * cap,
            )
        )
    return estimates_made


def _known_costs(database: str) -> dict[tuple[str, str], list[float]]:
    costs: dict[tuple[str, str], list[float]] = {}
    for name in fleet_names(database)[-_MOST_FLEETS:]:
        try:
            fleet = open_fleet(name, database)
            results, cases = fleet.records.results(), fleet.plan.cases
        except HarnessError:  # `harness fleet list` says what is wrong with it
            continue
        for case_id, attempt in results.items():
            if case_id in cases and attempt.cost_usd:
                variant = cases[case_id].variant
                costs.setdefault((variant.agent, variant.model), []).append(attempt.cost_usd)
    return costs
