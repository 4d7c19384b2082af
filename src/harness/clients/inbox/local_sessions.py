"""The sessions of this machine: rows and logs from the files, commands to the programs that run them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self

from harness.clients.commands import Command
from harness.clients.conversations.backend import ConversationStatus, Setup
from harness.clients.conversations.local_socket import LiveLinks
from harness.clients.conversations.log_tail import LogTail
from harness.clients.conversations.own_conversations import OwnConversations
from harness.clients.inbox.contract import LISTED, Sessions
from harness.clients.inbox.rows import InboxPage, InboxRows, RowStatus, held_status
from harness.clients.inbox.store_watch import StoreWatch
from harness.clients.inbox.today import Today, today_in
from harness.clients.server_address import ServerCalls, address_of, is_answer, own_server
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.folds.inbox.row import InboxRow, RowAsk, RowCan
from harness.log.store import Metadata, Query, read_all
from harness.log.stores.files import FileStore
from harness.usage.prices import Prices

_LOOK_EVERY_S = 1.0
_LATE_S = 0.2
_TODAY_EVERY_S = 20.0
_FIRST_COUNT_S = 0.5
_COLLECTED_S = 0.15
"""Changes within this time are read together: each costs the reading of a log."""
_ANSWER_THERE = (
    "answer it there; if that is a server, on its page, or here with --server URL and --token-file FILE"
)
NOT_OPEN = "this is not asked any more"
_EVERYTHING = RowCan(submit=True, steer=True, answer=True, cancel=True)


class _Changes:
    """A number that grows, and threads that wait for it."""

    def __init__(self) -> None:
        self._number = 1
        self._changed = threading.Condition()

    def note(self) -> None:
        with self._changed:
            self._number += 1
            self._changed.notify_all()

    def wait(self, version: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._number != version, timeout_s)
            return self._number


class LocalSessions:
    """`Sessions` of a folder of logs. Commands go to the program that runs the session: over the socket of `harness
    chat` and `harness run`, else to the server of this machine; for one at rest, to this program if it runs any.
    """

    def __init__(self, store: FileStore, prices: Prices, default: Callable[[], Setup] | None = None) -> None:
        """`default`: what a setup leaves open, in a program that runs conversations itself; None: it runs none."""
        self._store = store
        self._prices = prices
        self._changes = _Changes()
        self._links = LiveLinks(self._on_link)
        self._own = OwnConversations(store, default) if default is not None else None
        self._rows = InboxRows(store, prices, status=self._status, can_continue=self._own is not None)
        self._is_over = threading.Event()
        self._is_shown = threading.Event()
        self._reading = threading.Lock()
        """What changes while all rows are read is read after them: else it would be lost."""
        self.today = Today()
        self.problem = ""
        self._watch: StoreWatch | None = None

    def load(self) -> None:
        self._watch = StoreWatch(self._store, self._notified, pause_s=_COLLECTED_S)
        with self._reading:
            self._rows.load()
        for work in (self._look, self._count, self._catch_up):
            threading.Thread(target=work, name="harness-inbox", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def page(self, limit: int = LISTED) -> InboxPage:
        self._is_shown.set()
        return self._rows.page(limit)

    def row(self, session: str) -> InboxRow | None:
        return self._rows.rows.get(session)

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        ask_text = self._rows.whole_ask(session, ask)
        if ask_text is None:
            raise UsageError(NOT_OPEN)
        return ask_text

    def wait(self, version: int, timeout_s: float) -> int:
        return self._changes.wait(version, timeout_s)

    def send(self, session: str, command: Command) -> None:
        is_live = self._store.is_live(session)
        if is_live and self._links.reaches(session):
            self._links.send(session, command)
        elif self._own is not None and not is_live:
            self._own.carry_out(session, command)
        else:
            self._send_to_server(session, command)
        self.mark_seen(session)

    def start(self, setup: Setup, prompt: str) -> str:
        if self._own is not None:
            return self._own.create(setup, prompt)
        return ServerCalls(*own_server()).start(setup.stated(), prompt)

    @property
    def hosted(self) -> int:
        return self._own.running if self._own is not None else 0

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> LogTail:
        return LogTail(self._store, session, lambda _log_id: None, wake, cursor)

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        return read_all(self._store, session, first)

    def find(self, text: str) -> Sequence[str]:
        return [session.session_id for session in self._store.find(Query(text=text, limit=LISTED))]

    def mark_seen(self, session: str) -> None:
        if self._rows.mark_seen(session):
            self._changes.note()

    def answered_by(self, session: str, ask: str) -> str:
        """Empty: programs do not name themselves in the log."""
        del session, ask
        return ""

    def close(self) -> None:
        """Also twice: while rows were read, and after."""
        was_over = self._is_over.is_set()
        self._is_over.set()
        self._is_shown.set()
        if self._watch is not None:
            self._watch.close()
        self._links.close()
        self._rows.close()
        if self._own is not None and not was_over:
            with suppress(HarnessError):
                self._own.close()

    def _send_to_server(self, session: str, command: Command) -> None:
        """Raises HarnessError."""
        server = self._server(session)
        try:
            server.command(session, command)
        except HarnessError as error:
            if is_answer(error):
                raise
            raise self._not_reached(session, error) from error

    def _not_reached(self, session: str, error: HarnessError) -> HarnessError:
        if not self._store.is_live(session):
            return error
        return UsageError(f"the program that runs it was not reached: {error.message}", hint=_ANSWER_THERE)

    def _server(self, session: str) -> ServerCalls:
        """That of this machine. Raises HarnessError."""
        try:
            return ServerCalls(*own_server())
        except UsageError as error:
            if self._store.is_live(session):
                raise UsageError(
                    "another program runs it, which takes no commands from here", hint=_ANSWER_THERE
                ) from error
            raise UsageError(
                "its program has ended", hint=f"`harness chat --resume {session}` continues it"
            ) from error
        except HarnessError as error:
            raise self._not_reached(session, error) from error

    def _status(self, metadata: Metadata) -> RowStatus:
        log_id = metadata.session_id
        if not self._store.is_live(log_id):
            can = self._own is not None and metadata.kind == "thread"
            return RowStatus(can=RowCan(submit=can, answer=can))
        status = self._links.status(log_id)
        held_one = held_status(metadata, is_reachable=status is not None)
        if status is not None:
            return held_one._replace(can=_can(status))
        return held_one._replace(can=_EVERYTHING) if held_one.is_held and _has_server() else held_one

    def _notified(self, log_ids: set[str] | None) -> None:
        with self._reading, suppress(HarnessError):
            if log_ids is None:
                self._rows.load()
            elif not self._rows.update(log_ids):
                return
            self._changes.note()

    def _catch_up(self) -> None:
        """Update rows that were made too soon after the last one."""
        while not self._is_over.wait(_LATE_S):
            if (late := self._rows.take_late()) and self._rows.update(late):
                self._changes.note()

    def _on_link(self, log_id: str) -> None:
        if self._rows.refresh_status(log_id):
            self._changes.note()

    def _look(self) -> None:
        """Poll whether processes still live, and take commands."""
        while not self._is_over.wait(_LOOK_EVERY_S):
            changed = self._rows.refresh_open()
            if changed + self._rows.release_idle():
                self._changes.note()

    def _count(self) -> None:
        """Compute the cost of today; not before the first screen is shown."""
        version = 0
        self._is_shown.wait()
        self._is_over.wait(_FIRST_COUNT_S)
        while not self._is_over.is_set():
            version = self._changes.wait(version, _TODAY_EVERY_S)
            with suppress(HarnessError):
                self.today = today_in(self._store, self._prices)
            self._is_over.wait(_TODAY_EVERY_S)


def _can(status: ConversationStatus) -> RowCan:
    return RowCan(
        submit=status.can_submit, steer=status.can_steer, answer=status.can_answer, cancel=status.can_cancel
    )


def _has_server() -> bool:
    try:
        return bool(address_of(""))
    except UsageError:
        return False


def open_sessions(store: FileStore, prices: Prices, *, url: str = "", token: str = "") -> Sessions:
    """Those of the server at `url`, else of this machine, with their rows. Raises HarnessError."""
    sessions: Sessions = LocalSessions(store, prices)
    if url:
        from harness.clients.inbox.served_sessions import ServedSessions

        sessions = ServedSessions(url, token)
    sessions.load()
    return sessions
