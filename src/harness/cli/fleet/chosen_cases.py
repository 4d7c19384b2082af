"""`--task` and `--variant`: some cases of a fleet, by patterns of names; and `harness fleet plan`, which only counts them."""

from __future__ import annotations

import argparse
from fnmatch import fnmatchcase

from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.errors import UsageError
from harness.fleet.estimate import VariantEstimate, estimates
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase, FleetPlan
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line


def chosen(plan: FleetPlan, arguments: argparse.Namespace) -> dict[str, FleetCase]:
    """By id; all of them where nothing was chosen. Raises UsageError where a pattern fits nothing."""
    names = {"task": [item.id for item in plan.tasks], "variant": [item.name for item in plan.variants]}
    for option, values in names.items():
        for pattern in getattr(arguments, option):
            if not any(fnmatchcase(name, pattern) for name in values):
                some = ", ".join(values[:10])
                raise UsageError(
                    f"--{option} {pattern}: there is none that is called so", hint=f"there are: {some}"
                )
    return {
        case.id: case
        for case in plan.cases.values()
        if _fits(case.task.id, arguments.task) and _fits(case.variant.name, arguments.variant)
    }


def _fits(name: str, patterns: list[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def show_plan(plan: FleetPlan, fleet: Fleet | None, arguments: argparse.Namespace, console: Console) -> int:
    """What will be run, and what it will probably cost. `fleet`: it was created; None: only tried."""
    cases = chosen(plan, arguments)
    estimate_rows = estimates(plan, list(cases.values()), arguments.store)
    if arguments.json:
        ids = list(cases)
        write_json(
            {"name": plan.name, "cases": ids, "variants": estimate_rows, "is_created": fleet is not None}
        )
        return 0
    tasks = len({case.task.id for case in cases.values()})
    write_text(
        f"{single_line(plan.name)}: {tasks} tasks × {len(plan.variants)} variants × {plan.repeats}: {len(cases)} cases\n"
    )
    rows = [("variant", "cases", "expected $", "at most $", "")]
    rows += [
        (single_line(estimate.variant), str(estimate.cases), *_money(estimate)) for estimate in estimate_rows
    ]
    write_text(aligned(rows))
    if fleet is None:
        console.say("nothing was created; without --dry-run the fleet is")
    else:
        console.say(f"created; `harness fleet resume {fleet.words[-1]}` runs it")
    return 0


def _money(estimate: VariantEstimate) -> tuple[str, str, str]:
    expected = "–" if estimate.cost_usd is None else f"{estimate.cost_usd:.2f}"
    most = "–" if estimate.most_usd is None else f"{estimate.most_usd:.2f}"
    basis = (
        f"from {estimate.runs_known} runs in other fleets" if estimate.runs_known else "no run of it is known"
    )
    return expected, most, basis
