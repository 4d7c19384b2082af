"""Runs the agents that are installed against a scripted model, and says which of them have changed.

Nothing is paid for, and nothing of yours is read or written: each scenario has a home and a project that
are thrown away, and no network but the loopback where the system allows that. A verdict per scenario:
verified, degraded (something is not visible any more), drift (records or fields that nobody knows),
broken, unfinished (--quick has no time left). Exit codes: 0 all verified, or none installed; 1 degraded or
drift; 2 broken or unfinished, or of those that were named none could be run.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from harness.interfaces.cli.console import Console, can_erase
from harness.interfaces.cli.parser import completes

if TYPE_CHECKING:
    from harness.lab.doctor_report import AgentReport, AgentStatus, ScenarioResult

SUMMARY = "find out, offline, whether the agents here still speak as they did"

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
    parser.add_argument("--quick", action="store_true", help="the most telling scenarios, 15 s per agent")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--record", default="", metavar="DIR", help="keep what the agents write, as recordings"
    )
    help_text = "play this one (may be given several times; default: all)"
    completes(
        parser.add_argument("--scenario", action="append", default=[], metavar="NAME", help=help_text),
        "scenarios",
    )


def execute(arguments: argparse.Namespace, console: Console) -> int:
    from harness.interfaces.cli.inventory import warn_of_plugins
    from harness.interfaces.cli.output import write_json, write_text
    from harness.lab.doctor import QUICK_S, choose, examine, find_agents
    from harness.lab.doctor_report import exit_code

    scenarios = choose(arguments.scenario, is_quick=arguments.quick)
    patients = find_agents(arguments.agents)
    if not arguments.agents:
        warn_of_plugins(console)
    _require_all(arguments.agents, patients)
    if not patients:
        console.say("harness: no agent is installed; `harness agents check NAME` tells how to get one")
    display = _Display(console, len(scenarios))
    diagnoses = []
    with _EndedBySignals():
        for patient in patients:
            limit_s = QUICK_S if arguments.quick else None
            diagnosis = examine(
                patient, scenarios, limit_s=limit_s, record=arguments.record, watch=display.show
            )
            display.erase()
            diagnoses.append(diagnosis)
            if not arguments.json:
                write_text(_table(diagnosis))
    if arguments.json:
        write_json([_as_data(diagnosis) for diagnosis in diagnoses])
    return exit_code(diagnoses)


def _require_all(names: list[str], patients: list[AgentStatus]) -> None:
    """Whoever names an agent wants to hear of it. Raises UsageError."""
    from harness.errors import UsageError
    from harness.sources.registry import load

    examined = {patient.agent for patient in patients}
    if missing := [name for name in names if load(name).name not in examined]:
        raise UsageError(
            f"the doctor cannot examine {', '.join(missing)}",
            hint="only agents that are programs of their own have a format that can drift",
        )


class _EndedBySignals:
    """SIGTERM and SIGHUP end the doctor as Ctrl-C does: what it has begun is cleared away."""

    def __enter__(self) -> None:
        import signal

        from harness.interfaces.cli.interruption import raise_on_interrupt

        def leave(number: int, _frame: object) -> None:
            sys.exit(128 + number)

        raise_on_interrupt()
        self._before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}

    def __exit__(self, *_: object) -> None:
        import signal

        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Display:
    """How far it is, on standard error: one line that is rewritten, or one line per trial."""

    def __init__(self, console: Console, count: int) -> None:
        self._console = console
        self._count = count
        self._done = 0
        self._is_rewritten = can_erase(2, os.environ)

    def show(self, patient: AgentStatus, trial: ScenarioResult | None) -> None:
        self._done = 0 if trial is None else self._done + 1
        if patient.note:
            return
        name = f"{patient.agent} {patient.version}".rstrip()
        head = f"{name} {self._done}/{self._count}"
        text = f"{head} {trial.scenario}: {trial.verdict}" if trial else f"{head} …"
        if self._is_rewritten:
            self._console.put(f"{_ERASE}{text[:78]}")
        elif trial is not None:
            self._console.say(text)

    def erase(self) -> None:
        if self._is_rewritten:
            self._console.put(_ERASE)


def _table(diagnosis: AgentReport) -> str:
    patient = diagnosis.patient
    is_changed = patient.last_verified and patient.version and patient.last_verified != patient.version
    verified = f"last verified: {patient.last_verified}" if patient.last_verified else "never verified"
    lines = [
        f"{patient.title} {patient.version}".rstrip()
        + f": {diagnosis.verdict if diagnosis.trials else 'not run'}",
        f"  program      {patient.binary or 'not found'}",
        f"  version      {patient.version or 'unknown'} ({verified}{', another one' if is_changed else ''})",
        f"  credentials  {_credentials(patient)}",
    ]
    if patient.note:
        return "\n".join([*lines, f"  {patient.note}"]) + "\n\n"
    if patient.network:
        lines.append(f"  network      shared with this machine: {patient.network}")
    told: set[str] = set()
    width = max((len(trial.scenario) for trial in diagnosis.trials), default=0)
    for trial in diagnosis.trials:
        mark = _MARKS[trial.verdict]
        took = f"{trial.duration_ms / 1000:.1f} s" if trial.duration_ms else ""
        lines.append(
            f"  {mark} {trial.scenario:<{width}}  {trial.verdict:<10} {trial.reason or took}".rstrip()
        )
        lines += [f"      never shown: {gap}" for gap in trial.known_gaps]
        for finding in trial.findings:
            is_news = finding.what not in told
            told.add(finding.what)
            lines.append(f"      {finding.kind}: {finding.what}{'' if is_news else ' (as above)'}")
            if finding.example and is_news:
                lines.append(f"        {' '.join(finding.example.split())[:200]}")
    return "\n".join(lines) + "\n\n"


def _credentials(patient: AgentStatus) -> str:
    """Which there are, never what they are; the doctor passes none of them on."""
    present = [name for name, is_set in patient.credentials.items() if is_set]
    if present:
        return f"present in {', '.join(present)}"
    return f"none in {', '.join(patient.credentials)}" if patient.credentials else "no variable is known"


def _as_data(diagnosis: AgentReport) -> dict[str, Any]:
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(diagnosis)
    return {**data["patient"], "verdict": diagnosis.verdict, "trials": data["trials"]}
