"""What the screen needs: rows, logs as they grow, and where commands go; and what its two sources have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from harness.clients.changes.undo import UndoAnswer
from harness.clients.commands import Command
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.source import InboxSource
from harness.clients.inbox.today import Today
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.folds.inbox.row import InboxRow, RowAsk
from harness.tui.fleet_data import FleetSource

LISTED = 500
_LOOKS_EVERY_S = 1.0
_PAUSE_S = 0.15
"""Between two looks at rows that change all the time."""


class SourceData:
    """The base of both `ScreenData`. The source is opened in a thread: the first screen does not wait for it."""

    def __init__(self, open_source: Callable[[], InboxSource]) -> None:
        self._open_source = open_source
        self._source: InboxSource | None = None
        self._failure = ""
        self._rows: Sequence[InboxRow] = ()
        self._is_over = False
        self.total = 0

    def open(self, wake: Callable[[], object]) -> None:
        threading.Thread(target=self._follow, args=(wake,), name="harness-rows", daemon=True).start()

    def close(self) -> None:
        self._is_over = True
        if self._source is not None:
            self._source.close()

    def _follow(self, wake: Callable[[], object]) -> None:
        try:
            source = self._source = self._open_source()
        except HarnessError as error:
            self._failure = error.words
            wake()
            return
        version, now = 0, -1
        while not self._is_over:
            if now != version:
                version = now
                self.take_rows()
                wake()
                time.sleep(_PAUSE_S)
            now = source.wait(version, _LOOKS_EVERY_S)
        source.close()

    def take_rows(self) -> None:
        """Read the current rows."""
        if self._source is not None:
            page = self._source.page(LISTED)
            self._rows, self.total = page.rows, page.total

    def rows(self) -> Sequence[InboxRow]:
        return self._rows

    @property
    def is_loaded(self) -> bool:
        return self._source is not None or bool(self._failure)

    @property
    def today(self) -> Today:
        return self._source.today if self._source is not None else Today()

    @property
    def notice(self) -> str:
        return self._failure or (self._source.problem if self._source is not None else "")

    @property
    def hosted(self) -> int:
        return 0

    @property
    def source(self) -> InboxSource:
        """Raises UsageError."""
        if self._source is None:
            raise UsageError(self._failure or "the sessions are being read", hint="try again")
        return self._source

    def send(self, session: str, command: Command) -> None:
        self.source.send(session, command)

    def mark_seen(self, session: str) -> None:
        self.source.mark_seen(session)

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        return self.source.whole_ask(session, ask)

    def answered_by(self, session: str, ask: str) -> str:
        return self._source.answered_by(session, ask) if self._source is not None else ""


# `file_data.py` follows the files of this machine, `server_data.py` is a client of `harness serve`.


class EventTail(Protocol):
    """A log as it grows. Contract: used by one thread."""

    def poll(self) -> Sequence[Event]:
        """What has come since, at most a few thousand; empty: no more at the moment. Raises HarnessError."""
        ...

    def close(self) -> None: ...


class ScreenData(Protocol):
    """Contract: `open` first, `close` last; `wake` may be called from any thread. `rows`, `today`, `total` and
    `notice` return at once. Everything else may take its time and raises HarnessError for what cannot be done.
    """

    def open(self, wake: Callable[[], object]) -> None:
        """Start; `wake` is called when `rows` may have changed."""
        ...

    def rows(self) -> Sequence[InboxRow]:
        """Needs you (the longest wait first), running, the rest by time."""
        ...

    @property
    def total(self) -> int:
        """How many sessions there are; `rows` may give only the latest."""
        ...

    @property
    def today(self) -> Today: ...

    @property
    def notice(self) -> str:
        """Why what is shown may be old; empty: it is current. While there is one, nothing can be answered."""
        ...

    @property
    def hosted(self) -> int:
        """How many conversations run in this program, and end with it."""
        ...

    def send(self, session: str, command: Command) -> None: ...

    def start(self, setup: Setup, prompt: str) -> str:
        """A new conversation; its id."""
        ...

    def agents(self) -> Sequence[str]:
        """The names of those that can be started."""
        ...

    def sandbox(self) -> tuple[str, str]:
        """What would confine an agent: namespaces, bubblewrap or landlock; or nothing, and why nothing can."""
        ...

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> EventTail: ...

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        """The log as it is now, from there on."""
        ...

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        """The undo of its last turn that changed files, or the redo; without `expect` only what it would do."""
        ...

    def mark_seen(self, session: str) -> None:
        """A person has opened it."""
        ...

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        """An open question with all that it is about, however long."""
        ...

    def answered_by(self, session: str, ask: str) -> str:
        """The client that answered first; empty: unknown. Returns at once."""
        ...

    def find(self, text: str) -> Sequence[str]:
        """The ids of the sessions in which all of the words occur."""
        ...

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        """A few paths below the folder that continue what was typed."""
        ...

    def model_calls(self, session: str) -> Sequence[str]:
        """Lines: the calls of its model that a gateway has recorded, and what was new in each."""
        ...

    def usage(self) -> str:
        """A table: tokens and cost of each agent."""
        ...

    def fleets(self) -> FleetSource:
        """Returns at once; the caller closes it."""
        ...

    def close(self) -> None: ...
