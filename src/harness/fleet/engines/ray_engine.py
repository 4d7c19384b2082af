"""Workers as tasks of a Ray cluster: one on this machine, or that of an address.

Ray only starts the command and says when it has ended. Its own retries are off, because whether to spend money again
is the fleet's decision. A worker ends with the process of its task, however that ends.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from harness.errors import HarnessError, MissingExtra, UsageError
from harness.fleet.engines.engine import EngineName, worker_command
from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase
from harness.process.child import Child
from harness.process.invocation import Invocation

_SLOTS = "provider:"
"""A cluster may have a resource of this name and that of a provider: then each run takes one of it."""
_LOOK_EVERY_S = 1.0
_LONGEST_OUTPUT = 500
_PROBE_S = 5.0
_CONNECT_S = 15.0
"""Ray itself tries for ten minutes to reach a cluster, and takes no timeout."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RayEngine:
    name: EngineName = "ray"

    def __init__(self, fleet: Fleet, address: str = "") -> None:
        """`address`: of a cluster; empty: one on this machine. Raises MissingExtra, UsageError."""
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise MissingExtra("the engine `ray` needs Ray, which is not installed", "ray") from error
        self._fleet = fleet
        self._tasks: dict[Any, str] = {}
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            self._connect(address)
        try:
            self._needs = self._resources()
            self._require_resources()
        except BaseException:
            self.close()
            raise
        self._attempt = self._ray.remote(max_retries=0)(attempt)

    def start(self, case: FleetCase) -> None:
        needs = dict(self._needs[case.variant.slots_of])
        options = {"num_cpus": needs.pop("CPU"), "num_gpus": needs.pop("GPU", 0), "resources": needs}
        if memory := needs.pop("memory", 0):
            options["memory"] = memory
        args = worker_command(self._fleet, case)[1:]
        task = self._attempt.options(name=f"fleet {case.id}", **options).remote(args, self._fleet.environment)
        self._tasks[task] = case.id

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        if not self._tasks:
            time.sleep(timeout_s)
            return ()
        ready, _rest = self._ray.wait(list(self._tasks), num_returns=1, timeout=timeout_s)
        return [(self._tasks.pop(task), self._how(task)) for task in ready]

    def stop(self, case_id: str, *, force: bool = False) -> None:
        for task, task_ref in self._tasks.items():
            if task_ref == case_id:
                self._ray.cancel(task, force=force)

    def close(self) -> None:
        if self._is_ours:
            self._ray.shutdown()

    def _connect(self, address: str) -> None:
        # Ray prints to standard output that a node died, where the fleet's events are. There is no public setting.
        vars(import_module("ray._private.worker")).update(_worker_logs_enabled=False)
        try:
            _require_listener(address, self._ray)
            self._init(address)
        except Exception as error:  # Ray raises what its parts raise
            where = f"the Ray cluster at {address}" if address else "Ray on this machine"
            reason = " ".join(str(error).split())[:_LONGEST_OUTPUT]
            hint = "see --ray-address; `ray status --address HOST:PORT` says whether a cluster answers"
            raise UsageError(f"cannot connect to {where}: {reason}", hint=hint) from error

    def _init(self, address: str) -> None:
        """Raises what Ray raises, TimeoutError."""
        options = {"log_to_driver": False, "configure_logging": False}
        if not address:
            # Not `None`, with which Ray would join any cluster that it finds on this machine, also one that is ending.
            # In this thread, because the processes of Ray end with the thread that has started them.
            self._ray.init(address="local", include_dashboard=False, **options)
            return
        raised: list[Exception] = []

        def connect() -> None:
            try:
                self._ray.init(address=address, **options)
            except Exception as error:  # noqa: BLE001 # it is raised again below
                raised.append(error)

        logging.getLogger("ray").setLevel(logging.ERROR)  # Ray warns that this is not the main thread
        thread = threading.Thread(target=connect, name="connect to Ray", daemon=True)
        thread.start()
        thread.join(_CONNECT_S)
        if thread.is_alive():
            raise TimeoutError(f"Ray did not answer within {_CONNECT_S:.0f} s")
        if raised:
            raise raised[0]

    def _resources(self) -> dict[str, dict[str, float]]:
        """What a case needs, by provider."""
        resources = self._fleet.plan.resources
        needs = {"CPU": resources.cpus, **resources.custom}
        if resources.gpus:
            needs["GPU"] = resources.gpus
        if resources.memory_mb:
            needs["memory"] = resources.memory_mb * 1024 * 1024
        there = self._ray.cluster_resources()
        providers = {variant.slots_of for variant in self._fleet.plan.variants}
        limited = {name: {f"{_SLOTS}{name}": 1.0} for name in providers if f"{_SLOTS}{name}" in there}
        return {name: {**needs, **limited.get(name, {})} for name in sorted(providers)}

    def _require_resources(self) -> None:
        """A resource that no node has would be waited for without end, and without an error."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for needs in self._needs.values():
            if not any(all(node.get(name, 0) >= count for name, count in needs.items()) for node in nodes):
                needs_text = ", ".join(f"{name} = {count:g}" for name, count in needs.items())
                raise UsageError(
                    f"no node of the Ray cluster has {needs_text}",
                    hint="see [resources] of the plan, and `ray status`",
                )

    def _how(self, task: Any) -> str:
        try:
            return str(self._ray.get(task))
        except Exception as error:  # noqa: BLE001 # the task, its process or its node died
            return f"{type(error).__name__}: {' '.join(str(error).split())[:_LONGEST_OUTPUT]}"


def _require_listener(address: str, ray: Any) -> None:
    """Raises OSError where nothing listens at the address, ValueError where it is none. Names like `auto` are Ray's."""
    scheme, _, place = address.rpartition("://")
    if scheme not in {"", "ray"} or ":" not in place:
        return
    parts = urlsplit(f"//{place}")
    if not parts.hostname or not parts.port:
        raise ValueError("this is not HOST:PORT")
    failed: OSError | None = None
    for host in _hosts(parts.hostname, ray):
        try:
            socket.create_connection((host, parts.port), _PROBE_S).close()
        except OSError as error:
            failed = error
        else:
            return
    raise failed or OSError("it has no host")


def _hosts(host: str, ray: Any) -> Iterator[str]:
    """Where Ray looks for a cluster: for this machine also at the address that it has in its network."""
    yield host
    if host in _LOOPBACK:
        yield ray.util.get_node_ip_address()


def attempt(args: Sequence[str], environment: Mapping[str, str]) -> str:
    """Runs on a node of the cluster, in a process of Ray: attempt a case. Returns how its worker ended."""
    invocation = Invocation((sys.executable, *args), {**os.environ, **environment}, os.getcwd())
    output = b""
    try:
        child = Child(invocation)
    except HarnessError as error:
        return error.words
    with child:
        while child.exit is None:
            try:
                chunks = child.read(_LOOK_EVERY_S)
            except KeyboardInterrupt:  # `ray.cancel`
                child.stop()
                continue
            output = b"".join([output, *(chunk.data for chunk in chunks)])[-_LONGEST_OUTPUT:]
    code = child.exit.code if child.exit.code is not None else -(child.exit.signal or 0)
    return f"exit code {code}: {output.decode('utf-8', 'replace')}".rstrip(": ")
