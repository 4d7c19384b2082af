"""A fleet as it is now, for those who look at it: read from its records and logs, again and again, at little cost.

    with closing(FleetWatch(open_fleet("cart"))) as watch:
        watch.summary()          # one row of a list
        watch.view()             # every case, what the running ones do, and the report

`wake` (see `follow`) only notifies that something may have changed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Literal, TypeAlias

import msgspec

from harness.errors import HarnessError, StoreError, UnknownSession
from harness.events import BudgetReached, CaseStarted, Event, FleetEnded, ToolStart
from harness.fleet.fleet import Fleet, fleet_names, fleets_directory, named_fleet
from harness.fleet.overview import CaseOverview, CaseState, overview, tally
from harness.fleet.report import VariantReport, report_of
from harness.formatting.calls import described
from harness.formatting.escapes import single_line
from harness.log.store import LogReader

FleetState: TypeAlias = Literal[
    "planned", "running", "stopping", "completed", "budget", "stopped", "interrupted", "broken"
]
"""`planned`: nothing was started. `budget`, `stopped`: that is why it ended before all was done. `interrupted`: the
process that ran it has ended. `broken`: it cannot be read."""
_LONGEST_DETAIL = 300
_GAP_MS = 3_000
"""Between the end of a case and the start of the next there is a moment in which fewer run."""
_REPORT_EVERY_S = 1.0
"""A report of thousands of cases takes a moment."""


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Under the names of the wire."""


class FleetSummary(_Shape, frozen=True, kw_only=True):
    name: str
    state: FleetState
    problem: str = ""
    """What of it cannot be read, and what to do; the numbers are then those that could be."""
    cases: int = 0
    passed: int = 0
    failed: int = 0
    done: int = 0
    """With a result, but without a check."""
    errors: int = 0
    running: int = 0
    waiting: int = 0
    cost_usd: float = 0.0
    is_cost_complete: bool = True
    """False: at least so much; some tokens have no known price."""
    budget_usd: float | None = None
    started_ms: int | None = None
    updated_ms: int | None = None
    left_s: float | None = None
    """About how long it will take; None: not known, or nothing runs."""
    is_attended: bool = False
    """Whether a process works through its cases now: it can be stopped, and not continued."""


class CaseView(_Shape, frozen=True, kw_only=True):
    id: str
    task: str
    variant: str
    repeat: int
    """From 0."""
    state: CaseState
    attempts: int = 0
    session: str = ""
    """Of the latest attempt."""
    cost_usd: float | None = None
    """Of all attempts; None: not known."""
    outcome: str = ""
    run_s: float | None = None
    """Of the agent alone."""
    fault: str = ""
    """Why the latest attempt has no result."""
    detail: str = ""
    started_ms: int | None = None
    activity: str = ""
    """What it does, while it runs."""


class VariantView(_Shape, frozen=True, kw_only=True):
    name: str
    agent: str
    model: str


class FleetView(_Shape, frozen=True, kw_only=True):
    summary: FleetSummary
    tasks: list[str]
    variants: list[VariantView]
    repeats: int
    cases: list[CaseView]
    """By task, variant and repeat."""
    report: list[VariantReport]
    """One for each variant, under the names of `harness fleet report --json`."""


class CaseActivity:
    """What the run of a case did last, read from its log as it grows."""

    def __init__(self, fleet: Fleet, log_id: str) -> None:
        self.log_id = log_id
        self._fleet = fleet
        self._reader: LogReader | None = None
        self._text = "starting"

    def latest(self) -> str:
        try:
            if self._reader is None:
                self._reader = self._fleet.sessions.reader(self.log_id)
            events: Sequence[Event] = self._reader.read()
        except (HarnessError, OSError):
            return self._text
        for event in reversed(events):
            if isinstance(event, ToolStart):
                self._text = single_line("".join(text for _style, text in described(event, "")))
                break
        else:
            self._text = "working" if events and self._text == "starting" else self._text
        return self._text

    def close(self) -> None:
        if self._reader is not None:
            with suppress(OSError):
                self._reader.close()


class _FleetLog:
    """What a fleet's own log says, read as it grows."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._reader: LogReader | None = None
        self.started_ms: int | None = None
        self.updated_ms: int | None = None
        self.ended = ""
        """Why it ended; empty: it was started again since, or is not over."""
        self.budget_usd: float | None = None
        """The last that was reached: it may be raised when a fleet is continued."""
        self.problem = ""

    def read(self) -> None:
        try:
            if self._reader is None:
                self._reader = self._fleet.log_store.reader(self._fleet.log_id)
            while events := self._reader.read():
                for event in events:
                    self._take(event)
        except UnknownSession:
            return  # it has not started
        except HarnessError as error:
            self.problem = error.words
        except OSError as error:
            self.problem = f"cannot read the log of the fleet {self._fleet.name}: {error.strerror}"

    def _take(self, event: Event) -> None:
        if self.started_ms is None:
            self.started_ms = event.timestamp_ms
        self.updated_ms = event.timestamp_ms
        if isinstance(event, FleetEnded):
            self.ended = event.reason
        elif isinstance(event, CaseStarted):
            self.ended = ""
        elif isinstance(event, BudgetReached):
            self.budget_usd = event.budget_usd

    def close(self) -> None:
        if self._reader is not None:
            with suppress(OSError):
                self._reader.close()


class FleetWatch:
    """Contract: thread-safe; `close` last, which also closes the fleet. Methods raise HarnessError where it cannot be
    read.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._log = _FleetLog(fleet)
        self._activities: dict[str, CaseActivity] = {}
        self._report: list[VariantReport] = []
        self._reported: tuple[object, float] = None, 0.0
        self._lock = threading.Lock()

    def summary(self) -> FleetSummary:
        with self._lock:
            return self._summary(overview(self.fleet))

    def view(self) -> FleetView:
        with self._lock:
            cases = overview(self.fleet)
            plan = self.fleet.plan
            return FleetView(
                summary=self._summary(cases),
                tasks=[task.id for task in plan.tasks],
                variants=[
                    VariantView(name=variant.name, agent=variant.agent, model=variant.model)
                    for variant in plan.variants
                ],
                repeats=plan.repeats,
                cases=self._cases(cases),
                report=self._current_report(cases),
            )

    def follow(self, wake: Callable[[], object]) -> Callable[[], None]:
        """Call `wake`, from another thread, when the fleet's log or that of a running case has grown; returns how to
        stop that. It is bound to the cases that run now, so it is called again when others do.
        """
        places = [(self.fleet.log_store, self.fleet.log_id)]
        with self._lock:
            places += [(self.fleet.sessions, activity.log_id) for activity in self._activities.values()]
        stops: list[Callable[[], None]] = []
        for store, log_id in places:
            with suppress(
                HarnessError, OSError
            ):  # it has not started, or is broken: that is reported when it is read
                stops.append(store.watch(log_id, wake))

        def stop() -> None:
            for activity in stops:
                activity()

        return stop

    @property
    def is_attended(self) -> bool:
        """Whether a process works through its cases now."""
        return _is_attended(self.fleet)

    @property
    def followed(self) -> frozenset[str]:
        """The logs of the cases that ran when the fleet was read last."""
        return frozenset(self._activities)

    def close(self) -> None:
        with self._lock:
            for activity in self._activities.values():
                activity.close()
            self._log.close()
            self.fleet.close()

    def _summary(self, cases: Sequence[CaseOverview]) -> FleetSummary:
        fleet, log, counts = self.fleet, self._log, tally(cases)
        log.read()
        is_attended = _is_attended(fleet)
        state: FleetState = "completed"
        if is_attended or counts["running"]:
            state = "stopping" if fleet.records.stop_requested() else "running"
        elif counts["waiting"]:
            states: dict[str, FleetState] = {"budget": "budget", "stopped": "stopped"}
            state = states.get(log.ended, "planned" if log.started_ms is None else "interrupted")
        return FleetSummary(
            name=fleet.name,
            state=state,
            problem=log.problem,
            cases=len(cases),
            passed=counts["passed"],
            failed=counts["failed"],
            done=counts["done"],
            errors=counts["error"],
            running=counts["running"],
            waiting=counts["waiting"],
            cost_usd=round(sum(case.cost_usd for case in cases), 10),
            is_cost_complete=all(case.is_cost_complete for case in cases),
            budget_usd=log.budget_usd or fleet.plan.budget_usd,
            started_ms=log.started_ms,
            updated_ms=log.updated_ms,
            left_s=_left_s(cases),
            is_attended=is_attended,
        )

    def _cases(self, cases: Sequence[CaseOverview]) -> list[CaseView]:
        running = {case.log_id for case in cases if case.state == "running" and case.log_id}
        for log_id in self._activities.keys() - running:
            self._activities.pop(log_id).close()
        for log_id in running - self._activities.keys():
            self._activities[log_id] = CaseActivity(self.fleet, log_id)
        return [self._case(case) for case in cases]

    def _case(self, case: CaseOverview) -> CaseView:
        latest = case.attempts[-1] if case.attempts else None
        is_running = case.state == "running"
        activity = self._activities.get(case.log_id) if is_running else None
        return CaseView(
            id=case.case.id,
            task=case.case.task.id,
            variant=case.case.variant.name,
            repeat=case.case.repeat,
            state=case.state,
            attempts=len(case.attempts),
            session=case.log_id,
            cost_usd=round(case.cost_usd, 10) if case.is_cost_complete and case.attempts else None,
            outcome=latest.outcome if latest else "",
            run_s=latest.run_s if latest else None,
            fault=latest.fault if latest else "",
            detail=single_line(latest.detail)[:_LONGEST_DETAIL] if latest else "",
            started_ms=case.started_ms,
            activity="" if not is_running else activity.latest() if activity else "starting",
        )

    def _current_report(self, cases: Sequence[CaseOverview]) -> list[VariantReport]:
        """That of a moment ago, unless there are new results and it is old enough."""
        report, at_s = self._reported
        now = [(case.state, case.cost_usd) for case in cases]
        if now != report and (not self._report or time.monotonic() - at_s >= _REPORT_EVERY_S):
            self._report = report_of(self.fleet, cases).variants
            self._reported = now, time.monotonic()
        return self._report


def broken(name: str, error: HarnessError) -> FleetSummary:
    """A fleet that cannot be read is a row like all others."""
    return FleetSummary(name=name, state="broken", problem=error.words)


def _is_attended(fleet: Fleet) -> bool:
    try:
        return fleet.log_store.is_live(fleet.log_id)
    except (StoreError, UnknownSession):
        return False


def _left_s(cases: Sequence[CaseOverview]) -> float | None:
    """As many cases at once as now, each as long as those of its variant were."""
    times_by_variant: dict[str, list[float]] = {}
    for case in cases:
        if case.result is not None:
            times_by_variant.setdefault(case.case.variant.name, []).append(case.result.duration_s)
    now_ms = time.time_ns() // 1_000_000
    at_once = max(_at_once(cases, now_ms), _at_once(cases, now_ms - _GAP_MS))
    if not any(case.state == "running" for case in cases) or not times_by_variant:
        return None
    mean_times = {name: fmean(times) for name, times in times_by_variant.items()}
    usual = fmean(mean_times.values())
    total = 0.0
    for case in cases:
        expected = mean_times.get(case.case.variant.name, usual)
        if case.state == "waiting":
            total += expected
        elif case.state == "running":
            total += max(0.0, expected - (now_ms - (case.started_ms or now_ms)) / 1000)
    return round(total / max(at_once, 1), 1)


def _at_once(cases: Sequence[CaseOverview], at_ms: int) -> int:
    """How many ran at that moment."""
    count = 0
    for case in cases:
        if case.started_ms is None or case.started_ms > at_ms:
            continue
        is_over = case.result is None or case.started_ms + case.result.duration_s * 1000 < at_ms
        count += case.state == "running" or not is_over
    return count


_STAMPED = ("plan.json", "results", "faults", "running", "stop", "fleet.ndjson")

Stamp: TypeAlias = Sequence[tuple[int, int, int] | None]


class KnownFleets:
    """Those of the data directory, or of a database. Contract: thread-safe."""

    def __init__(self, database: str = "") -> None:
        self._database = database
        self._summaries: dict[str, tuple[Stamp, FleetSummary]] = {}
        self._watches: dict[str, FleetWatch] = {}
        """Of those that run: what was read of them is not read again."""
        self._lock = threading.Lock()

    def open(self, name: str) -> FleetWatch:
        """Raises UsageError where there is none, and StoreError where it cannot be opened."""
        return FleetWatch(named_fleet(name, self._database))

    def summaries(self) -> list[FleetSummary]:
        """All of them, the last changed first; one that cannot be read is `broken`."""
        with self._lock:
            names = fleet_names(self._database)
            for removed in self._summaries.keys() - names:
                self._forget(removed)
            all_summaries = [self._summary(name) for name in names]
        return sorted(all_summaries, key=lambda summary: (-(summary.updated_ms or 0), summary.name))

    def identity(self, name: str) -> object:
        """Changes when the fleet was deleted and another one of the same name created."""
        return None if self._database else _stamp(name)[0]

    def close(self) -> None:
        with self._lock:
            for name in list(self._watches):
                self._forget(name)

    def _summary(self, name: str) -> FleetSummary:
        stamp = () if self._database else _stamp(name)
        known_summary = self._summaries.get(name)
        if (
            known_summary is not None
            and stamp
            and known_summary[0] == stamp
            and not _is_alive(known_summary[1])
        ):
            return known_summary[1]
        if known_summary is not None and stamp and known_summary[0][0] != stamp[0]:
            self._forget(name)
        try:
            if name not in self._watches:
                self._watches[name] = self.open(name)
            summary = self._watches[name].summary()
        except HarnessError as error:
            summary = broken(name, error)
        if not _is_alive(summary):
            self._forget(name)
        self._summaries[name] = stamp, summary
        return summary

    def _forget(self, name: str) -> None:
        self._summaries.pop(name, None)
        watch = self._watches.pop(name, None)
        if watch is not None:
            watch.close()


def _is_alive(summary: FleetSummary) -> bool:
    """Whether it can change without a change of its files."""
    return summary.is_attended or summary.running > 0


def _stamp(name: str) -> Stamp:
    stamps: list[tuple[int, int, int] | None] = []
    for part in _STAMPED:
        try:
            status = os.stat(os.path.join(fleets_directory(), name, part))
            stamps.append((status.st_ino, status.st_mtime_ns, status.st_size))
        except (OSError, ValueError):
            stamps.append(None)
    return tuple(stamps)
