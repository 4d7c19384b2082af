"""One answer on its way to the client: a head, pieces, an end; and what the record needs to know of it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from harness.models.wires.wire import encode

Origin: TypeAlias = Literal["provider", "recording", "translated", "script", "gateway"]
"""Who answered: the gateway itself answers what it refuses."""
JSON = "application/json"
_LINE_END = re.compile(r"[\0\r\n]")
_STATUS_WORDS = {status.value: status.phrase for status in HTTPStatus} | {529: "Overloaded"}


def head_bytes(status: int, fields: Iterable[tuple[str, str]]) -> bytes:
    words = _STATUS_WORDS.get(status, "Unknown")
    lines = [f"HTTP/1.1 {status} {words}"]
    lines += [_LINE_END.sub(" ", f"{name}: {value}") for name, value in fields]  # a tape may say anything
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"


class Reply:
    """Contract: `head`, then `piece` any number of times, then `end` or `cut`. What is recorded is on record before
    the client gets the last byte: `before_last` is called once, when the answer is whole or cut, and before its end
    is sent. Raises OSError when the client has gone, which is recorded too.
    """

    def __init__(
        self, connection: socket.socket, method: str, before_last: Callable[[Reply], object] | None = None
    ) -> None:
        self.connection = connection
        self.status: int = 0
        """0: there was no answer."""
        self.headers: dict[str, str] = {}
        self.origin: Origin = "gateway"
        self.differs: list[str] = []
        """How the call differs from the recorded one that answers it."""
        self.is_cut: bool = False
        self.is_client_gone: bool = False
        self.must_close: bool = False
        """The connection cannot be used for another request."""
        self.first_ms: int = 0
        self.took_ms: int = 0
        self._began = time.monotonic()
        self._method = method
        self._before_last = before_last
        self._pieces: list[bytes] = []
        self._is_chunked = False

    @property
    def content(self) -> bytes:
        """What was answered so far, without framing."""
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0] if self._pieces else b""

    def keep(self, piece: bytes) -> None:
        """Note a piece of the content that is sent in another way."""
        if not self._pieces:
            self.first_ms = self._elapsed_ms()
        self._pieces.append(piece)

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        try:
            self.connection.sendall(data)
        except OSError:
            self.is_client_gone = True
            raise

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Of an answer whose length is not known yet."""
        self._is_chunked = True
        self._head(status, {**headers, "transfer-encoding": "chunked"})

    def piece(self, data: bytes) -> None:
        if data:
            self.keep(data)
            self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self.settle()
        if self._is_chunked:
            self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """The answer ends here, though it is not whole: the client finds its connection closed."""
        self.is_cut = True
        self.must_close = True
        self.settle()
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            self.is_client_gone = True

    def whole(
        self, status: int, content_type: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        """An answer that is known from the beginning."""
        self.keep(body)
        self.status = status
        self.headers = {
            "content-type": content_type,
            **{name.lower(): value for name, value in (headers or {}).items()},
        }
        self.settle()
        self._whole(status, content_type, body, headers, len(body))

    def whole_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        self.whole(status, JSON, encode(value), headers)

    def begun(self, status: int, content_type: str, body: bytes, kept_bytes: int) -> None:
        """An answer that is known from the beginning, of which so many bytes are sent: a `cut` follows."""
        self.keep(body[:kept_bytes])
        self._whole(status, content_type, body, None, kept_bytes)

    def settle(self) -> None:
        """The answer is whole, or cut: put it on record. Only the first time counts."""
        before_last, self._before_last = self._before_last, None
        if before_last is not None:
            self.took_ms = self._elapsed_ms()
            before_last(self)

    def _whole(
        self,
        status: int,
        content_type: str,
        body: bytes,
        headers: Mapping[str, str] | None,
        kept_bytes: int,
    ) -> None:
        own = {"content-type": content_type, "content-length": str(len(body)), **(headers or {})}
        self._head(status, own, b"" if self._method == "HEAD" else body[:kept_bytes])

    def _head(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.must_close = self.must_close or "close" in self.headers.get("connection", "")
        self.send(head_bytes(status, headers.items()) + body)

    def _elapsed_ms(self) -> int:
        return int((time.monotonic() - self._began) * 1000)
