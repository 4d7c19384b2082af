"""Runs a fleet in this process: its live table on the terminal, signals and exit code."""

from __future__ import annotations

import argparse
import os
import re
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from msgspec.structs import replace

from harness.cli.console import Console, can_erase, wants_color, width_of
from harness.cli.fleet.chosen_cases import chosen
from harness.cli.output import STDOUT, write_json_lines, write_text
from harness.errors import LogLocked
from harness.events import CaseSession, Event, FleetEnded
from harness.fleet.engines.open_engine import open_engine
from harness.fleet.engines.scheduler import Scheduler
from harness.fleet.fleet import Fleet
from harness.fleet.overview import in_order
from harness.fleet.report import report_of
from harness.fleet.report_text import CASE_SIGNS, elapsed, report_text
from harness.fleet.watching import CaseActivity
from harness.formatting.columns import columns, cut
from harness.formatting.escapes import single_line
from harness.log import codec
from harness.log.hub import Hub

_COLOR_CODES = {"green": "32", "red": "31", "yellow": "33", "cyan": "36", "dim": "2"}
_MOST_RUNNING = 8
_FEWEST_ROWS = 5


class LiveTable:
    """Tasks × variants, what runs now, cost and time left. Contract: `draw` replaces what it has drawn before."""

    def __init__(self, fleet: Fleet, *, color: bool) -> None:
        self._fleet = fleet
        self._color = color
        self._began = time.monotonic()
        self._done_before: int | None = None
        self._drawn = 0
        self._order = in_order(fleet.plan)
        self._activities: dict[str, CaseActivity] = {}

    def show(self, event: Event) -> None:
        if isinstance(event, CaseSession):
            self._activities[event.case] = CaseActivity(self._fleet, event.log_id)

    def draw(self, scheduler: Scheduler) -> None:
        width = width_of(STDOUT, os.environ) - 1
        lines = [*self._grid(scheduler), "", *self._running(scheduler), self._summary(scheduler)]
        frame = "".join(f"{self._fit(line, width)}\x1b[K\n" for line in lines)
        write_text(f"{self._up()}{frame}\x1b[J", is_styled=True)
        self._drawn = len(lines)

    def clear(self) -> None:
        write_text(f"{self._up()}\x1b[J", is_styled=True)
        self._drawn = 0

    def _up(self) -> str:
        return f"\x1b[{self._drawn}A\r" if self._drawn else ""

    def _grid(self, scheduler: Scheduler) -> list[str]:
        """Tasks and variants, one mark for each repeat; those where something happens first, if not all fit."""
        variants = [variant.name for variant in self._fleet.plan.variants]
        cells: dict[str, dict[str, str]] = {}
        busy: set[str] = set()
        for case in self._order:
            state = _state(scheduler, case.id)
            mark = self._mark(state)
            row = cells.setdefault(case.task.id, dict.fromkeys(variants, ""))
            row[case.variant.name] += mark
            if state == "running":
                busy.add(case.task.id)
        room = max(_FEWEST_ROWS, _height() - min(_MOST_RUNNING, len(scheduler.running)) - 6)
        names = list(cells)
        if len(names) > room:
            names = sorted(names, key=lambda name: name not in busy)[:room]
        repeats = self._fleet.plan.repeats
        widths = [max(repeats, min(24, columns(single_line(name)))) for name in variants]
        first = max(4, min(40, max(columns(single_line(name)) for name in names)))
        head = [
            cut(single_line(name), width).ljust(width) for name, width in zip(variants, widths, strict=True)
        ]
        lines = ["  ".join(["task".ljust(first), *head])]
        for name in names:
            pad = [" " * (width - repeats) for width in widths]
            marks = [cells[name][variant] + space for variant, space in zip(variants, pad, strict=True)]
            title = cut(single_line(name), first)
            lines.append("  ".join([title + " " * (first - columns(title)), *marks]))
        hidden = len(cells) - len(names)
        return [*lines, f"… and {hidden} more tasks"] if hidden else lines

    def _running(self, scheduler: Scheduler) -> list[str]:
        lines = []
        for case_id, worker in list(scheduler.running.items())[:_MOST_RUNNING]:
            activity = self._activities.get(case_id)
            doing = activity.latest() if activity else "starting"
            lines.append(f"{self._mark('running')} {single_line(worker.case.title)}: {doing}")
        more = len(scheduler.running) - _MOST_RUNNING
        return [*lines, f"  … and {more} more that run"] if more > 0 else lines

    def _summary(self, scheduler: Scheduler) -> str:
        total, done_count = len(self._order), len(scheduler.scored) + len(scheduler.given_up)
        if self._done_before is None:
            self._done_before = done_count
        passed = sum(bool(attempt.passed) for attempt in scheduler.scored.values())
        budget = scheduler.budget
        limit = f" of ${budget.budget_usd:g}" if budget.budget_usd else ""
        parts = [f"{done_count}/{total} done", f"{passed} passed", f"{len(scheduler.given_up)} errors"]
        parts += [f"{len(scheduler.running)} running", f"${budget.spent_usd:.4f}{limit}"]
        elapsed_s, fresh = time.monotonic() - self._began, done_count - self._done_before
        parts.append(elapsed(elapsed_s))
        if fresh and done_count < total:
            parts.append(f"about {elapsed(elapsed_s / fresh * (total - done_count))} left")
        return " · ".join(parts)

    def _mark(self, state: str) -> str:
        style, sign = CASE_SIGNS[state]
        code = _COLOR_CODES.get(style)
        return f"\x1b[{code}m{sign}\x1b[0m" if self._color and code else sign

    def _fit(self, line: str, width: int) -> str:
        """Marks with colours are never longer than the table; other lines are cut."""
        return line if "\x1b" in line and columns(_plain(line)) <= width else cut(_plain(line), width)


def _state(scheduler: Scheduler, case_id: str) -> str:
    attempt = scheduler.scored.get(case_id)
    if attempt is not None:
        return "done" if attempt.passed is None else "passed" if attempt.passed else "failed"
    if case_id in scheduler.running:
        return "running"
    return "error" if case_id in scheduler.given_up else "waiting"


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def _height() -> int:
    try:
        return os.get_terminal_size(STDOUT).lines or 24
    except OSError:
        return 24


EXIT_CODES = {"completed": 0, "budget": 3, "stopped": 130}
"""By why the fleet ended."""


def run_fleet(
    fleet: Fleet, arguments: argparse.Namespace, console: Console, *, retry: bool = False, quiet: bool = False
) -> int:
    """Work on the fleet until it is done. `quiet`: no events on standard output.

    Raises LogLocked when another process does and --join was not given.
    """
    fleet.keeps_workspaces = arguments.keep
    hub = _log(fleet, joins=arguments.join)
    address = arguments.ray_address or os.environ.get("RAY_ADDRESS", "")
    engine = open_engine(arguments.engine, fleet, address)
    table = LiveTable(fleet, color=_has_color(arguments)) if can_erase(STDOUT, os.environ) else None
    show: Callable[[Event], None] = table.show if table else _ignore if quiet else _write
    jobs = arguments.jobs or default_jobs()
    if arguments.budget_usd is not None:
        fleet.plan = replace(fleet.plan, budget_usd=arguments.budget_usd)
    cases = None if quiet else chosen(fleet.plan, arguments).keys()
    watch = table.draw if table else _ignore
    scheduler = Scheduler(fleet, engine, jobs, hub, show, retry=retry, watch=watch, chosen=cases)
    try:
        with _Signals(scheduler, console):
            end = scheduler.run()
    finally:
        if table is not None:
            table.clear()
        engine.close()
        scheduler.close()
        fleet.close()
    if table is not None and not quiet:
        write_text(report_text(report_of(fleet).variants))
    _summarize(fleet, end, console)
    return EXIT_CODES[end.reason]


def _log(fleet: Fleet, *, joins: bool) -> Hub | None:
    try:
        return fleet.open_log()
    except LogLocked:
        if joins:
            return None
        raise


def default_jobs() -> int:
    return max(2, os.cpu_count() or 1)


def _has_color(arguments: argparse.Namespace) -> bool:
    return wants_color(arguments.color, os.environ, is_terminal=True)


def _ignore(_: object) -> None:
    return


def _write(event: Event) -> None:
    write_json_lines(codec.encode_lines([event]))


def _summarize(fleet: Fleet, end: FleetEnded, console: Console) -> None:
    name = fleet.words[-1] if not fleet.database else fleet.name
    parts = [
        f"{end.scored} scored",
        f"{end.errors} errors",
        f"{end.left} left",
        f"${end.spent_usd:.4f}",
    ]
    console.say(f"fleet {fleet.name}: {end.reason}: {', '.join(parts)}")
    if end.left:
        console.say(f"  `harness fleet resume {name}` continues it")


class _Signals:
    """The first Ctrl-C lets the cases that run come to their end, the second stops them, the third kills them."""

    def __init__(self, scheduler: Scheduler, console: Console) -> None:
        self._scheduler = scheduler
        self._console = console
        self._before: dict[signal.Signals, Any] = {}
        self._count = 0

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._count += 1
        self._scheduler.stop()
        if number == signal.SIGTERM and self._count == 1:
            self._scheduler.stop()
        elif self._count == 1:
            self._console.say("no more cases are started; Ctrl-C again stops those that run")
