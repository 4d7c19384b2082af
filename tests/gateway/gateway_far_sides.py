"""Providers that answer oddly: a socket that sends what it is told, whatever it was asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.gateway.call_records import CallRecords
from harness.gateway.gateway import ModelGateway
from harness.gateway.pass_on import PassOn, Upstream
from harness.log.raw import RawCall, RawRequest, RawResponse

TOKEN = "hgw-token-of-the-run"
KEY = "sk-the-real-key"


class OddProvider:
    """Answers each connection's first request with these bytes, one send each, then closes or waits."""

    def __init__(self, *pieces: bytes, stays: bool = False) -> None:
        self.requests: list[bytes] = []
        self._pieces = pieces
        self._stays = stays
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.is_left = threading.Event()
        """The client has closed its side."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return
            data += piece
        self.requests.append(data)
        try:
            for piece in self._pieces:
                connection.sendall(piece)
            if self._stays:
                while connection.recv(65536):
                    pass
                self.is_left.set()
        except OSError:
            self.is_left.set()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)


@contextmanager
def passing(
    port: int, *, base_path: str = "/v1", path: str = "/v1"
) -> Iterator[tuple[ModelGateway, list[RawCall]]]:
    """A gateway in front of a provider on this port, and what it records."""
    recorded: list[RawCall] = []
    upstream = Upstream(
        url=f"http://127.0.0.1:{port}{path}",
        key_headers=(("authorization", f"Bearer {KEY}"),),
        base_path=base_path,
    )
    passed = PassOn(upstream)
    with ModelGateway(passed, token=TOKEN, records=CallRecords(recorded.extend)) as gateway:
        yield gateway, recorded
    passed.close()
    assert not gateway.faults, gateway.faults


def exchange(port: int, data: bytes, *, timeout_s: float = 20) -> bytes:
    """Everything that a server answers to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(data)
        answered = b""
        while piece := connection.recv(65536):
            answered += piece
    return answered


def chat_request(
    body: bytes = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}', **headers: str
) -> bytes:
    named = {"host": "127.0.0.1", "authorization": f"Bearer {TOKEN}", "connection": "close", **headers}
    named.setdefault("content-length", str(len(body)))
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in named.items())
    return f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body


def last_call(recorded: list[RawCall]) -> tuple[RawRequest, RawResponse]:
    request, response = recorded[-2:]
    assert isinstance(request, RawRequest)
    assert isinstance(response, RawResponse)
    return request, response
