"""Follows a stored session while its agent writes it: the events that are there, then those that are added.

Whenever the store changes, the session is read again, and the new events of its log are passed on. That works for every
store, also for those that rewrite a document or have the session in a database. A log that is read again begins as it
began before; where a store has rewritten events that were passed on, the earlier version stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.events import Event
from harness.histories.stored_log import StoredLog
from harness.protocols.reading.database import mark_of

POLL_S = 0.2
_SHARE = 3
"""Reading takes at most one part in so many of the time."""
QUIET_S = 60.0
"""Where an agent does not show which sessions it has open, one that has not changed for so long counts as closed."""


class StoredFollower:
    """Follows one session until its agent has closed it, or has deleted it."""

    def __init__(
        self,
        history: AgentHistory,
        session: StoredSession,
        home: Home,
        *,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_deleted = False
        """The agent has deleted it meanwhile."""
        self._history = history
        self._session = session
        self._home = home
        self._wait = wait
        self._clock = clock
        self._passed = 0
        """How many events were passed on."""

    def batches(self) -> Iterator[Sequence[Event]]:
        """May be called once. Its last events say how the last run ended, as far as the store says it."""
        mark, changed_s = "", self._clock()
        while True:
            now = mark_of(self._session.path)
            if not now:
                self.is_deleted = True
                break
            is_open = self._is_open()  # asked before reading: what came in between is then read below
            started_s = self._clock()
            if now != mark:
                mark, changed_s = now, started_s
                yield from self._new(is_over=False)
            elif not is_open and started_s - changed_s >= self._quiet_s():
                break
            self._wait(max(POLL_S, (self._clock() - started_s) * _SHARE))
        if not self.is_deleted:
            yield from self._new(is_over=True)

    def _is_open(self) -> bool:
        if self._history.live is None:
            return False
        return self._session.session_id in self._history.live(self._home)

    def _quiet_s(self) -> float:
        return QUIET_S if self._history.live is None else POLL_S

    def _new(self, *, is_over: bool) -> Iterator[Sequence[Event]]:
        log = StoredLog(self._history, self._session)
        count = 0
        for batch in log.batches(is_over=is_over):
            new = batch[max(0, self._passed - count) :]
            count += len(batch)
            if new:
                self._passed = count
                yield new
