"""Report, comparison, difference and exports of a fleet whose results are known."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import small_fleet
from harness.errors import UsageError
from harness.events import SessionStart, ToolEnd, ToolStart, Usage
from harness.events.operation import Command, Read
from harness.fleet.compare import SideTrouble, compare, compare_variants, compared_pairs, side_of
from harness.fleet.difference import aligned_steps, first_difference, steps_of
from harness.fleet.export import as_csv, as_html, predictions, write_parquet, write_predictions
from harness.fleet.fleet import Fleet
from harness.fleet.html_report import html_report
from harness.fleet.overview import overview
from harness.fleet.plans.plan import FleetPlan, FleetTask, Variant
from harness.fleet.records.attempt import Attempt
from harness.fleet.report import report_of
from harness.fleet.report_text import comparison_text, report_text


def _fleet(
    folder: Path, verdicts: dict[str, list[list[bool | None]]], task_names: list[str] | None = None
) -> Fleet:
    """Verdicts by variant, task and repeat; None: all attempts ended without a result."""
    groups = next(iter(verdicts.values()))
    names = task_names or [f"t{number}" for number in range(len(groups))]
    tasks = [FleetTask(id=name, prompt="x", check="true") for name in names]
    variants = [Variant(name=name, agent="native", model="scripted/demo") for name in verdicts]
    made = small_fleet.plan(folder, variants, tasks, repeats=len(groups[0]), retries=0)
    fleet = small_fleet.fleet(folder, made)
    for case in fleet.plan.cases.values():
        passed = verdicts[case.variant.name][names.index(case.task.id)][case.repeat]
        fault = "lost" if passed is None else ""
        about: dict[str, Any] = {"cost_usd": 0.5, "run_s": 2.0, "usage": Usage(input=10, output=1)}
        fleet.records.add(
            Attempt(case=case.id, number=1, passed=passed, fault=fault, **about), b"+<script>\n-old\n"
        )  # type: ignore[arg-type]
    return fleet


def test_a_report_counts_errors_apart_from_failures(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a": [[True, True], [True, False], [False, None]], "b": [[False, False]] * 3})
    a, b = report_of(fleet).variants
    assert (a.runs, a.passed, a.failed, a.errors, a.tasks, a.solved) == (5, 3, 2, 1, 3, 2)
    assert a.pass_rate == pytest.approx((1 + 0.5 + 0) / 3)
    assert (a.cost_usd, a.cost_per_solved_usd, a.median_s, a.faults) == (3.0, 1.0, 2.0, {"lost": 1})
    assert (a.usage.input, a.pass_at) == (50, {})
    assert (b.pass_rate, b.cost_per_solved_usd) == (0.0, None)
    assert b.high is not None
    assert b.high > 0.5
    assert b.pass_at == b.pass_all == {2: 0.0}


def test_three_tasks_cannot_make_a_winner(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a": [[False]] * 3, "b": [[True]] * 3})
    found = compare(side_of(fleet, "a"), side_of(fleet, "b"))
    assert (found.difference, found.better, found.is_clear) == (1.0, 3, False)
    assert found.low < 0
    assert (found.verdict, found.tasks_needed) == ("no clear winner", 4)


def test_ten_tasks_can(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a": [[False]] * 10, "b": [[True]] * 9 + [[False]]})
    found = compare(side_of(fleet, "a"), side_of(fleet, "b"))
    assert (found.verdict, found.tasks_needed) == ("small:b is better", None)
    assert found.low > 0
    assert [one.task for one in found.changed] == [f"t{number}" for number in range(9)]


def _tallied(passed: int, runs: int) -> list[bool | None]:
    return [number < passed for number in range(runs)]


def test_the_winner_is_never_the_side_with_the_lower_rate(tmp_path: Path) -> None:
    a = [_tallied(5, 10)] * 10 + [_tallied(10, 10)]
    b = [_tallied(6, 10)] * 10 + [_tallied(0, 10)]  # better on ten tasks, and on the whole not
    found = compare(side_of(fleet := _fleet(tmp_path, {"a": a, "b": b}), "a"), side_of(fleet, "b"))
    assert (found.better, found.worse, found.difference, found.verdict) == (10, 1, 0.0, "no clear winner")
    assert found.low < 0 < found.high


def test_a_comparison_is_the_same_wherever_it_is_looked_at(tmp_path: Path) -> None:
    names = {f"v{number}": [_tallied(5 + number, 10)] * 8 for number in range(3)}
    fleet = _fleet(tmp_path, names)
    cases = overview(fleet)
    pairs = compared_pairs(fleet, cases)
    assert [(one.a, one.b) for one in pairs] == [
        ("small:v0", "small:v1"),
        ("small:v0", "small:v2"),
        ("small:v1", "small:v2"),
    ]
    assert compare_variants(fleet, "v0", "v2") == pairs[1]
    turned = compare_variants(fleet, "v2", "v0")
    assert (turned.difference, turned.p_value) == (-pairs[1].difference, pairs[1].p_value)
    for one in pairs:
        assert one.comparisons == 3
        assert (one.low > 0 or one.high < 0) == one.is_clear
    assert pairs[1].p_value > compare(side_of(fleet, "v0"), side_of(fleet, "v2")).p_value


def test_all_pairs_of_many_variants_are_compared(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {f"v{number}": [[True], [False]] for number in range(7)})
    assert len(compared_pairs(fleet, overview(fleet))) == 21


def test_errors_that_could_change_the_verdict_prevent_one(tmp_path: Path) -> None:
    a = [_tallied(3, 5)] * 8
    b: list[list[bool | None]] = [[True, True, None, None, None]] * 8  # what it did not pass was lost
    fleet = _fleet(tmp_path, {"a": a, "b": b})
    found = compare(side_of(fleet, "a"), side_of(fleet, "b"))
    assert (found.low > 0, found.is_clear, found.depends_on_errors) == (True, False, True)
    assert found.verdict.startswith("no clear winner")
    assert (found.trouble_a, found.trouble_b) == (SideTrouble(0, 0), SideTrouble(0, 24))
    assert "24 errors" in comparison_text(found)


def test_what_a_success_costs_does_not_depend_on_repeats(tmp_path: Path) -> None:
    costs = []
    for repeats in (1, 2, 6):
        (folder := tmp_path / str(repeats)).mkdir()
        fleet = _fleet(folder, {"a": [[True] * repeats, [False] * repeats]})
        costs.append(report_of(fleet).variants[0].cost_per_solved_usd)
    assert costs == [1.0, 1.0, 1.0]


def test_costs_that_are_known_of_some_runs_alone_are_not_compared(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a": [[True, True]], "b": [[True, True]]})
    assert compare(side_of(fleet, "a"), side_of(fleet, "b")).cost_ratio == 1.0
    case = next(one for one in fleet.plan.cases.values() if one.variant.name == "b")
    cases = [
        one._replace(result=replace(one.result, cost_usd=0.1, is_unpriced=True))
        if one.case.id == case.id and one.result
        else one
        for one in overview(fleet)
    ]
    assert compare(side_of(fleet, "a", cases), side_of(fleet, "b", cases)).cost_ratio is None


def test_crashes_that_an_earlier_version_tried_again_are_failures(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a": [[None]], "b": [[None]]})
    case_a, case_b = sorted(fleet.plan.cases.values(), key=lambda case: case.variant.name)
    for number, case, fault in ((2, case_a, "agent_failed"), (3, case_a, ""), (2, case_b, "setup_failed")):
        about: dict[str, Any] = {"fault": fault, "passed": None if fault else True, "cost_usd": 0.5}
        fleet.records.add(Attempt(case=case.id, number=number, **about))
    a, b = report_of(fleet).variants
    assert (a.passed, a.failed, a.crashed, a.errors, a.cost_usd) == (0, 1, 1, 0, 1.5)
    assert (b.failed, b.errors) == (0, 1)


def test_scores_are_in_report_comparison_and_exports(tmp_path: Path) -> None:
    made = small_fleet.plan(
        tmp_path,
        [Variant(name=name, agent="native", model="scripted/demo") for name in "ab"],
        [FleetTask(id=f"t{number}", prompt="x", check="true") for number in range(3)],
        repeats=2,
    )
    fleet = small_fleet.fleet(tmp_path, made)
    for case in fleet.plan.cases.values():
        reward = 0.25 * int(case.task.id[1]) + (0.25 if case.variant.name == "b" else 0.0)
        is_crashed = case.task.id == "t2" and case.variant.name == "b" and case.repeat == 1
        score = {} if is_crashed else {"reward": reward, "tests": 3.0}
        fleet.records.add(
            Attempt(case=case.id, number=1, passed=False, crashed=is_crashed, score=score, log_id="x")
        )
    cases = overview(fleet)
    a, b = report_of(fleet, cases).variants
    assert a.scores["reward"].mean == pytest.approx(0.25)
    assert b.scores["reward"].mean == pytest.approx((0.25 + 0.5 + 0.375) / 3)  # a crash counts as 0
    assert a.scores["tests"].low is None
    found = compare(side_of(fleet, "a"), side_of(fleet, "b"))
    assert found.scores["reward"].difference == pytest.approx(0.125)
    assert found.trouble_b.crashed == 1
    text = report_text([a, b])
    assert "reward" in text
    assert "≥ 0.0000" in text  # what these runs used is not known
    rows = list(csv.DictReader(io.StringIO(as_csv(fleet, cases))))
    first = next(row for row in rows if row["task"] == "t1" and row["variant"] == "b")
    assert (first["score"], json.loads(first["scores"])) == ("0.5", {"reward": 0.5, "tests": 3.0})
    page = as_html(fleet, cases).decode()
    assert "reward 0.5" in page
    assert "the agent crashed" in page


def test_predictions_of_variants_and_repeats_do_not_replace_each_other(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"a/x": [[True, True], [True, True]], "a x": [[True, False], [True, True]]})
    paths = write_predictions(fleet, overview(fleet), str(tmp_path / "out"))
    assert sorted(os.path.basename(path) for path in paths) == [
        "a-x-1.1.json",
        "a-x-1.2.json",
        "a-x-2.1.json",
        "a-x-2.2.json",
    ]
    for path in paths:
        found = json.loads(Path(path).read_text())
        assert [one["instance_id"] for one in found] == ["t0", "t1"]


def test_only_tasks_that_are_the_same_are_compared(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = _fleet(tmp_path / "one", {"a": [[True], [True]]}, ["same", "only here"])
    two = _fleet(tmp_path / "two", {"a": [[False], [True]]}, ["same", "only there"])
    found = compare(side_of(one, ""), side_of(two, ""))
    assert (found.tasks, found.left_out, found.difference) == (1, 2, -1.0)
    (tmp_path / "three").mkdir()
    three = _fleet(tmp_path / "three", {"a": [[True]]}, ["another"])
    with pytest.raises(UsageError, match="no scored task in common"):
        compare(side_of(one, ""), side_of(three, ""))
    with pytest.raises(UsageError, match="has no variant 'x'"):
        side_of(one, "x")


def test_the_difference_of_two_runs_does_not_depend_on_their_folders() -> None:
    def run(cwd: str, *commands: str) -> list[Any]:
        events: list[Any] = [SessionStart(agent="x", cwd=cwd, run_id="r")]
        events.append(ToolStart(call_id="0", tool_name="read", operations=[Read(path=f"{cwd}/a.py")]))
        for number, command in enumerate(commands, 1):
            events.append(
                ToolStart(
                    call_id=str(number),
                    tool_name="sh",
                    operations=[Command(command=f"cd {cwd} && {command}")],
                )
            )
            events.append(ToolEnd(call_id=str(number), tool_name="sh", success=command != "bad"))
        return events

    a, b = steps_of(run("/one/repo", "ls", "bad", "end")), steps_of(run("/two/repo", "ls", "good", "end"))
    assert (first_difference(a, b), first_difference(a, a)) == (2, None)
    pairs = aligned_steps(a, b)
    assert [one.is_same for one in pairs] == [True, True, False, False, True]
    assert (pairs[2].a and pairs[2].a.text, pairs[2].a and pairs[2].a.success) == ("cd . && bad", False)
    assert first_difference(a, a[:2]) == 2


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_the_html_report_loads_and_runs_nothing(tmp_path: Path) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    fleet = _fleet(
        tmp_path, {evil: [[True, False], [None, True]], "b": [[False, False]] * 2}, [evil, "'onload='"]
    )
    cases = overview(fleet)
    pair = compare(side_of(fleet, evil), side_of(fleet, "b"))
    page = html_report(
        report_of(fleet, cases), cases, [pair], {one.case.id: "+<script>x</script>" for one in cases}
    )
    parser = _Text()
    parser.feed(page)
    assert not {"script", "img", "iframe", "link", "object", "form"} & set(parser.tags)
    assert not [name for name, _value in parser.attributes if name.startswith("on") or name == "src"]
    assert not re.search(r"https?://", page)
    assert "default-src 'none'" in page
    assert parser.tags.count("svg") == 2


def test_exports(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"=cmd()": [[True], [None]]})
    cases = overview(fleet)
    rows = list(csv.DictReader(io.StringIO(as_csv(fleet, cases))))
    assert [(row["variant"], row["passed"], row["state"]) for row in rows] == [
        ("'=cmd()", "True", "passed"),
        ("'=cmd()", "", "error"),
    ]
    files = predictions(fleet, cases)
    assert {name: json.loads(data) for name, data in files.items()} == {
        "cmd.1.json": [
            {"instance_id": "t0", "model_name_or_path": "=cmd()", "model_patch": "+<script>\n-old\n"}
        ]
    }
    duckdb = pytest.importorskip("duckdb", reason="the extra `sql` is not installed")
    path = str(tmp_path / "it's.parquet")
    write_parquet(fleet, cases, path)
    found = duckdb.read_parquet(path).aggregate('count(*), sum(cost_usd), sum("input")').fetchall()
    assert found == [(2, 1.0, 20)]


def test_a_cost_that_is_not_known_is_not_zero(tmp_path: Path) -> None:
    tasks = [FleetTask(id="t", prompt="x", check="true")]
    variants = [Variant(name="v", agent="native", model="scripted/demo")]
    fleet = small_fleet.fleet(tmp_path, small_fleet.plan(tmp_path, variants, tasks, repeats=3, retries=1))
    unknown, known, waiting = fleet.plan.cases.values()
    fleet.records.add(Attempt(case=unknown.id, number=1, passed=False, crashed=True), b"")
    fleet.records.add(Attempt(case=known.id, number=1, fault="lost"), b"")
    fleet.records.add(Attempt(case=known.id, number=2, passed=True, cost_usd=0.5), b"")
    rows = csv.DictReader(io.StringIO(as_csv(fleet, overview(fleet))))
    assert {row["case"]: row["cost_usd"] for row in rows} == {
        unknown.id: "",
        known.id: "0.5",
        waiting.id: "0",
    }


def test_ten_thousand_cases_are_reported_in_two_seconds(tmp_path: Path) -> None:
    tasks = tuple(FleetTask(id=f"t{number}", prompt="x", digest=str(number)) for number in range(1000))
    variants = tuple(Variant(name=f"v{number}", agent="native") for number in range(2))
    made = FleetPlan(name="many", tasks=tasks, variants=variants, repeats=5)

    class Known:
        def results(self) -> dict[str, Attempt]:
            return {case: Attempt(case=case, number=1, passed=int(case, 16) % 3 == 0) for case in made.cases}

        def faults(self) -> dict[str, list[Attempt]]:
            return {}

        def in_progress(self) -> dict[str, Any]:
            return {}

    fleet = Fleet("many", str(tmp_path), Known())  # type: ignore[arg-type]
    fleet.__dict__["plan"] = made
    began = time.process_time()
    cases = overview(fleet)
    report = report_of(fleet, cases)
    compare(side_of(fleet, "v0", cases), side_of(fleet, "v1", cases))
    assert sum(one.runs for one in report.variants) == 10_000
    assert time.process_time() - began < 2
