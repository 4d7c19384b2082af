"""The contract of a fleet's records: what makes a case run once, whatever is killed when.

- A claim is held by one process, and ends with it.
- A case has at most one result, and what is stored never changes.
- The plan is stored once; a second, different one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol, TypeAlias

from harness.fleet.records.attempt import Attempt, CaseProgress

StopRequest: TypeAlias = Literal["", "after", "now"]
"""Whether the fleet is asked to stop: after the cases that run, or at once."""


class FleetRecords(Protocol):
    """Methods raise StoreError where the storage fails."""

    def save_plan(self, plan: bytes) -> bytes:
        """Store it unless there is one; returns the one that is stored."""
        ...

    def plan(self) -> bytes:
        """Raises UsageError where there is no such fleet."""
        ...

    def claim(self, case: str) -> AbstractContextManager[None] | None:
        """Alone work on a case; None: another process does."""
        ...

    def is_claimed(self, case: str) -> bool: ...

    def add(self, attempt: Attempt, diff: bytes = b"") -> bool:
        """Store an attempt, by the process that has the claim, and forget its note.

        False: it is stored already, or the case has a result; what is stored stays as it is.
        """
        ...

    def results(self) -> Mapping[str, Attempt]:
        """The results that there are now, by case."""
        ...

    def result(self, case: str) -> Attempt | None: ...

    def faults(self) -> Mapping[str, Sequence[Attempt]]:
        """The attempts without a result, by case, in their order."""
        ...

    def faults_of(self, case: str) -> Sequence[Attempt]: ...

    def diff(self, attempt: Attempt) -> bytes:
        """What the agent changed; empty where it is not known."""
        ...

    def note(self, progress: CaseProgress) -> None:
        """Store what an attempt is doing, in place of what was stored before."""
        ...

    def progress(self, case: str) -> CaseProgress | None:
        """The note of a case that has no result."""
        ...

    def in_progress(self) -> Mapping[str, CaseProgress]:
        """What was noted and not forgotten; of a worker that was killed, the last note. Never of a case with a result."""
        ...

    def forget(self, case: str) -> None:
        """Remove the note of an attempt that is stored."""
        ...

    def request_stop(self, request: StopRequest) -> None: ...

    def stop_requested(self) -> StopRequest: ...

    def be_patient(self) -> None:
        """From now on, wait for a storage that is away for a while: what runs meanwhile is paid for."""
        ...

    def delete(self) -> None:
        """Remove all of them."""
        ...

    def close(self) -> None: ...
