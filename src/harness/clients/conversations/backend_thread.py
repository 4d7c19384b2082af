"""A `LocalBackend` for programs without an event loop: it has one of its own, in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from harness.clients.commands import Command
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.local_backend import LocalBackend
from harness.log.hub import Hub
from harness.log.store import Store

if TYPE_CHECKING:
    from harness.session.mcp_servers import McpStatus

_Value = TypeVar("_Value")


class BackendThread:
    """Contract: used from any thread. `on_change` is called in the event loop with the id of a conversation whose status
    or hub has changed. Every method raises HarnessError.
    """

    def __init__(self, store: Store, default: Setup, on_change: Callable[[str], None]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conversations", daemon=True)
        self._thread.start()
        self._backend = self._run(_new_backend(store, default, on_change))

    def check(self, setup: Setup) -> None:
        self._backend.check(setup)

    def create(self, setup: Setup) -> str:
        """Create a conversation; returns its id."""
        return self._run(self._backend.create(setup))

    def carry_out(self, log_id: str, command: Command) -> None:
        self._run(self._backend.carry_out(log_id, command))

    def load(self, log_id: str) -> None:
        self._run(self._backend.load(log_id))

    def change(self, log_id: str, changes: Mapping[str, Any]) -> None:
        self._run(self._backend.change(log_id, changes))

    def is_busy(self, log_id: str) -> bool:
        """Whether it runs, or waits to continue by itself."""
        return self._backend.is_busy(log_id)

    def unload(self, log_id: str) -> None:
        self._run(self._backend.unload(log_id))

    def status(self, log_id: str) -> ConversationStatus:
        return self._backend.status(log_id)

    def hub(self, log_id: str) -> Hub | None:
        return self._backend.hub(log_id)

    def mcp_servers(self, log_id: str) -> dict[str, McpStatus]:
        return self._run(self._backend.mcp_servers(log_id))

    def close(self) -> None:
        """Stop everything that runs."""
        try:
            self._run(self._backend.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


async def _new_backend(store: Store, default: Setup, on_change: Callable[[str], None]) -> LocalBackend:
    backend = LocalBackend(store, default)
    backend.listen(on_change)
    return backend
