"""The backend of a server that is alone with its files: what other programs of the user run takes commands too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from harness.interfaces.commands import Command, Submit
from harness.interfaces.inbox.live_links import LiveLinks
from harness.interfaces.server.backend import ConversationStatus, Setup
from harness.interfaces.server.local_backend import LocalBackend
from harness.log.hub import Hub
from harness.log.ids import is_log_id
from harness.log.stores.files import FileStore
from harness.session.bus import Bus


class LinkedBackend:
    """A `Backend` around the conversations of this server. A command for a session that `harness chat` or `harness
    run` has is sent there.
    """

    def __init__(self, own: LocalBackend, store: FileStore) -> None:
        self._own = own
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._listeners: list[Callable[[str], None]] = []
        self._links = LiveLinks(self._changed)

    def check(self, setup: Setup, prompt: Submit | None = None) -> None:
        self._own.check(setup, prompt)

    async def create(self, setup: Setup) -> str:
        return await self._own.create(setup)

    async def carry_out(self, log_id: str, command: Command) -> None:
        is_ours = self._own.hub(log_id) is not None
        if not is_ours and await asyncio.to_thread(self._is_reached, log_id):
            await asyncio.to_thread(self._links.send, log_id, command)
        else:
            await self._own.carry_out(log_id, command)

    def _is_reached(self, log_id: str) -> bool:
        return is_log_id(log_id) and self._store.is_live(log_id) and self._links.reaches(log_id)

    def status(self, log_id: str) -> ConversationStatus:
        status = self._own.status(log_id)
        if status.is_ours or not is_log_id(log_id):
            return status
        return self._links.status(log_id) or status

    def hub(self, log_id: str) -> Hub | None:
        return self._own.hub(log_id)

    def bus(self, log_id: str) -> Bus | None:
        return self._own.bus(log_id)

    def listen(self, listener: Callable[[str], None]) -> None:
        self._listeners.append(listener)
        self._own.listen(listener)

    def listen_to_replacements(self, listener: Callable[[str], None]) -> None:
        self._own.listen_to_replacements(listener)

    async def unload_idle(self, is_watched: Callable[[str], bool]) -> None:
        await self._own.unload_idle(is_watched)

    async def unload(self, log_id: str) -> None:
        await self._own.unload(log_id)

    async def close(self) -> None:
        self._links.close()
        await self._own.close()

    def _changed(self, log_id: str) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._notify, log_id)

    def _notify(self, log_id: str) -> None:
        for listener in self._listeners:
            listener(log_id)
