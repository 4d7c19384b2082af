"""The sessions that agents have stored themselves, for the server: found and read by one thread of its own.

In the server such a session is called `AGENT:ID`, which no log of Harness can be called. It is read where it is, and
never changed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from harness.clients.inbox.listing import known_prices
from harness.clients.inbox.projects import Projects
from harness.clients.sessions.filters import SessionChoice
from harness.clients.sessions.histories import (
    HistorySessions,
    RecordedSessions,
    as_metadata,
    history_of,
    live_in,
    live_outcome,
)
from harness.clients.sessions.keep import copy_expiring
from harness.contracts.history import Activity, current_home
from harness.errors import HarnessError, UnknownSession
from harness.folds.inbox.row import InboxRow, InboxState
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.registry import load
from harness.histories.stored_follow import QUIET_S
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
from harness.usage.ledger import Amount

_NAME = re.compile(r"(?P<agent>[A-Za-z0-9_-]{1,64}):(?P<id>[A-Za-z0-9_-]{1,128})")
HISTORY = "history"
"""The setting of a session that an agent has stored itself: the agent's display name."""
_LIVE_KNOWN_S = 0.5
_COPIED_EVERY_S = 3600.0
_COPIED_SOON_S = 1.0
_READ_AT_ONCE = 20
_MOST_ROWS = 5_000
_LONGEST_TITLE = 80
_STATES: dict[str, InboxState] = {
    "running": "running",
    "waiting": "asks",
    "completed": "succeeded",
    "interrupted": "interrupted",
    "failed": "failed",
}
"""Every other outcome: `idle`."""

_Value = TypeVar("_Value")
"""Agents and their own ids of sessions."""


def is_history_name(log_id: str) -> bool:
    """Whether this can only be a session that an agent has stored itself."""
    return ":" in log_id


def name_of(session: CataloguedSession) -> str:
    return f"{session.agent}:{session.session_id}"


class Histories:
    """Contract: thread-safe. `metadata` and `is_open` answer at once for a session that was asked for before."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "harness-histories")
        self._histories: HistorySessions | None = None
        """Made and used by that thread alone, as its database must be."""
        self._projects = Projects()
        self._known_sessions: dict[str, CataloguedSession] = {}
        """Sessions that are shown, by name."""
        self._live: tuple[float, dict[tuple[str, str], Activity]] = float("-inf"), {}
        self._live_lock = threading.Lock()
        self._rows: tuple[object, dict[str, InboxRow]] = None, {}
        """What they were made of, and the rows."""

    def close(self) -> None:
        """Stop the thread: nothing can be read after that."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def ask(self, question: Callable[[HistorySessions], _Value]) -> _Value:
        """Run this in the thread, and return its result. The thread reads only a few sessions at once."""
        return self._thread.submit(lambda: question(self._sessions())).result()

    def session(self, name: str) -> CataloguedSession:
        """Raises UnknownSession."""
        known_session = self._known_sessions.get(name)
        if known_session is None:
            known_session = self.ask(lambda sessions: _named(sessions, name))
            self._known_sessions[name] = known_session
        return known_session

    def session_now(self, name: str) -> CataloguedSession:
        """As it is at this moment. Raises UnknownSession."""

        def look(sessions: HistorySessions) -> CataloguedSession:
            sessions.refresh()
            return _named(sessions, name)

        self._known_sessions[name] = self.ask(look)
        return self._known_sessions[name]

    def metadata(self, name: str) -> Metadata:
        """Raises UnknownSession."""
        session = self.session(name)
        amounts = self.ask(lambda sessions: sessions.amounts([session], known_prices()))
        return _described(session, self._activity(session), amounts.get(session.session_id))

    def is_open(self, name: str) -> bool:
        """Whether its agent has it open: as the agent reports, or else when the session has changed a moment ago."""
        session = self.session(name)
        if history_of(session).live is not None:
            return self._activity(session) is not None
        return time.time() - session.changed_ms / 1000 < QUIET_S

    def live(self) -> dict[tuple[str, str], Activity]:
        with self._live_lock:
            known_s, live = self._live
            if time.monotonic() - known_s > _LIVE_KNOWN_S:
                live = live_in(current_home())
                self._live = time.monotonic(), live
            return live

    def listed(self, choice: SessionChoice, ours: RecordedSessions, limit: int) -> tuple[list[Metadata], int]:
        """The last changed first, and how many there may be in all."""
        live = self.live()
        sessions_found, rest = self.ask(
            lambda sessions: sessions.matching(choice, ours, live, limit, with_mixed=True)
        )
        self._known_sessions |= {
            name_of(session): session
            for session in sessions_found
            if name_of(session) in self._known_sessions
        }
        amounts = self._amounts(sessions_found, ours)
        sessions_shown = [
            _described(
                session, live.get((session.agent, session.session_id)), amounts.get(session.session_id)
            )
            for session in sessions_found
        ]
        return sessions_shown, len(sessions_shown) + rest

    def refresh(self) -> bool:
        """Look for sessions, and read some that are new or have changed, the newest first; whether there are more."""

        def work(sessions: HistorySessions) -> bool:
            sessions.refresh()
            self._live = float("-inf"), {}
            unread = sessions.sessions(SessionFilter(only_unread=True), _READ_AT_ONCE + 1)
            sessions.read(unread[:_READ_AT_ONCE])
            for name in list(self._known_sessions):
                self._known_sessions[name] = _named(sessions, name)
            return len(unread) > _READ_AT_ONCE

        return self.ask(work)

    def read_for(self, longest_s: float) -> int:
        """Look for sessions, and read those that are new or have changed, for so long; how many are left."""
        deadline_s = time.monotonic() + longest_s
        while self.refresh():
            if time.monotonic() > deadline_s:
                return self.ask(lambda sessions: sessions.count(SessionFilter(only_unread=True)))
        return 0

    def rows(self, ours: RecordedSessions) -> dict[str, InboxRow]:
        """The sessions that were read and are none of `ours`, by name, without those of sub-agents."""
        live = self.live()
        state = self.ask(lambda sessions: sessions.fingerprint()), live, ours
        if state == self._rows[0]:
            return self._rows[1]
        session_filter = SessionFilter(with_children=False, with_deleted=False)
        sessions_found = self.ask(lambda sessions: sessions.sessions(session_filter))
        unread = (
            session
            for session in sessions_found
            if session.runs and (session not in ours or ours.is_exceeded(session))
        )
        theirs = list(islice(unread, _MOST_ROWS))
        amounts = self._amounts(theirs, ours)
        rows = {
            name_of(session): self._row(
                session, live.get((session.agent, session.session_id)), amounts.get(session.session_id)
            )
            for session in theirs
        }
        self._rows = state, rows
        return rows

    def _amounts(self, sessions_found: list[CataloguedSession], ours: RecordedSessions) -> dict[str, Amount]:
        """Not of those that are partly ours: rows of our own say what a part of it cost."""
        alone = [session for session in sessions_found if session not in ours]
        return self.ask(lambda sessions: sessions.amounts(alone, known_prices()))

    def _sessions(self) -> HistorySessions:
        if self._histories is None:
            self._histories = HistorySessions()
        return self._histories

    def _activity(self, session: CataloguedSession) -> Activity | None:
        return self.live().get((session.agent, session.session_id))

    def _row(self, session: CataloguedSession, activity: Activity | None, amount: Amount | None) -> InboxRow:
        outcome = session.outcome if activity is None else live_outcome(session, activity)
        lines = (line.strip() for line in (session.title or session.prompt).split("\n"))
        title = history_of(session).title
        return InboxRow(
            id=name_of(session),
            title=next(filter(None, lines), "")[:_LONGEST_TITLE],
            agent=title,
            agent_name=session.agent,
            model=session.model,
            cwd=session.cwd,
            project=self._projects.of(session.cwd).project,
            state=_STATES.get(outcome, "idle"),
            state_since_ms=session.ended_ms or session.changed_ms,
            is_live=activity is not None,
            cost_usd=None if amount is None else amount.cost_usd,
            is_cost_complete=amount is not None and amount.is_cost_complete,
            started_ms=session.started_ms or session.changed_ms,
            updated_ms=session.ended_ms or session.changed_ms,
            history=title,
        )


class HistoryKeeper:
    """Copies into the store what agents are about to delete: now, and every hour, in a thread of its own."""

    def __init__(self, store: FileStore, report: Callable[[str], object]) -> None:
        self._store = store
        self._report = report
        self._is_over = threading.Event()
        threading.Thread(target=self._work, name="harness-keep", daemon=True).start()

    def stop(self) -> None:
        self._is_over.set()

    def _work(self) -> None:
        """A few at a time, so that what is copied is there soon."""
        while not self._is_over.is_set():
            copied, count = 0, 0
            try:
                copied, count = copy_expiring(HistorySessions(), self._store, self._report)
            except (HarnessError, OSError) as error:
                self._report(f"sessions that will be deleted cannot be copied: {error}")
            if copied:
                self._report(f"copied {copied} of {count} sessions that their agents will delete")
            self._is_over.wait(_COPIED_SOON_S if copied else _COPIED_EVERY_S)


def _described(session: CataloguedSession, activity: Activity | None, amount: Amount | None) -> Metadata:
    """As a run that can only be watched."""
    metadata = as_metadata(session, activity)
    metadata.total_cost_usd = None if amount is None else amount.cost_usd
    metadata.session_id, metadata.kind = name_of(session), "run"
    metadata.settings = {HISTORY: metadata.agent}
    return metadata


def _named(sessions: HistorySessions, name: str) -> CataloguedSession:
    """Raises UnknownSession."""
    words = _NAME.fullmatch(name)
    if words is None or load(words["agent"]) is None:
        raise _unknown(name)
    matches = sessions.exactly(words["agent"], words["id"])
    if matches is None:
        raise _unknown(name)
    return matches


def _unknown(name: str) -> UnknownSession:
    return UnknownSession(
        f"unknown session: {name[:200]!r}", hint="`harness sessions list` shows what there is"
    )
