"""A protocol over standard input and output: one JSON object a line, and nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from harness.clients.acp.wire import INVALID_REQUEST, LONGEST_MESSAGE, RpcError, id_of_part
from harness.formatting.json_text import encode

_BLOCK = 64 * 1024
_MOST_WAITING = 64 * 1024 * 1024
"""Of bytes that a client does not read: then it is gone."""
_ENOUGH_WAITING = 4 * 1024 * 1024
"""Of bytes: what can wait, waits for the client to read them."""
_MOST_UNANSWERED = 64 * 1024 * 1024
"""Of bytes that were read and not looked at: a client that sends more, waits."""
_KEPT = 8 * 1024
"""Of the beginning and of the end of a message that is too long: its id is there."""


class LineOutput:
    """Writes messages in a thread of its own: a client that does not read stops nothing."""

    def __init__(self, file: int, on_stall: Callable[[], object]) -> None:
        self._file = file
        self._on_stall = on_stall
        self._lines: list[bytes] = []
        self._size = 0
        self._has_more = threading.Condition()
        self._is_over = False
        self._loop, self._has_room = asyncio.get_running_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._write, name="acp-output", daemon=True)
        self._thread.start()

    def send(self, message: dict[str, Any]) -> None:
        line = encode(message) + b"\n"
        with self._has_more:
            if self._is_over:
                return
            self._lines.append(line)
            self._size += len(line)
            is_stalled = self._size > _MOST_WAITING
            self._has_more.notify()
        if is_stalled:
            self.close(wait_s=0.0)
            self._on_stall()

    async def room(self, _session: str) -> None:
        while self._size > _ENOUGH_WAITING and not self._is_over:
            self._has_room.clear()
            if self._size > _ENOUGH_WAITING:  # still
                await self._has_room.wait()

    def close(self, wait_s: float = 2.0) -> None:
        with self._has_more:
            self._is_over = True
            self._has_more.notify()
        self._thread.join(wait_s)

    def _write(self) -> None:
        while True:
            with self._has_more:
                while not self._lines and not self._is_over:
                    self._has_more.wait()
                lines, self._lines = self._lines, []
                if not lines and self._is_over:
                    return
            data = memoryview(b"".join(lines))
            try:
                while data:
                    count = os.write(self._file, data)
                    data = data[count:]
                    with self._has_more:
                        self._size -= count
                    self._tell_room()
            except OSError:  # the client is gone
                with self._has_more:
                    self._is_over = True
                self._tell_room()
                return

    def _tell_room(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._has_room.set)


class Backlog:
    """How many bytes were read that the event loop has not looked at yet."""

    def __init__(self) -> None:
        self._size = 0
        self._changed = threading.Condition()

    def add(self, size: int) -> None:
        """Waits while there are many."""
        with self._changed:
            self._changed.wait_for(lambda: self._size < _MOST_UNANSWERED)
            self._size += size

    def remove(self, size: int) -> None:
        with self._changed:
            self._size -= size
            self._changed.notify()


class LineConnection(Protocol):
    """One client, whatever protocol it speaks."""

    def receive(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class ReadLine:
    """A line that is being read. One that is too long keeps only its beginning and its end."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_too_long = False

    def add(self, piece: bytes) -> None:
        self._data += piece
        self._is_too_long = self._is_too_long or len(self._data) > LONGEST_MESSAGE
        if self._is_too_long:
            del self._data[_KEPT:-_KEPT]

    def taken(self) -> bytes:
        """All of it; nothing if it is empty. Raises MessageTooLong. What follows is another one."""
        data, is_too_long = bytes(self._data), self._is_too_long
        self._data, self._is_too_long = bytearray(), False
        if is_too_long:
            raise MessageTooLong(id_of_part(data[:_KEPT], data[-_KEPT:]))
        return data.strip()


class MessageTooLong(Exception):
    def __init__(self, request_id: str | int | None) -> None:
        super().__init__(f"a message has at most {LONGEST_MESSAGE} bytes")
        self.request_id = request_id


async def serve(connect: Callable[[LineOutput], LineConnection], source: int, target: int) -> None:
    """Serve one client until its input ends. `connect` gets what sends to it."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    output = LineOutput(target, lambda: loop.call_soon_threadsafe(over.set))
    connection = connect(output)
    reading = threading.Thread(
        target=_read, args=(source, loop, connection, over, output), name="acp-input", daemon=True
    )
    reading.start()
    try:
        await over.wait()
    finally:
        connection.close()
        output.close()


def _read(
    source: int,
    loop: asyncio.AbstractEventLoop,
    connection: LineConnection,
    over: asyncio.Event,
    output: LineOutput,
) -> None:
    """Whole lines for the connection. One that is too long is refused, and skipped."""
    line, backlog = ReadLine(), Backlog()

    def take(data: bytes) -> None:
        try:
            connection.receive(data)
        finally:
            backlog.remove(len(data))

    with suppress(RuntimeError):  # the loop is closed
        while True:
            try:
                block = os.read(source, _BLOCK)
            except OSError:
                block = b""
            if not block:
                break
            *whole, rest = block.split(b"\n")
            for piece in whole:
                line.add(piece)
                try:
                    if data := line.taken():
                        backlog.add(len(data))
                        loop.call_soon_threadsafe(take, data)
                except MessageTooLong as error:
                    answer = RpcError(INVALID_REQUEST, str(error)).as_json
                    output.send({"jsonrpc": "2.0", "id": error.request_id, "error": answer})
            line.add(rest)
        loop.call_soon_threadsafe(over.set)
