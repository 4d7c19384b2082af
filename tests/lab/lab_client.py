"""A small client of its own for each model API, strict where the real ones are: it shares no code with the server it asks."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from harness.lab import LabServer

Serve = Callable[..., LabServer]

ROUTES = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/lab-model:generateContent",
}
STREAMED_GEMINI = "/v1beta/models/lab-model:streamGenerateContent?alt=sse"


class Cut(Exception):
    """The connection ended before the answer did."""


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    is_cut: bool = False

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        return parse_events(self.body)


@dataclass
class Client:
    """One connection, kept alive."""

    port: int
    buffer: bytes = b""
    connection: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        raw: bytes = b"",
    ) -> Reply:
        data = raw or (b"" if body is None else json.dumps(body).encode())
        self.send(method, path, {"content-length": str(len(data)), **(headers or {})}, data)
        return self.receive(method)

    def send(self, method: str, path: str, headers: dict[str, str], data: bytes = b"") -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in {"host": "lab", **headers}.items())
        self.connection.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data)

    def receive(self, method: str = "POST") -> Reply:
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *_ = head[0].split(" ")
        assert version == "HTTP/1.1"
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        if method == "HEAD":
            return Reply(int(status), headers, b"")
        is_chunked = headers.get("transfer-encoding") == "chunked"
        assert is_chunked != ("content-length" in headers), "a body has one length"
        reply = Reply(int(status), headers, b"")
        try:
            if is_chunked:
                while size := int(self._until(b"\r\n"), 16):
                    reply.body += self._exactly(size)
                    assert self._exactly(2) == b"\r\n"
                assert self._exactly(2) == b"\r\n"
            else:
                reply.body = self._exactly(int(headers["content-length"]))
        except Cut as cut:
            reply.body += cut.args[0]
            reply.is_cut = True
        return reply

    def is_closed(self) -> bool:
        return self.connection.recv(1) == b""

    def _until(self, end: bytes) -> bytes:
        while end not in self.buffer:
            self._more()
        found, _, self.buffer = self.buffer.partition(end)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self.buffer) < size:
            self._more()
        found, self.buffer = self.buffer[:size], self.buffer[size:]
        return found

    def _more(self) -> None:
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Cut(self.buffer)
        self.buffer += data


def parse_events(body: bytes) -> list[tuple[str, Any]]:
    """Server-sent events, by the letter: fields, a blank line after each event, nothing else."""
    assert body.endswith(b"\n\n"), "an event ends with a blank line"
    events = []
    for block in body[:-2].split(b"\n\n"):
        lines = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        assert set(lines) <= {b"event", b"data"}
        data = lines[b"data"]
        value = data.decode() if data == b"[DONE]" else json.loads(data)
        events.append((lines.get(b"event", b"").decode(), value))
    return events


def question(wire: str, prompt: str, *, stream: bool, tools: tuple[str, ...] = ("shell",)) -> dict[str, Any]:
    """The first request of a conversation."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    user = {"role": "user", "content": prompt}
    functions = [{"name": name, "parameters": schema} for name in tools]
    match wire:
        case "anthropic":
            offered = [{"name": name, "input_schema": schema} for name in tools]
            return {"model": "lab-model", "messages": [user], "tools": offered, "stream": stream}
        case "chat":
            offered = [{"type": "function", "function": function} for function in functions]
            options = {"stream_options": {"include_usage": True}} if stream else {}
            return {"model": "lab-model", "messages": [user], "tools": offered, "stream": stream, **options}
        case "responses":
            offered = [{"type": "function", **function} for function in functions]
            return {"model": "lab-model", "input": [user], "tools": offered, "stream": stream}
        case _:
            contents = [{"role": "user", "parts": [{"text": prompt}]}]
            return {"contents": contents, "tools": [{"functionDeclarations": functions}]}


def route(wire: str, *, stream: bool) -> str:
    return STREAMED_GEMINI if wire == "gemini" and stream else ROUTES[wire]


def ask(port: int, wire: str, prompt: str = "Go.", *, stream: bool = True, **options: Any) -> Reply:
    with Client(port) as client:
        return client.ask(
            "POST", route(wire, stream=stream), question(wire, prompt, stream=stream, **options)
        )
