"""Stopping what may not listen: a model or a tool that ignores its cancellation holds nobody for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from typing import Any, TypeVar

from harness.sources.loop.loop_context import LoopContext

GRACE_S = 3.0
"""How long what is stopped may take to put away what it began."""

_Outcome = TypeVar("_Outcome")


async def settled(tasks: Collection[asyncio.Task[Any]], timeout_s: float | None) -> None:
    """Until all of them have ended, or the time is over. It costs less than `asyncio.wait`, at every step of a run."""
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


def check_stopped(host: LoopContext) -> None:
    """Raises CancelledError when the run was stopped before it began, or when something swallowed the cancellation."""
    task = asyncio.current_task()
    if host.stopped is not None or (task is not None and task.cancelling()):
        raise asyncio.CancelledError


async def stoppable(
    host: LoopContext, body: Coroutine[Any, Any, _Outcome], grace_s: Callable[[], float]
) -> _Outcome:
    """Do it. When this is cancelled, it is too, and is left behind if it has not ended in time.

    Who is cancelled again does not wait. `grace_s` is asked when it is stopped.
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
                host.abandon((task,))
        raise
    return task.result()
