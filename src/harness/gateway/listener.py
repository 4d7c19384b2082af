"""Connections on loopback: accepted, read request by request, and ended together."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from harness.gateway.http_requests import ArrivedRequest, BadRequest, RequestBounds, read_body, read_head
from harness.gateway.reply import Reply

ADDRESS = "127.0.0.1"
_JOIN_S = 5.0
_BACKLOG = 128
_DRAIN_S = 1.0
_DRAINED_BYTES = 1024 * 1024

Admit: TypeAlias = Callable[[ArrivedRequest], bool]
"""Asked before a body is read: whether the sender has shown who it is. Raises BadRequest for one that may not ask."""


class _Connected(msgspec.Struct, eq=False):
    """A connection, and whether its client has shown that it may ask."""

    connection: socket.socket
    is_known: bool = False


class ConnectionListener:
    """Contract: `serve` is called for every request, in the thread of its connection, and answers it; `refuse` for
    what is none. `close` ends every connection at once. `faults` holds what went wrong in here; it should stay empty.
    Whoever has not shown that it may ask can neither fill the memory nor take the place of one that has.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        serve: Callable[[ArrivedRequest, socket.socket], Reply],
        refuse: Callable[[ArrivedRequest | None, BadRequest, socket.socket], object],
        bounds: RequestBounds,
        admit: Admit | None = None,
    ) -> None:
        """`sockets`: bound, and listened to from now on. `admit`: None lets everybody ask."""
        self.faults: list[BaseException] = []
        self._serve = serve
        self._refuse = refuse
        self._bounds = bounds
        self._admit = admit
        self._bounds_of_strangers = msgspec.structs.replace(bounds, body_bytes=0)
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, _Connected] = {}
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
        for connected in threads.values():
            _end(connected.connection)
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
            connected = _Connected(connection)
            thread = threading.Thread(
                target=self._converse, args=(connected,), name="gateway-connection", daemon=True
            )
            with self._lock:
                if self._is_closed or not self._has_room():
                    connection.close()
                    continue
                self._open[thread] = connected
            thread.start()

    def _has_room(self) -> bool:
        """Strangers make room for who comes after them. Under the lock."""
        if len(self._open) < self._bounds.connections:
            return True
        stranger = next((connection for connection in self._open.items() if not connection[1].is_known), None)
        if stranger is None:
            return False
        del self._open[stranger[0]]
        _end(stranger[1].connection)
        return True

    def _converse(self, connected: _Connected) -> None:
        connection = connected.connection
        try:
            self._requests(connected)
        except OSError:
            pass  # the client has closed the connection, or was silent for too long
        except Exception as error:  # noqa: BLE001 # one connection that breaks must not end the others; the run reports it
            self.faults.append(error)
        finally:
            with self._lock:
                self._open.pop(threading.current_thread(), None)
            _hang_up(connection)

    def _requests(self, connected: _Connected) -> None:
        connection = connected.connection
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
                    connected.is_known |= self._admit is None or self._admit(head)
                    go_on = lambda: connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")  # noqa: E731
                    bounds = self._bounds if connected.is_known else self._bounds_of_strangers
                    body = read_body(file, head, bounds, go_on)
                except BadRequest as error:
                    self._refuse(head, error, connection)
                    _drain(connection)
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


def _end(connection: socket.socket) -> None:
    """Its thread finds it closed, and ends."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _drain(connection: socket.socket) -> None:
    """Read on for a moment: closing over what was not read resets the connection, and takes the answer with it."""
    ends_s, bytes_left = time.monotonic() + _DRAIN_S, _DRAINED_BYTES
    try:
        connection.shutdown(socket.SHUT_WR)
        while bytes_left > 0 and (left_s := ends_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            data = connection.recv(64 * 1024)
            if not data:
                return
            bytes_left -= len(data)
    except OSError:
        return


def _hang_up(connection: socket.socket) -> None:
    """Without a reset, which would take from the client what it has not read yet."""
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    connection.close()
