"""The server application: channels, routes, the files of the page, and the guard before all of them.

The built page is part of the package. It is public: it shows nothing but that Harness runs here. What it displays, it
requests with the browser's credential.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from mimetypes import guess_type

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from harness.clients.acp.host import AcpHost
from harness.clients.conversations.backend import Backend, Setup
from harness.clients.server_address import browsers_path, token_path
from harness.config import Settings
from harness.errors import HarnessError
from harness.fleet.watching import KnownFleets
from harness.log.store import Query, Store
from harness.log.stores.files import FileStore
from harness.server.access.credentials import Access
from harness.server.access.credentials import open_access as open_any_access
from harness.server.access.guard import RequestGuard
from harness.server.access.host_names import HostNames
from harness.server.access.responses import (
    Failures,
    NotFound,
    error_response,
    json_response,
    plain_error,
)
from harness.server.api.acp import AcpApi
from harness.server.api.agui import AgUiApi
from harness.server.api.budget import BudgetApi
from harness.server.api.changes import ChangesApi
from harness.server.api.chat import ChatApi
from harness.server.api.exports import ExportsApi
from harness.server.api.fleets import FleetApi
from harness.server.api.grants import GrantsApi
from harness.server.api.logins import PUBLIC, LoginApi
from harness.server.api.machine import FirstApi, MachineApi
from harness.server.api.model_calls import ModelCallsApi
from harness.server.api.openai_chat import OpenAiChat, OpenAiConversations
from harness.server.api.openai_models import OfferedModels
from harness.server.api.openai_responses import OpenAiResponses
from harness.server.api.openapi import document
from harness.server.api.sessions import SessionsApi
from harness.server.api.workspaces import WorkspacesApi
from harness.server.live.channels import Channels
from harness.server.live.fleet_feed import FleetFeed
from harness.server.live.inbox_feed import InboxFeed
from harness.server.live.inbox_socket import InboxApi
from harness.server.live.session_socket import Socket
from harness.server.live.streams import StreamsApi
from harness.server.machine.histories import HistoryKeeper
from harness.server.machine.machine_store import MachineStore
from harness.server.machine.notifier import Notifier, NotifyTarget

_FOLDER = os.path.join(os.path.dirname(__file__), "page")
_ABSENT = """\
Harness is running, but its page is not in this copy of the program.

It is built with `make web` (which needs node), and is part of every installed package.
Programs can use the server as it is: see /openapi.json.
"""
_CACHED_FOREVER = "public, max-age=31536000, immutable"
"""The names of assets contain a hash of their content."""
_PLACES = ("", "login")
"""Every other place within the page is behind a `#`."""
_READY_KNOWN_S = 1.0
_CAUGHT_UP_EVERY_S = 300.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is made of."""

    store: Store
    backend: Callable[[], Backend]
    """Made in the server's event loop."""
    access: Access
    settings: Settings
    default: Setup
    names: HostNames
    modes: Sequence[dict[str, str]] = ()
    report: Callable[[str], object] | None = None
    """Called with every request, without its secrets."""
    failures: Failures | None = None
    """Gets every internal error."""
    tick_s: float = 1 / 30
    notify: Sequence[NotifyTarget] = ()
    """Where notifications are sent when a session needs a person, or ends."""
    fleets: str = ""
    """The PostgreSQL database of fleets; empty: those of the data directory."""
    endpoints: Sequence[str] = ()
    """Which other protocols it speaks: of `ENDPOINTS`."""

    @property
    def new_link(self) -> str:
        return f"{self.names.url}/login?token={self.access.new_link_code()}"


def open_access(token_file: str = "", token: str = "") -> Access:
    """`token_file`: one that the user named. Raises HarnessError."""
    return open_any_access(token_path(), browsers_path(), named_file=token_file, token=token)


class ServerApp:
    """The application. Its routes can be listed, so that a test can try each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.channels: Channels | None = None
        self.inbox: InboxFeed | None = None
        self._pages = PageFiles()
        self._was_ready = False
        self._ready_until_s = float("-inf")
        self._routed = Starlette(lifespan=self._life, exception_handlers={HTTPException: _error_response})

    @property
    def routes(self) -> list[BaseRoute]:
        return self._routed.routes

    def guarded(self) -> RequestGuard:
        plan = self.plan
        return RequestGuard(
            Compressed(self._routed),
            access=plan.access,
            names=plan.names,
            is_public=self._is_public,
            is_ready=self._is_ready,
            report=plan.report,
            failures=plan.failures,
        )

    def _is_public(self, method: str, path: str) -> bool:
        return (method, path) in PUBLIC or (method in ("GET", "HEAD") and self._pages.has(path))

    async def _is_ready(self) -> bool:
        """Whether sessions can be read. Any client may ask, so the answer is cached for a moment."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._ready_until_s:
            self._ready_until_s = now_s + _READY_KNOWN_S
            try:
                await asyncio.to_thread(self.plan.store.find, Query(limit=1))
                self._was_ready = True
            except HarnessError:
                self._was_ready = False
        return self._was_ready

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        plan = self.plan
        if plan.failures is not None:
            plan.failures.listen(asyncio.get_running_loop())
        catching_up = IndexUpdater(plan.store)
        keeper = _history_keeper(plan)
        backend = plan.backend()
        self.channels = channels = Channels(plan.store, backend, tick_s=plan.tick_s)
        channels.open()
        chat = ChatApi(plan.settings, plan.default)
        if isinstance(plan.store, MachineStore):
            plan.store.replacement_listeners.append(channels.replaced)
        self.inbox = inbox = InboxFeed(channels, plan.settings)
        notifier = Notifier(plan.notify, plan.names.url)
        fleets = KnownFleets(plan.fleets)
        fleet_feed = FleetFeed(fleets)
        inbox.open()
        closing = ExitStack()
        app.router.routes[:] = [
            *GrantsApi(backend, inbox).routes(),
            *FleetApi(fleets, self._has_session).routes(),
            *_standard_routes(plan, channels, closing),
            *self._all_routes(channels, chat, InboxApi(channels, inbox, notifier, fleet_feed)),
        ]
        try:
            yield
        finally:
            notifier.close()
            await fleet_feed.close()
            fleets.close()
            inbox.close()
            await chat.close()
            closing.close()
            await channels.close()
            if keeper is not None:
                keeper.stop()
            catching_up.stop()

    def _has_session(self, log_id: str) -> bool:
        try:
            self.plan.store.metadata(log_id)
        except HarnessError:
            return False
        return True

    def _all_routes(self, channels: Channels, chat: ChatApi, inbox: InboxApi) -> list[BaseRoute]:
        plan = self.plan

        async def socket(websocket: WebSocket) -> None:
            await Socket(websocket, channels).serve()

        async def openapi(request: Request) -> Response:
            del request
            return json_response(document())

        machine = MachineApi(plan.store, plan.settings, plan.default, list(plan.modes))
        return [
            WebSocketRoute("/ws", socket),
            Route("/openapi.json", openapi, methods=["GET"]),
            *inbox.routes(),
            *SessionsApi(channels).routes(),
            *ChangesApi(channels, inbox.mark_reviewed).routes(),
            *StreamsApi(channels).routes(),
            *ExportsApi(channels, plan.settings).routes(),
            *ModelCallsApi(channels.store).routes(),
            *machine.routes(),
            *BudgetApi(plan.store, plan.default.cwd).routes(),
            *WorkspacesApi(channels, plan.default.cwd).routes(),
            *FirstApi(plan.store).routes(),
            *LoginApi(plan.access, plan.names).routes(),
            *chat.routes(),
            *self._pages.routes(),
        ]


def _standard_routes(plan: Plan, channels: Channels, closing: ExitStack) -> list[BaseRoute]:
    """The protocols of others, which are off unless they are wanted. `closing` takes what is to be done at the end."""
    models = OfferedModels(plan.settings, plan.default)
    conversations = OpenAiConversations(channels, plan.default)
    histories = isinstance(plan.store, MachineStore)

    def acp() -> Sequence[BaseRoute]:
        host = AcpHost(plan.store, channels.backend, plan.default, plan.settings, histories=histories)
        api = AcpApi(host)
        closing.callback(api.close)
        return api.routes()

    known_routes: dict[str, Callable[[], Sequence[BaseRoute]]] = {
        "acp": acp,
        "agui": AgUiApi(channels, models, plan.default).routes,
        "openai": lambda: [
            *models.routes(),
            *OpenAiChat(conversations, models).routes(),
            *OpenAiResponses(conversations, models).routes(),
        ],
    }
    return [route for name in dict.fromkeys(plan.endpoints) for route in known_routes[name]()]


class IndexUpdater:
    """Brings the index for lists and search up to date in a thread, and again now and then: changes in a folder of
    another machine are not always notified.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_over = threading.Event()
        threading.Thread(target=self._work, name="harness-index", daemon=True).start()

    def stop(self) -> None:
        self._is_over.set()
        self._store.close()

    def _work(self) -> None:
        while not self._is_over.is_set():
            with suppress(HarnessError):  # requests report it
                self._store.catch_up()
            self._is_over.wait(_CAUGHT_UP_EVERY_S)


def _history_keeper(plan: Plan) -> HistoryKeeper | None:
    if not isinstance(plan.store, FileStore) or not plan.settings.value("histories.keep"):
        return None
    return HistoryKeeper(plan.store, plan.report or _silently)


def _silently(_text: str) -> None:
    return None


async def _error_response(request: Request, error: Exception) -> Response:
    """What the router itself refuses: an unknown method."""
    del request
    assert isinstance(error, HTTPException)
    return plain_error(error.status_code, error.detail, error.headers)


class Compressed:
    """Answers in gzip for clients that take it. Streams of events are sent as they come, and sockets as they are."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(app, minimum_size=_SMALLEST_COMPRESSED, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = Headers(scope=scope).get("accept-encoding", "") if scope["type"] == "http" else ""
        app = self._compressing if _takes_gzip(accepted) else self._app
        await app(scope, receive, send)


class PageFiles:
    """Contract: sends nothing that was not in its folder when it was made."""

    def __init__(self, folder: str = _FOLDER) -> None:
        self._folder = folder
        self._files = frozenset(_files(folder))
        self._compressed: dict[str, bytes] = {}
        """By name, made when it is first asked for: a file of the page does not change while the server runs."""

    def routes(self) -> list[Route]:
        return [Route("/{path:path}", self._page, methods=["GET"])]

    def has(self, path: str) -> bool:
        """Whether this address shows something of the page."""
        name = path.removeprefix("/")
        return name in _PLACES or name in self._files or name == "favicon.ico"

    async def _page(self, request: Request) -> Response:
        path = request.path_params["path"]
        path = "favicon.svg" if path == "favicon.ico" else path  # browsers ask for it by themselves
        if path in _PLACES and "index.html" not in self._files:
            return PlainTextResponse(_ABSENT)
        if path in _PLACES:
            path = "index.html"
        if path not in self._files:
            return error_response(NotFound(f"nothing is here: /{path[:100]}", hint="see /openapi.json"))
        headers = {"cache-control": _CACHED_FOREVER if path.startswith("assets/") else "no-cache"}
        place = os.path.join(self._folder, path)
        if not path.endswith(_COMPRESSIBLE):
            return FileResponse(place, headers=headers)
        headers["vary"] = "accept-encoding"
        if not _takes_gzip(request.headers.get("accept-encoding", "")):
            return FileResponse(place, headers=headers)
        if path not in self._compressed:
            self._compressed[path] = await asyncio.to_thread(_gzipped, place)
        kind = guess_type(path)[0] or "text/plain"
        return Response(
            self._compressed[path], headers=headers | {"content-encoding": "gzip"}, media_type=kind
        )


_SMALLEST_COMPRESSED = 1_000
_COMPRESSIBLE = (".js", ".css", ".html", ".svg", ".md", ".json", ".ttf")


def _gzipped(place: str) -> bytes:
    with open(place, "rb") as file:
        return gzip.compress(file.read(), mtime=0)


def _takes_gzip(accepted: str) -> bool:
    """Whether a client takes it: a weight of 0 means that it does not."""
    for choice in accepted.lower().split(","):
        name, _, weight = choice.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _files(folder: str) -> list[str]:
    return [
        os.path.relpath(os.path.join(place, name), folder).replace(os.sep, "/")
        for place, _folders, names in os.walk(folder)
        for name in names
    ]
