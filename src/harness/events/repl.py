"""A model that works by writing programs: what it runs, and what comes of it."""

from __future__ import annotations

from typing import Literal

from harness.events.envelope import Event


class ReplInput(Event, frozen=True, kw_only=True):
    """Code is about to run."""

    id: str
    code: str
    iteration: int = 0


class ReplProgress(Event, frozen=True, kw_only=True):
    """Something it printed while it ran."""

    id: str
    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


class ReplOutput(Event, frozen=True, kw_only=True):
    """It has run. `done`: it gave the final answer."""

    id: str
    stdout: str = ""
    error: str = ""
    done: bool = False
    iteration: int = 0
    duration_ms: int | None = None
    truncated: bool = False
