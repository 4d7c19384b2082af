"""The scheduler: what it starts, what it retries, when it ends, and what its log says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import small_fleet
from harness.errors import LogLocked
from harness.events import (
    BudgetReached,
    CaseLost,
    CaseScored,
    CaseSession,
    CaseStarted,
    FleetEnded,
    FleetPlanned,
    ProviderLimited,
)
from harness.fleet.engines.local import LocalEngine
from harness.fleet.engines.scheduler import ProviderSlots, Scheduler
from harness.fleet.fleet import Fleet, create_fleet
from harness.fleet.overview import overview, tally
from harness.fleet.plans.plan import FleetTask, RunLimits, Variant
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.log.store import read_all
from small_fleet import FAILS, REFUSED, SOLVES, InProcess, Shown


def _scheduled(
    fleet: Fleet, jobs: int = 2, engine: Any = None, **options: Any
) -> tuple[FleetEnded, Shown, Any]:
    shown = Shown()
    engine = engine or InProcess(fleet)
    scheduler = Scheduler(fleet, engine, jobs, fleet.open_log(), shown.append, **options)
    try:
        ended = scheduler.run()
    finally:
        scheduler.close()
    return ended, shown, engine


def _fleet(folder: Path, scripts: dict[str, str], tasks: int = 1, **fields: Any) -> Fleet:
    variants = [small_fleet.variant(folder, script, name) for name, script in scripts.items()]
    given = [small_fleet.task(f"t{number}") for number in range(tasks)]
    return small_fleet.fleet(folder, small_fleet.plan(folder, variants, given, **fields))


def test_all_cases_are_scored_and_the_log_says_so(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES, "bad": FAILS}, tasks=2)
    ended, shown, engine = _scheduled(fleet)
    assert (ended.reason, ended.scored, ended.errors, ended.left) == ("completed", 4, 0, 0)
    assert engine.most_at_once == 2
    assert [type(event) for event in read_all(fleet.log_store, fleet.log_id)] == [type(one) for one in shown]
    assert len(shown.of(FleetPlanned)) == len(shown.of(FleetEnded)) == 1
    passed = {(event.task, event.variant): event.passed for event in shown.of(CaseScored)}
    assert passed == {("t0", "good"): True, ("t1", "good"): True, ("t0", "bad"): False, ("t1", "bad"): False}
    assert tally(overview(fleet)) == {"passed": 2, "failed": 2}


def test_a_fleet_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES})
    _scheduled(fleet)
    ended, shown, engine = _scheduled(fleet)
    assert (ended.scored, engine.started) == (1, [])
    assert [type(event) for event in shown] == [FleetEnded]


def test_what_was_not_the_agents_fault_is_tried_again_and_then_an_error(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"refused": REFUSED}, retries=2)
    ended, shown, engine = _scheduled(fleet)
    assert (ended.reason, ended.scored, ended.errors) == ("completed", 0, 1)
    assert len(engine.started) == 3
    assert [event.retry for event in shown.of(CaseLost)] == [True, True, False]
    assert not shown.of(CaseScored)
    assert tally(overview(fleet)) == {"error": 1}
    ended, shown, engine = _scheduled(fleet, retry=True)
    assert (len(engine.started), ended.errors) == (3, 1)
    assert len(fleet.records.faults_of(engine.started[0])) == 6


def test_a_wrong_answer_is_never_tried_again(tmp_path: Path) -> None:
    _ended, _shown, engine = _scheduled(_fleet(tmp_path, {"bad": FAILS}, retries=5))
    assert len(engine.started) == 1


def test_rate_limits_take_slots_away(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"refused": REFUSED}, tasks=4, retries=0, providers={"native": 4})
    _ended, shown, engine = _scheduled(fleet, jobs=4)
    assert [event.limit for event in shown.of(ProviderLimited)] == [2, 1]
    assert engine.most_at_once == 4
    scheduler = Scheduler(fleet, engine, 4, fleet.open_log(), Shown().append)
    scheduler.run()
    scheduler.close()
    assert scheduler.slots.limits == {"native": 1}  # what was learnt is not forgotten


def test_slots_limit_how_many_run_at_once(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES}, tasks=3, providers={"native": 1})
    _ended, _shown, engine = _scheduled(fleet, jobs=3)
    assert (len(engine.started), engine.most_at_once) == (3, 1)


def test_the_budget_ends_a_fleet_and_more_of_it_continues_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config/harness").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    model = f"scripted/{tmp_path / 'good.script.toml'}"
    (tmp_path / "config/harness/prices.toml").write_text(f'[prices."{model}"]\ninput = 10.0\noutput = 10.0\n')
    fleet = _fleet(tmp_path, {"good": SOLVES}, tasks=5, budget_usd=0.05)  # a run costs 0.0211
    ended, shown, _engine = _scheduled(fleet, jobs=1)
    assert (ended.reason, ended.scored, ended.left, ended.spent_usd) == ("budget", 2, 3, 0.0422)
    (reached,) = shown.of(BudgetReached)
    assert (reached.spent_usd, reached.budget_usd, reached.left) == (0.0422, 0.05, 3)
    more = create_fleet(replace(fleet.plan, budget_usd=0.09), fleet.directory)
    ended, _shown, _engine = _scheduled(more, jobs=1)
    assert (ended.reason, ended.scored, ended.left) == ("budget", 4, 1)


def test_a_result_that_was_not_said_is_said_by_the_next_scheduler(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES}, tasks=2)
    first, second = fleet.plan.cases
    fleet.records.add(Attempt(case=first, number=1, fault="lost"))
    fleet.records.add(Attempt(case=first, number=2, passed=True))
    _ended, shown, engine = _scheduled(fleet)
    assert engine.started == [second]
    assert [event.case for event in shown.of(CaseScored)] == [first, second]
    assert [event.case for event in shown.of(CaseLost)] == [first]


def test_an_attempt_that_its_next_worker_finds_to_be_lost_is_said(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES})
    (case,) = fleet.plan.cases
    fleet.records.note(CaseProgress(case=case, number=1, pid=1, host="gone"))
    _ended, shown, _engine = _scheduled(fleet)
    assert [event.attempt for event in shown.of(CaseLost)] == [1]
    assert [event.attempt for event in shown.of(CaseScored)] == [2]


def test_a_worker_that_dies_without_a_word_is_lost(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES}, retries=1)

    class Dying(InProcess):
        def ended(self, timeout_s: float) -> list[tuple[str, str]]:
            found, self._ended = self._ended, []
            return [(case_id, "exit code 1") for case_id, _how in found]

    ended, shown, engine = _scheduled(fleet, engine=Dying(fleet))
    assert (ended.errors, len(engine.started)) == (1, 2)
    assert [event.detail for event in shown.of(CaseLost)] == ["exit code 1"] * 2


def test_a_case_that_another_scheduler_has_just_scored_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES})
    claim = fleet.records.claim

    def claim_after_the_other(case: str) -> AbstractContextManager[None] | None:
        """The worker of the other scheduler ends between a look at the result and the claim."""
        fleet.records.add(Attempt(case=case, number=1, passed=True))
        return claim(case)

    class Busy(InProcess):
        def ended(self, timeout_s: float) -> list[tuple[str, str]]:
            found, self._ended = self._ended, []
            return [(case_id, "exit code 75") for case_id, _how in found]

    monkeypatch.setattr(fleet.records, "claim", claim_after_the_other)
    ended, shown, _engine = _scheduled(fleet, engine=Busy(fleet))
    assert (ended.scored, ended.errors, len(shown.of(CaseScored))) == (1, 0, 1)
    assert not shown.of(CaseLost)
    assert not fleet.records.faults()


def test_only_one_process_writes_the_log_of_a_fleet(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES})
    hub = fleet.open_log()
    with pytest.raises(LogLocked, match="is being run by process"):
        fleet.open_log()
    hub.close()


def test_a_scheduler_that_joins_leaves_the_log_to_the_other(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES}, tasks=2)
    hub = fleet.open_log()
    ended = Scheduler(fleet, InProcess(fleet), 1, None, Shown().append).run()
    assert (ended.scored, hub.next_seq) == (2, 0)
    hub.close()
    _ended, shown, engine = _scheduled(fleet)
    assert (len(shown.of(CaseScored)), engine.started) == (2, [])


def test_a_scheduler_that_joined_writes_the_log_of_one_that_was_killed(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"good": SOLVES, "refused": REFUSED}, retries=1)
    scheduler = Scheduler(fleet, InProcess(fleet), 1, None, Shown().append)
    scheduler.run()
    scheduler.close()
    said = [type(event) for event in read_all(fleet.log_store, fleet.log_id)]
    assert said == [FleetPlanned, CaseLost, CaseLost, CaseScored, FleetEnded]


SLOW = """
turns = [[{ tool = "bash", input = { command = "echo > started; sleep 0.5" } }],
  [{ tool = "write", input = { file_path = "answer.txt", content = "42" } }], [{ text = "Done." }]]
"""


def _program(fleet: Fleet, *words: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "harness", "fleet", "resume", fleet.directory, *words]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _wait_until_it_runs(fleet: Fleet) -> None:
    deadline = time.monotonic() + 100
    while not any(one.log_id for one in fleet.records.in_progress().values()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_workers_of_a_scheduler_that_was_killed_are_adopted(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"slow": SLOW})
    process = _program(fleet)
    _wait_until_it_runs(fleet)
    process.kill()
    process.wait()
    ended, shown, engine = _scheduled(fleet)
    assert (ended.scored, engine.started) == (1, [])
    assert [event.attempt for event in shown.of(CaseScored)] == [1]
    assert len(shown.of(CaseSession)) <= 1
    assert not small_fleet.left_with(str(tmp_path))


def test_a_worker_that_is_killed_is_replaced(tmp_path: Path) -> None:
    fleet = _fleet(tmp_path, {"slow": SLOW})
    process = _program(fleet)
    _wait_until_it_runs(fleet)
    (progress,) = fleet.records.in_progress().values()
    os.kill(progress.pid, signal.SIGKILL)
    assert process.wait(timeout=100) == 0
    (case,) = fleet.plan.cases
    result = fleet.records.result(case)
    assert result is not None
    assert (result.number, result.passed) == (2, True)
    assert [one.fault for one in fleet.records.faults_of(case)] == ["lost"]
    started = [event for event in read_all(fleet.log_store, fleet.log_id) if type(event) is CaseStarted]
    assert len(started) == 2
    assert not small_fleet.left_with(str(tmp_path))
    assert not os.listdir(os.path.dirname(fleet.workspace("-")))


def test_a_fleet_is_stopped_from_outside_and_continued(tmp_path: Path) -> None:
    script = SLOW.replace("sleep 0.5", "sleep 100")
    fleet = _fleet(tmp_path, {"slow": script}, tasks=3)
    process = _program(fleet, "--jobs", "1")
    _wait_until_it_runs(fleet)
    fleet.records.request_stop("now")
    assert process.wait(timeout=100) == 130
    assert not fleet.records.results()
    assert [one.fault for group in fleet.records.faults().values() for one in group] == ["interrupted"]
    (tmp_path / "slow.script.toml").write_text(SLOW)
    ended, _shown, _engine = _scheduled(fleet, engine=LocalEngine(fleet))
    assert (ended.reason, ended.scored) == ("completed", 3)


def test_a_budget_that_ends_a_fleet_early_leaves_a_fair_sample(tmp_path: Path) -> None:
    cheap = Variant(name="cheap", agent="native", model="scripted/demo")
    dear = Variant(name="dear", agent="native", model="scripted/demo", env={"X": "1"})
    tasks = [FleetTask(id=f"t{number}", prompt="x", check="true") for number in range(20)]
    made = small_fleet.plan(
        tmp_path, [cheap, dear], tasks, budget_usd=10.0, limits=RunLimits(run_budget_usd=1.0)
    )
    fleet = small_fleet.fleet(tmp_path, made)

    class Costly(InProcess):
        def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
            for case_id in self.started:
                cost = 1.0 if fleet.plan.cases[case_id].variant.name == "dear" else 0.01
                fleet.records.add(Attempt(case=case_id, number=1, passed=True, cost_usd=cost))
            return [(case_id, "") for case_id in self.started]

    scheduler = Scheduler(fleet, Costly(fleet), 1, fleet.open_log(), lambda _event: None)
    assert scheduler.run().reason == "budget"
    scheduler.close()
    runs = Counter(fleet.plan.cases[case_id].variant.name for case_id in scheduler.scored)
    assert abs(runs["cheap"] - runs["dear"]) <= 1
    tasks_of = [
        {
            fleet.plan.cases[case_id].task.id
            for case_id in scheduler.scored
            if fleet.plan.cases[case_id].variant.name == name
        }
        for name in ("cheap", "dear")
    ]
    assert len(tasks_of[0] ^ tasks_of[1]) <= 1


def test_a_provider_whose_window_is_full_is_left_alone_until_it_opens() -> None:
    slots = ProviderSlots({"a": 4})
    now_ms = time.time_ns() // 1_000_000
    running: Counter[str] = Counter()
    assert slots.close("a", now_ms + 60_000)
    assert not slots.close("a", now_ms + 30_000)
    assert (slots.has_room("a", running), slots.has_room("b", running)) == (False, True)
    slots.closed_until_ms["a"] = now_ms - 1  # it has opened: one run at first
    assert slots.has_room("a", running)
    running["a"] = 1
    assert not slots.has_room("a", running)


@pytest.mark.parametrize(("hours", "reason"), [(-0.01, "completed"), (20, "stopped")])
def test_a_full_window_uses_up_no_retry(tmp_path: Path, hours: float, reason: str) -> None:
    """One that has opened again is tried at once; one that opens tomorrow ends the fleet, to be continued."""
    variant = Variant(name="v", agent="native", model="scripted/demo")
    fleet = small_fleet.fleet(tmp_path, small_fleet.plan(tmp_path, [variant], retries=0))
    until_ms = time.time_ns() // 1_000_000 + int(hours * 3_600_000)

    class Limited(InProcess):
        def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
            found = self.started[-1:] if self._ended else []
            self._ended.clear()
            for case_id in found:
                number = len(fleet.records.faults_of(case_id)) + 1
                about: dict[str, Any] = {"passed": True}
                if number == 1:
                    about = {"fault": "rate_limited", "was_limited": True, "limited_until_ms": until_ms}
                fleet.records.add(Attempt(case=case_id, number=number, **about))
            return [(case_id, "") for case_id in found]

    shown = small_fleet.Shown()
    scheduler = Scheduler(fleet, Limited(fleet), 1, fleet.open_log(), shown.append)
    assert scheduler.run().reason == reason
    scheduler.close()
    (limited, *_rest) = shown.of(ProviderLimited)
    assert (limited.limit, limited.until_ms) == (0, until_ms)
