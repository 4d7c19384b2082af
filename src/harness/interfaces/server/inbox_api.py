"""`/api/inbox`: the rows of all sessions, and answers to what waits in them."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from harness.errors import HarnessError, UsageError
from harness.interfaces.inbox.rows import RowCounts
from harness.interfaces.inbox.today import Today
from harness.interfaces.server.channels import Channels
from harness.interfaces.server.fleet_feed import FleetFeed
from harness.interfaces.server.inbox_feed import LISTED, InboxFeed
from harness.interfaces.server.inbox_socket import (
    MOST_ANSWERS,
    AnswerResult,
    InboxSocket,
    OneAnswer,
    answer_many,
)
from harness.interfaces.server.notifier import Notifier, NotifyChoices
from harness.interfaces.server.responses import Handler, json_response, number, read_body, with_errors
from harness.interfaces.server.sockets import client_name
from harness.views.inbox.row import InboxRow

_MOST_LISTED = 5_000


class InboxData(msgspec.Struct, frozen=True, kw_only=True):
    rows: list[InboxRow]
    total: int
    counts: RowCounts
    today: Today


class ManyAnswers(msgspec.Struct, frozen=True):
    answers: list[OneAnswer]


class AnswerResults(msgspec.Struct, frozen=True):
    answers: list[AnswerResult]


class NotifyTest(msgspec.Struct, frozen=True):
    problems: list[str]
    """One for each target; empty where the message arrived."""


class InboxApi:
    def __init__(self, channels: Channels, feed: InboxFeed, notifier: Notifier, fleets: FleetFeed) -> None:
        self._channels = channels
        self._feed = feed
        self._fleets = fleets
        self._notifier = notifier
        feed.listeners.append(notifier.note)

    def routes(self) -> list[BaseRoute]:
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/inbox", self._list),
            ("POST", "/api/inbox/answers", self._answer),
            ("POST", "/api/inbox/notify/test", self._test_notify),
            ("GET", "/api/settings/notify", self._notify),
            ("PUT", "/api/settings/notify", self._change_notify),
        ]
        return [
            WebSocketRoute("/ws/inbox", self._socket),
            *(Route(path, with_errors(handler), methods=[method]) for method, path, handler in table),
        ]

    async def _socket(self, websocket: WebSocket) -> None:
        await InboxSocket(websocket, self._channels, self._feed, self._fleets).serve()

    async def _list(self, request: Request) -> Response:
        limit = number(request, "limit", LISTED, most=_MOST_LISTED)
        await self._feed.is_loaded.wait()
        await self._feed.refresh_today()
        return json_response(self._feed.snapshot(limit))

    async def _answer(self, request: Request) -> Response:
        wanted = await read_body(request, ManyAnswers)
        if len(wanted.answers) > MOST_ANSWERS:
            raise UsageError(f"at most {MOST_ANSWERS} answers at once")
        results = await answer_many(self._channels, wanted.answers, client_name(request))
        return json_response(AnswerResults(results))

    async def _notify(self, request: Request) -> Response:
        del request
        return json_response(self._notifier.settings)

    async def _change_notify(self, request: Request) -> Response:
        choices = await read_body(request, NotifyChoices)
        try:
            await asyncio.to_thread(self._notifier.choose, choices)
        except OSError as error:
            raise HarnessError(f"the choices cannot be stored: {error.strerror}") from error
        return json_response(self._notifier.settings)

    async def _test_notify(self, request: Request) -> Response:
        del request
        if not self._notifier.settings.targets:
            raise UsageError(
                "there is nothing to notify", hint="start the server with --notify URL, or set notify.urls"
            )
        return json_response(NotifyTest(await asyncio.to_thread(self._notifier.test)))
