"""A fleet for other programs: CSV, HTML, Parquet, predictions of SWE-bench, and trajectories (ATIF)."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from harness.errors import HarnessError, MissingExtra, UsageError
from harness.events.usage import CLASSES
from harness.fleet.compare import compared_pairs
from harness.fleet.fleet import Fleet
from harness.fleet.html_report import html_report
from harness.fleet.overview import CaseOverview
from harness.fleet.report import report_of
from harness.log.store import read_all

COLUMNS = (
    *("fleet", "case", "task", "task_digest", "variant", "agent", "model", "repeat", "state", "attempts"),
    *("log_id", "outcome", "passed", "check_exit", "fault", "cost_usd", "attempt_cost_usd", *CLASSES),
    *("run_s", "duration_s", "started_ms", "host", "score", "scores", "crashed", "detail"),
)
"""`score`: the one that is called so, or `reward`, or the only one. `scores`: all of them, as JSON."""
_MAIN_SCORES = ("score", "reward")


def rows(fleet: Fleet, cases: Sequence[CaseOverview]) -> Iterator[dict[str, Any]]:
    """One for each case, with every column."""
    for case in cases:
        latest = case.result or (case.faults[-1] if case.faults else None)
        row: dict[str, Any] = {
            "fleet": fleet.name,
            "case": case.case.id,
            "task": case.case.task.id,
            "task_digest": case.case.task.digest,
            "variant": case.case.variant.name,
            "agent": case.case.variant.agent,
            "model": case.case.variant.model,
            "repeat": case.case.repeat,
            "state": case.state,
            "attempts": len(case.faults) + (case.result is not None),
            "log_id": case.log_id,
            "cost_usd": round(case.cost_usd, 10) if _has_cost(case) else None,
        }
        if latest is not None:
            row |= {name: getattr(latest, name) for name in ("outcome", "passed", "check_exit", "fault")}
            row |= {name: getattr(latest.usage, name) for name in CLASSES}
            row |= {name: getattr(latest, name) for name in ("run_s", "duration_s", "started_ms", "host")}
            row |= {"crashed": latest.crashed, "detail": latest.detail, "score": main_score(latest.score)}
            row["scores"] = msgspec.json.encode(latest.score).decode() if latest.score else None
            row["attempt_cost_usd"] = latest.cost_usd
        yield {name: row.get(name) for name in COLUMNS}


def _has_cost(case: CaseOverview) -> bool:
    """Unknown is not zero: whether any attempt has a cost, or there was none that could have one."""
    return not case.attempts or any(attempt.cost_usd is not None for attempt in case.attempts)


def main_score(score: Mapping[str, float]) -> float | None:
    """None: there is none, or several without one that stands for all."""
    if len(score) == 1:
        return next(iter(score.values()))
    return next((score[name] for name in _MAIN_SCORES if name in score), None)


def as_csv(fleet: Fleet, cases: Sequence[CaseOverview]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows(fleet, cases):
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def as_json_lines(fleet: Fleet, cases: Sequence[CaseOverview]) -> Iterator[bytes]:
    for row in rows(fleet, cases):
        yield msgspec.json.encode(row) + b"\n"


def as_html(fleet: Fleet, cases: Sequence[CaseOverview]) -> bytes:
    """One file that loads nothing."""
    diffs = {
        case.case.id: fleet.records.diff(case.result).decode("utf-8", "replace")
        for case in cases
        if case.result is not None
    }
    page = html_report(report_of(fleet, cases), cases, compared_pairs(fleet, cases), diffs)
    return page.encode("utf-8", "replace")


def write_parquet(fleet: Fleet, cases: Sequence[CaseOverview], path: str) -> None:
    """Raises MissingExtra, UsageError."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtra("Parquet needs DuckDB, which is not installed", "sql") from error
    connection = duckdb.connect(":memory:")
    try:
        table = ", ".join(f'"{name}" {sql_type(name)}' for name in COLUMNS)
        connection.execute(f"CREATE TABLE cases ({table})")
        marks = ", ".join("?" for _ in COLUMNS)
        values = [list(row.values()) for row in rows(fleet, cases)]
        connection.executemany(f"INSERT INTO cases VALUES ({marks})", values)  # noqa: S608 # nothing but our own names
        connection.execute("COPY cases TO $path (FORMAT parquet)", {"path": path})
    except duckdb.Error as error:
        raise UsageError(f"cannot write {path}: {error}") from error
    finally:
        connection.close()


def predictions(fleet: Fleet, cases: Sequence[CaseOverview]) -> dict[str, bytes]:
    """What SWE-bench's own harness grades, by the name of the file: one for each variant and repeat.

    A file can have one patch for each instance: of several, only the last would be graded.
    """
    runs: dict[tuple[str, int], list[dict[str, str]]] = {}
    for case in cases:
        if case.result is not None:
            variant, repeat = case.case.variant.name, case.case.repeat
            prediction = {
                "instance_id": case.case.task.id,
                "model_name_or_path": f"{variant} run {repeat + 1}" if fleet.plan.repeats > 1 else variant,
                "model_patch": fleet.records.diff(case.result).decode("utf-8", "replace"),
            }
            runs.setdefault((variant, repeat), []).append(prediction)
    names = _file_names([case.name for case in fleet.plan.variants])
    return {
        f"{names[variant]}.{repeat + 1}.json": msgspec.json.format(
            msgspec.json.encode(cases_of_run), indent=2
        )
        + b"\n"
        for (variant, repeat), cases_of_run in runs.items()
    }


def _file_names(variants: Sequence[str]) -> dict[str, str]:
    """A name that every file system takes, another one for each variant."""
    plain = {name: re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "variant" for name in variants}
    counts = Counter(file_name.lower() for file_name in plain.values())
    return {
        name: file_name if counts[file_name.lower()] == 1 else f"{file_name}-{number}"
        for number, (name, file_name) in enumerate(plain.items(), 1)
    }


def write_predictions(fleet: Fleet, cases: Sequence[CaseOverview], folder: str) -> list[str]:
    """One file for each variant and repeat; their paths. Raises UsageError."""
    files = []
    try:
        os.makedirs(folder, exist_ok=True)
        for name, data in predictions(fleet, cases).items():
            path = os.path.join(folder, name)
            with open(path, "wb") as file:
                file.write(data)
            files.append(path)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    return files


def write_trajectories(fleet: Fleet, cases: Sequence[CaseOverview], folder: str) -> int:
    """One ATIF file for each result; how many. Raises UsageError."""
    from harness.views.atif import AtifView

    count = 0
    try:
        os.makedirs(folder, exist_ok=True)
        for case in cases:
            if case.result is None or not case.result.log_id:
                continue
            view = AtifView()
            try:
                pieces = [
                    piece
                    for event in read_all(fleet.sessions, case.result.log_id)
                    for piece in view.feed(event)
                ]
            except HarnessError:  # the session was deleted
                continue
            with open(os.path.join(folder, f"{case.case.id}.json"), "wb") as file:
                file.write(b"".join([*pieces, *view.finish()]))
            count += 1
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    return count


def _cell(value: Any) -> Any:
    """A spreadsheet takes a text that begins like this for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


def sql_type(name: str) -> str:
    if name in {"repeat", "attempts", "check_exit", *CLASSES, "started_ms"}:
        return "BIGINT"
    if name in {"cost_usd", "attempt_cost_usd", "run_s", "duration_s", "score"}:
        return "DOUBLE"
    return "BOOLEAN" if name in {"passed", "crashed"} else "VARCHAR"
