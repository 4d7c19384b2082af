"""Server-sent events: any view of any session, live, from any position."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.clients import formats
from harness.clients.sessions.model_calls import model_input
from harness.errors import HarnessError, UnknownSession
from harness.events import Event
from harness.folds.page_state.shapes import operations_of
from harness.server.access.responses import flag, number, with_errors
from harness.server.live.channels import Channels
from harness.stage import View, ViewOptions

_HEARTBEAT_S = 15.0
_PLACE = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,6}))?")
HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
_OBJECT_STREAM = {**HEADERS, "assistant-stream-format": "object-stream/v0"}


class StreamPosition(NamedTuple):
    """How far a reader has come: so many events of the log, and so many documents of what follows them."""

    events: int = 0
    documents: int = 0

    def __str__(self) -> str:
        return f"{self.events}.{self.documents}" if self.documents else str(self.events)

    @classmethod
    def read(cls, text: str) -> StreamPosition:
        """The beginning, for a text that is no position."""
        match = _PLACE.fullmatch(text)
        return cls(int(match[1]), int(match[2] or 0)) if match else cls()


def sse(data: bytes, *, event: str = "", id: int | StreamPosition | None = None) -> bytes:
    """One event; every line of the data on a line of its own."""
    head = (f"event: {event}\n" if event else "") + (f"id: {id}\n" if id is not None else "")
    body = b"".join(b"data: " + line + b"\n" for line in data.replace(b"\r", b"\n").split(b"\n"))
    return head.encode() + body + b"\n"


class StreamsApi:
    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def routes(self) -> list[Route]:
        return [
            Route("/api/sessions/{id}/events", with_errors(self._events), methods=["GET"]),
            Route("/api/sessions/{id}/object-stream", with_errors(self._object_stream), methods=["GET"]),
        ]

    async def _events(self, request: Request) -> Response:
        log_id = request.path_params["id"]
        name = formats.find(request.query_params.get("view", "stream"))
        options = ViewOptions(
            **{key: flag(request, key) for key in ("usage", "reasoning", "content", "human")},
            model_input=partial(model_input, self._channels.store, log_id),
        )
        is_followed = flag(request, "follow", default=True)
        start = max(
            StreamPosition(number(request, "from", 0, most=10**12)),
            StreamPosition.read(request.headers.get("last-event-id", "")),
        )
        self._channels.store.metadata(log_id)  # raises UnknownSession
        view_stream = ViewStream(
            formats.open_view(name, options),
            has_documents=name in formats.JSON_LINES and not options.human,
            is_json=name in formats.JSON,
        )
        stream = self._stream(log_id, view_stream, start, is_followed=is_followed)
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    async def _object_stream(self, request: Request) -> Response:
        """The state and its changes as assistant-ui's object stream, for clients without WebSocket."""
        log_id = request.path_params["id"]
        self._channels.store.metadata(log_id)
        stream = self._objects(log_id)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_OBJECT_STREAM)

    async def _objects(self, log_id: str) -> AsyncIterator[bytes]:
        position: int | None = None
        async with self._channels.watching(log_id) as channel:
            while True:
                try:
                    position, packet = await asyncio.wait_for(channel.next(position), _HEARTBEAT_S)
                except UnknownSession:
                    return
                except TimeoutError:
                    yield b": alive\n\n"
                else:
                    yield sse(operations_of(packet.data))

    async def _stream(
        self, log_id: str, view_stream: ViewStream, start: StreamPosition, *, is_followed: bool
    ) -> AsyncIterator[bytes]:
        """A view is fed from the beginning of the log; what the reader has already is not sent again."""
        async for batch in self.batches(log_id, is_followed=is_followed):
            if not batch:
                yield b": alive\n\n"
            elif pieces := await asyncio.to_thread(view_stream.of, batch, start):
                yield pieces
        if not is_followed:
            yield view_stream.end()

    async def batches(self, log_id: str, *, is_followed: bool) -> AsyncIterator[Sequence[Event]]:
        """All events, then those that come; an empty batch now and then, so that a reader that has disconnected is noticed."""
        changed = asyncio.Event()
        async with self._channels.tail(log_id, changed) as tail:
            while True:
                changed.clear()
                try:
                    batch = await asyncio.to_thread(tail.poll)
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


class ViewStream:
    """The output of a view as server-sent events. `has_documents`: one for each JSON document; `is_json`: all is one."""

    def __init__(self, view: View, *, has_documents: bool, is_json: bool = False) -> None:
        self._view = view
        self._has_documents = has_documents
        self._is_json = is_json
        self._seq = 0

    def of(self, batch: Sequence[Event], start: StreamPosition) -> bytes:
        """Without what was sent before that place."""
        out: list[bytes] = []
        for event in batch:
            pieces = self._pieces(self._view.feed(event))
            self._seq = event.seq + 1
            for count, piece in enumerate(pieces, 1):
                place = (
                    StreamPosition(self._seq) if count == len(pieces) else StreamPosition(event.seq, count)
                )
                if place > start:
                    out.append(sse(piece, id=place))
        return b"".join(out)

    def end(self) -> bytes:
        """What the view writes last."""
        return b"".join(
            sse(piece, event="end", id=StreamPosition(self._seq))
            for piece in self._pieces(self._view.finish())
        )

    def _pieces(self, pieces_written: Iterable[bytes]) -> list[bytes]:
        if self._has_documents:
            return [line for piece in pieces_written for line in piece.split(b"\n") if line]
        whole = b"".join(pieces_written)
        if self._is_json:
            whole = whole.rstrip(b"\n")  # what a reader takes apart needs none
        return [whole] if whole else []
