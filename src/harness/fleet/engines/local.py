"""Workers as processes of this machine. They outlive this process; a later one finds their results."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence

from harness.fleet.engines.engine import EngineName, worker_command
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase
from harness.log.private_files import make_private_directory
from harness.process.detached import DetachedProcess
from harness.system.contract import system

_LOOK_EVERY_S = 0.2
"""Where the system cannot say when a process ends."""


class LocalEngine:
    name: EngineName = "local"

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._workers: dict[str, DetachedProcess] = {}
        self._watched: dict[int, str] = {}
        """Descriptor that becomes readable at the end of a worker → its case."""
        self._poll = select.poll()
        make_private_directory(os.path.dirname(fleet.output("-")))

    def start(self, case: FleetCase) -> None:
        argv = worker_command(self._fleet, case)
        env = {**os.environ, **self._fleet.environment}
        worker = self._workers[case.id] = DetachedProcess(argv, env, self._fleet.output(case.id))
        descriptor = system.watch_process(worker.pid)
        if descriptor is not None:
            self._watched[descriptor] = case.id
            self._poll.register(descriptor, select.POLLIN)

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        if len(self._watched) < len(self._workers):
            timeout_s = min(timeout_s, _LOOK_EVERY_S)
        ready = self._poll.poll(timeout_s * 1000)
        for descriptor, _events in ready:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        asked = [self._watched.pop(descriptor) for descriptor, _events in ready]
        if len(self._watched) < len(self._workers):
            asked = list(self._workers)
        codes = {case_id: self._workers[case_id].code() for case_id in asked}
        found = [(case_id, f"exit code {code}") for case_id, code in codes.items() if code is not None]
        for case_id, _how in found:
            del self._workers[case_id]
        return found

    def stop(self, case_id: str, *, force: bool = False) -> None:
        if case_id in self._workers:
            self._workers[case_id].signal(signal.SIGKILL if force else signal.SIGTERM)

    def close(self) -> None:
        for descriptor in self._watched:
            os.close(descriptor)
        self._watched.clear()
