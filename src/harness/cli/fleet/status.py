"""`harness fleet status` and `harness fleet list`: what is done, what runs, what is left."""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.errors import HarnessError
from harness.fleet.fleet import Fleet, fleet_names, open_fleet
from harness.fleet.overview import STATES, CaseOverview, overview, tally
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line


def show_status(fleet: Fleet, arguments: argparse.Namespace) -> int:
    cases = overview(fleet)
    if arguments.json:
        write_json(
            {"name": fleet.name, "folder": fleet.directory, "cases": [_as_data(case) for case in cases]}
        )
        return 0
    counts = tally(cases)
    cost_usd = sum(case.cost_usd for case in cases)
    budget = f" of ${fleet.plan.budget_usd:g}" if fleet.plan.budget_usd else ""
    head = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    rows = [("case", "task", "agent", "run", "state", "session", "")]
    rows += [
        (
            case.case.id,
            single_line(case.case.task.id),
            single_line(case.case.variant.name),
            str(case.case.repeat + 1),
            case.state,
            case.log_id[:13],
            single_line(case.faults[-1].detail or case.faults[-1].fault)[:60] if case.faults else "",
        )
        for case in cases
    ]
    write_text(f"{fleet.name}: {head}; ${cost_usd:.4f}{budget}\n{aligned(rows)}")
    return 0


def list_fleets(arguments: argparse.Namespace, console: Console) -> int:
    """Those of the database, else those of the user's own folder."""
    fleet_rows: list[dict[str, Any]] = []
    names = fleet_names(arguments.store)
    for name in names:
        try:
            cases = overview(open_fleet(name, arguments.store))
        except HarnessError as error:
            console.warning(f"fleet {name}: {error.words}")
            continue
        cost = round(sum(case.cost_usd for case in cases), 6)
        counts = {str(state): number for state, number in tally(cases).items()}
        fleet_rows.append({"name": name, "cases": len(cases), "cost_usd": cost, **counts})
    if arguments.json:
        write_json(fleet_rows)
    elif not names:
        console.say("there are no fleets; `harness fleet run PLAN.toml` starts one")
    elif fleet_rows:
        heads = ("cases", *STATES, "cost_usd")
        rows = [
            ("fleet", *heads),
            *((case["name"], *(str(case.get(head, 0)) for head in heads)) for case in fleet_rows),
        ]
        write_text(aligned(rows))
    return 0


def _as_data(case: CaseOverview) -> dict[str, Any]:
    return {
        "case": case.case.id,
        "task": case.case.task.id,
        "variant": case.case.variant.name,
        "repeat": case.case.repeat,
        "state": case.state,
        "log_id": case.log_id,
        "cost_usd": round(case.cost_usd, 10),
        "result": case.result,
        "faults": list(case.faults),
    }
