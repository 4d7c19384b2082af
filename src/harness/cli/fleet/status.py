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
        write_json({"name": fleet.name, "folder": fleet.directory, "cases": [_as_data(one) for one in cases]})
        return 0
    counts = tally(cases)
    spent = sum(one.cost_usd for one in cases)
    budget = f" of ${fleet.plan.budget_usd:g}" if fleet.plan.budget_usd else ""
    head = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    rows = [("case", "task", "agent", "run", "state", "session", "")]
    rows += [
        (
            one.case.id,
            single_line(one.case.task.id),
            single_line(one.case.variant.name),
            str(one.case.repeat + 1),
            one.state,
            one.log_id[:13],
            single_line(one.faults[-1].detail or one.faults[-1].fault)[:60] if one.faults else "",
        )
        for one in cases
    ]
    write_text(f"{fleet.name}: {head}; ${spent:.4f}{budget}\n{aligned(rows)}")
    return 0


def list_fleets(arguments: argparse.Namespace, console: Console) -> int:
    """Those of the database, else those of the user's own folder."""
    found: list[dict[str, Any]] = []
    names = fleet_names(arguments.store)
    for name in names:
        try:
            cases = overview(open_fleet(name, arguments.store))
        except HarnessError as error:
            console.warning(f"fleet {name}: {error.words}")
            continue
        cost = round(sum(one.cost_usd for one in cases), 6)
        counts = {str(state): number for state, number in tally(cases).items()}
        found.append({"name": name, "cases": len(cases), "cost_usd": cost, **counts})
    if arguments.json:
        write_json(found)
    elif not names:
        console.say("there are no fleets; `harness fleet run PLAN.toml` starts one")
    elif found:
        heads = ("cases", *STATES, "cost_usd")
        rows = [
            ("fleet", *heads),
            *((one["name"], *(str(one.get(head, 0)) for head in heads)) for one in found),
        ]
        write_text(aligned(rows))
    return 0


def _as_data(one: CaseOverview) -> dict[str, Any]:
    return {
        "case": one.case.id,
        "task": one.case.task.id,
        "variant": one.case.variant.name,
        "repeat": one.case.repeat,
        "state": one.state,
        "log_id": one.log_id,
        "cost_usd": round(one.cost_usd, 10),
        "result": one.result,
        "faults": list(one.faults),
    }
