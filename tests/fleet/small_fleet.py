"""A small fleet for tests: a task that a script can solve, and models that do or do not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from harness.events import Event
from harness.fleet.fleet import Fleet, create_fleet
from harness.fleet.planning import completed
from harness.fleet.plans.plan import FleetCase, FleetPlan, FleetTask, Variant
from harness.fleet.work import work
from python_programs import PYTHON

SOLVES = """
turns = [
  [{ tool = "write", input = { file_path = "answer.txt", content = "42" } }, { usage = { input = 1000, output = 100 } }],
  [{ text = "Done." }, { usage = { input = 1000, output = 10 } }],
]
"""
FAILS = 'turns = [[{ text = "Nothing to do." }, { usage = { input = 500, output = 10 } }]]\n'
REFUSED = 'turns = [[{ error = "429 Too Many Requests", code = "rate_limit_error" }]]\n'
OUTAGE = 'turns = [[{ error = "503 Service Unavailable", code = "http_503" }]]\n'
CHECK = f'test "$({PYTHON} -c "print(open(\'answer.txt\').read(), end=str())")" = 42'


def variant(folder: Path, script: str, name: str = "solver", **fields: Any) -> Variant:
    path = folder / f"{name}.script.toml"
    path.write_text(script)
    return Variant(**{"name": name, "agent": "native", "model": f"scripted/{path}", **fields})


def task(name: str = "answer", **fields: Any) -> FleetTask:
    about = {"prompt": f"Write the answer of {name} into answer.txt.", "check": CHECK, **fields}
    return FleetTask(id=name, **about)


def plan(
    folder: Path, variants: Sequence[Variant], tasks: Sequence[FleetTask] = (), **fields: Any
) -> FleetPlan:
    made = FleetPlan(
        name="small",
        tasks=tuple(tasks) or (task(),),
        variants=tuple(variants),
        **{"directory": str(folder), "sessions": str(folder / "sessions"), "retry_wait_s": 0.01, **fields},
    )
    return completed(made, lambda one: one, is_local=True)


def fleet(folder: Path, made: FleetPlan, database: str = "") -> Fleet:
    found = create_fleet(made, str(folder / "small"), "")
    if not database:
        return found
    from harness.fleet.records.postgres import PostgresRecords

    records = PostgresRecords(database, "small")
    records.save_plan(found.records.plan())
    return Fleet("small", found.directory, records, database)


class InProcess:
    """An engine that works on a case at once, in this process."""

    name = "local"

    def __init__(self, here: Fleet) -> None:
        self._fleet = here
        self.started: list[str] = []
        self._ended: list[tuple[str, str]] = []
        self.most_at_once = 0

    def start(self, case: FleetCase) -> None:
        self.started.append(case.id)
        self._ended.append((case.id, ""))
        self.most_at_once = max(self.most_at_once, len(self._ended))

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        found, self._ended = self._ended, []
        return [(case_id, f"exit code {work(self._fleet, case_id)}") for case_id, _ in found]

    def stop(self, case_id: str, *, force: bool = False) -> None:
        raise AssertionError

    def close(self) -> None: ...


class Shown(list[Event]):
    """What a scheduler shows."""

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self if type(event) is kind]


def without_digest(one: FleetTask) -> FleetTask:
    return replace(one, digest="")


def command_of(pid: int) -> str:
    """The command line of a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def descendants_with(text: str) -> list[str]:
    """Processes of this machine whose command line, environment or working folder contains a text. Of one that lets
    nobody look into it, as Harness does, an ordinary user may read only the command line.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        process = Path("/proc", pid)
        command, where, env = command_of(int(pid)), "", ""
        with suppress(OSError):
            where = os.readlink(process / "cwd")
        with suppress(OSError):
            env = (process / "environ").read_bytes().decode(errors="replace")
        if any(text in one for one in (command, where, env)) and int(pid) != os.getpid():
            found.append(f"{pid} {command[:100]} in {where}")
    return found


def with_descendants(pids: Iterable[int]) -> set[int]:
    """These processes and all that they have started, as far as it was not orphaned."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path("/proc", pid, "stat").read_bytes()
            parent = int(stat.rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(pid))
    found, unvisited = set(pids), list(pids)
    while unvisited:
        below = children.get(unvisited.pop(), [])
        found.update(below)
        unvisited.extend(below)
    return found


def left_with(text: str) -> list[str]:
    """Those that are still there after a while; a worker may be about to end."""
    deadline = time.monotonic() + 60
    while (found := descendants_with(text)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found
