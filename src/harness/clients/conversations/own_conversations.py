"""The conversations of a program with a terminal: they run in it, and end with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.clients.commands import Command, Submit
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.local_socket import LocalSocketServer
from harness.log.hub import Hub
from harness.log.store import Store

if TYPE_CHECKING:
    from harness.clients.conversations.backend_thread import BackendThread
    from harness.session.mcp_servers import McpStatus


class OwnConversations:
    """Each has a local socket, over which other programs of this machine watch, answer and steer it.

    Contract: used from any thread; every method raises HarnessError. Its event loop starts with what is
    asked first.
    """

    def __init__(
        self, store: Store, default: Callable[[], Setup], on_change: Callable[[], object] = lambda: None
    ) -> None:
        """`default`: what a setup leaves open; called when it is needed. `on_change`: of a status or a hub, from the event loop."""
        self._store = store
        self._default = default
        self._on_change = on_change
        self._backend_thread: BackendThread | None = None
        self._sockets: dict[str, LocalSocketServer] = {}
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        """How many of them run."""
        return sum(self.status(log_id).is_running for log_id in list(self._sockets))

    def check(self, setup: Setup) -> None:
        """Raises what `create` raises for an invalid setup."""
        self._backend().check(setup)

    def create(self, setup: Setup, prompt: str = "") -> str:
        """Create a conversation; returns its id. `prompt`: what it begins with."""
        log_id = self._backend().create(setup)
        self.reach(log_id)
        if prompt:
            self.carry_out(log_id, Submit(prompt=prompt))
        return log_id

    def carry_out(self, log_id: str, command: Command) -> None:
        """Also for a conversation at rest, which is then loaded here."""
        self._backend().carry_out(log_id, command)
        self.reach(log_id)

    def change(self, log_id: str, changes: Mapping[str, Any]) -> None:
        """Load a conversation at rest, with these fields of its setup instead of what is stored."""
        self._backend().change(log_id, changes)

    def reach(self, log_id: str) -> None:
        """From now on other programs find it here."""
        if log_id not in self._sockets:
            carry_out, status = partial(self.carry_out, log_id), partial(self.status, log_id)
            self._sockets[log_id] = LocalSocketServer(log_id, carry_out, status)

    def unload(self, log_id: str) -> None:
        """Another program may have it."""
        if (socket := self._sockets.pop(log_id, None)) is not None:
            socket.close()
        self._backend().unload(log_id)

    def status(self, log_id: str) -> ConversationStatus:
        return (
            self._backend_thread.status(log_id) if self._backend_thread is not None else ConversationStatus()
        )

    def hub(self, log_id: str) -> Hub | None:
        """The hub that writes its log, while it is loaded."""
        return self._backend_thread.hub(log_id) if self._backend_thread is not None else None

    def mcp_servers(self, log_id: str) -> dict[str, McpStatus]:
        """Those of the built-in agent, by name."""
        return self._backend().mcp_servers(log_id)

    def close(self) -> None:
        """Stop everything that runs."""
        for socket in self._sockets.values():
            socket.close()
        if self._backend_thread is not None:
            self._backend_thread.close()

    def _backend(self) -> BackendThread:
        from harness.clients.conversations.backend_thread import BackendThread

        with self._lock:
            if self._backend_thread is None:
                self._backend_thread = BackendThread(self._store, self._default(), self._notify)
        return self._backend_thread

    def _notify(self, log_id: str) -> None:
        self._on_change()
        if (socket := self._sockets.get(log_id)) is not None:
            socket.notify()
