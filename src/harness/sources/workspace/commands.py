"""Run a program for a tool: in its own thread, under the watchdog, with a timeout.

In every case, the program and everything it started has ended before `run_command` returns or raises
CancelledError.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from harness.errors import HarnessError
from harness.sources.process.child import Child, ChildExit, ChildTimeouts, OutputChunk
from harness.sources.process.invocation import Invocation
from harness.sources.tool import ToolFailure

_PATIENCE = ChildTimeouts(kill_s=2.0)

Take: TypeAlias = Callable[[Sequence[OutputChunk]], float | None]
"""Called in the command's thread with its output, possibly empty. Returns after how many seconds it must be
called again even without output; None: not at all. May raise `Enough`."""


class Enough(Exception):
    """No more output is needed: end the program."""


class CommandEnd(NamedTuple):
    exit: ChildExit
    is_timeout: bool
    is_enough: bool


async def run_command(invocation: Invocation, take: Take, timeout_s: float) -> CommandEnd:
    """Raises ToolFailure when it cannot be started."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[CommandEnd] = loop.create_future()
    command = _Command(invocation, take, timeout_s)

    def work() -> None:
        try:
            ending, error = command.run(), None
        except BaseException as raised:
            ending, error = None, raised
        with suppress(RuntimeError):  # the event loop is closed: no task waits any more
            loop.call_soon_threadsafe(settle, ending, error)

    def settle(ending: CommandEnd | None, error: BaseException | None) -> None:
        if ended.done():
            return
        if ending is not None:
            ended.set_result(ending)
        elif error is not None:
            ended.set_exception(error)

    threading.Thread(target=work, name="command", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        command.kill()
        await asyncio.wait([ended])
        raise
    except HarnessError as error:
        raise ToolFailure(f"{error.message}. {error.hint}".strip()) from None
    finally:
        if ended.done() and not ended.cancelled():
            ended.exception()  # mark the exception as retrieved


class _Command:
    def __init__(self, invocation: Invocation, take: Take, timeout_s: float) -> None:
        self._invocation = invocation
        self._take = take
        self._timeout_s = timeout_s
        self._child: Child | None = None
        self._is_killed = False

    def kill(self) -> None:
        """May be called from any thread."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def run(self) -> CommandEnd:
        with Child(self._invocation, _PATIENCE) as child:
            self._child = child
            if self._is_killed:
                child.kill()
            is_timeout = is_enough = False
            deadline = time.monotonic() + self._timeout_s
            wait_s: float | None = None
            while child.exit is None:
                left_s = deadline - time.monotonic()
                if left_s <= 0 and not is_timeout:
                    is_timeout = True
                    child.kill()
                chunks = child.read(_sooner(None if is_timeout else max(left_s, 0.0), wait_s))
                if not is_enough:
                    try:
                        wait_s = self._take(chunks)
                    except Enough:
                        is_enough, wait_s = True, None
                        child.kill()
            return CommandEnd(child.exit, is_timeout, is_enough)


def _sooner(first_s: float | None, second_s: float | None) -> float | None:
    known = [seconds for seconds in (first_s, second_s) if seconds is not None]
    return min(known) if known else None
