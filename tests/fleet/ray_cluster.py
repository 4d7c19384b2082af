"""A fleet that begins on this machine, moves to a real Ray cluster of two nodes, and loses one of them in the middle of
a case, with everything that ran there.

Run as a program, because Ray and its warnings stay in its process then. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import small_fleet
from harness.errors import UsageError
from harness.events import CaseLost, CaseScored, CaseStarted, Event
from harness.fleet.engines.local import LocalEngine
from harness.fleet.engines.ray_engine import RayEngine
from harness.fleet.engines.scheduler import Scheduler
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import CaseResources

WAITS = """
turns = [[{{ tool = "bash", input = {{ command = "touch {folder}/began; while [ ! -e {folder}/go ]; do sleep 0.1; done" }} }}],
  [{{ tool = "write", input = {{ file_path = "answer.txt", content = "42" }} }}], [{{ text = "Done." }}]]
"""
SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
QUICK = {"health_check_period_ms": 200, "health_check_failure_threshold": 5}
ISLAND = {"island": 1, "provider:native": 1}
"""Only one node has it, so that every case runs there."""


def main() -> None:
    began = time.monotonic()
    folder = Path(sys.argv[1])
    variants = [small_fleet.variant(folder, WAITS.format(folder=folder))]
    tasks = [small_fleet.task(f"t{number}") for number in range(3)]
    needs = CaseResources(custom={"island": 1})
    fleet = small_fleet.fleet(folder, small_fleet.plan(folder, variants, tasks, resources=needs))
    found: dict[str, Any] = {"local": _first_on_this_machine(fleet, folder)}
    found |= _then_on_a_cluster(fleet, folder)
    found["attempts"] = sorted(one.number for one in fleet.records.results().values())
    found["passed"] = [one.passed for one in fleet.records.results().values()]
    found["processes"] = small_fleet.left_with(f"{folder}/small/work")
    found["workspaces"] = os.listdir(folder / ".harness-work/small")
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found))


def _first_on_this_machine(fleet: Fleet, folder: Path) -> int:
    """Until one case is scored."""
    (folder / "go").touch()

    def show(event: Event) -> None:
        if isinstance(event, CaseScored):
            scheduler.stop()

    scheduler = Scheduler(fleet, LocalEngine(fleet), 1, fleet.open_log(), show)
    scored = scheduler.run().scored
    scheduler.close()
    (folder / "go").unlink()
    (folder / "began").unlink()
    return scored


def _then_on_a_cluster(fleet: Fleet, folder: Path) -> dict[str, Any]:
    from ray.cluster_utils import Cluster

    head = {**SMALL, "include_dashboard": False, "_system_config": QUICK}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    doomed = cluster.add_node(**SMALL, resources=ISLAND)
    shown: list[Event] = []

    def lose_a_node() -> None:
        while not (folder / "began").exists():
            time.sleep(0.05)
        _kill_node(cluster, doomed)

    def show(event: Event) -> None:
        shown.append(event)
        if isinstance(event, CaseLost):
            cluster.add_node(**SMALL, resources=ISLAND)
            (folder / "go").touch()

    found: dict[str, Any] = {
        "refused": _refused(folder / "greedy", fleet, cluster.address),
        "node": doomed.node_id,
    }
    threading.Thread(target=lose_a_node, daemon=True).start()
    scheduler = Scheduler(fleet, engine := RayEngine(fleet, cluster.address), 2, fleet.open_log(), show)
    ended = scheduler.run()
    scheduler.close()
    engine.close()
    cluster.shutdown()
    found |= {"reason": ended.reason, "scored": ended.scored}
    found["engines"] = [event.engine for event in shown if isinstance(event, CaseStarted)]
    found["lost"] = [[one.reason, one.detail, one.retry] for one in shown if isinstance(one, CaseLost)]
    return found


def _kill_node(cluster: Any, node: Any) -> None:
    """As when a machine loses its power: the node, its workers, and what they have started."""
    there = _processes_below(node.all_processes["raylet"][0].process.pid)
    cluster.remove_node(node, allow_graceful=False)
    for pid in there:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_below(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def _refused(folder: Path, fleet: Fleet, address: str) -> str:
    folder.mkdir()
    needs = CaseResources(custom={"unicorn": 1})
    greedy = small_fleet.plan(folder, fleet.plan.variants, resources=needs)
    try:
        RayEngine(small_fleet.fleet(folder, greedy), address)
    except UsageError as error:
        return error.message
    return "not refused"


if __name__ == "__main__":
    main()
