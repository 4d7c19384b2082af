"""HTTP/1.1 requests, read from a connection: strict about lengths, and never more than the bounds."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import msgspec

_REQUEST_LINE = re.compile(r"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.([01])")
"""Of other characters each server makes what it likes."""
_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\0\r]")
"""A bare end of a line would begin another header, or another request, for some providers: with the real key in it."""


class RequestBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What one gateway takes."""

    body_bytes: int = 64 * 1024 * 1024
    head_bytes: int = 64 * 1024
    connections: int = 64
    silence_s: float = 300.0
    """Without a byte from either side."""


USUAL_BOUNDS = RequestBounds()


class BadRequest(Exception):
    """What arrived is no request that can be answered; the message says why. The connection ends with it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ArrivedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it was sent."""

    method: str
    target: str
    """Path and query, as they were written."""
    fields: tuple[tuple[str, str], ...]
    """Its headers in order, as they were spelled."""
    body: bytes = b""
    """As it was sent: compressed, where it was."""
    is_last: bool = False
    """The connection ends with its answer."""

    @property
    def headers(self) -> dict[str, str]:
        """Names in small letters; of several with one name, the last."""
        return {name.lower(): value for name, value in self.fields}


def read_head(file: BinaryIO, bounds: RequestBounds) -> ArrivedRequest | None:
    """The next request, without its body; None: there is none. Raises BadRequest and OSError."""
    lines = _head_lines(file, bounds)
    if not lines:
        return None
    if lines[0] == "PRI * HTTP/2.0":
        raise BadRequest(505, "HTTP/2 is not spoken here: use HTTP/1.1")
    matched = _REQUEST_LINE.fullmatch(lines[0])
    if matched is None:
        raise BadRequest(400, "this is not a request of HTTP/1.1")
    fields = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name) or _CONTROL.search(value):
            raise BadRequest(400, "a header of the request is malformed")
        fields.append((name, value.strip(" \t")))
    head = ArrivedRequest(method=matched[1], target=matched[2], fields=tuple(fields))
    connection = head.headers.get("connection", "").lower()
    is_last = "close" in connection or (matched[3] == "0" and "keep-alive" not in connection)
    return msgspec.structs.replace(head, is_last=is_last)


def _head_lines(file: BinaryIO, bounds: RequestBounds) -> list[str]:
    lines: list[str] = []
    size = 0
    while True:
        line = file.readline(bounds.head_bytes + 1 - size)
        size += len(line)
        if size > bounds.head_bytes:
            raise BadRequest(431, f"the headers are longer than {bounds.head_bytes // 1024} kB")
        if not line.endswith(b"\n"):
            if line or lines:
                raise BadRequest(400, "the request ends in the middle of its headers")
            return []
        text = line.rstrip(b"\r\n").decode("latin-1")
        if text:
            lines.append(text)
        elif lines:
            return lines


def read_body(
    file: BinaryIO, head: ArrivedRequest, bounds: RequestBounds, go_on: Callable[[], object]
) -> bytes:
    """`go_on`: called before the body is read where the client waits to be told so. Raises BadRequest, OSError."""
    lengths = {value for name, value in head.fields if name.lower() == "content-length"}
    coding = head.headers.get("transfer-encoding", "").lower()
    if len(lengths) > 1 or (lengths and coding):
        raise BadRequest(400, "the request has more than one length of its body")
    if coding not in ("", "chunked"):
        raise BadRequest(501, f"the transfer coding {coding} is not understood")
    if head.headers.get("expect", "").lower() == "100-continue":
        go_on()
    if coding:
        return _read_chunks(file, bounds)
    length = next(iter(lengths), "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequest(400, "the length of the body is no number")
    if int(length) > bounds.body_bytes:
        raise _too_long(bounds)
    return _exactly(file, int(length))


def _read_chunks(file: BinaryIO, bounds: RequestBounds) -> bytes:
    data = bytearray()
    while True:
        line = file.readline(bounds.head_bytes)
        size = line.partition(b";")[0].strip()
        if not _SIZE.fullmatch(size):
            raise BadRequest(400, "the length of the body is no number")
        if len(data) + int(size, 16) > bounds.body_bytes:
            raise _too_long(bounds)
        if not int(size, 16):
            break
        data += _exactly(file, int(size, 16))
        if file.readline(3).strip():
            raise BadRequest(400, "a chunk of the body is longer than it says")
    for _ in range(100):
        if not file.readline(bounds.head_bytes).strip():
            return bytes(data)
    raise BadRequest(400, "the request has too many trailers")


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size) if size else b""
    if len(data) != size:
        raise BadRequest(400, "the request ends in the middle of its body")
    return data


def _too_long(bounds: RequestBounds) -> BadRequest:
    return BadRequest(413, f"the body is longer than {bounds.body_bytes // (1024 * 1024)} MB")


class UnreadableBody(Exception):
    """A body that cannot be unpacked; the message says why."""


def unpacked(body: bytes, headers: Mapping[str, str], bounds: RequestBounds) -> bytes:
    """A body without its compression. Raises UnreadableBody."""
    encoding = headers.get("content-encoding", "identity").strip().lower()
    match encoding:
        case "identity" | "":
            return body
        case "gzip" | "x-gzip" | "deflate":
            return _inflated(body, encoding, bounds)
        case "zstd":
            return _from_zstd(body, bounds)
        case other:
            raise UnreadableBody(f"content-encoding {other} is not understood: send it plain")


def _inflated(body: bytes, encoding: str, bounds: RequestBounds) -> bytes:
    # 47: a header of gzip or of zlib, whichever there is. Not more than the bound: a small body may hold gigabytes.
    unpack = zlib.decompressobj(47)
    try:
        plain = unpack.decompress(body, bounds.body_bytes)
        if unpack.unconsumed_tail:
            raise UnreadableBody(f"the body is longer than {bounds.body_bytes // (1024 * 1024)} MB")
        if not unpack.eof:
            raise UnreadableBody(f"the body is not {encoding}")
    except (OSError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableBody(f"the body is not {encoding}") from error
    return plain


def _from_zstd(body: bytes, bounds: RequestBounds) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore] # from Python 3.14 on
    except ImportError:
        raise UnreadableBody(
            "content-encoding zstd is not understood by this Python: send it plain"
        ) from None
    unpack: Any = zstd.ZstdDecompressor()
    try:
        plain: bytes = unpack.decompress(body, max_length=bounds.body_bytes)
    except (zstd.ZstdError, EOFError) as error:
        raise UnreadableBody("the body is not zstd") from error
    if not unpack.eof:
        raise UnreadableBody("the body is not zstd, or is too long")
    return plain
