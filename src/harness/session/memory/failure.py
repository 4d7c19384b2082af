"""That a memory could not do its work, which ends the run it works for."""

from __future__ import annotations

from typing import Literal

from harness.events.memory import Noting


class MemoryFailure(Exception):
    """The text is what the user is told. The event that says it is in the log already."""

    def __init__(self, operation: Noting, stage: Literal["run", "buffering"], reason: str) -> None:
        super().__init__(f"Observational memory {operation} {stage} failed: {reason}")
        self.operation = operation
        self.stage = stage
        self.reason = reason
