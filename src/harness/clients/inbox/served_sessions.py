"""The sessions of a server: rows over `/ws/inbox`, logs as streams of events; a lost connection is made again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self
from urllib.parse import quote

import msgspec
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from harness.clients.commands import Command
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.contract import LISTED
from harness.clients.inbox.rows import InboxPage, RowCounts, in_order
from harness.clients.inbox.served_log import StreamTail, stream_of
from harness.clients.inbox.today import Today
from harness.clients.server_address import REFUSED_STATUS, ServerCalls
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.folds.inbox.row import InboxRow, RowAsk
from harness.log.codec import decode_lines

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_OPENS_WITHIN_S = 10.0
_ANSWERS = 200
"""How many of the latest are remembered."""


class _Answered(msgspec.Struct, rename="camel"):
    session: str
    relay_id: str
    by: str = ""


class _Received(msgspec.Struct, rename="camel"):
    type: str
    rows: list[InboxRow] = []
    total: int = 0
    changed: list[InboxRow] = []
    removed: list[str] = []
    counts: RowCounts = RowCounts()
    today: Today | None = None
    answered: list[_Answered] = []


_decode = msgspec.json.Decoder(_Received).decode


class ServedSessions:
    """`Sessions` of a server."""

    def __init__(self, url: str, token: str) -> None:
        self._calls = ServerCalls(url, token)
        self._rows: dict[str, InboxRow] = {}
        self._counts = RowCounts()
        self._total = 0
        self._answered: dict[tuple[str, str], str] = {}
        self.today = Today()
        self.problem = ""
        self._number = 0
        self._changed = threading.Condition()
        self._socket: ClientConnection | None = None
        self._failure: HarnessError | None = None
        self._is_over = threading.Event()

    def load(self) -> None:
        threading.Thread(target=self._live, name="harness-inbox", daemon=True).start()
        self._wait_until_open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def page(self, limit: int = LISTED) -> InboxPage:
        with self._changed:
            rows = in_order(self._rows.values())
            return InboxPage(rows=tuple(rows[:limit]), total=max(self._total, len(rows)), counts=self._counts)

    def row(self, session: str) -> InboxRow | None:
        return self._rows.get(session)

    def whole_ask(self, session: str, ask: str) -> RowAsk:
        data = self._calls.get(f"/api/sessions/{quote(session, safe='')}/asks/{quote(ask, safe='')}")
        return msgspec.convert(data, RowAsk)

    def wait(self, version: int, timeout_s: float) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._number != version, timeout_s)
            return self._number

    def send(self, session: str, command: Command) -> None:
        self._calls.command(session, command)
        self.mark_seen(session)

    def start(self, setup: Setup, prompt: str) -> str:
        return self._calls.start(setup.stated(), prompt)

    @property
    def hosted(self) -> int:
        return 0

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> StreamTail:
        return StreamTail(self._calls, session, wake, cursor)

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        with stream_of(self._calls, session, first, is_followed=False) as answer:
            yield from decode_lines(b"".join(line[6:] for line in answer if line.startswith(b"data: {")))

    def find(self, text: str) -> Sequence[str]:
        answer = self._calls.get(f"/api/sessions?limit={LISTED}&query={quote(text)}")
        return [session["id"] for session in answer["sessions"]]

    def mark_seen(self, session: str) -> None:
        socket = self._socket
        if socket is not None:
            with suppress(WebSocketException, OSError):
                socket.send(msgspec.json.encode({"type": "seen", "session": session}).decode())

    def answered_by(self, session: str, ask: str) -> str:
        return self._answered.get((session, ask), "")

    def close(self) -> None:
        self._is_over.set()
        socket = self._socket
        if socket is not None:
            with suppress(WebSocketException, OSError):
                socket.close()

    def _wait_until_open(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._number or self._failure, _OPENS_WITHIN_S)
        if self._failure is not None:
            raise self._failure
        if not self._number:
            self.close()
            raise HarnessError(f"no server answers at {self._calls.url}", hint="`harness serve` starts one")

    def _live(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_over.is_set():
            began_s = time.monotonic()
            try:
                self._follow()
            except InvalidStatus as error:
                if error.response.status_code in REFUSED_STATUS:
                    self._fail(UsageError("the server refused the connection", hint="check the token"))
                    return
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError):
                pass
            self._note(problem="not connected: what you see may be old")
            pause_s = _FIRST_PAUSE_S if time.monotonic() - began_s > _LONGEST_PAUSE_S else pause_s
            self._is_over.wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 # only spreads when it tries again
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    def _follow(self) -> None:
        place = self._calls.url.replace("http", "ws", 1) + "/ws/inbox?client=terminal"
        headers = {"Authorization": f"Bearer {self._calls.token}"}
        with connect(place, additional_headers=headers, compression=None, max_size=None) as socket:
            self._socket = socket
            try:
                for text in socket:
                    self._take(text)
            finally:
                self._socket = None

    def _take(self, text: str | bytes) -> None:
        try:
            message = _decode(text)
        except msgspec.DecodeError:
            return  # of a newer server
        with self._changed:
            if message.type == "inbox":
                self._rows = {row.id: row for row in message.rows}
                self._total = message.total
            elif message.type == "rows":
                self._rows |= {row.id: row for row in message.changed}
                for removed in message.removed:
                    self._rows.pop(removed, None)
                new = {(answer.session, answer.relay_id): answer.by for answer in message.answered}
                self._answered = dict(list((self._answered | new).items())[-_ANSWERS:])
            else:
                return
            self._counts = message.counts
            self.today = message.today or self.today
        self._note(problem="")

    def _note(self, *, problem: str) -> None:
        with self._changed:
            if problem and not self._number:
                return  # never connected: the constructor raises
            self.problem = problem
            self._number += 1
            self._changed.notify_all()

    def _fail(self, error: HarnessError) -> None:
        with self._changed:
            self._failure = error
            self.problem = error.message
            self._changed.notify_all()
