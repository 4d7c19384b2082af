"""A fleet on a real Ray cluster of several nodes on this machine, one of which is killed while a case runs on it.

Run as a program, because Ray and its warnings stay in its process then. Prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import small_fleet
from harness.errors import UsageError
from harness.events import CaseLost, CaseScored, CaseStarted, Event
from harness.fleet.engines.local import LocalEngine
from harness.fleet.engines.ray_engine import RayEngine
from harness.fleet.fleet import Fleet
from harness.fleet.plan import CaseResources
from harness.fleet.scheduler import Scheduler

WAITS = """
turns = [[{{ tool = "bash", input = {{ command = "while [ ! -e {go} ]; do sleep 0.1; done" }} }}],
  [{{ tool = "write", input = {{ file_path = "answer.txt", content = "42" }} }}], [{{ text = "Done." }}]]
"""


def main() -> None:
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    began = time.monotonic()
    folder = Path(sys.argv[1])
    options: dict[str, Any] = {"object_store_memory": 80 * 2**20, "include_dashboard": False}
    slots = {"provider:native": 1}
    head = {"num_cpus": 1, "resources": slots, **options}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    doomed = cluster.add_node(num_cpus=1, resources=slots, object_store_memory=80 * 2**20)
    ray.init(address=cluster.address, log_to_driver=False)
    variants = [small_fleet.variant(folder, WAITS.format(go=folder / "go"))]
    tasks = [small_fleet.task(f"t{number}") for number in range(3)]
    fleet = small_fleet.fleet(folder, small_fleet.plan(folder, variants, tasks))
    found: dict[str, Any] = {"refused": _refused(folder / "greedy", variants)}

    found |= _run(fleet, cluster, doomed, folder)
    ray.shutdown()
    cluster.shutdown()
    found |= _moved_to_local(fleet)
    found["left"] = small_fleet.descendants_with(f"{folder}/small/work")
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(found))


def _run(fleet: Fleet, cluster: Any, doomed: Any, folder: Path) -> dict[str, Any]:
    """Until a case is scored. A node is killed while cases run on both."""

    def kill_node() -> None:
        while sum(bool(one.log_id) for one in fleet.records.in_progress().values()) < 2:
            time.sleep(0.05)
        cases = list(fleet.records.in_progress())
        cluster.remove_node(doomed, allow_graceful=False)
        deadline = time.monotonic() + 8
        while all(map(fleet.records.is_claimed, cases)) and time.monotonic() < deadline:
            time.sleep(
                0.05
            )  # its worker ends with the node; one that does not, on the same machine, is adopted
        (folder / "go").touch()

    threading.Thread(target=kill_node, daemon=True).start()
    shown: list[Event] = []

    def show(event: Event) -> None:
        shown.append(event)
        if isinstance(event, CaseScored):
            scheduler.stop()

    scheduler = Scheduler(fleet, RayEngine(fleet), 2, fleet.open_log(), show)
    ended = scheduler.run()
    scheduler.close()
    lost = [one.reason for one in shown if isinstance(one, CaseLost)]
    return {"reason": ended.reason, "scored": ended.scored, "lost": lost}


def _refused(folder: Path, variants: Any) -> str:
    folder.mkdir()
    greedy = small_fleet.plan(folder, variants, resources=CaseResources(custom={"unicorn": 1}))
    try:
        RayEngine(small_fleet.fleet(folder, greedy))
    except UsageError as error:
        return error.message
    return "not refused"


def _moved_to_local(fleet: Fleet) -> dict[str, Any]:
    """What is left of the fleet is done by another engine."""
    shown: list[Event] = []
    scheduler = Scheduler(fleet, LocalEngine(fleet), 1, fleet.open_log(), shown.append)
    ended = scheduler.run()
    scheduler.close()
    engines = [event.engine for event in shown if isinstance(event, CaseStarted)]
    passed = [one.passed for one in fleet.records.results().values()]
    return {"moved": engines, "all": ended.scored, "passed": passed}


if __name__ == "__main__":
    main()
