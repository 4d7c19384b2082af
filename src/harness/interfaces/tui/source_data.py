"""What the data of files and of a server have in common: rows, commands, and what was opened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from harness.errors import HarnessError, UsageError
from harness.interfaces.commands import Command
from harness.interfaces.inbox.source import InboxSource
from harness.interfaces.inbox.today import Today
from harness.views.inbox.row import InboxRow

LISTED = 500
_LOOKS_EVERY_S = 1.0
_PAUSE_S = 0.15
"""Between two looks at rows that change all the time."""


class SourceData:
    """Half of a `ScreenData`. The source is opened in a thread: the first screen does not wait for it."""

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
        seen, now = 0, -1
        while not self._is_over:
            if now != seen:
                seen = now
                self.take_rows()
                wake()
                time.sleep(_PAUSE_S)
            now = source.wait(seen, _LOOKS_EVERY_S)
        source.close()

    def take_rows(self) -> None:
        """Those of now."""
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

    def answered_by(self, session: str, ask: str) -> str:
        return self._source.answered_by(session, ask) if self._source is not None else ""
