"""Time limits of a run of the loop: in all, until its first output, and without any output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.events import Error
from harness.sources.loop.loop_context import LoopContext
from harness.sources.request import Limits
from harness.sources.translation.outcome import LIMITS


class TimeLimits:
    """Contract: `stop` is called at most once, and the log then says why."""

    def __init__(self, context: LoopContext, run_id: str, limits: Limits, stop: Callable[[], None]) -> None:
        self._context = context
        self._run_id = run_id
        self._limits = limits
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def watch(self) -> None:
        """From now on."""
        limits = self._limits
        if limits.timeout_s is not None:
            self._later("timeout", limits.timeout_s, lambda: self._end_by("timeout", limits.timeout_s))
        if limits.first_output_s is not None:
            self._later("first_output", limits.first_output_s, self._check_first_output)
        if limits.inactivity_s is not None:
            self._check_activity()

    def close(self) -> None:
        """The run has ended."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        self._timers[name] = self._loop.call_later(seconds, do)

    def _check_first_output(self) -> None:
        if not self._context.has_output:
            self._end_by("first_output", self._limits.first_output_s)

    def _check_activity(self) -> None:
        seconds = self._limits.inactivity_s or 0.0
        left_s = self._context.outbox.heard_s + seconds - self._loop.time()
        if left_s <= 0:
            self._end_by("inactivity", seconds)
        else:
            self._later("inactivity", left_s, self._check_activity)

    def _end_by(self, action: str, seconds: float | None) -> None:
        if self._context.stopped is not None:
            return
        limit = LIMITS[action]
        self._context.stopped = limit.outcome
        message = limit.message.format(f"{seconds or 0:g} s")
        self._context.channel(self._run_id).put(Error(message=message, code=limit.code))
        self._stop()
