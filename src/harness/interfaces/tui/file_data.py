"""The data of this machine: rows and logs from the store's files, commands to the programs that run the sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from harness.config.prices import Prices
from harness.errors import HarnessError
from harness.events import Event
from harness.fleet.fleet import STORE_VARIABLE
from harness.interfaces.commands import Command
from harness.interfaces.inbox.source import FileInbox
from harness.interfaces.server.backend import Setup
from harness.interfaces.server.log_tail import LogTail
from harness.interfaces.tui.fleet_data import LocalFleets
from harness.interfaces.tui.hosted import HostedConversations
from harness.interfaces.tui.source_data import LISTED, SourceData
from harness.ledger import WORDS, Ledger, rolled_up, total
from harness.log.private_files import open_private
from harness.log.query import grep_events
from harness.log.store import Query, read_all
from harness.log.stores.files import FileStore
from harness.views.formatting.amounts import table

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
        from harness.interfaces.cli.inventory import everything

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
