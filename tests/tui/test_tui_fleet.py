"""Fleets in the terminal: the table while it changes, cases, comparisons and stopping."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness.events import Usage
from harness.fleet.compare import Comparison, TaskDifference
from harness.fleet.overview import CaseState
from harness.fleet.report import VariantReport
from harness.fleet.watching import CaseView, FleetSummary, FleetView, VariantView
from harness.folds.inbox.row import InboxRow
from scripted_inbox import ABLE, NOW_MS, ScriptedInbox
from terminal_screen import Seen, drive, still

__all__ = ["still"]

PICTURES = Path(__file__).parent / "screens"
STATES: tuple[CaseState, ...] = ("passed", "passed", "failed", "running", "error", "waiting")
TASKS = ["cart total", "the readme of the shop", "greeting"]


def fleet_view(*variants: str, name: str = "shop") -> FleetView:
    names = variants or ("claude", "codex")
    places = [(task, variant, repeat) for task in TASKS for variant in names for repeat in (0, 1)]
    cases = [
        case_view(number, task, variant, repeat) for number, (task, variant, repeat) in enumerate(places)
    ]
    counted = [one.state for one in cases]
    summary = FleetSummary(
        name=name,
        state="running",
        cases=len(cases),
        passed=counted.count("passed"),
        failed=counted.count("failed"),
        errors=counted.count("error"),
        running=counted.count("running"),
        waiting=counted.count("waiting"),
        cost_usd=0.31,
        budget_usd=5.0,
        started_ms=NOW_MS - 60_000,
        left_s=95.0,
        is_attended=True,
    )
    return FleetView(
        summary=summary,
        tasks=TASKS,
        variants=[VariantView(name=one, agent=one, model="") for one in names],
        repeats=2,
        cases=cases,
        report=[variant_report(one) for one in names],
    )


def case_view(number: int, task: str, variant: str, repeat: int) -> CaseView:
    state = STATES[number % len(STATES)]
    is_running = state == "running"
    return CaseView(
        id=f"case{number}",
        task=task,
        variant=variant,
        repeat=repeat,
        state=state,
        attempts=0 if state in ("waiting", "running") else 1,
        session="" if state == "waiting" else f"session{number}",
        cost_usd=None if state in ("waiting", "running") else 0.0123,
        run_s=None if state in ("waiting", "running") else 12.5,
        fault="rate_limited" if state == "error" else "",
        started_ms=NOW_MS - 8_000 if is_running else None,
        activity="$ npm test" if is_running else "",
    )


def variant_report(name: str) -> VariantReport:
    return VariantReport(
        variant=name,
        cases=6,
        runs=3,
        passed=2,
        failed=1,
        errors=1,
        left=2,
        tasks=3,
        solved=2,
        pass_rate=0.667,
        low=0.2,
        high=1.0,
        pass_at={2: 0.8},
        pass_all={2: 0.5},
        cost_usd=0.15,
        cost_per_solved_usd=0.075,
        unpriced=0,
        median_s=12.5,
        usage=Usage(),
        faults={},
    )


def comparison(a: str, b: str) -> Comparison:
    return Comparison(
        a=f"shop:{a}",
        b=f"shop:{b}",
        tasks=3,
        left_out=0,
        rate_a=0.3,
        rate_b=0.6,
        difference=0.333,
        low=-0.1,
        high=0.7,
        better=1,
        worse=0,
        p_value=1.0,
        is_clear=False,
        tasks_needed=18,
        cost_ratio=None,
        time_ratio=None,
        changed=[TaskDifference("cart total", 0.0, 1.0)],
    )


def with_fleet(*views: FleetView) -> ScriptedInbox:
    data = ScriptedInbox([InboxRow(id="session3", title="cart total · codex · 2", state="running", can=ABLE)])
    data.fleet_source.views = {view.summary.name: view for view in views or (fleet_view(),)}
    return data


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("width", "height"), [(60, 24), (100, 30), (160, 34)])
def test_a_fleet_looks_as_it_did(width: int, height: int) -> None:
    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("j", "l")
        picture = PICTURES / f"fleet-{width}x{height}.txt"
        if os.environ.get("HARNESS_REWRITE"):
            picture.write_text(seen.text, encoding="utf-8")
        assert seen.text == picture.read_text(encoding="utf-8")

    drive(with_fleet(), look, size=(width, height))


@pytest.mark.usefixtures("still")
def test_what_changes_is_shown_without_a_key() -> None:
    data = with_fleet()

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("8/12")
        view = data.fleet_source.views["shop"]
        data.fleet_source.views["shop"] = replace(
            view, summary=replace(view.summary, passed=9, state="completed")
        )
        await seen.shows("done · 13/12")

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_a_case_leads_to_its_conversation() -> None:
    data = with_fleet()

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("l", "l", "l", "enter")
        assert seen.app.screen is seen.screen
        assert seen.screen.list.selected == "session3"
        assert data.fleet_source.is_closed
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("j", "l", "enter")
        await seen.shows("it has no session yet")
        await seen.press("h", "enter")
        await seen.shows("harness sessions show session4")

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_two_variants_are_compared() -> None:
    data = with_fleet()
    data.fleet_source.comparisons["claude", "codex"] = comparison("claude", "codex")

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("equals_sign")
        await seen.shows("no clear winner")
        await seen.shows("with about 18 tasks")
        await seen.shows("cart total  0% → 100%")
        await seen.press("escape")
        data.fleet_source.comparisons.clear()
        await seen.press("equals_sign")
        await seen.shows("have no scored task in common")

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_of_several_variants_the_first_press_chooses_the_baseline() -> None:
    data = with_fleet(fleet_view("a", "b", "c"))
    data.fleet_source.comparisons["b", "c"] = comparison("b", "c")

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("l", "l", "equals_sign")
        await seen.shows("b is the baseline")
        await seen.press("l", "l", "equals_sign")
        await seen.shows("no clear winner")

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_a_fleet_is_stopped_by_the_second_press() -> None:
    data = with_fleet()

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("greeting")
        await seen.press("x")
        await seen.shows("x again stops it after the cases that run")
        assert data.fleet_source.stopped == []
        await seen.press("x")
        assert data.fleet_source.stopped == [("shop", False)]
        await seen.press("X", "X")
        assert data.fleet_source.stopped[-1] == ("shop", True)

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_several_fleets_are_a_list_and_a_broken_one_is_a_row_of_it() -> None:
    data = with_fleet(fleet_view(), fleet_view(name="other"))
    broken = FleetSummary(name="torn", state="broken", problem="the plan cannot be read")
    data.fleet_source.others = [broken]

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("torn  the plan cannot be read")
        await seen.press("j", "enter")
        await seen.shows("greeting")
        assert "other" in seen.text.split("\n")[0]
        await seen.press("escape")
        await seen.shows("▶ other")
        await seen.press("escape")
        assert seen.app.screen is seen.screen

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_without_fleets_the_screen_shows_how_to_start_one() -> None:
    data = ScriptedInbox([])

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("harness fleet run tasks/ -a claude -a codex")
        await seen.press("q", "F")
        data.fleet_source.problem = "no server answers"
        await seen.shows("no server answers")

    drive(data, look)


@pytest.mark.usefixtures("still")
def test_names_cannot_move_the_cursor_of_the_terminal() -> None:
    view = fleet_view("a\x1b[2Jb", "c\u202ed")
    data = with_fleet(replace(view, tasks=["x\x1b]0;evil\x07y", "two", "three"]))

    async def look(seen: Seen) -> None:
        await seen.press("F")
        await seen.shows("three")
        assert "\x1b" not in seen.text
        assert "\u202e" not in seen.text

    drive(data, look)
