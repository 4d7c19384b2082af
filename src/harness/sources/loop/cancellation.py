"""Stopping with a grace period: a model or a tool that ignores its cancellation is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from harness.sources.loop.loop_context import LoopContext

GRACE_S = 3.0
"""How long what is cancelled may take to clean up."""

_Outcome = TypeVar("_Outcome")


async def settled(tasks: Collection[asyncio.Task[Any]], timeout_s: float | None) -> None:
    """Wait until all of them have ended, or the time is over. Cheaper than `asyncio.wait`."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    left = len(tasks)

    def on_done(task: asyncio.Task[Any]) -> None:
        nonlocal left
        del task
        left -= 1
        if not left:
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
