"""Sockets for model APIs: asyncio alone below httpx, and the pieces of a stream that came together kept together.

A model's answer comes as hundreds of tiny HTTP chunks. Taking each through every layer of a general
client costs more than everything else that is done with it; here those that are already there are joined
to one before the client sees them. The rest of HTTP is left to it.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpcore

_MOST_UNREAD_BYTES = 1024 * 1024
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE)
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_BEGUN_SIZE = re.compile(rb"[0-9a-fA-F]{0,8}\r?")
_LONGEST_SIZE_BYTES = 10
_LONGEST_HEAD_BYTES = 64 * 1024


class ChunkJoiner:
    """Fed with what a server sends on one connection; gives the same, with fewer and longer chunks.

    What it does not know (other framings, extensions of chunks, trailers) goes through as it is.
    """

    def __init__(self) -> None:
        self.expect_response()

    def expect_response(self) -> None:
        """A request was sent: what comes next is a head."""
        self._feed = self._feed_head
        self._head = b""
        self._size = b""
        """The beginning of a line that will say how long a chunk is."""
        self._left = 0
        """Bytes of a chunk, with the line end behind it, that are still to come."""

    def feed(self, data: bytes) -> bytes:
        return self._feed(data)

    def _pass(self, data: bytes) -> bytes:
        return data

    def _feed_head(self, data: bytes) -> bytes:
        head = self._head + data
        end = head.find(b"\r\n\r\n")
        if end < 0 and len(head) < _LONGEST_HEAD_BYTES:
            self._head = head
        elif end < 0 or not _CHUNKED.search(head, 0, end + 2):
            self._feed = self._pass
        else:
            self._feed = self._feed_body
            body = head[end + 4 :]
            return data[: len(data) - len(body)] + self._feed_body(body)
        return data

    def _feed_body(self, data: bytes) -> bytes:
        if self._size and not self._complete_size(data):
            return data
        if len(data) <= self._left:
            self._left -= len(data)
            return data
        begin = position = self._left
        pieces: list[bytes] = []
        self._left = 0
        while (size := _SIZE.match(data, position)) is not None:
            end = size.end() + int(size[1], 16)
            if end == size.end() or end + 2 > len(data):
                break
            if data[end : end + 2] != b"\r\n":  # it does not end where it says
                self._feed = self._pass
                return data
            pieces.append(data[size.end() : end])
            position = end + 2
        self._left = max(
            0, position + self._extent(data[position : position + _LONGEST_SIZE_BYTES]) - len(data)
        )
        if len(pieces) < 2:
            return data
        joined = b"".join(pieces)
        return b"%b%x\r\n%b\r\n%b" % (data[:begin], len(joined), joined, data[position:])

    def _complete_size(self, data: bytes) -> bool:
        """Whether it is known now how much of the data belongs to the chunk that began before it."""
        known, self._size = self._size, b""
        self._left = max(0, self._extent(known + data[:_LONGEST_SIZE_BYTES]) - len(known))
        return self._left > 0

    def _extent(self, start: bytes) -> int:
        """How long a chunk is that begins so, all in all; 0 when that is not known, yet or at all."""
        size = _SIZE.match(start)
        if size is not None and (length := int(size[1], 16)):
            return size.end() + length + 2
        if _BEGUN_SIZE.fullmatch(start):
            self._size = start
        else:
            self._feed = self._pass
        return 0


class _Line(asyncio.Protocol):
    """What comes in, until somebody takes it."""

    def __init__(self) -> None:
        self.unread: list[bytes] = []
        self.is_over = False
        self.error: OSError | None = None
        self.transport: asyncio.Transport
        self._size = 0
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # other event loops have classes of their own

    def data_received(self, data: bytes) -> None:
        self.unread.append(data)
        self._size += len(data)
        if self._size > _MOST_UNREAD_BYTES:
            self.transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> None:
        self.is_over = True
        _wake(self._reader)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True
        if error is not None and self.error is None:
            self.error = error if isinstance(error, OSError) else ConnectionResetError(str(error))
        _wake(self._reader)
        self.resume_writing()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        for writer in self._writers:
            _wake(writer)
        self._writers.clear()

    async def take(self, timeout_s: float | None) -> bytes:
        """All there is, waiting for it if need be; empty at the end. Raises OSError, of which TimeoutError is one."""
        while not self.unread:
            if self.error is not None:
                raise self.error
            if self.is_over:
                return b""
            await self._something(timeout_s)
        taken = self.unread[0] if len(self.unread) == 1 else b"".join(self.unread)
        self.unread.clear()
        if self._size > _MOST_UNREAD_BYTES and not self.is_over:
            self.transport.resume_reading()
        self._size = 0
        return taken

    async def _something(self, timeout_s: float | None) -> None:
        """Not `asyncio.timeout`, which costs as much as all the rest of reading."""
        loop = asyncio.get_running_loop()
        self._reader = reader = loop.create_future()
        late = None if timeout_s is None else loop.call_later(timeout_s, _give_up, reader)
        try:
            await reader
        finally:
            self._reader = None
            if late is not None:
                late.cancel()

    async def put(self, data: bytes) -> None:
        """Returns when the system has taken most of it. Raises OSError."""
        if self.transport.is_closing():
            raise self.error or ConnectionResetError("the connection was closed")
        self.transport.write(data)
        if self._is_full and not self.is_over:
            writer = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer
        if self.error is not None:
            raise self.error


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


def _give_up(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, line: _Line) -> None:
        self._line = line
        self._joiner = ChunkJoiner()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        del max_bytes  # the client keeps what is more than it asked for
        try:
            return self._joiner.feed(await self._line.take(timeout))
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:  # also of TLS
            raise httpcore.ReadError(_words(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if not buffer:
            return
        self._joiner.expect_response()
        async with _told(timeout, httpcore.WriteTimeout, httpcore.WriteError):
            await self._line.put(buffer)

    async def aclose(self) -> None:
        self._line.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        plain, secure = self._line.transport, _Line()
        try:
            async with _told(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
                transport = await loop.start_tls(plain, secure, ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()
            raise
        if transport is None:  # it was lost meanwhile
            raise httpcore.ConnectError("the connection was closed")
        secure.connection_made(transport)
        return _Stream(secure)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # asked of a connection without a call, which then cannot be used again
            return bool(self._line.unread) or self._line.is_over
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._line.transport.get_extra_info(names.get(info, info))


class Backend(httpcore.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        own = (local_address, 0) if local_address else None
        # Those of others may not know how to try several addresses at once.
        haste: dict[str, Any] = (
            {"happy_eyeballs_delay": 0.25} if isinstance(loop, asyncio.BaseEventLoop) else {}
        )
        async with _told(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
            transport, line = await loop.create_connection(_Line, host, port, local_addr=own, **haste)
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return _Stream(line)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def _told(timeout_s: float | None, late: type[Exception], lost: type[Exception]) -> AsyncIterator[None]:
    """What goes wrong, in the words that the client knows."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:  # also of TLS
        raise lost(_words(error)) from error


def _words(error: OSError) -> str:
    """Without the numbers and addresses that asyncio puts around them."""
    return os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error)
