"""Internal errors, reported to the operator of the server: one line with the kind and the place, and nothing else.

The message of an error may contain anything, even a token, so it is never printed; neither is the requested
address, only its route. The traceback shows our own lines alone.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

from starlette.types import Scope

Say = Callable[[str], object]


class Failures:
    """`say` gets a text without an end of line. `is_verbose`: with the traceback."""

    def __init__(self, say: Say, *, is_verbose: bool = False) -> None:
        self._say = say
        self._is_verbose = is_verbose

    def report(self, where: str, error: BaseException) -> None:
        self._say(f"harness: {type(error).__name__} in {where}: a mistake of the server")
        if self._is_verbose:
            self._say("".join(traceback.format_tb(error.__traceback__)).rstrip("\n"))

    def report_request(self, scope: Scope, error: BaseException) -> None:
        route = getattr(scope.get("route"), "path", "") or "a request"
        self.report(f"{scope.get('method', 'WEBSOCKET')} {route}", error)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Also report what fails in the background of a loop."""
        loop.set_exception_handler(self._in_background)

    def _in_background(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        del loop
        error = context.get("exception")
        if error is not None:
            self.report(_name_of(context), error)


def _name_of(context: dict[str, Any]) -> str:
    work = context.get("task") or context.get("future")
    coroutine = work.get_coro() if isinstance(work, asyncio.Task) else None
    return getattr(coroutine, "__qualname__", "") or "the background"
