"""The conversations that are watched: loaded for the first watcher, unloaded some time after the last has left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

from harness.clients.commands import AnswerCommand, Approve, Command, Deny
from harness.clients.conversations.backend import Backend
from harness.clients.conversations.log_tail import LogTail
from harness.errors import AlreadyAnswered, HarnessError, QuestionChanged, UsageError
from harness.log.store import Store
from harness.server.live.channel import TICK_S, SessionChannel

_SWEEP_EVERY_S = 5.0
_CHANGES_BEFORE_SWEEP = 16
_MOST_UNWATCHED = 16
_MOST_ANSWERED = 1_000
_UNLOADED_AFTER_S = 30.0
"""How long a conversation stays loaded without watchers, so that a reloaded page is back at once."""


class Channels:
    """Contract: lives in one event loop; `open` first, `close` last."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        tick_s: float = TICK_S,
        unloaded_after_s: float = _UNLOADED_AFTER_S,
    ) -> None:
        self.store = store
        self.backend = backend
        self.loop = asyncio.get_running_loop()
        self._tick_s = tick_s
        self._unloaded_after_s = unloaded_after_s
        self._channels: dict[str, SessionChannel] = {}
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By log id; each exists only while it is held or waited for."""
        self._changes = 0
        self._is_crowded = asyncio.Event()
        self._sweeping: asyncio.Task[None] | None = None
        self._reopening: dict[str, asyncio.Task[None]] = {}
        self._tails: dict[str, set[LogTail]] = {}
        self._answered: dict[tuple[str, str], str] = {}
        """The client that answered, by log and question; the latest ones."""
        self.answer_listeners: list[Callable[[str, Command, str], None]] = []
        backend.listen(self._on_change)
        backend.listen_to_replacements(self._on_replacement)

    def open(self) -> None:
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep())

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        await self.backend.close()

    @asynccontextmanager
    async def watching(self, log_id: str) -> AsyncIterator[SessionChannel]:
        """The conversation's channel, as long as it is watched. Raises UnknownSession and StoreError."""
        channel = await self._channel(log_id)
        channel.watchers += 1
        try:
            yield channel
        finally:
            channel.watchers -= 1
            if channel.is_deleted.is_set() and self._channels.get(log_id) is channel:
                del self._channels[log_id]
            channel.left_s = asyncio.get_running_loop().time()

    @asynccontextmanager
    async def tail(self, log_id: str, wake: asyncio.Event, cursor: int = 0) -> AsyncIterator[LogTail]:
        """The events of a log, for one reader."""
        loop = asyncio.get_running_loop()

        def woken() -> None:
            try:
                loop.call_soon_threadsafe(wake.set)
            except RuntimeError:  # the loop is closed
                return

        tail = LogTail(self.store, log_id, self.backend.hub, woken, cursor)
        mine = self._tails.setdefault(log_id, set())
        mine.add(tail)
        try:
            yield tail
        finally:
            mine.discard(tail)
            if not mine:
                self._tails.pop(log_id, None)
            tail.close()

    async def carry_out(self, log_id: str, command: Command, client: str) -> None:
        """`client`: the name of the sender. Raises HarnessError; for an answer that comes too late, with the name of the
        client that was first.
        """
        if not isinstance(command, Approve | Deny | AnswerCommand):
            await self.backend.carry_out(log_id, command)
            return
        key = log_id, command.relay_id or getattr(command, "tool_call_id", "")
        try:
            await self.backend.carry_out(log_id, command)
        except UsageError as error:
            if key in self._answered and not isinstance(error, QuestionChanged):
                first = self._answered[key]
                words = "this was answered already" if first == client else f"{first} answered first"
                raise AlreadyAnswered(words, hint="the first answer counts") from error
            raise
        self._answered[key] = client
        while len(self._answered) > _MOST_ANSWERED:
            del self._answered[next(iter(self._answered))]
        for listener in self.answer_listeners:
            listener(log_id, command, client)

    def is_watched(self, log_id: str) -> bool:
        channel = self._channels.get(log_id)
        return channel is not None and channel.watchers > 0

    @property
    def loaded(self) -> list[str]:
        return list(self._channels)

    async def sweep(self) -> None:
        """Unload what is not needed, by age and by number: everything that is loaded holds files."""
        now_s = asyncio.get_running_loop().time()
        unwatched = sorted(
            (channel.left_s, log_id) for log_id, channel in self._channels.items() if not channel.watchers
        )
        surplus = len(unwatched) - _MOST_UNWATCHED
        for place, (left_s, log_id) in enumerate(unwatched):
            if place < surplus or now_s - left_s >= self._unloaded_after_s:
                self._channels.pop(log_id).close()
        await self.backend.unload_idle(self.is_watched)

    def forget(self, log_id: str) -> None:
        """It was deleted."""
        channel = self._channels.pop(log_id, None)
        if channel is not None:
            channel.end()
        for tail in self._tails.get(log_id, ()):
            tail.invalidate()

    async def _channel(self, log_id: str) -> SessionChannel:
        async with self._opening.setdefault(log_id, asyncio.Lock()):
            channel = self._channels.get(log_id)
            if channel is None or channel.is_deleted.is_set():
                channel = SessionChannel(
                    self.store,
                    log_id,
                    self.backend.hub,
                    self.backend.status,
                    find_bus=self.backend.bus,
                    tick_s=self._tick_s,
                )
                await channel.open()
                self._channels[log_id] = channel
        return channel

    def _on_change(self, log_id: str) -> None:
        self._changes += 1
        if self._changes >= _CHANGES_BEFORE_SWEEP:
            self._is_crowded.set()
        channel = self._channels.get(log_id)
        if channel is not None:
            channel.refresh()
        for tail in self._tails.get(log_id, ()):
            with suppress(HarnessError):  # it was deleted
                tail.refresh()

    def replaced(self, log_id: str) -> None:
        """The log was rewritten. From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._on_replacement, log_id)

    def _on_replacement(self, log_id: str) -> None:
        channel = self._channels.get(log_id)
        if channel is not None:
            self._reopening[log_id] = self.loop.create_task(self._reopen(channel))
        for tail in self._tails.get(log_id, ()):
            tail.invalidate()

    async def _reopen(self, channel: SessionChannel) -> None:
        with suppress(HarnessError):  # it was deleted meanwhile
            await channel.reopen()
        self._reopening.pop(channel.log_id, None)

    async def _sweep(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_crowded.wait(), _SWEEP_EVERY_S)
            self._changes = 0
            self._is_crowded.clear()
            await self.sweep()
