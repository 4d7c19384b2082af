"""A protocol over standard input and output: one JSON object a line, and nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from harness.clients.acp.wire import INVALID_REQUEST, LONGEST_MESSAGE, RpcError
from harness.formatting.json_text import encode

_BLOCK = 64 * 1024
_MOST_WAITING = 64 * 1024 * 1024
"""Of bytes that a client does not read: then it is gone."""


class LineOutput:
    """Writes messages in a thread of its own: a client that does not read stops nothing."""

    def __init__(self, file: int, on_stall: Callable[[], object]) -> None:
        self._file = file
        self._on_stall = on_stall
        self._lines: list[bytes] = []
        self._size = 0
        self._has_more = threading.Condition()
        self._is_over = False
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
                lines, self._lines, self._size = self._lines, [], 0
                if not lines and self._is_over:
                    return
            data = memoryview(b"".join(lines))
            try:
                while data:
                    data = data[os.write(self._file, data) :]
            except OSError:  # the client is gone
                with self._has_more:
                    self._is_over = True
                return


class LineConnection(Protocol):
    """One client, whatever protocol it speaks."""

    def receive(self, data: bytes) -> None: ...

    def close(self) -> None: ...


async def serve(
    connect: Callable[[Callable[[dict[str, Any]], None]], LineConnection], source: int, target: int
) -> None:
    """Serve one client until its input ends. `connect` gets what sends a message."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    output = LineOutput(target, lambda: loop.call_soon_threadsafe(over.set))
    connection = connect(output.send)
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
    held = bytearray()
    is_skipping = False
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
                held += piece
                if held.strip() and not is_skipping:
                    loop.call_soon_threadsafe(connection.receive, bytes(held))
                held.clear()
                is_skipping = False
            held += rest
            if len(held) > LONGEST_MESSAGE and not is_skipping:
                is_skipping = True
                words = f"a message has at most {LONGEST_MESSAGE} bytes"
                error = RpcError(INVALID_REQUEST, words).as_json
                output.send({"jsonrpc": "2.0", "id": None, "error": error})
            if is_skipping:
                held.clear()
        loop.call_soon_threadsafe(over.set)
