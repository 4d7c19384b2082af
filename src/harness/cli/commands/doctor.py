"""Run the installed agents against a scripted model, and report which of them have changed.

It costs nothing, and nothing of yours is changed: each scenario has a temporary home and project, and no network but
loopback where the system allows that. A verdict per scenario: verified, degraded (something is no longer visible), drift
(unknown records or fields), broken, unfinished (--quick ran out of time). It also lists sessions that agents are about
to delete.

Exit codes: 0 all verified, or none installed; 1 degraded or drift; 2 broken or unfinished, or none of the named agents
could be run.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from harness.cli.console import Console, can_erase
from harness.cli.output import write_json, write_text
from harness.cli.parser import completes
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.lab.doctor_report import AgentReport, ExaminedAgent, ScenarioResult

SUMMARY = "check, offline, that the installed agents still work with Harness"

_MARKS = {
    "verified": "✓",
    "degraded": "!",
    "drift": "~",
    "wrong": "≠",
    "broken": "✗",
    "inconclusive": "?",
    "unfinished": "…",
    "skipped": "–",
}
_ERASE = "\r\x1b[K"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "name or alias (default: all that are installed)"
    completes(parser.add_argument("agents", metavar="AGENT", nargs="*", help=help_text), "agents")
    parser.add_argument(
        "--quick", action="store_true", help="only the most important scenarios, 15 s per agent"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--record", default="", metavar="DIR", help="keep what the agents write, as recordings"
    )
    help_text = "run this scenario (may be repeated; default: all)"
    completes(
        parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help=help_text),
        "scenarios",
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.clients.installed_agents import warn_of_plugins
    from harness.lab.doctor import QUICK_S, choose, examine, find_agents
    from harness.lab.doctor_report import exit_code

    scenarios = choose(arguments.scenario, is_quick=arguments.quick)
    statuses = find_agents(arguments.agents)
    if not arguments.agents:
        warn_of_plugins(console.warning)
    _require_all(arguments.agents, statuses)
    if not statuses:
        console.say("harness: no agent is installed; `harness agents check NAME` shows how to install one")
    display = _Display(console, len(scenarios))
    reports = []
    with _EndedBySignals():
        for status in statuses:
            limit_s = QUICK_S if arguments.quick else None
            report = examine(status, scenarios, limit_s=limit_s, record=arguments.record, watch=display.show)
            display.erase()
            reports.append(report)
            if not arguments.json:
                write_text(_table(report))
    if arguments.json:
        write_json([_as_data(report) for report in reports])
    else:
        _warn_of_loss(arguments, console)
    return exit_code(reports)


def _warn_of_loss(arguments: argparse.Namespace, console: Console) -> None:
    """Say which sessions the agents of this machine are about to delete."""
    from harness.cli import preferences
    from harness.cli.session_keep import warn_of_expiring
    from harness.clients.sessions.histories import HistorySessions

    settings = preferences.load(console, has_verbose=arguments.verbose)
    warn_of_expiring(HistorySessions(writes=False), preferences.open_store(settings), console)


def _require_all(names: list[str], statuses: list[ExaminedAgent]) -> None:
    """An agent that was named must be examined. Raises UsageError."""
    from harness.agents.registry import load

    examined = {status.agent for status in statuses}
    if missing := [name for name in names if load(name).name not in examined]:
        raise UsageError(
            f"the doctor cannot examine {', '.join(missing)}",
            hint="only agents that are programs of their own have a format that can drift",
        )


class _EndedBySignals:
    """SIGTERM and SIGHUP end the doctor as Ctrl-C does: it cleans up first."""

    def __enter__(self) -> None:
        import signal

        from harness.cli.interruption import raise_on_interrupt

        def leave(number: int, _frame: object) -> None:
            sys.exit(128 + number)

        raise_on_interrupt()
        self._before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *_: object) -> None:
        import signal

        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Display:
    """How far it is, on standard error: one line that is rewritten, or one line per result."""

    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._count = count
        self._done_count = 0
        self._is_rewritten = can_erase(2, os.environ)

    def show(self, status: ExaminedAgent, result: ScenarioResult | None) -> None:
        self._done_count = 0 if result is None else self._done_count + 1
        if status.note:
            return
        name = f"{status.agent} {status.version}".rstrip()
        head = f"{name} {self._done_count}/{self._count}"
        text = f"{head} {result.scenario}: {result.verdict}" if result else f"{head} …"
        if self._is_rewritten:
            self._console.put(f"{_ERASE}{text[:78]}")
        elif result is not None:
            self._console.say(text)

    def erase(self) -> None:
        if self._is_rewritten:
            self._console.put(_ERASE)


def _table(report: AgentReport) -> str:
    status = report.status
    is_changed = status.last_verified and status.version and status.last_verified != status.version
    verified = f"last verified: {status.last_verified}" if status.last_verified else "never verified"
    lines = [
        f"{status.title} {status.version}".rstrip() + f": {report.verdict if report.results else 'not run'}",
        f"  program      {status.binary or 'not found'}",
        f"  version      {status.version or 'unknown'} ({verified}{', another one' if is_changed else ''})",
        f"  credentials  {_credentials(status)}",
    ]
    if status.note:
        return "\n".join([*lines, f"  {status.note}"]) + "\n\n"
    if status.network:
        lines.append(f"  network      shared with this machine: {status.network}")
    names: set[str] = set()
    width = max((len(result.scenario) for result in report.results), default=0)
    for result in report.results:
        mark = _MARKS[result.verdict]
        took = f"{result.duration_ms / 1000:.1f} s" if result.duration_ms else ""
        lines.append(
            f"  {mark} {result.scenario:<{width}}  {result.verdict:<10} {result.reason or took}".rstrip()
        )
        lines += [f"      never shown: {gap}" for gap in result.known_gaps]
        lines += [f"      {line}" for line in _held(result)]
        for finding in result.findings:
            is_news = finding.what not in names
            names.add(finding.what)
            lines.append(f"      {finding.kind}: {finding.what}{'' if is_news else ' (as above)'}")
            if finding.example and is_news:
                lines.append(f"        {' '.join(finding.example.split())[:200]}")
    return "\n".join(lines) + "\n\n"


def _held(result: ScenarioResult) -> list[str]:
    """What was tried in each permission mode, and what could not be."""
    lines = []
    for mode in dict.fromkeys(trial.mode for trial in result.held):
        trials = [trial for trial in result.held if trial.mode == mode]
        tries, unasked = (sum(getattr(trial, name) for trial in trials) for name in ("tried", "unasked"))
        lines.append(f"{mode}: {unasked} of {tries} unasked" if tries else f"{mode}: refused")
    untried = {f"not tried: {trial.what}: {trial.reason}": None for trial in result.held if trial.reason}
    return [*lines, *untried]


def _credentials(status: ExaminedAgent) -> str:
    """Which there are, never what they are; the doctor passes none of them on."""
    present = [name for name, is_set in status.credentials.items() if is_set]
    if present:
        return f"present in {', '.join(present)}"
    return f"none in {', '.join(status.credentials)}" if status.credentials else "no variable is known"


def _as_data(report: AgentReport) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(report)
    return {**data["status"], "verdict": report.verdict, "trials": data["results"]}
