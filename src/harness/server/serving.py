"""Runs the server: a socket and an event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from harness.errors import HarnessError, UsageError
from harness.server.access.connections import Connections
from harness.server.access.guard import LARGEST_BODY_BYTES, RequestGuard

_GRACE_S = 5
_BACKLOG = 128
_ACCEPTED_AT_ONCE = 32
_PAUSE_S = 0.2
"""Before it tries to accept again, when too many files were open."""


def bind(host: str, port: int) -> socket.socket:
    """Raises UsageError when that address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sends small messages at once only where it is.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {host}:{port}: {reason}", hint="choose another with --port, or 0 for any"
        ) from error
    return listening


class Serving:
    """One server. `run` blocks until `stop`, or until a signal where it is the main program."""

    def __init__(
        self, guard: RequestGuard, listening: socket.socket, on_ready: Callable[[], object] | None = None
    ) -> None:
        """`guard`: with the application behind it."""
        self._socket = listening
        http, websocket = _protocols(guard.connections)
        config = uvicorn.Config(
            guard,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            http=http,
            ws=websocket,
            ws_per_message_deflate=False,
            ws_max_size=LARGEST_BODY_BYTES,
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            h11_max_incomplete_event_size=64 * 1024,
            proxy_headers=False,
        )
        self._uvicorn = _Uvicorn(config, guard.connections, on_ready)

    def run(self) -> None:
        """Raises HarnessError when it does not even start."""
        # Errors of a client are not printed in the terminal.
        logger, errors = logging.getLogger("uvicorn.error"), _LastError()
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(errors)
        try:
            self._uvicorn.run(sockets=[self._socket])
        except SystemExit:
            if self._uvicorn.started:
                raise
        finally:
            logger.removeHandler(errors)
        if not self._uvicorn.started:
            raise HarnessError(f"the server did not start: {errors.text or 'unknown reason'}")

    def stop(self) -> None:
        """From any thread."""
        self._uvicorn.should_exit = True


class _LastError(logging.Handler):
    """The last line of the last error that uvicorn logged."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage().strip().rpartition("\n")[2]
        if record.exc_info and record.exc_info[1] is not None:
            message = repr(record.exc_info[1])
        self.text = self.text if message.startswith("Application startup failed") else message


def _protocols(
    connections: Connections,
) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """Uvicorn's own, which report every connection that comes and goes."""

    class Http(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            connections.opened(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.closed(self.client)
            super().connection_lost(exc)

    class Websocket(WebSocketsSansIOProtocol):
        """Takes over a connection of the HTTP protocol."""

        def connection_lost(self, exc: Exception | None) -> None:
            connections.closed(self.client)
            super().connection_lost(exc)

    return Http, Websocket


class _Acceptor:
    """Accepts connections. When too many files are open, it waits instead of trying without end."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
    ) -> None:
        self._listening = listening
        self._make_protocol = make_protocol
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._starting: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._resume()

    def close(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._listening)

    async def wait_closed(self) -> None:
        """Part of the interface of an asyncio server."""

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._listening)
                self._connections.drop_oldest()
                self._pause = self._loop.call_later(_PAUSE_S, self._resume)
                return
            accepted.setblocking(False)
            starting = self._loop.create_task(self._start(accepted))
            self._starting.add(starting)
            starting.add_done_callback(self._starting.discard)

    async def _start(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted)
        except OSError:
            accepted.close()  # it is closed already


class _Uvicorn(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, connections: Connections, on_ready: Callable[[], object] | None
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> Any:
        await super().startup(sockets=[])  # it listens to none: we do
        acceptors = [_Acceptor(listener, self._new_protocol, self._connections) for listener in sockets or ()]
        self.servers += acceptors  # type: ignore[arg-type]
        if self._on_ready is not None and self.started:
            self._on_ready()

    def _new_protocol(self) -> asyncio.Protocol:
        config = self.config
        return config.http_protocol_class(  # type: ignore[call-arg]
            config=config, server_state=self.server_state, app_state=self.lifespan.state
        )
