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
        self._descriptors: dict[str, int] = {}
        """Of the workers whose end the system reports: one that becomes readable then."""
        self._poll = select.poll()
        make_private_directory(os.path.dirname(fleet.output("-")))

    def start(self, case: FleetCase) -> None:
        argv = worker_command(self._fleet, case)
        env = {**os.environ, **self._fleet.environment}
        worker = self._workers[case.id] = DetachedProcess(argv, env, self._fleet.output(case.id))
        descriptor = system.watch_process(worker.pid)
        if descriptor is not None:
            self._descriptors[case.id] = descriptor
            self._poll.register(descriptor, select.POLLIN)

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        if len(self._descriptors) < len(self._workers):
            timeout_s = min(timeout_s, _LOOK_EVERY_S)
        # None: of a worker whose end the system does not report.
        ready = {None, *(descriptor for descriptor, _events in self._poll.poll(timeout_s * 1000))}
        endings: list[tuple[str, str]] = []
        for case_id, worker in list(self._workers.items()):
            if self._descriptors.get(case_id) in ready and (code := worker.code()) is not None:
                self._forget(case_id)
                endings.append((case_id, f"exit code {code}"))
        return endings

    def _forget(self, case_id: str) -> None:
        """The worker and what reports its end, together: neither may be left for another one of the case."""
        del self._workers[case_id]
        descriptor = self._descriptors.pop(case_id, None)
        if descriptor is not None:
            self._poll.unregister(descriptor)
            os.close(descriptor)

    def stop(self, case_id: str, *, force: bool = False) -> None:
        if case_id in self._workers:
            self._workers[case_id].signal(signal.SIGKILL if force else signal.SIGTERM)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
