"""`harness fleet report`, `compare`, `diff` and `export`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from harness.cli.console import Console
from harness.cli.output import write_json, write_json_lines, write_text
from harness.errors import UsageError
from harness.fleet import export
from harness.fleet.compare import Comparison, compare, compare_variants, compared_pairs, side_of
from harness.fleet.difference import RunStep, aligned_steps, first_difference, steps_of_case
from harness.fleet.fleet import Fleet, open_fleet
from harness.fleet.overview import CaseOverview, overview
from harness.fleet.report import report_of
from harness.fleet.report_text import comparison_text, comparisons_text, report_text
from harness.fleet.report_words import counted, percent
from harness.formatting.columns import aligned
from harness.formatting.escapes import single_line

WORSE, PERHAPS_WORSE = 1, 3


def show_report(fleet: Fleet, arguments: argparse.Namespace) -> int:
    cases = overview(fleet)
    report = report_of(fleet, cases)
    comparisons = compared_pairs(fleet, cases)
    if arguments.json:
        write_json({"report": report, "comparisons": comparisons})
        return 0
    write_text(report_text(report.variants))
    write_text(comparisons_text(comparisons))
    return 0


def show_comparison(arguments: argparse.Namespace) -> int:
    """The exit code shows whether B is worse than A."""
    comparison = _compared(arguments)
    if arguments.json:
        write_json(comparison)
    else:
        write_text(comparison_text(comparison))
        ratios = [("cost", comparison.cost_ratio), ("time", comparison.time_ratio)]
        write_text("".join(f"  {name}: × {ratio:.2f}\n" for name, ratio in ratios if ratio is not None))
        rows = [
            [f"  {single_line(change.task)}", percent(change.a), "→", percent(change.b)]
            for change in comparison.changed
        ]
        write_text(aligned(rows) if rows else "")
    if -comparison.difference <= arguments.max_drop or comparison.difference >= 0:
        return 0
    return WORSE if comparison.is_clear else PERHAPS_WORSE if arguments.max_drop else 0


def _compared(arguments: argparse.Namespace) -> Comparison:
    name_a, _, variant_a = arguments.a.partition(":")
    fleet_a = open_fleet(name_a, arguments.store)
    names = [variant.name for variant in fleet_a.plan.variants]
    if arguments.b:
        name_b, _, variant_b = arguments.b.partition(":")
        if name_b == name_a:
            return compare_variants(fleet_a, variant_a, variant_b)
        return compare(side_of(fleet_a, variant_a), side_of(open_fleet(name_b, arguments.store), variant_b))
    if variant_a or len(names) != 2:
        raise UsageError("two sides are needed", hint="`harness fleet compare FLEET:VARIANT FLEET:VARIANT`")
    return compare_variants(fleet_a, names[0], names[1])


def show_difference(fleet: Fleet, arguments: argparse.Namespace) -> int:
    a, b = (steps_of_case(fleet, case_id) for case_id in (arguments.case_a, arguments.case_b))
    at = first_difference(a, b)
    if arguments.json:
        write_json({"first_difference": at, "steps": aligned_steps(a, b)})
        return 0
    same = (
        f"the same {counted(len(a), 'step')}"
        if at is None
        else f"the same for {counted(at, 'step')} of {len(a)} and {len(b)}, then:"
    )
    pairs = aligned_steps(a, b)[at or 0 :]
    rows = [
        ("A", "B"),
        *((_step_text(step.a), "=" if step.is_same else _step_text(step.b)) for step in pairs),
    ]
    write_text(f"{same}\n{aligned(rows) if at is not None else ''}")
    return 0


def _step_text(step: RunStep | None) -> str:
    if step is None:
        return ""
    mark = {True: "", False: " (failed)", None: " (?)"}[step.success]
    return f"{single_line(step.text)[:70]}{mark}"


def export_fleet(fleet: Fleet, arguments: argparse.Namespace, console: Console) -> int:
    cases, path = overview(fleet), arguments.output
    match arguments.format:
        case "parquet" | "atif" if not path:
            raise UsageError(
                f"{arguments.format} is written to a file or folder", hint="name it with -o PATH"
            )
        case "parquet":
            export.write_parquet(fleet, cases, path)
        case "atif":
            console.say(f"{export.write_trajectories(fleet, cases, path)} trajectories in {path}")
        case "csv":
            _write(path, export.as_csv(fleet, cases).encode())
        case "json":
            _write(path, b"".join(export.as_json_lines(fleet, cases)), is_json=True)
        case "swe-bench" if path and not path.endswith((".json", ".jsonl")):
            for name in export.write_predictions(fleet, cases, path):
                console.say(name)
        case "swe-bench":
            _write(path, _only_prediction(fleet, cases), is_json=True)
        case _:
            _write(path, export.as_html(fleet, cases))
    return 0


def _only_prediction(fleet: Fleet, cases: Sequence[CaseOverview]) -> bytes:
    """Raises UsageError where there are several: in one file they would replace each other."""
    files = export.predictions(fleet, cases)
    if len(files) != 1:
        raise UsageError(
            f"the fleet {fleet.name} has {len(files)} sets of predictions, one for each variant and repeat",
            hint="name a folder for them with -o FOLDER",
        )
    return next(iter(files.values()))


def _write(path: str, data: bytes, *, is_json: bool = False) -> None:
    if not path:
        write_json_lines(data) if is_json else write_text(data.decode())
        return
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"cannot write {os.path.abspath(path)}: {error.strerror}") from error
