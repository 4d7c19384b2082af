"""The contract of an engine, and the command that each of them starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from harness.fleet.fleet import Fleet
from harness.fleet.plans.plan import FleetCase
from harness.process.own_program import own_command

EngineName: TypeAlias = Literal["local", "ray"]


class Engine(Protocol):
    """Starts workers and says when they have ended. It starts a case once each time it is asked to."""

    name: EngineName

    def start(self, case: FleetCase) -> None:
        """Raises HarnessError where it cannot be started."""
        ...

    def ended(self, timeout_s: float) -> Sequence[tuple[str, str]]:
        """Wait until a worker has ended, at most that long; the cases of those that have, and how."""
        ...

    def stop(self, case_id: str, *, force: bool = False) -> None:
        """Ask the worker of a case to stop; with `force`, kill it."""
        ...

    def close(self) -> None: ...


def worker_command(fleet: Fleet, case: FleetCase) -> list[str]:
    options = ["--keep"] if fleet.keeps_workspaces else []
    return own_command("fleet", "work", *options, *fleet.words, case.id)
