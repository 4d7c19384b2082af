"""Runs the server: a socket, an event loop, and nothing that outlives them."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from harness.errors import HarnessError, UsageError
from harness.interfaces.server.guard import LARGEST_BODY_BYTES

_GRACE_S = 5


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
        self, app: ASGIApp, listening: socket.socket, on_ready: Callable[[], object] | None = None
    ) -> None:
        """`app`: with its guard before it."""
        self._socket = listening
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="on",
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=LARGEST_BODY_BYTES,
            timeout_graceful_shutdown=_GRACE_S,
            server_header=False,
            h11_max_incomplete_event_size=64 * 1024,
            proxy_headers=False,
        )
        self._uvicorn = _Uvicorn(config, on_ready)

    def run(self) -> None:
        """Raises HarnessError when it does not even start."""
        # What a client does wrong concerns that client; it is no news for the terminal.
        logger, heard = logging.getLogger("uvicorn.error"), _Heard()
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        logger.addHandler(heard)
        try:
            self._uvicorn.run(sockets=[self._socket])
        except SystemExit:
            if self._uvicorn.started:
                raise
        finally:
            logger.removeHandler(heard)
        if not self._uvicorn.started:
            raise HarnessError(f"the server did not start: {heard.last_words or 'nobody said why'}")

    def stop(self) -> None:
        """From any thread."""
        self._uvicorn.should_exit = True


class _Heard(logging.Handler):
    """Keeps the end of what the server complained of last."""

    last_words = ""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage().strip().rpartition("\n")[2]
        if record.exc_info and record.exc_info[1] is not None:
            said = repr(record.exc_info[1])
        self.last_words = self.last_words if said.startswith("Application startup failed") else said


class _Uvicorn(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], object] | None) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> Any:
        await super().startup(sockets=sockets)
        if self._on_ready is not None and self.started:
            self._on_ready()
