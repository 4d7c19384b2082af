"""`/api/sessions/<id>/requests`: the model calls that a gateway has recorded, and what was sent in one of them."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.clients.sessions.model_calls import CallText, call_lines, call_table
from harness.errors import UsageError
from harness.log.store import Store
from harness.server.access.responses import flag, json_response, with_errors


class ModelCallsApi:
    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        one = "/api/sessions/{id}/requests"
        return [
            Route(one, with_errors(self._list), methods=["GET"]),
            Route(f"{one}/{{number:int}}", with_errors(self._one), methods=["GET"]),
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
