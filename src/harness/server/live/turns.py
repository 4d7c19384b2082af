"""One answer of a conversation, for clients of other protocols: a request begins it, and what comes of it is the response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from harness.clients.commands import Cancel, Command
from harness.clients.conversations.backend import Setup, does_more
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.log.store import read_all
from harness.server.access.responses import Forbidden
from harness.server.live.channels import Channels

KEEP_ALIVE = b": keep-alive\n\n"
_LOOKED_AFTER_S = 5.0
_IDLE_LOOKS = 2
"""So often nothing may run and nothing come, until nothing is expected."""
_END_LOOKS, _END_LOOK_S = 100, 0.02
Wire = dict[str, Any]
Answer = TypeVar("Answer")


class StandardFold(Protocol):
    """A log in the words of another standard."""

    def feed(self, event: Event, /) -> list[Wire]: ...

    def finish(self) -> list[Wire]: ...


class ConversationTurn:
    """A conversation, its log up to now, and what comes then. Contract: lives in one event loop."""

    def __init__(self, channels: Channels, log_id: str, client: str, granted: Setup) -> None:
        """`granted`: that of the conversations which such a client begins: one that may do more is not for it."""
        self.log_id = log_id
        self._channels, self._client = channels, client
        self._granted = granted
        self._cursor = 0

    def past(self) -> Iterator[Event]:
        """What the log has; `events` goes on behind what was read of it. Raises UnknownSession."""
        for event in read_all(self._channels.store, self.log_id):
            self._cursor = event.seq + 1
            yield event

    async def carry_out(self, command: Command) -> None:
        """Raises HarnessError."""
        self._require_granted()
        await self._channels.carry_out(self.log_id, command, self._client)

    def _require_granted(self) -> None:
        """Raises UsageError. Asked each time: the user may have given the conversation more rights meanwhile."""
        settings = self._channels.store.metadata(self.log_id).settings
        uses_settings = (
            "" if self._granted.folder_settings == "use" else str(settings.get("folderSettings") or "")
        )
        mode = str(settings.get("permissionMode") or "")
        if does_more(mode, uses_settings, self._granted.permission_mode or "default"):
            raise Forbidden(
                "this session may do more without asking than those of this endpoint",
                hint="begin a new one, or let your user continue it in the page",
            )

    @property
    def is_busy(self) -> bool:
        status = self._channels.backend.status(self.log_id)
        return status.is_running or status.is_waiting or status.is_elsewhere

    async def stays_busy(self) -> bool:
        """A run that has said its last word takes a moment to be over: clients send the next request at once."""
        for _ in range(_END_LOOKS):
            status = self._channels.backend.status(self.log_id)
            if not status.is_running or status.is_waiting:
                break
            await asyncio.sleep(_END_LOOK_S)
        return self.is_busy

    async def events(self) -> AsyncIterator[Sequence[Event]]:
        """Nothing now and then, so that a client that has gone is noticed. Ends when nothing is expected any more."""
        changed = asyncio.Event()
        looks = 0
        async with self._channels.tail(self.log_id, changed, self._cursor) as tail:
            while looks < _IDLE_LOOKS:
                changed.clear()
                try:
                    batch = await asyncio.to_thread(tail.poll)
                except HarnessError:
                    return  # it was deleted
                if batch:
                    looks = 0
                    yield batch
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _LOOKED_AFTER_S)
                    continue
                looks = 0 if self.is_busy else looks + 1
                yield ()

    async def stop(self) -> None:
        with suppress(HarnessError):
            await self.carry_out(Cancel(queue="keep"))


class TurnStream:
    """What one request is answered with. `is_end`: whether something is the last of it."""

    def __init__(
        self,
        turn: ConversationTurn,
        fold: StandardFold,
        is_end: Callable[[Wire], bool],
        *,
        wires: Sequence[Wire] = (),
    ) -> None:
        """`wires`: what is in the log already."""
        self._turn, self._fold, self._is_end, self._wires = turn, fold, is_end, wires
        self.stops = True
        """Whether a client that goes away stops the run."""
        self.after_batch: Callable[[], Awaitable[None]] | None = None
        self.has_end = any(map(is_end, wires))

    async def wires(self) -> AsyncIterator[list[Wire]]:
        """An empty list now and then. Without an end, nothing more is expected from the run."""
        is_left = True
        try:
            if self._wires:
                yield list(self._wires)
            if not self.has_end:
                async for batch in self._turn.events():
                    wires = self._of(batch)
                    yield wires
                    if wires and self._is_end(wires[-1]):
                        return
                    if self.after_batch is not None:
                        await self.after_batch()
                last = self._fold.finish()
                self.has_end = any(map(self._is_end, last))
                yield last
            is_left = False
        finally:
            if is_left and not self.has_end and self.stops:
                _in_background(self._turn.stop())

    def _of(self, batch: Sequence[Event]) -> list[Wire]:
        out: list[Wire] = []
        for event in batch:
            for wire in self._fold.feed(event):
                out.append(wire)
                if self._is_end(wire):
                    self.has_end = True
                    return out
        return out


_background: set[asyncio.Task[None]] = set()


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    """The request is cancelled, and with it everything that it waits for."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def unless_gone(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of it, as long as the client is there. Raises UsageError when it has gone, and cancels the work."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise UsageError("the client has gone")
    finally:
        working.cancel()
        leaving.cancel()
        with suppress(asyncio.CancelledError, HarnessError):
            await working


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue
