"""Connections on loopback: accepted, read request by request, and ended together."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence

from harness.gateway.http_requests import ArrivedRequest, BadRequest, RequestBounds, read_body, read_head
from harness.gateway.reply import Reply

ADDRESS = "127.0.0.1"
_JOIN_S = 5.0
_BACKLOG = 128


class ConnectionListener:
    """Contract: `serve` is called for every request, in the thread of its connection, and answers it; `refuse` for
    what is none. `close` ends every connection at once. `faults` holds what went wrong in here; it should stay empty.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        serve: Callable[[ArrivedRequest, socket.socket], Reply],
        refuse: Callable[[ArrivedRequest | None, BadRequest, socket.socket], object],
        bounds: RequestBounds,
    ) -> None:
        """`sockets`: bound, and listened to from now on."""
        self.faults: list[BaseException] = []
        self._serve = serve
        self._refuse = refuse
        self._bounds = bounds
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, socket.socket] = {}
        self._is_closed = False
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        for listening in sockets:
            self.add(listening)

    def add(self, listening: socket.socket) -> None:
        """Answer on this one as well; it is closed with the others."""
        listening.listen(_BACKLOG)
        thread = threading.Thread(
            target=self._accept, args=(listening,), name="gateway-listener", daemon=True
        )
        self._sockets.append(listening)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for listening in self._sockets:
            try:
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            except OSError:
                pass
            listening.close()
        for thread in self._threads:
            thread.join(_JOIN_S)
        self._hang_up()

    def _hang_up(self) -> None:
        with self._lock:
            threads = dict(self._open)
        for connection in threads.values():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_S)

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                if self._is_closed:
                    return
                continue  # the client was gone already, or there is no descriptor left for a moment
            thread = threading.Thread(
                target=self._converse, args=(connection,), name="gateway-connection", daemon=True
            )
            with self._lock:
                if self._is_closed or len(self._open) >= self._bounds.connections:
                    connection.close()
                    continue
                self._open[thread] = connection
            thread.start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            self._requests(connection)
        except OSError:
            pass  # the client has closed the connection, or was silent for too long
        except Exception as error:
            self.faults.append(error)
        finally:
            with self._lock:
                self._open.pop(threading.current_thread(), None)
            _hang_up(connection)

    def _requests(self, connection: socket.socket) -> None:
        connection.settimeout(self._bounds.silence_s)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as file:
            while not self._is_closed:
                head: ArrivedRequest | None = None
                try:
                    head = read_head(file, self._bounds)
                    if head is None:
                        return
                    go_on = lambda: connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")  # noqa: E731
                    body = read_body(file, head, self._bounds, go_on)
                except BadRequest as error:
                    self._refuse(head, error, connection)
                    return
                arrived = ArrivedRequest(
                    method=head.method,
                    target=head.target,
                    fields=head.fields,
                    body=body,
                    is_last=head.is_last,
                )
                if self._serve(arrived, connection).must_close or head.is_last:
                    return


def _hang_up(connection: socket.socket) -> None:
    """Without a reset, which would take from the client what it has not read yet."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    connection.close()
