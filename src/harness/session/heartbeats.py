"""Periodic handlers of a harness. One that fails is logged, and called again at its next interval."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable

from harness.session.config import HeartbeatHandler

_logger = logging.getLogger("harness.session")


class Heartbeats:
    def __init__(self) -> None:
        self._beating: dict[str, tuple[HeartbeatHandler, asyncio.Task[None]]] = {}

    @property
    def ids(self) -> list[str]:
        return list(self._beating)

    def start(self, handlers: Iterable[HeartbeatHandler]) -> None:
        """Start them all, except those whose id is already running."""
        for handler in handlers:
            if handler.id not in self._beating:
                self._begin(handler)

    async def register(self, handler: HeartbeatHandler) -> None:
        """Start one, in place of one with the same id."""
        await self.remove(handler.id)
        self._begin(handler)

    async def remove(self, handler_id: str) -> None:
        beating = self._beating.pop(handler_id, None)
        if beating is None:
            return
        handler, task = beating
        if not task.done():  # otherwise its event loop may be closed
            task.cancel()
            await asyncio.wait((task,))
        if handler.shutdown is not None:
            await _quietly(handler.shutdown, f"the shutdown of heartbeat {handler.id}")

    async def stop(self) -> None:
        for handler_id in list(self._beating):
            await self.remove(handler_id)

    def _begin(self, handler: HeartbeatHandler) -> None:
        task = asyncio.get_running_loop().create_task(_beat(handler), name=f"heartbeat-{handler.id}")
        self._beating[handler.id] = (handler, task)


async def _beat(handler: HeartbeatHandler) -> None:
    if not handler.immediate:
        await asyncio.sleep(handler.interval_ms / 1000)
    while True:
        await _quietly(handler.handler, f"heartbeat {handler.id}")
        await asyncio.sleep(handler.interval_ms / 1000)


async def _quietly(call: Callable[[], Awaitable[None] | None], what: str) -> None:
    try:
        answer = call()
        if answer is not None and inspect.isawaitable(answer):
            await answer
    except Exception:
        _logger.exception("%s failed", what)
