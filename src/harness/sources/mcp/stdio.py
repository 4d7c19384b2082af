"""A server that is a program: lines of JSON in and out, below the watchdog like every other program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from typing import Any

from harness.sources.process.child import Child
from harness.sources.process.invocation import Invocation
from harness.sources.translation.json_lines import LineBlocks

_END_PATIENCE_S = 2.0
"""How long a server may take to end once its input has ended."""
_MOST_UNREAD_LINES = 1000
_LAST_WORDS_BYTES = 2048


class ServerProcess:
    """Contract: made and closed in one event loop; `lines` and `write` belong to it as well."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MOST_UNREAD_LINES)
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._child: Child | None = None
        self._is_closing = False
        self._errors = b""

    async def start(self) -> None:
        """Raises what `Child` does."""
        threading.Thread(target=self._work, name="mcp-server", daemon=True).start()
        try:
            await asyncio.shield(self._started)
        except asyncio.CancelledError:
            await self.close()
            raise

    def write(self, line: bytes) -> None:
        if self._child is not None:
            self._child.write(line + b"\n")

    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            self._room.release()
            yield line

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        return self._errors.decode("utf-8", "replace").strip()

    async def close(self) -> None:
        """End it: by the end of its input, else by force."""
        self._is_closing = True
        if self._child is not None:
            self._child.close_stdin()
            try:
                async with asyncio.timeout(_END_PATIENCE_S):
                    await self._ended.wait()
            except TimeoutError:
                pass
            finally:
                self._child.kill()
        await self._ended.wait()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            with Child(self._invocation) as child:
                self._child = child
                self._tell(self._settle_start, None)
                self._read(child)
        except BaseException as raised:
            error = raised
        self._tell(self._settle_start, error)
        self._tell(self._lines.put_nowait, None)
        self._tell(self._ended.set)

    def _read(self, child: Child) -> None:
        blocks = LineBlocks()
        while child.exit is None:
            for chunk in child.read():
                if chunk.stream == "stderr":
                    self._errors = (self._errors + chunk.data)[-_LAST_WORDS_BYTES:]
                    continue
                for line in blocks.feed(chunk.data).split(b"\n"):
                    if line.strip() and self._has_room():
                        self._tell(self._lines.put_nowait, line)

    def _has_room(self) -> bool:
        """Wait until somebody has read; no longer once nobody will."""
        while not self._is_closing:
            if self._room.acquire(timeout=0.1):
                return True
        return False

    def _settle_start(self, error: BaseException | None) -> None:
        if not self._started.done():
            if error is None:
                self._started.set_result(None)
            else:
                self._started.set_exception(error)

    def _tell(self, what: Any, *arguments: Any) -> None:
        with suppress(RuntimeError):  # the event loop is gone
            self._loop.call_soon_threadsafe(what, *arguments)


@asynccontextmanager
async def transport(process: ServerProcess) -> AsyncIterator[tuple[Any, Any]]:
    """What the official client takes for a connection: a stream of messages each way."""
    anyio, messages = import_module("anyio"), import_module("mcp.shared.message")
    adapter = import_module("mcp_types").jsonrpc_message_adapter
    await process.start()
    incoming, received = anyio.create_memory_object_stream(0)
    sent, outgoing = anyio.create_memory_object_stream(0)

    async def bring() -> None:
        async with incoming:
            async for line in process.lines():
                try:
                    item = messages.SessionMessage(adapter.validate_json(line, by_name=False))
                except ValueError as error:  # the session is told, and goes on
                    item = error
                await incoming.send(item)

    async def carry() -> None:
        async with outgoing:
            async for item in outgoing:
                process.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    tasks = [asyncio.create_task(bring()), asyncio.create_task(carry())]
    try:
        yield received, sent
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, received, sent, outgoing):
            stream.close()
        await process.close()
