"""What a fleet itself costs: planning, reporting, a scheduler with many running cases, workspaces, and a case beside a
plain run and beside a case of mini-swe-agent's batch.

usage: python benchmarks/fleet.py [--running 200] [--cases 10000] [--runs 5] [--mini PYTHON]

PYTHON: of an environment that has mini-swe-agent. Its batch runs cases as threads of one process.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from harness.fleet.compare import compare, side_of
from harness.fleet.engines.scheduler import Scheduler
from harness.fleet.fleet import Fleet, create_fleet
from harness.fleet.overview import overview
from harness.fleet.planning import completed
from harness.fleet.plans import plan as plans
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant, WorkspaceKind
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.report import report_of
from harness.fleet.step import run_step
from harness.fleet.workspace import CaseWorkspace
from harness.process.child import Child
from harness.process.invocation import Invocation

sys.path.insert(0, str(Path(__file__).parent))

from measuring import size

MINI = """
import os, sys
from minisweagent import __version__
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output
cpu = lambda: sum(os.times()[:4])
imported, runs = cpu(), int(sys.argv[1])
end = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
for _ in range(runs):
    model = DeterministicModel(outputs=[make_output("Done.", [{"command": end}])])
    agent = DefaultAgent(model, LocalEnvironment(), system_template="x", instance_template="{{task}}")
    assert agent.run("x")["exit_status"] == "Submitted"
case_ms, start_ms = (cpu() - imported) / runs * 1000, imported * 1000
print(f"mini-swe-agent {__version__}: {case_ms:.0f} ms for a case, {start_ms:.0f} ms for the process that all share")
"""
SCRIPT = 'turns = [[{ text = "Done." }, { usage = { input = 100, output = 10 } }]]\n'


def planned(folder: Path, cases: int) -> FleetPlan:
    tasks = tuple(FleetTask(id=f"t{n}", prompt="x" * 1000, check="true") for n in range(max(1, cases // 10)))
    variants = tuple(
        Variant(name=f"v{n}", agent="native", model=f"scripted/{folder}/script.toml") for n in range(2)
    )
    made = FleetPlan(
        name="many",
        tasks=tasks,
        variants=variants,
        repeats=5,
        directory=str(folder),
        sessions=str(folder / "sessions"),
    )
    return completed(made, lambda one: one, is_local=True)


def plan_and_report(folder: Path, cases: int) -> None:
    began = time.process_time()
    made = planned(folder, cases)
    fleet = create_fleet(made, str(folder / "many"))
    count = len(fleet.plan.cases)
    print(f"plan {count} cases: {time.process_time() - began:.2f} s CPU ({len(plans.encode(made)) >> 10} KB)")
    for case in fleet.plan.cases:
        fleet.records.add(
            Attempt(case=case, number=1, passed=int(case, 16) % 3 == 0, cost_usd=0.01, run_s=1.0)
        )
    fresh = Fleet(fleet.name, fleet.directory, type(fleet.records)(fleet.directory))  # type: ignore[call-arg]
    began = time.process_time()
    found = overview(fresh)
    report_of(fresh, found)
    compare(side_of(fresh, "v0", found), side_of(fresh, "v1", found))
    print(f"report {count} cases: {time.process_time() - began:.2f} s CPU")


class Pretending:
    """An engine whose workers never end by themselves, and hold their claims as real ones do."""

    name = "local"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.running: list[str] = []

    def start(self, case: FleetCase) -> None:
        self.running.append(case.id)
        self._fleet.records.note(CaseProgress(case=case.id, number=1, log_id="x"))

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        time.sleep(timeout_s)
        return ()

    def stop(self, case_id: str, *, force: bool = False) -> None: ...

    def close(self) -> None: ...


def scheduler_at_rest(folder: Path, running: int, seconds: float = 10.0) -> None:
    fleet = create_fleet(planned(folder, running * 2), str(folder / "busy"))
    for case in list(fleet.plan.cases)[running:]:
        fleet.records.add(Attempt(case=case, number=1, passed=True))
    engine = Pretending(fleet)
    ends = time.monotonic() + seconds

    class Enough(Exception):
        pass

    def watch(_scheduler: Scheduler) -> None:
        if time.monotonic() > ends:
            raise Enough

    scheduler = Scheduler(fleet, engine, running, fleet.open_log(), lambda _event: None, watch=watch)
    began = time.process_time()
    try:
        scheduler.run()
    except Enough:
        share = (time.process_time() - began) / seconds
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"scheduler with {len(engine.running)} running cases: {share:.2%} of a core, {peak} MB at most")
    scheduler.close()


def case_beside_run(folder: Path, runs: int) -> None:
    made = planned(folder, 10)
    env = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    harness = (sys.executable, "-m", "harness")
    alone = ("run", "-a", "native", "-m", made.variants[0].model, "-p", "x", "--format", "ndjson")
    fleet = create_fleet(made, str(folder / "cases"))
    cases = list(fleet.plan.cases)[:runs]
    run_cpu = [_cpu((*harness, *alone), env, folder) for _ in range(runs)]
    work_cpu = [_cpu((*harness, "fleet", "work", fleet.directory, case), env, folder) for case in cases]
    run_s, work_s = sorted(run_cpu)[runs // 2], sorted(work_cpu)[runs // 2]
    print(
        f"CPU of `harness run` {run_s * 1000:.0f} ms, of `harness fleet work` {work_s * 1000:.0f} ms: {(work_s - run_s) * 1000:+.0f} ms for workspace, patch and check"
    )


def workspaces(folder: Path, files: int) -> None:
    """Each kind, made and removed."""
    source = folder / "source"
    for number in range(files):
        path = source / f"d{number % 40}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 500)
    git = ("git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@x")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "one")):
        run_step((*git, *words), str(source), os.environ, 60.0)
    # A plan names the commit itself: what is called HEAD elsewhere is unknown in a workspace.
    head = run_step((*git, "rev-parse", "HEAD"), str(source), os.environ, 60.0).output.strip()
    kinds: tuple[tuple[WorkspaceKind, str], ...] = (("copy", ""), ("clone", head), ("worktree", head))
    for kind, commit in kinds:
        task = FleetTask(id="t", prompt="x", workspace=str(source), commit=commit)
        variant = Variant(name="v", agent="native")
        plan = FleetPlan(name="w", tasks=(task,), variants=(variant,), workspaces=kind)
        place = CaseWorkspace(
            str(folder / kind), str(folder / "base"), plan, FleetCase("c", task, variant, 0), lambda: False
        )
        began, cpu = time.monotonic(), sum(os.times()[:4])
        place.make()
        made, cpu = time.monotonic() - began, sum(os.times()[:4]) - cpu
        place.remove()
        print(f"workspace {kind} of {files} files: {made:.2f} s, {cpu:.2f} s CPU")


def beside_mini(python: str, runs: int) -> None:
    if not python:
        print("mini-swe-agent: not installed (--mini PYTHON)")
        return
    env = {**os.environ, "MSWEA_SILENT_STARTUP": "1"}
    print(run_step((python, "-c", MINI, str(runs)), "/", env, 120.0).output.strip())


def _cpu(argv: tuple[str, ...], env: dict[str, str], folder: Path) -> float:
    """Of a program and everything below it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Child(Invocation(argv, env, str(folder))) as child:
        while child.exit is None:
            child.read()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--running", type=int, default=200)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mini", default="", metavar="PYTHON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-benchmark-") as name:
        folder = Path(name)
        (folder / "script.toml").write_text(SCRIPT)
        scheduler_at_rest(folder, arguments.running)
        plan_and_report(folder, arguments.cases)
        workspaces(folder, size(2000, 20))
        case_beside_run(folder, arguments.runs)
    beside_mini(arguments.mini, arguments.runs)


if __name__ == "__main__":
    main()
