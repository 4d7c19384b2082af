"""HTTP and server-sent events as pure parsers: bytes in as they arrive, content and events out.

Only what a server on this machine answers to a request with `Connection: close` is read; `http_child.py` has the
sockets.
"""

from __future__ import annotations

import re
from math import inf

import msgspec

MOST_BYTES = 64 * 1024 * 1024
"""Of an answer or of one event."""
LONGEST_HEAD_BYTES = 64 * 1024
_NO_CONTENT = (204, 304)
_HEARTBEAT = "server.heartbeat"
"""Not passed on: it would count as a sign that the agent works."""

_encode = msgspec.json.Encoder().encode


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_typed_of = msgspec.json.Decoder(_Typed).decode


class UnreadableAnswer(ValueError):
    """What the server wrote is not HTTP."""


class HttpAnswer:
    """The answer to one request, from its bytes as they arrive: status, then content."""

    def __init__(self) -> None:
        self.status = 0
        self.is_complete = False
        self._begun = b""
        """Bytes of a line, or of the head, that is not complete yet."""
        self._left: float = inf
        """Bytes of the content, or of the current chunk, that are still to come."""
        self._is_chunked = False

    def feed(self, data: bytes) -> bytes:
        """The content in these bytes. Raises UnreadableAnswer."""
        if not self.status:
            head, found, data = (self._begun + data).partition(b"\r\n\r\n")
            if not found:
                self._begun = head
                if len(head) > LONGEST_HEAD_BYTES:
                    raise UnreadableAnswer("the head of its answer has no end")
                return b""
            self._begun = b""
            self._take_head(head)
            if not self.status:  # a provisional head is followed by another
                return self.feed(data)
        return self._chunks(data) if self._is_chunked else self._plain(data)

    def end(self) -> None:
        """The connection was closed. Raises UnreadableAnswer if something is missing."""
        if not self.is_complete and (not self.status or self._is_chunked or self._left != inf):
            raise UnreadableAnswer("it closed the connection in the middle of an answer")
        self.is_complete = True

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        matched = re.match(rb"HTTP/1\.[01] (\d{3})(?: |$)", first)
        if matched is None:
            raise UnreadableAnswer("what it answers is not HTTP")
        if (status := int(matched[1])) < 200:
            return
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (x.partition(b":") for x in lines)
        }
        self._is_chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
        length = fields.get(b"content-length", b"")
        if status in _NO_CONTENT:
            self._left = 0
        elif not self._is_chunked and length:
            if not length.isdigit():
                raise UnreadableAnswer("the length of its answer is no number")
            self._left = int(length)
        elif self._is_chunked:
            self._left = 0
        self.status = status
        self.is_complete = self._left == 0 and not self._is_chunked

    def _plain(self, data: bytes) -> bytes:
        content = data if self._left == inf else data[: int(self._left)]
        self._left -= len(content)
        self.is_complete = self._left == 0
        return content

    def _chunks(self, data: bytes) -> bytes:
        data = self._begun + data
        self._begun = b""
        pieces: list[bytes] = []
        while data and not self.is_complete:
            if self._left:
                piece = data[: int(self._left)]
                self._left -= len(piece)
                data = data[len(piece) :]
                pieces.append(piece)
                continue
            line, found, rest = data.partition(b"\r\n")
            if not found:
                if len(line) > LONGEST_HEAD_BYTES:
                    raise UnreadableAnswer("a chunk of its answer has no size")
                self._begun = line
                break
            data = rest
            if line:  # empty: the end of the chunk before
                self._take_size(line)
        return b"".join(pieces)

    def _take_size(self, line: bytes) -> None:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise UnreadableAnswer("a chunk of its answer has no size") from None
        if size < 0:
            raise UnreadableAnswer("a chunk of its answer has no size")
        self._left = size
        self.is_complete = size == 0  # trailers say nothing to us


class EventStream:
    """Server-sent events from the bytes of their stream: the data of each as one line of JSON."""

    def __init__(self) -> None:
        self._begun = b""
        self._data: list[bytes] = []

    def feed(self, content: bytes) -> list[bytes]:
        """Lines for the driver. Raises UnreadableAnswer when an event has no end."""
        *lines, self._begun = (self._begun + content).split(b"\n")
        if len(self._begun) > MOST_BYTES:
            raise UnreadableAnswer("an event has no end")
        found: list[bytes] = []
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                # In JSON a line end can only stand between two values.
                data, self._data = b" ".join(self._data), []
                if event := event_line(data):
                    found.append(event)
        return found


def event_line(data: bytes) -> bytes:
    """What the driver reads of an event; nothing of a heartbeat. Data that is not JSON is passed on as a text."""
    try:
        name = _typed_of(data).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        name, data = "", _encode(data.decode("utf-8", "replace"))
    return b"" if name == _HEARTBEAT else b'{"event":%b,"data":%b}\n' % (_encode(name), data)
