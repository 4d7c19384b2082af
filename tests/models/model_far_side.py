"""The other side of a model call for what a well-behaved server never does: bytes as they are written here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import msgspec

Reply = Callable[["Connection"], None]


class Connection:
    """One request of one client, and the socket to answer it on."""

    def __init__(self, far_side: FarSide, client: socket.socket, path: str, body: bytes) -> None:
        self._far_side = far_side
        self._client = client
        self.path = path
        self.body = body

    def send(self, data: bytes) -> None:
        try:
            self._client.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self._far_side.hangups.release()  # it has left before it was answered
            raise

    def await_hangup(self) -> None:
        """Until the client closes its side."""
        try:
            left = self._client.recv(1)
        except ConnectionResetError:
            left = b""  # it had not even read everything
        if not left:
            self._far_side.hangups.release()

    def drop(self) -> None:
        """Close with a reset, as a network that breaks."""
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._client.close()


class FarSide:
    """Answers each request with the next reply; the last one again and again."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies
        self.requests: list[Any] = []
        """The bodies, decoded."""
        self.paths: list[str] = []
        self.connections = 0
        self.arrivals = threading.Semaphore(0)
        self.hangups = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._clients: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            try:
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as file:
            try:
                while line := file.readline():
                    self._answer(client, file, line.split()[1].decode())
            except OSError:
                return

    def _answer(self, client: socket.socket, file: Any, path: str) -> None:
        length = 0
        while (header := file.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = file.read(length)
        with self._lock:
            number = len(self.requests)
            self.requests.append(msgspec.json.decode(body))
            self.paths.append(path)
        self.arrivals.release()
        self._replies[min(number, len(self._replies) - 1)](Connection(self, client, path, body))


def stream(*events: Any, ends: bool = True) -> Reply:
    """A stream of events: bytes as they are, everything else as the data of an event."""
    return chunks([event if isinstance(event, bytes) else data(event) for event in events], ends=ends)


def chunks(pieces: Iterable[bytes], *, ends: bool = True, kind: str = "text/event-stream") -> Reply:
    def reply(connection: Connection) -> None:
        connection.send(
            f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        for piece in pieces:
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        if ends:
            connection.send(b"0\r\n\r\n")
        else:
            connection.drop()

    return reply


def data(value: Any) -> bytes:
    return b"data: " + (value.encode() if isinstance(value, str) else msgspec.json.encode(value)) + b"\n\n"


def status(code: int, body: bytes, **headers: str) -> Reply:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())

    def reply(connection: Connection) -> None:
        connection.send(f"HTTP/1.1 {code} No\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body)

    return reply


def silence(connection: Connection) -> None:
    """Nothing at all, until the client gives up."""
    connection.await_hangup()


def stream_then_silence(*events: Any) -> Reply:
    def reply(connection: Connection) -> None:
        connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for event in events:
            piece = event if isinstance(event, bytes) else data(event)
            connection.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        connection.await_hangup()

    return reply
