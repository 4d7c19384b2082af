"""Requests and responses of handlers: JSON both ways, errors with what to do next."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Scope

from harness.errors import HarnessError, LogLocked, UnknownSession, UsageError
from harness.formatting.json_text import encode

Body = TypeVar("Body")
Handler = Callable[[Request], Awaitable[Response]]
_STATUS: dict[type[HarnessError], int] = {UnknownSession: 404, LogLocked: 409, UsageError: 400}


class Unauthorized(UsageError):
    """The client is not logged in."""


class NotFound(UsageError):
    """There is nothing of that name."""


class TooLarge(UsageError):
    """The body is larger than allowed."""


class TooSlow(UsageError):
    """The body did not arrive in time."""


class Forbidden(UsageError):
    """The client is logged in, and this is more than it was granted."""


class Conflict(UsageError):
    """Not possible in the current state."""


_TRUE = {"true": True, "1": True, "false": False, "0": False}
_STATUS |= {Unauthorized: 401, NotFound: 404, TooLarge: 413, TooSlow: 408, Forbidden: 403, Conflict: 409}


def json_response(value: Any, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


def error_response(error: HarnessError) -> Response:
    status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
    body = {"message": error.message, "code": error.kind} | ({"hint": error.hint} if error.hint else {})
    return json_response({"error": body}, status)


def plain_error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    answer = json_response({"error": {"message": message}}, status)
    answer.headers.update(headers or {})
    return answer


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Raises UsageError for what has another shape."""
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=kind)
    except ClientDisconnect as error:
        if request.scope.get("harness.is_late"):
            raise TooSlow("the body of the request did not arrive in time") from error
        raise TooLarge("the body is too large, or was cut off") from error
    except RecursionError as error:
        raise UsageError("the body is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the body is not what was expected: {error}", hint="see /openapi.json") from error


def number(request: Request, name: str, default: int, *, most: int) -> int:
    """A number of the query. Raises UsageError."""
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise UsageError(f"{name} is a number of 0 or more, not {text[:40]!r}")
    return min(int(text), most)


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    """A choice of the query. Raises UsageError."""
    text = request.query_params.get(name, "").lower()
    if not text:
        return default
    if text not in _TRUE:
        raise UsageError(f"{name} is true or false, not {text[:40]!r}")
    return _TRUE[text]


def with_errors(handler: Handler) -> Handler:
    """The handler, with a HarnessError as an error response."""

    async def answered(request: Request) -> Response:
        try:
            return await handler(request)
        except HarnessError as error:
            return error_response(error)

    return answered


# Internal errors, reported to the operator of the server: one line with the kind and the place, and nothing else.
#
# The message of an error may contain anything, even a token, so it is never printed; neither is the requested
# address, only its route. The traceback shows our own lines alone.


Say = Callable[[str], object]


class Failures:
    """`say` gets a text without an end of line. `is_verbose`: with the traceback."""

    def __init__(self, say: Say, *, is_verbose: bool = False) -> None:
        self._say = say
        self._is_verbose = is_verbose

    def report(self, where: str, error: BaseException) -> None:
        self._say(f"harness: {type(error).__name__} in {where}: an internal error")
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
