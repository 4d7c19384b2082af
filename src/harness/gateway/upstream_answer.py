"""The answer of a provider, from its bytes as they come: where its head ends, where its body ends, and what is in it."""

from __future__ import annotations

import re
from math import inf

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |$)")
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,16})[ \t]*(?:;.*)?\Z")
_CONTROL = re.compile(rb"[\0\r\n]")
"""A bare end of a line in a header begins another one for some clients."""
_LONGEST_HEAD = 256 * 1024
_LONGEST_LINE = 64 * 1024
_NO_BODY = (204, 304)


class NotHttp(Exception):
    """What the far side sends is not an answer of HTTP/1.1; the message says what is wrong."""


class UpstreamAnswer:
    """Contract: `feed` takes bytes as they come and returns the content in them; `is_complete` when nothing more
    belongs to the answer. What comes after it is in `rest`. Raises NotHttp.
    """

    def __init__(self, method: str) -> None:
        self.status = 0
        """0: the head has not come yet."""
        self.fields: list[tuple[str, str]] = []
        """Its headers in order, as they are spelled."""
        self.is_complete = False
        self.is_chunked = False
        self.ends_with_connection = False
        self.rest = b""
        self.has_body = method != "HEAD"
        self.after_head = b""
        """What followed the head in the bytes that completed it."""
        self._begun_line = b""
        self._bytes_left: float = 0
        self._is_after_chunk = False
        self._is_in_trailers = False

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.fields}

    def feed(self, data: bytes) -> bytes:
        if not self.status:
            data = self.after_head = self._feed_head(data)
            if not self.status:
                return b""
        if self.is_complete:
            self.rest += data
            return b""
        return self._feed_chunks(data) if self.is_chunked else self._feed_plain(data)

    def end(self) -> bool:
        """The connection was closed: whether the answer is whole."""
        self.is_complete = self.is_complete or (bool(self.status) and self.ends_with_connection)
        return self.is_complete

    def _feed_head(self, data: bytes) -> bytes:
        """What follows the head."""
        self._begun_line += data
        while not self.status:
            head, separator, rest = self._begun_line.partition(b"\r\n\r\n")
            if not separator:
                if len(head) > _LONGEST_HEAD:
                    raise NotHttp("the head of its answer has no end")
                return b""
            self._begun_line = rest
            self._take_head(head)
        rest, self._begun_line = self._begun_line, b""
        return rest

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        matched = _STATUS_LINE.match(first)
        if matched is None:
            raise NotHttp("what it answers is not HTTP/1.1")
        status = int(matched[1])
        if status < 200:  # provisional: another one follows
            if status == 101:
                raise NotHttp("it changes to another protocol")
            return
        self.fields = []
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or _CONTROL.search(line):
                raise NotHttp("a header of its answer is malformed")
            self.fields.append((name.strip(), value.strip()))
        self.status = status
        self._frame(status)

    def _frame(self, status: int) -> None:
        """Where the body ends. What can be read in two ways is not passed on: the client might read the other one."""
        coding = self.headers.get("transfer-encoding", "").strip().lower()
        lengths = {value for name, value in self.fields if name.lower() == "content-length"}
        self.has_body = self.has_body and status not in _NO_BODY
        if not self.has_body:
            self.is_complete = True
        elif coding not in ("", "identity", "chunked"):
            raise NotHttp(f"the transfer coding {coding[:40]!r} of its answer was not asked for")
        elif coding == "chunked":
            self.is_chunked = True
            self.fields = [field for field in self.fields if field[0].lower() != "content-length"]
        elif not lengths:
            self._bytes_left, self.ends_with_connection = inf, True
        else:
            length = lengths.pop()
            if lengths or not (length.isascii() and length.isdigit() and len(length) < 20):
                raise NotHttp("the length of its answer is no number")
            self._bytes_left = int(length)
            self.is_complete = not self._bytes_left

    def _feed_plain(self, data: bytes) -> bytes:
        if len(data) <= self._bytes_left:
            self._bytes_left -= len(data)
            self.is_complete = self._bytes_left == 0
            return data
        content, self.rest = data[: int(self._bytes_left)], data[int(self._bytes_left) :]
        self._bytes_left, self.is_complete = 0, True
        return content

    def _feed_chunks(self, data: bytes) -> bytes:
        if self._begun_line:
            data, self._begun_line = self._begun_line + data, b""
        pieces: list[bytes] = []
        place, size = 0, len(data)
        while place < size and not self.is_complete:
            if self._bytes_left:
                piece = data[place : place + int(self._bytes_left)]
                pieces.append(piece)
                place += len(piece)
                self._bytes_left -= len(piece)
                self._is_after_chunk = not self._bytes_left
                continue
            end = data.find(b"\n", place)
            if end < 0:
                if size - place > _LONGEST_LINE:
                    raise NotHttp("a chunk of its answer has no size")
                self._begun_line = data[place:]
                break
            self._take_line(data[place:end].rstrip(b"\r"))
            place = end + 1
        if self.is_complete:
            self.rest = data[place:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_line(self, line: bytes) -> None:
        if self._is_after_chunk:
            if line:
                raise NotHttp("a chunk of its answer is longer than it says")
            self._is_after_chunk = False
        elif self._is_in_trailers:
            self.is_complete = not line
        else:
            matched = _SIZE.match(line)
            if matched is None:
                raise NotHttp("a chunk of its answer has no size")
            self._bytes_left = int(matched[1], 16)
            self._is_in_trailers = not self._bytes_left
