"""`harness fleet grade`: the checks of kept workspaces, run again."""

from __future__ import annotations

import argparse

from harness.cli.console import Console
from harness.cli.fleet.chosen_cases import chosen
from harness.cli.output import write_text
from harness.errors import UsageError
from harness.fleet.fleet import Fleet
from harness.fleet.overview import overview
from harness.fleet.records.attempt import Attempt
from harness.fleet.work import grade
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line


def grade_fleet(fleet: Fleet, arguments: argparse.Namespace, console: Console) -> int:
    """Raises UsageError where no workspace was kept."""
    cases = chosen(fleet.plan, arguments)
    rows = [("case", "task", "agent", "run", "before", "now")]
    for case in overview(fleet):
        if case.case.id not in cases or (graded := grade(fleet, case.case.id)) is None:
            continue
        about = (case.case.id, single_line(case.case.task.id), single_line(case.case.variant.name))
        rows.append((*about, str(case.case.repeat + 1), case.state, _now(graded)))
    if len(rows) == 1:
        raise UsageError(
            f"the fleet {fleet.name} has no kept workspace to grade",
            hint="--keep keeps those that are not solved",
        )
    write_text(aligned(rows))
    console.say("report, compare and exports count what the checks say now")
    return 0


def _now(graded: Attempt) -> str:
    if not graded.is_result:
        return f"{graded.fault}: {single_line(graded.detail)[:60]}"
    return "passed" if graded.passed else "failed"
