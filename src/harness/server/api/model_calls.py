"""`/api/sessions/<id>/requests`: the model calls that a gateway has recorded, what was sent in one of them, and `/forks`: the
same run again up to a step, from where a model goes on.
"""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.clients.sessions.model_calls import CallText, call_lines, call_table
from harness.contracts.request import GatewayOptions
from harness.errors import UsageError
from harness.log.store import Store
from harness.log.stores.files import FileStore
from harness.runs.replay_request import recorded_run, replay_request
from harness.runs.run import start
from harness.server.access.responses import flag, json_response, read_body, with_errors


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """After so many answers of the main conversation from the recording, a model answers."""

    at: int
    model: str = ""
    """`provider/name`; empty: the recorded provider and model."""
    cwd: str = ""
    """Another folder than the recorded one."""


class StartedFork(msgspec.Struct, frozen=True):
    """The session that it has."""

    id: str


class ModelCallsApi:
    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        prefix = "/api/sessions/{id}/requests"
        return [
            Route(prefix, with_errors(self._list), methods=["GET"]),
            Route(f"{prefix}/{{number:int}}", with_errors(self._one), methods=["GET"]),
            Route("/api/sessions/{id}/forks", with_errors(self._fork), methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response:
        log_id = request.path_params["id"]
        self._store.metadata(log_id)  # raises UnknownSession
        return json_response(await asyncio.to_thread(call_table, self._store, log_id))

    async def _one(self, request: Request) -> Response:
        log_id, number = request.path_params["id"], request.path_params["number"]
        self._store.metadata(log_id)
        if number < 1:
            raise UsageError("calls are numbered from 1")
        only_new = flag(request, "new")
        lines = await asyncio.to_thread(call_lines, self._store, log_id, number, only_new=only_new)
        return json_response(CallText(lines))

    async def _fork(self, request: Request) -> Response:
        log_id, asked = request.path_params["id"], await read_body(request, ForkRequest)
        self._store.metadata(log_id)
        return json_response(StartedFork(await asyncio.to_thread(forked, self._store, log_id, asked)), 201)


def forked(store: Store, log_id: str, asked: ForkRequest) -> str:
    """The id of the run, which goes on in this process, sealed: nobody looks at what it repeats. Raises UsageError."""
    if not isinstance(store, FileStore):
        raise UsageError("what was sent is kept in a store of files only", hint="do this where it ran")
    if asked.at < 0:
        raise UsageError("answers are counted from 0")
    recording = recorded_run(store, log_id)
    if len(recording.prompts) > 1:
        raise UsageError(
            "a conversation of several messages is played on the command line",
            hint=f"harness replay {log_id[:12]} --at {asked.at} --live, or --model PROVIDER/NAME",
        )
    options = GatewayOptions(fork_at=asked.at)
    request = replay_request(recording, cwd=asked.cwd, model=asked.model, options=options)
    return start(replace(request, sealed="write"), store=store).id
