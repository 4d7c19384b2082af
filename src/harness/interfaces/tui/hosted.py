"""The conversations that run in this program. They are reachable like those of `harness chat`, and end with it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import HarnessError
from harness.interfaces.cli.chat.channel import LiveChannel
from harness.interfaces.commands import Command, Submit
from harness.interfaces.server.backend import ConversationStatus, Setup
from harness.log.stores.files import FileStore

if TYPE_CHECKING:
    from harness.interfaces.server.local_backend import LocalBackend

_Value = TypeVar("_Value")


class HostedConversations:
    """Contract: used from any thread. Its event loop begins with the first conversation."""

    def __init__(self, store: FileStore, default: Callable[[], Setup]) -> None:
        """`default`: how a conversation is run of which nothing else is said; asked for when it is needed."""
        self._store = store
        self._default = default
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._backend: LocalBackend | None = None
        self._channels: dict[str, LiveChannel] = {}
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        return sum(self._status(log_id).is_running for log_id in list(self._channels))

    def create(self, setup: Setup, prompt: str) -> str:
        """A new conversation; its id. Raises HarnessError."""
        backend = self._begun()
        log_id = self._do(backend.create(setup))
        self._open(log_id)
        self._do(backend.carry_out(log_id, Submit(prompt=prompt)))
        return log_id

    def carry_out(self, log_id: str, command: Command) -> None:
        """Also of a conversation at rest, which runs here from then on. Raises HarnessError."""
        self._do(self._begun().carry_out(log_id, command))
        self._open(log_id)

    def close(self) -> None:
        """Stops what runs."""
        for channel in self._channels.values():
            channel.close()
        if self._thread is None or self._loop is None:
            return
        if self._backend is not None:
            with suppress(HarnessError):
                self._do(self._backend.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _open(self, log_id: str) -> None:
        if log_id not in self._channels:
            channel = LiveChannel(log_id, partial(self.carry_out, log_id), partial(self._status, log_id))
            self._channels[log_id] = channel

    def _status(self, log_id: str) -> ConversationStatus:
        return self._backend.status(log_id) if self._backend is not None else ConversationStatus()

    def _begun(self) -> LocalBackend:
        with self._lock:
            if self._backend is None:
                default = self._default()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="hosted", daemon=True)
                self._thread.start()
                self._backend = self._do(self._begin(default))
        return self._backend

    async def _begin(self, default: Setup) -> LocalBackend:
        from harness.interfaces.server.local_backend import LocalBackend

        backend = LocalBackend(self._store, default)
        backend.listen(self._notify)
        return backend

    def _notify(self, log_id: str) -> None:
        if (channel := self._channels.get(log_id)) is not None:
            channel.notify()

    def _do(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
