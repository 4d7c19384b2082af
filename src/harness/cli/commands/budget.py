"""Limits on what runs may cost in a day or a month: in all, in each project, or in one project.

Every run that Harness starts keeps to them. When a limit is reached, a run asks whether it may continue, in a terminal,
a conversation or the page; where nothing can answer, it is refused (exit code 75), or ends.

What counts is what Harness ran and recorded, each token once. Sessions that agents ran by themselves are not counted
(`harness usage` shows them). Costs are stated by the agent or computed from prices; a model without a price cannot be
limited. Days and months are those of your time zone. A harness.toml of a project can only lower its limits.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from harness.cli.console import Console
from harness.cli.output import write_json, write_text
from harness.cli.parser import add_actions, positive
from harness.errors import UsageError
from harness.formatting.escapes import single_line
from harness.system.plain_text import plain_text

if TYPE_CHECKING:
    from harness.usage.budget import BudgetState
    from harness.usage.budget_settings import BudgetChange, Period

SUMMARY = "limits per day, month and project: show, set, unset"
DEFAULT_ACTION = "show"
ACTIONS = {
    "show": "show the limits, what was spent and what is left",
    "set": "set limits, in dollars",
    "unset": "remove limits",
}
_PERIODS: tuple[Period, ...] = ("day", "month")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser, ACTIONS)
    actions["show"].add_argument("--json", action="store_true", help="print JSON")
    for name in ("set", "unset"):
        for period in _PERIODS:
            if name == "set":
                actions[name].add_argument(f"--{period}", type=positive, metavar="USD", help=f"in a {period}")
            else:
                actions[name].add_argument(f"--{period}", action="store_true", help=f"that of a {period}")
        of = actions[name].add_mutually_exclusive_group().add_argument
        of("--project", metavar="DIR", help="for the runs in this folder and below it, instead of all runs")
        of(
            "--each-project",
            action="store_true",
            help="for the runs of each project that has no limit of its own",
        )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.action == "show":
        return _show(arguments, console)
    from harness.usage.budget_settings import change_own

    changes = _changes(arguments)
    if not changes:
        raise UsageError("no limit was named", hint=f"harness budget {arguments.action} --day … or --month …")
    path = change_own(changes)
    console.say(f"harness: {path} was changed")
    return _show(argparse.Namespace(**vars(arguments), json=False), console)


def _changes(arguments: argparse.Namespace) -> list[BudgetChange]:
    from harness.usage.budget_settings import BudgetChange

    project = plain_text(os.path.realpath(os.path.expanduser(arguments.project))) if arguments.project else ""
    values: dict[Period, Any] = {"day": arguments.day, "month": arguments.month}
    is_set = arguments.action == "set"
    return [
        BudgetChange(period, float(value) if is_set else None, project, arguments.each_project)
        for period, value in values.items()
        if value
    ]


def _show(arguments: argparse.Namespace, console: Console) -> int:
    from harness.cli import preferences
    from harness.usage.budget import spent_under
    from harness.usage.budget_settings import all_limits
    from harness.usage.prices import load

    settings = preferences.load(console, has_verbose=arguments.verbose)
    store = preferences.open_store(settings)
    states = spent_under(all_limits(settings, os.getcwd()), store, load(settings))
    if arguments.json:
        write_json({"limits": [as_data(state) for state in states], "counted": store.directory})
    elif not states:
        console.say("no limit is set: harness budget set --day USD")
    else:
        write_text(_as_table(states))
        console.say(f"counted: what Harness ran and recorded in {store.directory}")
        if not all(state.is_complete for state in states):
            console.say("≥: some models have no price; `harness usage` names them. They cannot be limited")
    return 0


def as_data(state: BudgetState) -> dict[str, Any]:
    """One limit as JSON."""
    limit = state.limit
    return {
        "period": limit.period,
        "project": limit.project or None,
        "limit_usd": limit.limit_usd,
        "spent_usd": round(state.spent_usd, 10),
        "left_usd": round(state.left_usd, 10),
        "is_cost_complete": state.is_complete,
        "is_reached": state.is_reached,
        "origin": limit.origin,
    }


def _as_table(states: list[BudgetState]) -> str:
    from harness.usage.budget_settings import money

    head = ("limit", "spent", "of", "left", "")
    rows = [head] + [
        (
            single_line(state.limit.title),
            ("" if state.is_complete else "≥ ") + money(state.spent_usd),
            money(state.limit.limit_usd),
            money(state.left_usd),
            f"{state.share:.0%}" + (" reached" if state.is_reached else ""),
        )
        for state in states
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:4], widths[1:4], strict=True)),
                row[4],
            ]
        ).rstrip()
        + "\n"
        for row in rows
    )
