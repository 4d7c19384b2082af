"""One case, exactly once: what every engine starts, as `harness fleet work FLEET CASE`.

    claim ─▶ workspace ─▶ setup ─▶ run (an ordinary session) ─▶ hidden files ─▶ check ─▶ result

The run happens in this process, so that whatever ends this process ends the run and everything it started. The worker
may be killed at any moment: then the case has no result, and its next worker stores the attempt as `lost`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from types import FrameType
from typing import Any, Self

from msgspec.structs import replace

from harness import config
from harness.agents.registry import load
from harness.errors import BudgetExceeded, HarnessError, StoreError, UnknownSession, UsageError
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    ModelCall,
    Result,
    Resumed,
    SessionStart,
    Suspended,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.usage import CLASSES
from harness.fleet.container import remove_container
from harness.fleet.failures import fault_of
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase, with_variables
from harness.fleet.records.attempt import Attempt, AttemptFault, CaseProgress
from harness.fleet.scores import Verdict, is_solved, scores_of
from harness.fleet.step import CommandResult, StepStopped, run_step
from harness.fleet.workspace import CaseWorkspace, WorkspaceFailed, remove
from harness.folds.provider_trouble import ProviderTrouble, refused_at_end, trouble_of
from harness.log.ids import is_log_id
from harness.log.store import Metadata, read_all
from harness.runs.run import Run, start
from harness.usage import prices
from harness.usage.ledger import Ledger, total

DONE = 0
BUSY = 75
"""The exit code when another worker has the case."""
NO_RESULT = 76
"""The exit code when the attempt ended without a result."""
_LOOK_AGAIN_MS = 300_000
_COUNTED = (
    *(UsageDelta, ModelCall, SessionStart, Result, Suspended, Resumed, Info, Warning, Error),
    *(Message, ToolStart),
)
"""What the cost of a run, and the reason it failed, are read from."""


def work(fleet: Fleet, case_id: str, *, keep: bool = False) -> int:
    """Attempt a case unless it has a result. `keep`: the workspace of a case that is not solved stays. Returns the exit code."""
    fleet.records.be_patient()
    case = fleet.case(case_id)
    claim = fleet.records.claim(case.id)
    if claim is None:
        return BUSY
    with claim, _Stop() as stop:
        if fleet.records.result(case.id) is not None:
            return DONE
        store_lost(fleet, case.id)
        number = len(fleet.records.faults_of(case.id)) + 1
        attempt = _Worker(fleet, case, number, stop, keep=keep).attempt()
    return DONE if attempt.is_result else NO_RESULT


def grade(fleet: Fleet, case_id: str) -> Attempt | None:
    """Run the check again, on a copy of the workspace that was kept; what it says now is stored beside the result.

    None: the case has no result, or its workspace was not kept, or another process works on it.
    """
    case = fleet.case(case_id)
    result = fleet.records.result(case.id)
    if result is None or not case.task.check or not os.path.isdir(fleet.kept_workspace(result)):
        return None
    claim = fleet.records.claim(case.id)
    if claim is None:
        return None
    with claim, _Stop() as stop:
        graded = _Worker(fleet, case, result.number, stop, keep=False).grade(result)
    if graded.is_result:
        fleet.save_grade(graded)
    return graded


def store_lost(fleet: Fleet, case_id: str, how: str = "") -> None:
    """Store the attempt of a worker that was killed, if there is one. Only with the claim of the case."""
    progress = fleet.records.progress(case_id)
    if progress is None:
        return
    remove_left(fleet, case_id)  # first, because it may fill the disk
    if progress.number > len(fleet.records.faults_of(case_id)):
        lost = Attempt(
            case=case_id,
            number=progress.number,
            fault="lost",
            detail=": ".join(filter(None, (f"process {progress.pid} on {progress.host}", how))),
            log_id=progress.log_id,
            started_ms=progress.started_ms,
            host=progress.host,
        )
        fleet.records.add(_with_cost(fleet, lost, _stored_events(fleet, progress.log_id)))
    fleet.records.forget(case_id)


def remove_left(fleet: Fleet, case_id: str) -> None:
    """The workspace of a worker that was killed, and its container. Only with the claim of the case."""
    if fleet.plan.cases[case_id].task.image:
        with suppress(UsageError):  # there is no engine on this machine, so there is no container
            remove_container(fleet.workspace(case_id))
    remove(fleet.workspace(case_id))
    remove(fleet.base(case_id))


class _Worker:
    def __init__(self, fleet: Fleet, case: FleetCase, number: int, stop: _Stop, *, keep: bool) -> None:
        self._fleet = fleet
        self._case = case
        self._stop = stop
        self._keep = keep
        self._began = time.monotonic()
        self._attempt = Attempt(
            case=case.id, number=number, started_ms=time.time_ns() // 1_000_000, host=os.uname().nodename
        )
        self._workspace = CaseWorkspace(
            fleet.workspace(case.id), fleet.base(case.id), fleet.plan, case, lambda: stop.is_requested
        )

    def attempt(self) -> Attempt:
        """When this returns, its result is stored and the workspace is removed."""
        self._note("")
        diff = b""
        try:
            self._workspace.make()
            diff = self._set_up_run_and_check()
        except StepStopped:
            self._fail("interrupted", "")
        except WorkspaceFailed as error:
            self._fail("check_failed" if self._attempt.log_id else "setup_failed", str(error))
        except OSError as error:
            self._fail("check_failed", f"{error.strerror}: {error.filename}")
        attempt = replace(self._attempt, duration_s=round(time.monotonic() - self._began, 3))
        self._store(attempt, diff)
        if self._keep and not attempt.passed:
            self._workspace.keep(self._fleet.kept_workspace(attempt))
        self._workspace.remove()
        return attempt

    def grade(self, result: Attempt) -> Attempt:
        """As the check says now. An agent that crashed has not passed, whatever it says."""
        detail = result.detail if result.crashed else ""
        passed = False if result.crashed else None
        self._attempt = replace(
            result, passed=passed, score={}, check_exit=None, check_output="", detail=detail
        )
        try:
            self._workspace.restore(self._fleet.kept_workspace(result))
            self._check()
        except StepStopped:
            self._fail("interrupted", "")
        except WorkspaceFailed as error:
            self._fail("check_failed", str(error))
        except OSError as error:
            self._fail("check_failed", f"{error.strerror}: {error.filename}")
        self._workspace.remove()
        return self._attempt

    def _store(self, attempt: Attempt, diff: bytes) -> None:
        try:
            self._fleet.records.add(attempt, diff)
        except StoreError:
            self._workspace.remove()  # it may fill the disk
            self._fleet.records.add(attempt, diff)

    def _set_up_run_and_check(self) -> bytes:
        """What the agent changed."""
        task = self._case.task
        if task.setup:
            end = self._step(task.setup, task.setup_timeout_s)
            if not end.is_ok:
                self._fail("setup_failed", end.trouble or f"exit code {end.code}: {end.output[-1000:]}")
                return b""
        self._workspace.remember()
        if not self._run():
            return b""
        if not task.check:  # the patch is all that there is to be graded: one that is not known is no result
            return self._workspace.diff()
        diff, trouble = b"", ""
        try:
            diff = self._workspace.diff()
        except WorkspaceFailed as error:
            trouble = str(error)
        self._check()
        detail = "; ".join(filter(None, (self._attempt.detail, trouble)))
        self._attempt = replace(self._attempt, detail=detail[:2000])
        return diff

    def _run(self) -> bool:
        """Whether there is something to check."""
        plan = self._fleet.plan
        request = self._workspace.request(plan, self._fleet.hidden)
        if "on_ask" in load(request.agent).supports:
            request = replace(request, on_ask="deny")
        began = time.monotonic()
        try:
            with self._stop.ending(run := start(request, store=self._fleet.sessions, redact=plan.redact)):
                counted_events = self._followed(run)
                result = run.wait()
        except BudgetExceeded as error:
            self._fail("interrupted", error.words)  # no fault of the case: it may be tried again
            return False
        except HarnessError as error:
            self._fail("not_started", error.words)
            return False
        if self._workspace.container is not None and result.outcome != "completed":
            self._workspace.container.end_processes()
        trouble = trouble_of(counted_events, result, datetime.now().astimezone())
        refused = refused_at_end(counted_events)
        self._attempt = replace(
            _with_cost(self._fleet, self._attempt, counted_events),
            log_id=run.log_id,
            outcome=result.outcome,
            was_limited=trouble.is_limit or refused in {"window", "throttle"},
            limited_until_ms=_limited_until_ms(trouble),
            run_s=round(time.monotonic() - began, 3),
        )
        is_cut_off = self._stop.is_requested or _is_at_limit(counted_events)
        fault: AttemptFault = "interrupted" if is_cut_off else fault_of(result, trouble, refused)
        reason = _last_error(counted_events) or result.text[:500]
        if fault:
            self._fail(fault, reason)
        elif result.outcome == "failed":
            self._attempt = replace(self._attempt, crashed=True, passed=False, detail=reason[:2000])
        return fault not in {"not_started", "interrupted"}

    def _followed(self, run: Run) -> list[Event]:
        """All events that count, once the run has ended; its session is noted with the first."""
        counted_events: list[Event] = []
        for batch in run.batches():
            if not counted_events:
                self._note(run.log_id)
            counted_events += [event for event in batch if isinstance(event, _COUNTED)]
        return counted_events

    def _check(self) -> None:
        task = self._case.task
        self._workspace.prepare_check()
        end = self._step(task.check, task.check_timeout_s, with_variables(task.check_env, os.environ))
        output = "\n".join(filter(None, (end.output, end.trouble)))
        checked = replace(self._attempt, check_exit=end.code, check_output=output)
        verdict = self._verdict(end)
        if verdict is None:
            self._attempt = checked
            self._fail("check_failed", end.trouble or "the check has written no reward")
        elif self._attempt.crashed:  # it has not passed, and has no score, whatever it left behind
            self._attempt = checked
        elif verdict.passed:  # solved, even though its provider failed afterwards
            self._attempt = replace(checked, passed=True, fault="", detail="", score=verdict.score)
        elif self._attempt.fault:
            self._attempt = checked
        else:
            self._attempt = replace(checked, passed=False, score=verdict.score, detail=end.end_of_signal)

    def _verdict(self, end: CommandResult) -> Verdict | None:
        """None: the check has not come to one."""
        task, container = self._case.task, self._workspace.container
        if end.code is None:
            return None
        if not task.reward or container is None:
            score = scores_of(self._workspace.score()) if task.score_file else None
            return Verdict(end.is_ok, score or {})
        score = next(
            (
                scores
                for kind in ("json", "txt")
                if (scores := scores_of(container.read(f"{task.reward}.{kind}")))
            ),
            None,
        )
        if score is None:
            return Verdict(False, {}) if end.trouble else None
        return Verdict(is_solved(score), score)

    def _step(self, command: str, timeout_s: float, env: Mapping[str, str] | None = None) -> CommandResult:
        cwd = self._workspace.repo if os.path.isdir(self._workspace.repo) else self._workspace.place
        argv, env = self._workspace.command(command, {**self._case.task.env, **(env or {})})
        return run_step(argv, cwd, env, timeout_s, lambda: self._stop.is_requested)

    def _fail(self, fault: AttemptFault, detail: str) -> None:
        self._attempt = replace(self._attempt, fault=fault, detail=detail[:2000], passed=None)

    def _note(self, log_id: str) -> None:
        attempt = self._attempt
        self._fleet.records.note(
            CaseProgress(
                case=attempt.case,
                number=attempt.number,
                pid=os.getpid(),
                host=attempt.host,
                started_ms=attempt.started_ms,
                log_id=log_id,
            )
        )


class _Stop:
    """SIGTERM, SIGINT and SIGHUP stop the attempt: its run ends with `interrupted`, its workspace is removed."""

    def __init__(self) -> None:
        self.is_requested = False
        self._run: Run | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def ending(self, run: Run) -> Iterator[None]:
        self._run = run
        if self.is_requested:
            run.cancel()
        try:
            yield
        finally:
            self._run = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_requested = True
        if self._run is not None:
            self._run.cancel()


def _with_cost(fleet: Fleet, attempt: Attempt, events: list[Event]) -> Attempt:
    ledger = Ledger()
    ledger.add(Metadata(session_id=attempt.log_id or attempt.case), events)
    price_list = prices.load(config.load(fleet.plan.directory))
    amount = total(charges := ledger.charges(price_list, lambda _ms: ""))
    usage = Usage(**{name: getattr(amount, name) for name in CLASSES})
    unpriced = any(charge.is_unpriced for charge in charges)
    return replace(attempt, cost_usd=amount.cost_usd, usage=usage, is_unpriced=unpriced)


def _stored_events(fleet: Fleet, log_id: str) -> list[Event]:
    if not is_log_id(log_id):
        return []
    try:
        return [event for event in read_all(fleet.sessions, log_id) if isinstance(event, _COUNTED)]
    except (StoreError, UnknownSession):
        return []


def _is_at_limit(events: list[Event]) -> bool:
    """Whether a limit of `harness budget` ended the run."""
    return any(isinstance(event, Error) and event.code == "spending_limit" for event in events)


def _limited_until_ms(trouble: ProviderTrouble) -> int | None:
    """Where a window is full and its end is not said, it is worth a look after a while."""
    if trouble.kind == "window" and trouble.until_ms is None:
        return time.time_ns() // 1_000_000 + _LOOK_AGAIN_MS
    return trouble.until_ms


def _last_error(events: list[Event]) -> str:
    return next((event.message for event in reversed(events) if isinstance(event, Error)), "")
