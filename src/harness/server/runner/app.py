"""The runner: agents are started, followed, steered, answered and stopped over HTTP.

A run is independent of connections: a client that was cut off asks for what came after the last event it had.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.errors import UsageError
from harness.folds.run_events.runner_events import RunnerTranslation
from harness.formatting.json_text import encode
from harness.log.store import Store
from harness.runs.run import Run
from harness.server.access.responses import Conflict, json_response, read_body, with_errors
from harness.server.live.streams import HEADERS, sse
from harness.server.runner.runs import KnownRun, KnownRuns, NewRun

_HEARTBEAT_S = 15.0
_SILENCE_MS = 60_000


def drop_lost_clients(listening: socket.socket) -> None:
    """End connections on which nothing arrives for a while, as when the other machine has crashed, so that its lease ends.
    Where the system cannot do that, it takes as long as the system waits.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listening.setsockopt(socket.IPPROTO_TCP, option, _SILENCE_MS)


class SteeringBody(msgspec.Struct, frozen=True):
    message: str
    key: str = ""
    """A message that is repeated under the same key counts once."""


class ReplyBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    relay_id: str
    approved: bool
    always: bool = False
    answer: Any = None
    reason: str = ""
    choice: str = ""
    key: str = ""


class Runner:
    def __init__(self, store: Store, cwd: str) -> None:
        self._runs = KnownRuns(store, cwd)

    def app(self) -> Starlette:
        prefix = "/runs/{id}"
        routes = [
            Route("/runs", with_errors(self._start), methods=["POST"]),
            Route("/runs", with_errors(self._list), methods=["GET"]),
            Route(f"{prefix}/events", with_errors(self._events), methods=["GET"]),
            Route(f"{prefix}/cancel", with_errors(self._cancel), methods=["POST"]),
            Route(f"{prefix}/steer", with_errors(self._steer), methods=["POST"]),
            Route(f"{prefix}/reply", with_errors(self._reply), methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._life)

    async def _start(self, request: Request) -> Response:
        run = await self._runs.start(await read_body(request, NewRun))
        return json_response({"runId": run.run.id, "steerable": run.run.is_steerable}, 201)

    async def _list(self, request: Request) -> Response:
        del request
        return json_response({"runs": self._runs.ids})

    async def _events(self, request: Request) -> Response:
        known_run = self._known(request)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0
        return StreamingResponse(_stream(known_run, after), media_type="text/event-stream", headers=HEADERS)

    async def _cancel(self, request: Request) -> Response:
        self._known(request).run.cancel()
        return json_response({}, 202)

    async def _steer(self, request: Request) -> Response:
        known_run, steering = self._known(request), await read_body(request, SteeringBody)
        if known_run.is_new(steering.key):
            try:
                known_run.run.steer(steering.message)
            except UsageError as error:
                known_run.forget(steering.key)
                raise Conflict(error.message, hint=error.hint) from error
        return json_response({}, 202)

    async def _reply(self, request: Request) -> Response:
        known_run, reply = self._known(request), await read_body(request, ReplyBody)
        if not known_run.is_new(reply.key):
            return json_response({}, 202)
        reply_fields = {
            name: getattr(reply, name) for name in ("approved", "always", "answer", "reason", "choice")
        }
        try:
            is_taken = known_run.run.reply(reply.relay_id, **reply_fields)
        except UsageError:
            known_run.forget(reply.key)
            raise
        if not is_taken:
            known_run.forget(reply.key)
            raise Conflict(
                "no question with this id is waiting for an answer", hint="the first answer counts"
            )
        return json_response({}, 202)

    def _known(self, request: Request) -> KnownRun:
        return self._runs.get(request.path_params["id"])

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        self._runs.close()


async def _stream(known_run: KnownRun, after: int) -> AsyncIterator[bytes]:
    with known_run.followed() as run:
        async for part in _event_stream(run, after):
            yield part


async def _event_stream(run: Run, after: int) -> AsyncIterator[bytes]:
    """Translated from the beginning, because earlier events matter; only what is new is sent."""
    translation = RunnerTranslation(run.launch.request.prompt)
    events = run.events()
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done_tasks, _ = await asyncio.wait((waiting,), timeout=_HEARTBEAT_S)
            if not done_tasks:
                yield b": alive\n\n"
                continue
            event, waiting = waiting.result(), None
            for data in translation.feed(event):
                if data.id > after:
                    yield sse(encode(data.data), event=data.name, id=data.id)
    except StopAsyncIteration:
        return
    finally:
        if waiting is not None:
            waiting.cancel()
