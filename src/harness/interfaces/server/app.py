"""The server put together: rooms, routes, and the guard before all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from harness.config import Settings
from harness.interfaces.cli.server_address import token_path
from harness.interfaces.server.access import Access, load_token
from harness.interfaces.server.answers import json_answer
from harness.interfaces.server.chat import Chat
from harness.interfaces.server.desk import Desk, Setup
from harness.interfaces.server.failures import Failures
from harness.interfaces.server.guard import Guard
from harness.interfaces.server.machine_api import MachineApi
from harness.interfaces.server.openapi import document
from harness.interfaces.server.pages import Pages
from harness.interfaces.server.rooms import Rooms
from harness.interfaces.server.sessions_api import SessionsApi
from harness.interfaces.server.sockets import Socket
from harness.interfaces.server.streams import Streams
from harness.log.store import Store

OWN_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is made of."""

    store: Store
    desk: Callable[[], Desk]
    """Made in the server's event loop."""
    access: Access
    settings: Settings
    default: Setup
    port: int
    names: Sequence[str] = OWN_NAMES
    """Host names under which it answers, without the port."""
    modes: Sequence[dict[str, str]] = ()
    report: Callable[[str], object] | None = None
    """Told every request, without its secrets."""
    failures: Failures | None = None
    """Told every mistake of the server's own."""
    tick_s: float = 1 / 30

    @property
    def hosts(self) -> list[str]:
        return [f"{name}:{self.port}" for name in self.names]

    @property
    def login(self) -> str:
        """The address of links, without their code."""
        return f"http://{self.hosts[0]}/login"

    @property
    def new_link(self) -> str:
        return f"{self.login}?token={self.access.new_link_code()}"


def open_access(path: str = "") -> Access:
    """With the token of the file, which is made if there is none. Raises StoreError."""
    return Access(load_token(path or token_path()))


class Server:
    """The application. Its routes can be listed, so that a test can try each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rooms: Rooms | None = None
        self._routed = Starlette(lifespan=self._life)

    @property
    def routes(self) -> list[BaseRoute]:
        return self._routed.routes

    def guarded(self) -> ASGIApp:
        plan = self.plan
        return Guard(
            self._routed,
            access=plan.access,
            hosts=plan.hosts,
            cookie_name=f"harness_{plan.port}",
            report=plan.report,
            failures=plan.failures,
        )

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        plan = self.plan
        if plan.failures is not None:
            plan.failures.listen(asyncio.get_running_loop())
        desk = plan.desk()
        self.rooms = rooms = Rooms(plan.store, desk, tick_s=plan.tick_s)
        rooms.open()
        chat = Chat(plan.settings)
        app.router.routes[:] = self._all_routes(rooms, chat)
        try:
            yield
        finally:
            await chat.close()
            await rooms.close()

    def _all_routes(self, rooms: Rooms, chat: Chat) -> list[BaseRoute]:
        plan = self.plan

        async def socket(websocket: WebSocket) -> None:
            await Socket(websocket, rooms).serve()

        async def openapi(request: Request) -> Response:
            del request
            return json_answer(document())

        machine = MachineApi(
            plan.store, plan.settings, plan.default, plan.access, plan.login, list(plan.modes)
        )
        return [
            WebSocketRoute("/ws", socket),
            Route("/openapi.json", openapi, methods=["GET"]),
            *SessionsApi(rooms).routes(),
            *Streams(rooms).routes(),
            *machine.routes(),
            *chat.routes(),
            *Pages().routes(),
        ]
