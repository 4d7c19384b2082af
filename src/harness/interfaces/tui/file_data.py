"""The data of this machine: rows and logs from the store's files, commands to the programs that run the sessions."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from harness.config.prices import Prices
from harness.errors import HarnessError
from harness.events import Event
from harness.fleet.fleet import STORE_VARIABLE
from harness.interfaces.commands import Command, Submit
from harness.interfaces.conversations.backend import ConversationStatus, Setup
from harness.interfaces.conversations.local_socket import LocalSocketServer
from harness.interfaces.conversations.log_tail import LogTail
from harness.interfaces.inbox.source import FileInbox
from harness.interfaces.tui.fleet_data import LocalFleets
from harness.interfaces.tui.source_data import LISTED, SourceData
from harness.ledger import WORDS, Ledger, rolled_up, total
from harness.log.private_files import open_private
from harness.log.query import grep_events
from harness.log.store import Query, read_all
from harness.log.stores.files import FileStore
from harness.views.formatting.usage_table import table

if TYPE_CHECKING:
    from harness.interfaces.conversations.local_backend import LocalBackend


# The conversations that run in this program. They have a local socket like those of `harness chat`, and end with it.


_Value = TypeVar("_Value")


class HostedConversations:
    """Contract: used from any thread. Its event loop starts with the first conversation."""

    def __init__(self, store: FileStore, default: Callable[[], Setup]) -> None:
        """`default`: the setup for what a conversation leaves open; called when it is needed."""
        self._store = store
        self._default = default
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._backend: LocalBackend | None = None
        self._channels: dict[str, LocalSocketServer] = {}
        self._lock = threading.Lock()

    @property
    def running(self) -> int:
        return sum(self._status(log_id).is_running for log_id in list(self._channels))

    def create(self, setup: Setup, prompt: str) -> str:
        """A new conversation; its id. Raises HarnessError."""
        backend = self._started_backend()
        log_id = self._run(backend.create(setup))
        self._open(log_id)
        self._run(backend.carry_out(log_id, Submit(prompt=prompt)))
        return log_id

    def carry_out(self, log_id: str, command: Command) -> None:
        """Also for a conversation at rest, which is then loaded here. Raises HarnessError."""
        self._run(self._started_backend().carry_out(log_id, command))
        self._open(log_id)

    def close(self) -> None:
        """Stops what runs."""
        for channel in self._channels.values():
            channel.close()
        if self._thread is None or self._loop is None:
            return
        if self._backend is not None:
            with suppress(HarnessError):
                self._run(self._backend.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _open(self, log_id: str) -> None:
        if log_id not in self._channels:
            channel = LocalSocketServer(
                log_id, partial(self.carry_out, log_id), partial(self._status, log_id)
            )
            self._channels[log_id] = channel

    def _status(self, log_id: str) -> ConversationStatus:
        return self._backend.status(log_id) if self._backend is not None else ConversationStatus()

    def _started_backend(self) -> LocalBackend:
        with self._lock:
            if self._backend is None:
                default = self._default()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="hosted", daemon=True)
                self._thread.start()
                self._backend = self._run(self._new_backend(default))
        return self._backend

    async def _new_backend(self, default: Setup) -> LocalBackend:
        from harness.interfaces.conversations.local_backend import LocalBackend

        backend = LocalBackend(self._store, default)
        backend.listen(self._notify)
        return backend

    def _notify(self, log_id: str) -> None:
        if (channel := self._channels.get(log_id)) is not None:
            channel.notify()

    def _run(self, work: Coroutine[Any, Any, _Value]) -> _Value:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_MOST_FILES, _MOST_OFFERED = 20_000, 5
_UNLISTED = frozenset((".git", "node_modules", ".venv", "__pycache__", "target", "dist"))


class FileScreenData(SourceData):
    """A `ScreenData` of a folder of logs."""

    def __init__(self, store: FileStore, prices: Prices, default: Callable[[], Setup]) -> None:
        super().__init__(lambda: FileInbox(store, prices, can_continue=True))
        self._store = store
        self._prices = prices
        self._own = HostedConversations(store, default)
        self._files: tuple[str, list[str]] = ("", [])

    def close(self) -> None:
        super().close()
        self._own.close()

    @property
    def hosted(self) -> int:
        return self._own.running

    def send(self, session: str, command: Command) -> None:
        if self._store.is_live(session):
            super().send(session, command)
        else:
            self._own.carry_out(session, command)

    def start(self, setup: Setup, prompt: str) -> str:
        return self._own.create(setup, prompt)

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> LogTail:
        return LogTail(self._store, session, lambda _log_id: None, wake, cursor)

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        return read_all(self._store, session, first)

    def find(self, text: str) -> Sequence[str]:
        return [one.session_id for one in self._store.find(Query(text=text, limit=LISTED))]

    def fleets(self) -> LocalFleets:
        return LocalFleets(os.environ.get(STORE_VARIABLE, ""))

    def agents(self) -> Sequence[str]:
        from harness.interfaces.installed_agents import everything

        return [one.agent.name for one in everything() if one.is_available]

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        if self._files[0] != folder:
            self._files = folder, list(_walk(folder))
        wanted = beginning.lower()
        found = [path for path in self._files[1] if wanted in path.lower()]
        return sorted(found, key=lambda path: (not path.lower().startswith(wanted), len(path)))[
            :_MOST_OFFERED
        ]

    def usage(self) -> str:
        ledger = Ledger()
        for metadata in self._store.find(Query()):
            with suppress(HarnessError, OSError):
                fd = open_private(self._store.path(metadata.session_id), os.O_RDONLY)
                with os.fdopen(fd, "rb", buffering=0) as file:
                    ledger.add(metadata, grep_events(file, WORDS))
        charges = ledger.charges(self._prices, lambda _at_ms: "", -1)
        rows = [(row.key, row.amount) for row in rolled_up(charges, "agent")]
        return table("agent", rows, total(charges)) if rows else "No usage was recorded."


def _walk(folder: str) -> Iterator[str]:
    """The files below a folder, in paths from there on; links are not followed."""
    left = _MOST_FILES
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _UNLISTED)
        for name in sorted(files):
            yield os.path.relpath(os.path.join(place, name), folder)
            left -= 1
            if not left:
                return
