"""The scripted model: a small HTTP/1.1 server on loopback that answers every model API from one script.

    with Server(Play(script)) as server:
        ...  # point an agent at server.url

Every path is matched by its end, so that a base URL may have any prefix. Streams are sent event by event
in chunks, and can break in the middle; connections are kept alive. Nothing listens beyond 127.0.0.1.
"""

from __future__ import annotations

import errno
import itertools
import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

from harness.errors import UsageError
from harness.lab.http_exchange import Exchange
from harness.lab.journal import Entry, Journal
from harness.lab.play import Play

ADDRESS = "127.0.0.1"
_POLL_S = 0.02
"""How soon the listener notices that it is to end."""
_PATIENCE_S = 5.0


class Server:
    """Contract: answers from its construction until `close`, which ends every open answer at once.

    Raises UsageError when the port is taken or the record cannot be written.
    """

    def __init__(
        self,
        play: Play | None = None,
        *,
        port: int = 0,
        record_path: str = "",
        on_entry: Callable[[Entry], object] | None = None,
    ) -> None:
        self.play = play
        """May be given later, when it needs the server's own address."""
        self.journal = Journal(record_path, on_entry)
        self.numbers = itertools.count(1)
        self.closing = threading.Event()
        self.faults: list[BaseException] = []
        """What went wrong in the server itself; should stay empty."""
        try:
            self._listener = _Listener(self, port)
        except (OSError, OverflowError) as error:
            self.journal.close()
            raise _cannot_listen(port, error) from error
        self.port: int = self._listener.server_address[1]
        self.url = f"http://{ADDRESS}:{self.port}"
        loop = self._listener.serve_forever
        self._thread = threading.Thread(target=loop, args=(_POLL_S,), name="lab-server", daemon=True)
        self._thread.start()

    @property
    def requests(self) -> list[Entry]:
        """All so far, in order of arrival."""
        return self.journal.entries

    def close(self) -> None:
        if self.closing.is_set():
            return
        self.closing.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join(_PATIENCE_S)
        self._listener.hang_up()
        self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _cannot_listen(port: int, error: OSError | OverflowError) -> UsageError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", hint="choose another with --port, or 0 for any free one")
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return UsageError(f"cannot listen on port {port}: {reason}", hint="choose another with --port")


class _Listener(socketserver.TCPServer):
    """Knows its connections, so that it can end them; a name server is never asked."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, lab: Server, port: int) -> None:
        self.lab = lab
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        name = f"lab-connection-{client_address[1]}"
        thread = threading.Thread(
            target=self._converse, args=(request, client_address), name=name, daemon=True
        )
        with self._lock:
            self._open[thread] = request
        thread.start()

    def _converse(self, request: socket.socket, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # whoever asked has left
        except Exception as error:
            self.lab.faults.append(error)
        finally:
            self.shutdown_request(request)
            with self._lock:
                self._open.pop(threading.current_thread(), None)

    def hang_up(self) -> None:
        with self._lock:
            threads = dict(self._open)
        for connection in threads.values():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in threads:
            thread.join(_PATIENCE_S)


class _Handler(BaseHTTPRequestHandler):
    """From the standard library's parsed request to ours."""

    protocol_version = "HTTP/1.1"
    server_version = "harness-lab"
    sys_version = ""
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        lab = self.server.lab
        Exchange(self, lab.play, lab.journal, lab.closing, next(lab.numbers)).serve()

    # The standard library looks for these names.
    do_POST = do_HEAD = do_OPTIONS = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are in the journal."""
