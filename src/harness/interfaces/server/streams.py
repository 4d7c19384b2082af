"""Server-sent events: any view of any session, live, from wherever the reader left off; and the chat of `/chat`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.interfaces.cli import formats
from harness.interfaces.server.answers import number
from harness.interfaces.server.rooms import Rooms
from harness.interfaces.server.sessions_api import answering
from harness.rendering.state.wire import operations_of
from harness.stage import View, ViewOptions

_HEARTBEAT_S = 15.0
_TRUE = {"true": True, "1": True, "false": False, "0": False}
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_OBJECT_STREAM = {**HEADERS, "assistant-stream-format": "object-stream/v0"}


def sse(data: bytes, *, event: str = "", id: int | None = None) -> bytes:
    """One event; every line of the data on a line of its own."""
    head = (f"event: {event}\n" if event else "") + (f"id: {id}\n" if id is not None else "")
    body = b"".join(b"data: " + line + b"\n" for line in data.replace(b"\r", b"\n").split(b"\n"))
    return head.encode() + body + b"\n"


class Streams:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    def routes(self) -> list[Route]:
        return [
            Route("/api/sessions/{id}/events", answering(self._events), methods=["GET"]),
            Route("/api/sessions/{id}/object-stream", answering(self._object_stream), methods=["GET"]),
        ]

    async def _events(self, request: Request) -> Response:
        log_id = request.path_params["id"]
        name = formats.find(request.query_params.get("view", "stream"))
        options = ViewOptions(**{key: _flag(request, key) for key in ("usage", "reasoning", "human")})
        is_followed = _flag(request, "follow", default=True)
        start = number(request, "from", 0, most=10**12)
        last = request.headers.get("last-event-id", "")
        if last.isascii() and last.isdecimal():
            start = max(start, int(last[:12]))
        self._rooms.store.metadata(log_id)  # so that an unknown one is told as such
        stream = self._stream(log_id, formats.open_view(name, options), start, is_followed=is_followed)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    async def _object_stream(self, request: Request) -> Response:
        """The state and its changes as assistant-ui's object stream, for who speaks that and no WebSocket."""
        log_id = request.path_params["id"]
        self._rooms.store.metadata(log_id)
        stream = self._objects(log_id)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_OBJECT_STREAM)

    async def _objects(self, log_id: str) -> AsyncIterator[bytes]:
        position: int | None = None
        async with self._rooms.watching(log_id) as channel:
            while True:
                try:
                    position, packet = await asyncio.wait_for(channel.next(position), _HEARTBEAT_S)
                except TimeoutError:
                    yield b": alive\n\n"
                else:
                    yield sse(operations_of(packet.data))

    async def _stream(
        self, log_id: str, view: View, start: int, *, is_followed: bool
    ) -> AsyncIterator[bytes]:
        """A view begins at the beginning whatever is wanted of it; what was read already is not sent again."""
        seq = 0
        async for batch in self.batches(log_id, is_followed=is_followed):
            if not batch:
                yield b": alive\n\n"
                continue
            pieces, seq = await asyncio.to_thread(_show, view, batch, start)
            if pieces:
                yield pieces
        rest = b"".join(view.finish())
        if rest and not is_followed:
            yield sse(rest.rstrip(b"\n"), event="end", id=seq)

    async def batches(self, log_id: str, *, is_followed: bool) -> AsyncIterator[Sequence[Event]]:
        """All events, then those that come; an empty batch now and then, so that a lost reader is noticed."""
        changed = asyncio.Event()
        async with self._rooms.following(log_id, changed) as following:
            while True:
                changed.clear()
                try:
                    batch = await asyncio.to_thread(following.poll)
                except HarnessError:
                    return  # it was deleted
                if batch:
                    yield batch
                    continue
                if not is_followed:
                    return
                try:
                    await asyncio.wait_for(changed.wait(), _HEARTBEAT_S)
                except TimeoutError:
                    yield ()


def _show(view: View, batch: Sequence[Event], start: int) -> tuple[bytes, int]:
    """What the view makes of the events, as server-sent events; and the number of events read."""
    out = []
    for event in batch:
        shown = b"".join(view.feed(event))
        if shown and event.seq >= start:
            out.append(sse(shown.rstrip(b"\n"), id=event.seq + 1))
    return b"".join(out), batch[-1].seq + 1


def _flag(request: Request, name: str, *, default: bool = False) -> bool:
    text = request.query_params.get(name, "").lower()
    if not text:
        return default
    if text not in _TRUE:
        raise UsageError(f"{name} is true or false, not {text[:40]!r}")
    return _TRUE[text]
