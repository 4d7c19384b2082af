"""`/acp`: editors on the network, by ACP over WebSocket, or over HTTP with server-sent events.

Rules
1. A WebSocket is one client. Over HTTP, `initialize` makes a connection, which every further request names.
2. Over HTTP requests are answered on the streams: what is about an open session on that of the session, everything else on
   that of the connection. What a client has not read waits for it, up to a limit; then it is gone.
3. A client that goes away loses nothing: its sessions go on, and what is asked stays open.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from harness.clients.acp.connection import AcpConnection
from harness.clients.acp.host import AcpHost
from harness.clients.acp.rpc_connection import is_request_id
from harness.clients.acp.wire import INVALID_REQUEST, RpcError
from harness.errors import UsageError
from harness.formatting.json_text import encode
from harness.server.access.responses import NotFound, plain_error, read_body, with_errors
from harness.server.live.streams import HEADERS, sse
from harness.server.live.turns import KEEP_ALIVE

CONNECTION_HEADER, SESSION_HEADER = "acp-connection-id", "acp-session-id"
_KEEP_ALIVE_S = 15.0
_MOST_CONNECTIONS = 64
_MOST_WAITING = 256 * 1024 * 1024
"""Of bytes that a client does not read, on all its streams: then it is gone. A history that is loaded may wait until its
stream is opened."""
_ENOUGH_WAITING = 4 * 1024 * 1024
"""Of bytes: what can wait, waits for the client to read them."""
_IDLE_S = 600.0
"""How long a connection over HTTP lives without a stream or a request."""
_OVERFLOW = 1013
_OF_SESSIONS = frozenset(
    ("session/prompt", "session/cancel", "session/close", "session/set_mode", "session/set_config_option")
)
_OPENING = frozenset(("session/load", "session/resume"))
_EVENT_STREAM = "text/event-stream"
Fields = dict[str, Any]


class WaitingMessages:
    """Messages that wait for their reader, in order. Contract: lives in one event loop."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self.size = 0
        self._has_more, self._has_room = asyncio.Event(), asyncio.Event()
        self.readers = 0
        self.is_over = False

    def send(self, message: Fields) -> None:
        if self.is_over:
            return
        data = encode(message)
        self._messages.append(data)
        self.size += len(data)
        if self.size > _MOST_WAITING:
            self.close()
        self._has_more.set()

    async def room(self, _session: str = "") -> None:
        """Without a reader there is room: some open their stream only when they have an answer."""
        while self.readers and self.size > _ENOUGH_WAITING and not self.is_over:
            self._has_room.clear()
            await self._has_room.wait()

    def close(self) -> None:
        """Nobody reads what waits."""
        self.is_over = True
        self._messages.clear()
        self.size = 0
        self._has_more.set()
        self._has_room.set()

    @contextmanager
    def reading(self) -> Iterator[None]:
        self.readers += 1
        try:
            yield
        finally:
            self.readers -= 1
            self._has_room.set()

    async def next(self, wait_s: float | None = None) -> list[bytes]:
        """Those that wait, some of many; none when it is over, or the time is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._has_more.wait(), wait_s)
        messages: list[bytes] = []
        count = 0
        while self._messages and count < _ENOUGH_WAITING:
            messages.append(self._messages.popleft())
            count += len(messages[-1])
        self.size -= count
        self._has_room.set()
        if not self._messages and not self.is_over:
            self._has_more.clear()
        return messages


class HttpConnection:
    """One client over HTTP: its connection's stream and those of its sessions."""

    def __init__(self, host: AcpHost) -> None:
        self.id = secrets.token_hex(16)
        loop = asyncio.get_running_loop()
        self.greeting: asyncio.Future[Fields] = loop.create_future()
        self.used_s = loop.time()
        self._boxes: dict[str, WaitingMessages] = {}
        self._places: dict[str | int, list[str]] = {}
        """The sessions of requests that are being answered, by their ids: a client may send one twice."""
        self._open_requests: dict[str | int, str] = {}
        """And of each of ours: their ids may be like those of the client."""
        self._opening: dict[str | int, str] = {}
        """The sessions that are being opened, by request: a client opens its stream when an answer names it."""
        self._connection = AcpConnection(host, self)

    def box(self, session: str) -> WaitingMessages:
        return self._boxes.setdefault(session, WaitingMessages())

    @property
    def is_over(self) -> bool:
        return any(box.is_over for box in self._boxes.values())

    @property
    def is_read(self) -> bool:
        return any(box.readers for box in self._boxes.values())

    def take(self, message: Fields, session: str) -> None:
        self.used_s = asyncio.get_running_loop().time()
        if message.get("jsonrpc") != "2.0":
            error = RpcError(INVALID_REQUEST, "a message is one JSON-RPC 2.0 object").as_json
            self.send({"jsonrpc": "2.0", "id": None, "error": error})
            return
        request_id, method = message.get("id"), message.get("method")
        if is_request_id(request_id) and method in _OF_SESSIONS:
            self._places.setdefault(request_id, []).append(session)
        elif is_request_id(request_id) and method in _OPENING:
            self._opening[request_id] = _session_named(message)
        elif is_request_id(request_id) and method is None:
            self._open_requests.pop(request_id, None)
        self._connection.take(message)

    def close(self) -> None:
        self._connection.close()
        for box in (*self._boxes.values(), self.box("")):
            box.close()

    def send(self, message: Fields) -> None:
        if not self.greeting.done():
            self.greeting.set_result(message)
            return
        self.box(self._place(message)).send(message)
        if sum(box.size for box in self._boxes.values()) > _MOST_WAITING:
            for box in self._boxes.values():
                box.close()

    async def room(self, session: str) -> None:
        await self.box(session).room()

    def _place(self, message: Fields) -> str:
        request_id = message.get("id")
        if "method" not in message:
            if request_id in self._opening:
                opening = self._opening.pop(request_id)
                message.get("result", {}).setdefault("sessionId", opening)
            if not is_request_id(request_id):
                return ""
            places = self._places.get(request_id, [])
            if len(places) < 2:
                self._places.pop(request_id, None)
            return places.pop() if places else ""
        parameters = message["params"]
        if message["method"] == "$/cancel_request":
            return self._open_requests.pop(parameters["requestId"], "")
        session: str = parameters.get("sessionId", "")
        if request_id is not None:
            self._open_requests[request_id] = session
        return session


class AcpApi:
    def __init__(self, host: AcpHost) -> None:
        self._host = host
        self._connections: dict[str, HttpConnection] = {}

    def routes(self) -> list[BaseRoute]:
        return [
            WebSocketRoute("/acp", self._socket),
            Route("/acp", with_errors(self._post), methods=["POST"]),
            Route("/acp", with_errors(self._stream), methods=["GET"]),
            Route("/acp", with_errors(self._delete), methods=["DELETE"]),
        ]

    def close(self) -> None:
        """The server ends: what is connected over HTTP, too."""
        while self._connections:
            self._connections.popitem()[1].close()

    # WebSocket

    async def _socket(self, websocket: WebSocket) -> None:
        await websocket.accept()
        box = WaitingMessages()
        connection = AcpConnection(self._host, box)
        writing = asyncio.get_running_loop().create_task(_write(websocket, box))
        try:
            while not box.is_over:
                message = await websocket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                if (text := message.get("text")) is not None:  # anything else is ignored
                    connection.receive(text)
        except WebSocketDisconnect:
            pass
        finally:
            connection.close()
            box.close()
            writing.cancel()

    # HTTP

    async def _post(self, request: Request) -> Response:
        message = await read_body(request, dict[str, Any])
        if message.get("method") == "initialize" and "id" in message:
            return await self._initialize(message)
        connection = self._connection(request)
        session = request.headers.get(SESSION_HEADER, "")
        is_of_session = message.get("method") in _OF_SESSIONS
        if is_of_session and (not session or session != _session_named(message)):
            raise UsageError(
                f"{SESSION_HEADER} must be the session of the request", hint="send the header with it"
            )
        connection.take(message, session)
        return Response(status_code=202)

    async def _initialize(self, message: Fields) -> Response:
        self._forget_idle()
        if len(self._connections) >= _MOST_CONNECTIONS:
            return plain_error(503, "too many connections at once")
        connection = HttpConnection(self._host)
        connection.take(message, "")
        greeting = await connection.greeting
        if "result" in greeting:
            self._connections[connection.id] = connection
        else:
            connection.close()
        headers = {CONNECTION_HEADER: connection.id}
        return Response(encode(greeting), headers=headers, media_type="application/json")

    async def _stream(self, request: Request) -> Response:
        if _EVENT_STREAM not in request.headers.get("accept", ""):
            return plain_error(406, f"this is a stream of events: accept {_EVENT_STREAM}")
        connection = self._connection(request)
        pieces = _pieces(connection, connection.box(request.headers.get(SESSION_HEADER, "")))
        headers = {**HEADERS, CONNECTION_HEADER: connection.id}
        return StreamingResponse(pieces, media_type=_EVENT_STREAM, headers=headers)

    async def _delete(self, request: Request) -> Response:
        connection = self._connection(request)
        del self._connections[connection.id]
        connection.close()
        return Response(status_code=202)

    def _connection(self, request: Request) -> HttpConnection:
        """Raises UsageError without an id, NotFound for one that is not there."""
        name = request.headers.get(CONNECTION_HEADER, "")
        if not name:
            raise UsageError(f"{CONNECTION_HEADER} is missing", hint="the answer to `initialize` has it")
        connection = self._connections.get(name)
        if connection is not None and connection.is_over:  # it did not read
            del self._connections[name]
            connection.close()
            connection = None
        if connection is None:
            raise NotFound("there is no such connection", hint="`initialize` makes one")
        return connection

    def _forget_idle(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for connection in list(self._connections.values()):
            if connection.is_over or (not connection.is_read and now_s - connection.used_s > _IDLE_S):
                del self._connections[connection.id]
                connection.close()


def _session_named(message: Fields) -> str:
    parameters = message.get("params")
    session_id = parameters.get("sessionId") if isinstance(parameters, dict) else None
    return session_id if isinstance(session_id, str) else ""


async def _write(websocket: WebSocket, box: WaitingMessages) -> None:
    with (
        suppress(OSError, RuntimeError),
        box.reading(),
    ):  # it has disconnected: the reading side notices it too
        while True:
            for data in await box.next():
                await websocket.send_text(data.decode())
            if box.is_over:
                await websocket.close(_OVERFLOW, "messages were not read")
                return


async def _pieces(connection: HttpConnection, box: WaitingMessages) -> AsyncIterator[bytes]:
    try:
        with box.reading():
            yield KEEP_ALIVE
            while not box.is_over:
                messages = await box.next(_KEEP_ALIVE_S)
                yield b"".join(map(sse, messages)) or KEEP_ALIVE
    finally:
        connection.used_s = asyncio.get_running_loop().time()
