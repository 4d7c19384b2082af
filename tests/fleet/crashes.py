"""Kills schedulers and workers of a fleet at random moments, until the fleet is done nevertheless.

    python tests/fleet/crashes.py --sequences 100 [--database URL] [--schedulers 2]

One case waits until everything was killed that is to be, so that all of it happens in the middle of the fleet. Every
sequence must end with each case scored once, no process and no workspace left.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import small_fleet
from harness.events import CaseLost, CaseScored
from harness.log.store import read_all

SCRIPT = """
turns = [[{ tool = "bash", input = { command = "while [ \\"$GATE\\" ] && [ ! -e \\"$GATE\\" ]; do sleep 0.1; done; sleep 0.2" } }],
  [{ tool = "write", input = { file_path = "answer.txt", content = "42" } }], [{ text = "Done." }]]
"""
KINDS = ("scheduler", "worker", "machine")
"""What is killed: the machine is everything at once, so that nothing can clean up."""
_LONGEST_S = 300.0


class Sequence:
    """One fleet, killed again and again."""

    def __init__(
        self, folder: Path, seed: int, *, cases: int = 6, kills: int = 5, database: str = ""
    ) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self._gate = folder / "gate"
        variants = [small_fleet.variant(folder, SCRIPT)]
        tasks = [small_fleet.task(f"t{number}") for number in range(cases - 1)]
        tasks.append(small_fleet.task("last", env={"GATE": str(self._gate)}))
        sessions = database or str(folder / "sessions")
        made = small_fleet.plan(folder, variants, tasks, retries=50, sessions=sessions)
        self.fleet = small_fleet.fleet(folder, made, database)
        self.kinds = [*KINDS, *self._random.choices(KINDS, k=kills)][:kills]
        self._random.shuffle(self.kinds)
        self.killed: Counter[str] = Counter()
        self._programs: list[subprocess.Popen[bytes]] = []

    def run(self, schedulers: int = 1) -> None:
        ends = time.monotonic() + _LONGEST_S
        for kind in self.kinds:
            moment = time.monotonic() + self._random.uniform(0.1, 2.0)
            while time.monotonic() < moment or not self._kill(kind):
                self._start_missing(schedulers, ends)
        self._gate.touch()
        while len(self.fleet.records.results()) < len(self.fleet.plan.cases) or self._programs:
            self._start_missing(schedulers, ends)

    def _start_missing(self, schedulers: int, ends: float) -> None:
        """One that ends by itself before the gate is open found that others have all that is left."""
        if time.monotonic() > ends:
            raise TimeoutError(f"killed {dict(self.killed)} of {self.kinds}: {self.check()}")
        time.sleep(0.02)
        self._programs = [one for one in self._programs if one.poll() is None]
        is_done = len(self.fleet.records.results()) == len(self.fleet.plan.cases)
        while len(self._programs) < schedulers and not is_done:
            self._programs.append(self._start(joins=schedulers > 1))

    def check(self) -> list[str]:
        """What is wrong; empty: nothing is."""
        cases = set(self.fleet.plan.cases)
        events = list(read_all(self.fleet.log_store, self.fleet.log_id))
        scored = Counter(event.case for event in events if type(event) is CaseScored)
        results = self.fleet.records.results()
        logged = {(event.case, event.attempt) for event in events if type(event) is CaseLost}
        lost = {(one.case, one.number) for group in self.fleet.records.faults().values() for one in group}
        left = small_fleet.left_with(str(self._folder))
        work = os.path.dirname(self.fleet.workspace("-"))
        found = {
            "cases without a result": cases - results.keys(),
            "cases scored twice": {case for case, times in scored.items() if times > 1},
            "results that are not in the log": cases - scored.keys(),
            "attempts that are not in the log": lost - logged,
            "cases that failed": {case for case, one in results.items() if not one.passed},
            "processes left": left,
            "workspaces left": os.listdir(work) if os.path.isdir(work) else [],
            "notes left": list(self.fleet.records.in_progress()),
        }
        return [f"{what}: {one}" for what, one in found.items() if one]

    def _start(self, *, joins: bool) -> subprocess.Popen[bytes]:
        options = ["--join"] if joins else []
        argv = [
            sys.executable,
            "-m",
            "harness",
            "fleet",
            "resume",
            *self.fleet.words,
            "--jobs",
            "2",
            *options,
        ]
        env = {**os.environ, **self.fleet.environment, "XDG_DATA_HOME": str(self._folder / "data")}
        if self.fleet.database:  # the folder of a fleet in a database is the user's own
            os.makedirs(self._folder / "data/harness/fleets", exist_ok=True)
            link = self._folder / "data/harness/fleets/small"
            if not link.is_symlink():
                link.symlink_to(self.fleet.directory)
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def _kill(self, kind: str) -> bool:
        """False: there is nothing of the kind at this moment."""
        found: list[int] = []
        if kind == "worker":
            found = self._random.sample(workers, 1) if (workers := self._workers()) else []
        elif kind == "scheduler":
            found = [self._random.choice(self._programs).pid] if self._programs else []
        elif self._workers():
            found = self._everything()
        for number in (signal.SIGSTOP, signal.SIGKILL):  # none may notice that another is gone
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.killed[kind] += bool(found)
        return bool(found)

    def _everything(self) -> list[int]:
        here = [int(line.split()[0]) for line in small_fleet.descendants_with(str(self._folder))]
        programs = [one.pid for one in self._programs]
        return sorted(small_fleet.with_descendants([*programs, *self._workers(), *here]))

    def _workers(self) -> list[int]:
        """Those that run now; a note may be of one that is gone."""
        noted = {one.case: one.pid for one in self.fleet.records.in_progress().values()}
        return [pid for case, pid in noted.items() if case in small_fleet.command_of(pid)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=100)
    parser.add_argument("--database", default="")
    parser.add_argument("--schedulers", type=int, default=1)
    arguments = parser.parse_args()
    killed: Counter[str] = Counter()
    broken = 0
    for seed in range(arguments.sequences):
        with tempfile.TemporaryDirectory(prefix="fleet-crash-") as name:
            url = arguments.database
            if url == "test":
                import postgres_server

                url = postgres_server.url()
            sequence = Sequence(Path(name), seed, database=url)
            sequence.run(arguments.schedulers)
            wrong = sequence.check()
            killed += sequence.killed
            broken += bool(wrong)
            print(f"sequence {seed}: killed {dict(sequence.killed)}: {wrong or 'right'}", flush=True)
    print(f"{arguments.sequences} sequences, killed {dict(killed)}, {broken} went wrong")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
