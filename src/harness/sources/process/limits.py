"""The limits of a run: when the next one falls due, and which one has been reached."""

from __future__ import annotations

from math import inf

from harness.log.raw import Control
from harness.sources.process.launch import Launch
from harness.sources.translation.bill import Bill
from harness.sources.translation.run_lifecycle import Course


class Watch:
    def __init__(self, launch: Launch, now_ms: int) -> None:
        limits = launch.request.limits
        self._limits = limits
        self._watched = launch.watched_limits
        self._started_ms = self._heard_ms = now_ms
        self._has_output = False
        self._is_over = False

    def heard(self, now_ms: int) -> None:
        """The agent wrote something."""
        self._has_output = True
        self._heard_ms = now_ms

    @property
    def deadline_ms(self) -> float:
        """When `reached` must be asked again even if nothing happens."""
        return inf if self._is_over else min(due for due, _, _ in self._due())

    def reached(self, now_ms: int, course: Course, bill: Bill) -> Control | None:
        """The first limit that has been reached; after one, no other is."""
        if self._is_over:
            return None
        for due_ms, action, seconds in self._due():
            if now_ms >= due_ms:
                return self._over(now_ms, action, f"{seconds:g}s")
        turns, budget = self._limits.max_turns, self._limits.max_budget_usd
        if turns is not None and "max_turns" in self._watched and course.turns > turns:
            return self._over(now_ms, "turns", str(turns))
        if budget is not None and "max_budget_usd" in self._watched and bill.spent_usd > budget:
            return self._over(now_ms, "budget", f"${budget:g}")
        return None

    def _due(self) -> list[tuple[float, str, float]]:
        limits = self._limits
        first = inf if self._has_output else _after(self._started_ms, limits.first_output_s)
        return [
            (_after(self._started_ms, limits.timeout_s), "timeout", limits.timeout_s or 0.0),
            (first, "first_output", limits.first_output_s or 0.0),
            (_after(self._heard_ms, limits.inactivity_s), "inactivity", limits.inactivity_s or 0.0),
        ]

    def _over(self, now_ms: int, action: str, detail: str) -> Control:
        self._is_over = True
        return Control(at_ms=now_ms, action=action, detail=detail)  # type: ignore[arg-type]


def _after(start_ms: int, seconds: float | None) -> float:
    return inf if seconds is None else start_ms + seconds * 1000
