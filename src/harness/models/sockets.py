"""Sockets for model APIs: plain asyncio below httpx, with a fast path for the body of an answer.

A model's answer arrives as hundreds of tiny HTTP chunks. Passing each through every layer of a general client
costs more than all other processing of it. So the client reads only the head of a response from a
`SocketStream`, and the reader of the answer takes the chunks directly from the same `SocketStream`
(`SocketStream.body`). The end of a body, and everything unusual in it, is left for the client, so the client
still knows the state of the connection.
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
import httpx

_MOST_UNREAD_BYTES = 1024 * 1024
_LONGEST_HEAD_BYTES = 64 * 1024
_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")
_BEGUN_SIZE = re.compile(rb"[0-9a-fA-F]{0,8}\r?")
_LINE_END = b"\r\n"


class Dechunker:
    """Decodes a chunked body, as long as all chunks are plain ones."""

    def __init__(self) -> None:
        self.left_over: bytes | None = None
        """The rest, from the first chunk that is not plain: the last, one with an extension, or invalid."""
        self._begun_line = b""
        """The beginning of an incomplete line."""
        self._missing = 0
        """Bytes of the current chunk that are still missing; -1 for the line end after it."""

    def feed(self, data: bytes) -> bytes:
        if self._begun_line:
            data, self._begun_line = self._begun_line + data, b""
        pieces: list[bytes] = []
        position = 0
        while position < len(data) and self.left_over is None:
            if self._missing > 0:
                piece = data[position : position + self._missing]
                pieces.append(piece)
                position += len(piece)
                self._missing = self._missing - len(piece) or -1
            elif self._missing < 0:
                position = self._take_line_end(data, position)
            else:
                position = self._take_size(data, position)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _take_line_end(self, data: bytes, position: int) -> int:
        line_end = data[position : position + 2]
        if line_end == _LINE_END:
            self._missing = 0
        elif line_end == _LINE_END[:1]:
            self._begun_line = line_end
        else:
            raise httpx.RemoteProtocolError("a chunk does not end where it says")
        return position + 2

    def _take_size(self, data: bytes, position: int) -> int:
        size = _SIZE.match(data, position)
        if size is not None and (length := int(size[1], 16)):
            self._missing = length
            return size.end()
        rest = data[position:]
        if size is None and _BEGUN_SIZE.fullmatch(rest):
            self._begun_line = rest
        else:
            self.left_over = rest
        return len(data)

    def give_up(self) -> bytes:
        """No more data will follow: return what was not decoded."""
        return self._begun_line if self._missing == 0 else b""


class _Line(asyncio.Protocol):
    """Buffers incoming data until it is read."""

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
        self.transport = cast("asyncio.Transport", transport)  # other event loops have their own classes

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
        """Read all available data, waiting if there is none; empty at the end. Raises OSError."""
        while not self.unread:
            if self.error is not None:
                raise self.error
            if self.is_over:
                return b""
            await self._something(timeout_s)
        data = self.unread[0] if len(self.unread) == 1 else b"".join(self.unread)
        self.unread.clear()
        if self._size > _MOST_UNREAD_BYTES and not self.is_over:
            self.transport.resume_reading()
        self._size = 0
        return data

    def give_back(self, data: bytes) -> None:
        """Return data that was read but belongs to another reader."""
        if data:
            self.unread.insert(0, data)
            self._size += len(data)

    async def _something(self, timeout_s: float | None) -> None:
        """Wait for data. `asyncio.timeout` is not used: it costs as much as all the rest of reading."""
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
        """Write; returns when the system has accepted most of it. Raises OSError."""
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


class SocketStream(httpcore.AsyncNetworkStream):
    def __init__(self, line: _Line) -> None:
        self._line = line
        self._head: bytes | None = None
        """The part of a response head received so far, while one is expected."""

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Never returns data of a body together with the head of a response."""
        del max_bytes  # the client buffers what exceeds its request
        try:
            data = await self._line.take(timeout)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:  # also of TLS
            raise httpcore.ReadError(_words(error)) from error
        return data if self._head is None else self._take_head(data, self._head)

    def _take_head(self, data: bytes, before: bytes) -> bytes:
        head = before + data
        end = head.find(b"\r\n\r\n") + 4
        if end < 4:
            self._head = None if len(head) > _LONGEST_HEAD_BYTES else head
            return data
        # A head with status 1xx is followed by another.
        self._head = b"" if head.startswith(b"HTTP/1.1 1") else None
        self._line.give_back(head[end:])
        return data[: end - len(before)]

    async def body(self, timeout_s: float | None) -> AsyncIterator[bytes]:
        """The content of a chunked body after its head; stops before the part that the client must read."""
        dechunker = Dechunker()
        while dechunker.left_over is None:
            try:
                data = await self._line.take(timeout_s)
            except TimeoutError as error:
                raise httpx.ReadTimeout(str(error)) from error
            except OSError as error:
                raise httpx.ReadError(_words(error)) from error
            if not data:
                self._line.give_back(dechunker.give_up())
                return
            if content := dechunker.feed(data):
                yield content
        self._line.give_back(dechunker.left_over)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if not buffer:
            return
        self._head = b""
        async with _translating_errors(timeout, httpcore.WriteTimeout, httpcore.WriteError):
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
            async with _translating_errors(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
                transport = await loop.start_tls(plain, secure, ssl_context, server_hostname=server_hostname)
        except BaseException:
            await self.aclose()
            raise
        if transport is None:  # the connection was lost meanwhile
            raise httpcore.ConnectError("the connection was closed")
        secure.connection_made(transport)
        return SocketStream(secure)

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # queried on an idle connection: if True, it cannot be reused
            return bool(self._line.unread) or self._line.is_over
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._line.transport.get_extra_info(names.get(info, info))


class SocketBackend(httpcore.AsyncNetworkBackend):
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
        # Other event loops may not support trying several addresses at once.
        haste: dict[str, Any] = (
            {"happy_eyeballs_delay": 0.25} if isinstance(loop, asyncio.BaseEventLoop) else {}
        )
        async with _translating_errors(timeout, httpcore.ConnectTimeout, httpcore.ConnectError):
            transport, line = await loop.create_connection(_Line, host, port, local_addr=own, **haste)
        for option in socket_options or ():
            transport.get_extra_info("socket").setsockopt(*option)
        return SocketStream(line)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@asynccontextmanager
async def _translating_errors(
    timeout_s: float | None, late: type[Exception], lost: type[Exception]
) -> AsyncIterator[None]:
    """Convert errors into the exceptions that the client knows."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:  # also of TLS
        raise lost(_words(error)) from error


def _words(error: OSError) -> str:
    """The error message, without the numbers and addresses that asyncio adds."""
    return os.strerror(error.errno) if isinstance(error, ConnectionError) and error.errno else str(error)
