"""Stopping with a grace period: a model or a tool that ignores its cancellation is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from harness.contracts.limits import LIMITS
from harness.contracts.request import Limits
from harness.events import Error
from harness.native.loop.loop_context import LoopContext

GRACE_S = 3.0
"""How long what is cancelled may take to clean up."""

_Outcome = TypeVar("_Outcome")


async def settled(tasks: Collection[asyncio.Task[Any]], timeout_s: float | None) -> None:
    """Wait until all of them have ended, or the time is over. Cheaper than `asyncio.wait`."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    open_count = len(tasks)

    def on_done(task: asyncio.Task[Any]) -> None:
        nonlocal open_count
        del task
        open_count -= 1
        if not open_count:
            _release(waiter)

    for task in tasks:
        task.add_done_callback(on_done)
    timer = None if timeout_s is None else loop.call_later(timeout_s, _release, waiter)
    try:
        await waiter
    finally:
        if timer is not None:
            timer.cancel()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def check_stopped(context: LoopContext) -> None:
    """Raises CancelledError when the run was stopped before it began, or when something swallowed the cancellation."""
    task = asyncio.current_task()
    if context.stopped is not None or (task is not None and task.cancelling()):
        raise asyncio.CancelledError


async def stoppable(
    context: LoopContext, body: Coroutine[Any, Any, _Outcome], grace_s: Callable[[], float]
) -> _Outcome:
    """Run the body. A cancellation is passed on to it; a body that has not ended in time is left behind.

    A second cancellation does not wait. `grace_s` is called when it is cancelled.
    """
    task = asyncio.get_running_loop().create_task(body)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        try:
            await asyncio.wait((task,), timeout=grace_s())
        finally:
            if task.done():
                _ = task.cancelled() or task.exception()  # the cancellation is what counts
            else:
                context.abandon((task,))
        raise
    return task.result()


# Time limits of a run of the loop: in all, until its first output, and without any output.


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
        left_s = self._context.outbox.last_event_s + seconds - self._loop.time()
        if self._context.questions.open:  # it waits for a person, who may think; the answer is an event
            self._later("inactivity", seconds, self._check_activity)
        elif left_s <= 0:
            self._end_by("inactivity", seconds)
        else:
            self._later("inactivity", left_s, self._check_activity)

    def _end_by(self, action: str, seconds: float | None) -> None:
        if self._context.stopped is not None:
            return
        limit = LIMITS[action]
        self._context.stopped = limit.outcome
        message = limit.message.format(f"{seconds or 0:g} s")
        self._context.outbox.channel(self._run_id).put(Error(message=message, code=limit.code))
        self._stop()
