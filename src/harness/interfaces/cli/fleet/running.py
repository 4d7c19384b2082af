"""Carries out a fleet in this process: signals, display and exit code."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from msgspec.structs import replace

from harness.errors import LogLocked
from harness.events import Event, FleetEnded
from harness.fleet.engines.engine import open_engine
from harness.fleet.fleet import Fleet
from harness.fleet.report import report_of
from harness.fleet.scheduler import Scheduler
from harness.interfaces.cli.console import Console, can_erase, wants_color
from harness.interfaces.cli.fleet.live_table import LiveTable
from harness.interfaces.cli.fleet.results import report_text
from harness.interfaces.cli.output import STDOUT, write_out, write_text
from harness.log import codec
from harness.log.hub import Hub

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
    scheduler = Scheduler(fleet, engine, jobs, hub, show, retry=retry, watch=table.draw if table else _ignore)
    try:
        with _Signals(scheduler, console):
            ended = scheduler.run()
    finally:
        if table is not None:
            table.clear()
        engine.close()
        scheduler.close()
        fleet.close()
    if table is not None and not quiet:
        write_text(report_text(report_of(fleet).variants))
    _summarize(fleet, ended, console)
    return EXIT_CODES[ended.reason]


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
    write_out(codec.encode_lines([event]))


def _summarize(fleet: Fleet, ended: FleetEnded, console: Console) -> None:
    name = fleet.words[-1] if not fleet.database else fleet.name
    parts = [
        f"{ended.scored} scored",
        f"{ended.errors} errors",
        f"{ended.left} left",
        f"${ended.spent_usd:.4f}",
    ]
    console.say(f"fleet {fleet.name}: {ended.reason}: {', '.join(parts)}")
    if ended.left:
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
