"""A process for an event loop: its output is passed to a callback, its stdin stays open.

A separate thread reads, and waits for the callback before it continues: unread output stays in the pipe, and
the process blocks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from harness.errors import HarnessError
from harness.process.child import Child, ChildExit, ChildTimeouts, OutputChunk
from harness.process.invocation import Invocation

_TIMEOUTS = ChildTimeouts(kill_s=2.0)

OnOutput: TypeAlias = Callable[[Sequence[OutputChunk]], None]


class AsyncProcess:
    """Contract: used in the thread of the event loop, where `on_output` is also called."""

    def __init__(self, invocation: Invocation, on_output: OnOutput) -> None:
        self.ended: asyncio.Future[ChildExit] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._invocation = invocation
        self._on_output = on_output
        self._has_started: asyncio.Future[Child] = self._loop.create_future()
        self._child: Child | None = None
        self._is_killed = False
        self._is_taken = threading.Semaphore(0)

    @classmethod
    async def start(cls, invocation: Invocation, on_output: OnOutput) -> AsyncProcess:
        """Raises HarnessError when it does not start."""
        live = cls(invocation, on_output)
        threading.Thread(target=live._work, name="live-child", daemon=True).start()
        try:
            await asyncio.shield(live._has_started)
        except asyncio.CancelledError:
            await live.close()
            raise
        return live

    @property
    def pid(self) -> int:
        return self._child.pid if self._child is not None else 0

    def write(self, data: bytes) -> None:
        """Write to stdin; dropped if the process has ended."""
        if self._child is not None:
            self._child.write(data)

    def stop(self) -> None:
        """Ask it to end, with increasingly strong signals."""
        if self._child is not None:
            self._child.stop()

    def kill(self) -> None:
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    async def close(self) -> None:
        """Stop it, and wait until it has ended."""
        self.kill()
        await asyncio.wait([self.ended])

    def _work(self) -> None:
        try:
            child = Child(self._invocation, _TIMEOUTS)
        except BaseException as error:  # noqa: BLE001 # it is raised in the task that waits
            self._post(self._fail, error)
            return
        with child:
            self._child = child
            if self._is_killed or not self._post(self._begin, child):
                child.kill()
            while child.exit is None:
                chunks = child.read(None)
                if chunks and self._post(self._take, chunks):
                    self._is_taken.acquire()
        self._post(self._end, child.exit)

    def _post(self, callback: Callable[..., None], *arguments: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop is closed
            self.kill()
            return False
        return True

    def _begin(self, child: Child) -> None:
        if not self._has_started.done():
            self._has_started.set_result(child)

    def _take(self, chunks: Sequence[OutputChunk]) -> None:
        try:
            self._on_output(chunks)
        finally:
            self._is_taken.release()

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, HarnessError):
            error = HarnessError(f"{self._invocation.argv[0]} does not start: {error!r}")
        if not self._has_started.done():
            self._has_started.set_exception(error)
            self._has_started.exception()  # mark it as retrieved; `start` raises it
        self._end(ChildExit(code=None, signal=None))

    def _end(self, exit: ChildExit) -> None:
        if not self.ended.done():
            self.ended.set_result(exit)
