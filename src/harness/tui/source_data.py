"""What the screen needs: rows, logs as they grow, and where commands go; and what its two sources have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from harness.clients.changes.undo import UndoAnswer
from harness.clients.inbox.contract import LISTED, CommandedSessions, SessionLogs, Sessions
from harness.clients.inbox.today import Today
from harness.errors import HarnessError
from harness.folds.inbox.row import InboxRow
from harness.tui.fleet_data import FleetSource

_LOOKS_EVERY_S = 1.0
_PAUSE_S = 0.15
"""Between two looks at rows that change all the time."""


class ScreenSessions(SessionLogs, CommandedSessions, Protocol):
    """All of `Sessions` but the rows, which a screen reads in a thread."""


class SourceData:
    """The base of both `ScreenData`. Rows are read in a thread: the first screen does not wait for them."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.is_loaded = False
        self._failure = ""
        self._rows: Sequence[InboxRow] = ()
        self._is_over = False
        self.total = 0

    def open(self, wake: Callable[[], object]) -> None:
        threading.Thread(target=self._follow, args=(wake,), name="harness-rows", daemon=True).start()

    def close(self) -> None:
        self._is_over = True
        self.sessions.close()

    def _follow(self, wake: Callable[[], object]) -> None:
        try:
            self.sessions.load()
        except HarnessError as error:
            self._failure = error.words
            wake()
            return
        finally:
            self.is_loaded = True
        version, now = 0, -1
        while not self._is_over:
            if now != version:
                version = now
                self.take_rows()
                wake()
                time.sleep(_PAUSE_S)
            now = self.sessions.wait(version, _LOOKS_EVERY_S)
        self.sessions.close()  # what was opened while it was closed

    def take_rows(self) -> None:
        """Read the current rows."""
        page = self.sessions.page(LISTED)
        self._rows, self.total = page.rows, page.total

    def rows(self) -> Sequence[InboxRow]:
        return self._rows

    @property
    def today(self) -> Today:
        return self.sessions.today

    @property
    def notice(self) -> str:
        return self._failure or self.sessions.problem


# `file_data.py` is of this machine, `server_data.py` of `harness serve`.


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
    def sessions(self) -> ScreenSessions:
        """Where logs are read, and commands go."""
        ...

    def agents(self) -> Sequence[str]:
        """The names of those that can be started."""
        ...

    def sandbox(self) -> tuple[str, str]:
        """What would confine an agent: namespaces, bubblewrap or landlock; or nothing, and why nothing can."""
        ...

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        """The undo of its last turn that changed files, or the redo; without `expect` only what it would do."""
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
