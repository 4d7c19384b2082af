"""The runner: agents are started, followed, steered, answered and stopped over HTTP.

A run belongs to nobody's connection: who is cut off asks for what came after the last event he had.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.errors import UsageError
from harness.interfaces.server.answers import Conflict, NotFound, json_answer, read_body
from harness.interfaces.server.sessions_api import answering
from harness.interfaces.server.streams import HEADERS, sse
from harness.log.store import Store
from harness.rendering.json_text import encode
from harness.rendering.runner_events import RunnerTranslation
from harness.sources.request import Limits, Permissions
from harness.sources.request import Request as RunRequest
from harness.sources.run import Run, start

_HEARTBEAT_S = 15.0
_MOST_RUNS = 1_000


class NewRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    agent: str
    prompt: str
    model: str = ""
    cwd: str = ""
    permissions: Permissions = "full-access"
    resume: str = ""
    system_prompt: str = ""
    append_system_prompt: str = ""
    extra_args: tuple[str, ...] = ()
    timeout_s: float | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None

    def request(self, cwd: str) -> RunRequest:
        return RunRequest(
            agent=self.agent,
            prompt=self.prompt,
            model=self.model,
            cwd=self.cwd or cwd,
            permissions=self.permissions,
            resume=self.resume,
            system_prompt=self.system_prompt,
            append_system_prompt=self.append_system_prompt,
            extra_args=self.extra_args,
            limits=Limits(
                timeout_s=self.timeout_s, max_turns=self.max_turns, max_budget_usd=self.max_budget_usd
            ),
        )


class Steering(msgspec.Struct, frozen=True):
    message: str


class Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    relay_id: str
    approved: bool
    always: bool = False
    answer: Any = None
    reason: str = ""


class Runner:
    def __init__(self, store: Store, cwd: str) -> None:
        self._store = store
        self._cwd = cwd
        self._runs: dict[str, Run] = {}

    def app(self) -> Starlette:
        one = "/runs/{id}"
        routes = [
            Route("/runs", answering(self._start), methods=["POST"]),
            Route("/runs", answering(self._list), methods=["GET"]),
            Route(f"{one}/events", answering(self._events), methods=["GET"]),
            Route(f"{one}/cancel", answering(self._cancel), methods=["POST"]),
            Route(f"{one}/steer", answering(self._steer), methods=["POST"]),
            Route(f"{one}/reply", answering(self._reply), methods=["POST"]),
        ]
        return Starlette(routes=routes, lifespan=self._life)

    async def _start(self, request: Request) -> Response:
        wanted = await read_body(request, NewRun)
        run = await asyncio.to_thread(start, wanted.request(self._cwd), store=self._store)
        self._runs[run.id] = run
        while len(self._runs) > _MOST_RUNS:
            self._runs.pop(next(iter(self._runs)))
        return json_answer({"runId": run.id}, 201)

    async def _list(self, request: Request) -> Response:
        del request
        return json_answer({"runs": list(self._runs)})

    async def _events(self, request: Request) -> Response:
        run = self._run(request)
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isascii() and last.isdecimal() and len(last) < 16 else 0
        return StreamingResponse(_stream(run, after), media_type="text/event-stream", headers=HEADERS)

    async def _cancel(self, request: Request) -> Response:
        self._run(request).cancel()
        return json_answer({}, 202)

    async def _steer(self, request: Request) -> Response:
        run = self._run(request)
        try:
            run.steer((await read_body(request, Steering)).message)
        except UsageError as error:
            raise Conflict(error.message, hint=error.hint) from error
        return json_answer({}, 202)

    async def _reply(self, request: Request) -> Response:
        reply = await read_body(request, Reply)
        if not self._run(request).reply(
            reply.relay_id,
            approved=reply.approved,
            always=reply.always,
            answer=reply.answer,
            reason=reply.reason,
        ):
            raise Conflict("nothing of that id waits for an answer", hint="the first answer counts")
        return json_answer({}, 202)

    def _run(self, request: Request) -> Run:
        run = self._runs.get(request.path_params["id"])
        if run is None:
            raise NotFound("no such run", hint="runs are known as long as the runner lives")
        return run

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        for run in self._runs.values():
            run.cancel()


async def _stream(run: Run, after: int) -> AsyncIterator[bytes]:
    """From the beginning, because what was said before decides what is told; sent is only what is new."""
    translation = RunnerTranslation(run.launch.request.prompt)
    events = run.events()
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait((waiting,), timeout=_HEARTBEAT_S)
            if not done:
                yield b": alive\n\n"
                continue
            event, waiting = waiting.result(), None
            for told in translation.feed(event):
                if told.id > after:
                    yield sse(encode(told.data), event=told.name, id=told.id)
    except StopAsyncIteration:
        return
    finally:
        if waiting is not None:
            waiting.cancel()
