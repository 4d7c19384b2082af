"""Works through the cases of a fleet: starts workers, takes in their results, and writes the fleet's log.

         ┌────────── retry (not the agent's fault) ───────────┐
         ▼                                                    │
    waiting ── slot, job and budget free ──▶ running ── ended ┴─▶ scored, or given up
                                                ▲
                    claimed by another process ─┘  (a scheduler that was killed, or one on another machine)

What is true is in the records; the log says what became known when. So a scheduler may be killed at any moment: the
next one finds workers that still run, and writes the events that are missing.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from harness.errors import HarnessError, LogLocked
from harness.events import (
    BudgetReached,
    CaseLost,
    CaseScored,
    CaseSession,
    CaseStarted,
    Event,
    FleetEnded,
    FleetPlanned,
    ProviderLimited,
)
from harness.fleet.engines.engine import Engine
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase
from harness.fleet.records.attempt import Attempt, retries_used
from harness.fleet.records.contract import StopRequest
from harness.fleet.work import BUSY, remove_left, store_lost
from harness.log.hub import Hub
from harness.log.store import read_all
from harness.usage.budget import guard_of

# What the cases of a fleet share: the slots of each provider, and the budget.


_GOOD_RUNS = 10
"""After so many runs without a rate limit a provider gets a slot back."""


class ProviderSlots:
    """How many runs of each provider may happen at once: half as many after a rate limit, then more again."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = dict(most)
        self.limits = dict(most)
        self._good: Counter[str] = Counter()
        self.closed_until_ms: dict[str, int] = {}
        """Providers whose limit is reached: until then no run of them is started."""

    def has_room(self, provider: str, running: Counter[str]) -> bool:
        if self.closed_until_ms.get(provider, 0) > _now_ms():
            return False
        return provider not in self.limits or running[provider] < self.limits[provider]

    def close(self, provider: str, until_ms: int) -> bool:
        """No runs until then, and one at first. Whether that is new."""
        if until_ms <= self.closed_until_ms.get(provider, 0):
            return False
        self.closed_until_ms[provider] = until_ms
        self.limits[provider] = 1
        self._good[provider] = 0
        return True

    def settle(self, provider: str, running: int, *, limited: bool) -> bool:
        """Take account of a run that has ended; `running`: how many there were. Whether the limit has changed."""
        if limited:
            self._good[provider] = 0
            before = self.limits.get(provider, running)
            self.limits[provider] = max(1, before // 2)
            return self.limits[provider] != before
        if provider not in self.limits or self.limits[provider] >= self._most.get(provider, running + 1):
            return False
        self._good[provider] += 1
        if self._good[provider] < _GOOD_RUNS:
            return False
        self._good[provider] = 0
        self.limits[provider] += 1
        return True


class FleetBudget:
    """What was spent, and what is reserved for the cases that run: a case starts only if all of it fits."""

    def __init__(self, budget_usd: float | None, run_cap_usd: float | None) -> None:
        self.budget_usd = budget_usd
        self._run_cap_usd = run_cap_usd
        self.spent_usd = 0.0
        self._costs: dict[str, list[float]] = {}
        """By variant."""

    def settle(self, variant: str, attempt: Attempt) -> None:
        if attempt.cost_usd is not None:
            self.spent_usd += attempt.cost_usd
            self._costs.setdefault(variant, []).append(attempt.cost_usd)

    def expected_usd(self, variant: str) -> float:
        """The mean of the variant, else of all, else what one run may cost, else nothing is known."""
        costs = self._costs.get(variant) or [cost for group in self._costs.values() for cost in group]
        return sum(costs) / len(costs) if costs else self._run_cap_usd or 0.0

    def allows(self, variant: str, running: Iterable[str]) -> bool:
        """Whether one more case of the variant fits beside those that run."""
        if self.budget_usd is None:
            return True
        reserved = sum(map(self.expected_usd, running))
        return self.spent_usd + reserved + self.expected_usd(variant) <= self.budget_usd


_LOOK_EVERY_S = 0.5
"""How often records are looked at that other processes write."""
_LONGEST_WAIT_MS = 6 * 3_600_000
"""A limit that ends later is not waited for."""
_OUTPUT_TAIL = 500
_BUSY = f"exit code {BUSY}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Running(msgspec.Struct):
    case: FleetCase
    is_own: bool
    """Started by this scheduler's engine."""
    has_session: bool = False
    how: str = ""
    """What the engine reported of its worker, which seems to run nevertheless."""


class Scheduler:
    """`hub`: the fleet's log, closed by `close`; None when another scheduler writes it. `show` gets every event, as it is in the log."""

    def __init__(
        self,
        fleet: Fleet,
        engine: Engine,
        jobs: int,
        hub: Hub | None,
        show: Callable[[Event], None],
        *,
        retry: bool = False,
        watch: Callable[[Scheduler], None] = lambda _: None,
        chosen: Collection[str] | None = None,
    ) -> None:
        """`chosen`: only these cases are started; None: all. `retry`: cases whose attempts all ended without a result get as many again. `watch` is called twice a second."""
        self.fleet = fleet
        fleet.records.be_patient()
        self.running: dict[str, _Running] = {}
        self.waiting: list[str] = []
        self.given_up: set[str] = set()
        """Cases whose attempts all ended without a result."""
        self.scored: dict[str, Attempt] = {}
        plan = fleet.plan
        self.budget = FleetBudget(plan.budget_usd, plan.limits.run_budget_usd)
        self.slots = ProviderSlots(plan.providers)
        self._engine = engine
        self._jobs = jobs
        self._hub = hub
        self._source = None if hub is None else hub.source(hub.log_id)
        self._show = show
        self._logged: set[tuple[str, int]] = set()
        """Attempts whose end is in the log."""
        self._not_before: dict[str, float] = {}
        self._faults: Counter[str] = Counter()
        self._retries = dict.fromkeys(plan.cases, plan.retries)
        self._retry = retry
        self._chosen = plan.cases.keys() if chosen is None else frozenset(chosen)
        self._watch = watch
        self._stop: StopRequest = ""
        self._look_at = 0.0
        self._is_over_budget = False
        self._guard = guard_of(os.getcwd(), fleet.sessions, "", asks=False)
        """The limits of `harness budget`: every case is refused there, so that none is started."""

    def run(self) -> FleetEnded:
        """Until everything is done, the budget is reached, or the fleet is stopped."""
        self._take_over()
        while self.waiting or self.running:
            self._start_cases()
            if not self.running and (self._stop or self._is_over_budget or self._waits_too_long()):
                break
            for case_id, how in self._engine.ended(self._pause_s()):
                self._worker_ended(case_id, how)
            if time.monotonic() >= self._look_at:
                self._look()
                self._watch(self)
        return self._end()

    def _waits_too_long(self) -> bool:
        """Whether all that is left waits for limits that end in many hours: then the fleet is continued another time."""
        horizon_ms = _now_ms() + _LONGEST_WAIT_MS
        cases = self.fleet.plan.cases
        if not self.waiting or any(
            self.slots.closed_until_ms.get(cases[case_id].variant.slots_of, 0) < horizon_ms
            for case_id in self.waiting
        ):
            return False
        self._stop = "after"
        return True

    def stop(self) -> None:
        """Called once: no more cases are started. Again: those that run are stopped; again: killed. From any thread."""
        if not self._stop:
            self._stop = "after"
            return
        for case_id in [case_id for case_id, work in self.running.items() if work.is_own]:
            self._engine.stop(case_id, force=self._stop == "now")
        self._stop = "now"

    # What is there

    def _take_over(self) -> None:
        """Find out what is done, what other processes do, and what the log does not say yet."""
        self._read_log()
        plan, records, cases = self.fleet.plan, self.fleet.records, self.fleet.plan.cases
        faults = records.faults()
        if self._source is None:  # the other scheduler has written all of this
            self._logged |= {(fault.case, fault.number) for group in faults.values() for fault in group}
            self._logged |= {(result.case, result.number) for result in records.results().values()}
        for case_id, attempts in faults.items():
            for attempt in attempts:
                if case_id in cases:
                    self._settle_fault(cases[case_id], attempt)
        for case_id, attempt in records.results().items():
            if case_id in cases:
                self._settle_result(cases[case_id], attempt)
        if self._retry:
            for case_id in self.given_up & self._chosen:
                self._retries[case_id] += 1 + plan.retries
            self.given_up -= self._chosen
        in_progress = records.in_progress()
        for case in cases.values():
            if case.id in self.scored or case.id in self.given_up:
                continue
            if case.id in in_progress and records.is_claimed(case.id):
                self.running[case.id] = _Running(case, is_own=False)
            elif case.id in self._chosen:
                self.waiting.append(case.id)

    def _read_log(self) -> None:
        plan = self.fleet.plan
        if self._source is None:
            return
        self.fleet.records.request_stop("")  # of an earlier time
        is_new = True
        for event in read_all(self.fleet.log_store, self.fleet.log_id):
            is_new = False
            if isinstance(event, CaseScored | CaseLost):
                self._logged.add((event.case, event.attempt))
            elif isinstance(event, ProviderLimited) and event.until_ms is not None:
                self.slots.close(event.provider, event.until_ms)
            elif isinstance(event, ProviderLimited):
                self.slots.limits[event.provider] = event.limit
        if not is_new:
            return
        self._emit(
            FleetPlanned(
                name=plan.name,
                tasks=len(plan.tasks),
                variants=[variant.name for variant in plan.variants],
                repeats=plan.repeats,
                cases=len(plan.cases),
                budget_usd=plan.budget_usd,
                providers=plan.providers or None,
            )
        )

    def _look(self) -> None:
        """At what other processes have written."""
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        records, cases = self.fleet.records, self.fleet.plan.cases
        requested = records.stop_requested()
        if requested and self._stop != requested:
            self.stop()
            if requested == "now":
                self.stop()
        for case_id, attempt in records.results().items():
            if case_id not in self.scored and case_id in cases:
                self._settle_result(cases[case_id], attempt)
        for case_id, work in list(self.running.items()):
            self._emit_session(work)
            if not work.is_own and not records.is_claimed(case_id):
                self._worker_ended(case_id, work.how or "it has ended")

    # Cases

    def _start_cases(self) -> None:
        if self._stop:
            return
        now = time.monotonic()
        used = Counter(work.case.variant.slots_of for work in self.running.values())
        self._is_over_budget = (
            bool(self.waiting) and self._guard is not None and self._guard.look() is not None
        )
        providers = {variant.slots_of for variant in self.fleet.plan.variants}
        for case_id in [] if self._is_over_budget else list(self.waiting):
            if len(self.running) >= self._jobs or not providers:
                return
            case = self.fleet.plan.cases[case_id]
            if self._not_before.get(case_id, 0.0) > now:
                continue
            if not self.slots.has_room(case.variant.slots_of, used):
                providers.discard(case.variant.slots_of)
                continue
            if not self.budget.allows(
                case.variant.name, [work.case.variant.name for work in self.running.values()]
            ):
                # Others that cost less are not started either: the sample would not be fair any more.
                self._is_over_budget = True
                return
            self.waiting.remove(case_id)
            used[case.variant.slots_of] += 1
            self._start(case)

    def _start(self, case: FleetCase) -> None:
        if self._is_done_elsewhere(case):
            return
        self.running[case.id] = _Running(case, is_own=True)
        self._emit(
            CaseStarted(
                case=case.id,
                task=case.task.id,
                variant=case.variant.name,
                repeat=case.repeat,
                engine=self._engine.name,
            )
        )
        try:
            self._engine.start(case)
        except HarnessError as error:
            self._worker_ended(case.id, error.words)

    def _is_done_elsewhere(self, case: FleetCase) -> bool:
        """Another scheduler may have had the case since it was looked at last."""
        if (result := self.fleet.records.result(case.id)) is not None:
            self._settle_result(case, result)
            return True
        for attempt in self.fleet.records.faults_of(case.id)[self._faults[case.id] :]:
            self._settle_fault(case, attempt)
        return case.id in self.given_up

    def _worker_ended(self, case_id: str, how: str) -> None:
        work = self.running.pop(case_id, None)
        if work is None:
            return
        records = self.fleet.records
        self._emit_session(work)
        result = records.result(case_id)
        if result is not None:
            self._settle_result(work.case, result)
            return
        claim = records.claim(case_id)
        if claim is None:  # another worker has the case, or a node has failed whose processes still run
            self.running[case_id] = _Running(work.case, is_own=False, how="" if how == _BUSY else how)
            return
        with claim:
            result = records.result(case_id)  # another worker may have had the case until now
            attempts = self._faults_after(case_id, how) if result is None else ()
        if result is not None:
            self._settle_result(work.case, result)
            return
        for attempt in attempts[self._faults[case_id] :]:
            self._settle_fault(work.case, attempt)
        if case_id not in self.given_up:
            self.waiting.append(case_id)

    def _faults_after(self, case_id: str, how: str) -> Sequence[Attempt]:
        """All attempts without a result, with that of the worker that has ended."""
        store_lost(self.fleet, case_id, how)
        attempts = self.fleet.records.faults_of(case_id)
        if len(attempts) > self._faults[case_id]:
            return attempts
        self._store_silent(case_id, len(attempts) + 1, how)
        return self.fleet.records.faults_of(case_id)

    def _store_silent(self, case_id: str, number: int, how: str) -> None:
        """A worker that ended before it could say anything."""
        try:
            with open(self.fleet.output(case_id), "rb") as file:
                output = file.read()[-_OUTPUT_TAIL:].decode("utf-8", "replace").strip()
        except OSError:
            output = ""
        detail = ": ".join(filter(None, (how, output)))
        host, now_ms = os.uname().nodename, time.time_ns() // 1_000_000
        self.fleet.records.add(
            Attempt(case=case_id, number=number, fault="lost", detail=detail, started_ms=now_ms, host=host)
        )

    def _settle_result(self, case: FleetCase, attempt: Attempt) -> None:
        self.running.pop(case.id, None)
        if case.id in self.waiting:
            self.waiting.remove(case.id)
        self.scored[case.id] = attempt
        if attempt.number > self._faults[case.id] + 1:  # its worker found that an earlier one was lost
            for fault in self.fleet.records.faults_of(case.id)[self._faults[case.id] :]:
                self._settle_fault(case, fault)
        self.given_up.discard(case.id)
        self._settle(case, attempt)
        self._say_result(case, attempt)

    def _say_result(self, case: FleetCase, attempt: Attempt) -> None:
        if (case.id, attempt.number) in self._logged:
            return
        self._logged.add((case.id, attempt.number))
        self._emit(
            CaseScored(
                case=case.id,
                task=case.task.id,
                variant=case.variant.name,
                repeat=case.repeat,
                attempt=attempt.number,
                log_id=attempt.log_id,
                outcome=attempt.outcome,
                passed=attempt.passed,
                score=attempt.score or None,
                check_exit=attempt.check_exit,
                cost_usd=attempt.cost_usd,
                usage=attempt.usage or None,
                duration_s=attempt.duration_s,
                crashed=attempt.crashed,
            )
        )

    def _settle_fault(self, case: FleetCase, attempt: Attempt) -> None:
        """Whether to try again is decided here, and nowhere else."""
        self._faults[case.id] += 1
        self._settle(case, attempt)
        plan = self.fleet.plan
        used = retries_used(self.fleet.records.faults_of(case.id)[: self._faults[case.id]])
        is_last = used > self._retries[case.id]
        if is_last:
            self.given_up.add(case.id)
        elif attempt.fault == "rate_limited" and attempt.limited_until_ms is None:
            self._not_before[case.id] = time.monotonic() + plan.retry_wait_s * 2 ** max(0, used - 1)
        self._say_fault(case, attempt, retry=not is_last)

    def _say_fault(self, case: FleetCase, attempt: Attempt, *, retry: bool) -> None:
        if (case.id, attempt.number) in self._logged:
            return
        self._logged.add((case.id, attempt.number))
        self._emit(
            CaseLost(
                case=case.id,
                attempt=attempt.number,
                log_id=attempt.log_id,
                reason=attempt.fault,
                detail=attempt.detail,
                cost_usd=attempt.cost_usd,
                retry=retry,
            )
        )

    def _settle(self, case: FleetCase, attempt: Attempt) -> None:
        self.budget.settle(case.variant.name, attempt)
        if (case.id, attempt.number) in self._logged:
            return  # its rate limit has had its effect
        provider = case.variant.slots_of
        running = 1 + sum(work.case.variant.slots_of == provider for work in self.running.values())
        if attempt.fault == "rate_limited" and attempt.limited_until_ms is not None:
            if self.slots.close(provider, attempt.limited_until_ms):
                self._emit(
                    ProviderLimited(provider=provider, limit=0, until_ms=self.slots.closed_until_ms[provider])
                )
            return
        if self.slots.settle(provider, running, limited=attempt.was_limited):
            self._emit(ProviderLimited(provider=provider, limit=self.slots.limits[provider]))

    def _emit_session(self, work: _Running) -> None:
        if work.has_session:
            return
        progress = self.fleet.records.progress(work.case.id)
        if progress is not None and progress.log_id:
            work.has_session = True
            self._emit(
                CaseSession(
                    case=work.case.id, attempt=progress.number, log_id=progress.log_id, host=progress.host
                )
            )

    # The end

    def _end(self) -> FleetEnded:
        if self._hub is None:
            self._take_log()
        left = len(self.waiting)
        reached = self._guard.look() if self._is_over_budget and self._guard is not None else None
        if reached is not None:
            self._emit(
                BudgetReached(spent_usd=round(reached.spent_usd, 6), budget_usd=reached.until_usd, left=left)
            )
        elif self._is_over_budget and self.budget.budget_usd is not None:
            spent, budget = round(self.budget.spent_usd, 6), self.budget.budget_usd
            self._emit(BudgetReached(spent_usd=spent, budget_usd=budget, left=left))
        self._sweep()
        ended = FleetEnded(
            reason="stopped" if left and self._stop else "budget" if left else "completed",
            scored=len(self.scored),
            errors=len(self.given_up),
            left=len(self.fleet.plan.cases) - len(self.scored) - len(self.given_up),
            spent_usd=round(self.budget.spent_usd, 6),
        )
        self._emit(ended)
        return ended

    def _take_log(self) -> None:
        """The scheduler that wrote the log may have been killed: then say what it did not."""
        try:
            self._hub = self.fleet.open_log()
        except LogLocked:
            return
        self._source = self._hub.source(self._hub.log_id)
        self._logged.clear()
        self._read_log()
        cases = self.fleet.plan.cases
        for case_id, attempts in self.fleet.records.faults().items():
            for number, attempt in enumerate(attempts, 1):
                is_last = number == len(attempts) and case_id in self.given_up
                self._say_fault(cases[case_id], attempt, retry=not is_last)
        for case_id, attempt in self.scored.items():
            self._say_result(cases[case_id], attempt)

    def close(self) -> None:
        if self._hub is not None:
            self._hub.close()

    def _sweep(self) -> None:
        """Remove the workspaces and containers of workers that were killed."""
        try:
            names = os.listdir(os.path.dirname(self.fleet.workspace("-")))
        except FileNotFoundError:
            return
        for case_id in names:
            claim = self.fleet.records.claim(case_id) if case_id in self.fleet.plan.cases else None
            if claim is not None:
                with claim:
                    remove_left(self.fleet, case_id)

    def _pause_s(self) -> float:
        return max(0.0, self._look_at - time.monotonic())

    def _emit(self, event: Event) -> None:
        shown: Sequence[Event] = (event,) if self._source is None else self._source.append([event])
        for logged in shown:
            self._show(logged)
