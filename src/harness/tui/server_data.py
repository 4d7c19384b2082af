"""The data of a server: rows over its inbox socket, logs as streams of events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

import msgspec

from harness.clients.changes.undo import UndoAnswer
from harness.clients.conversations.backend import Setup
from harness.clients.inbox.served_inbox import ServedInbox
from harness.clients.server_address import ServerCalls, opened
from harness.clients.sessions.model_calls import CallTable, sheet
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.formatting.escapes import revealed
from harness.log.codec import decode_lines
from harness.tui.fleet_data import RemoteFleets
from harness.tui.source_data import LISTED, SourceData
from harness.usage.ledger import Amount
from harness.usage.table import table

_SILENT_S = 60.0
"""A stream sends something every 15 s."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.3, 5.0
_MOST_WAITING = 20_000


class StreamTail:
    """The log of a session of the server, as it grows; a lost connection is made again."""

    def __init__(self, calls: ServerCalls, session: str, wake: Callable[[], object], cursor: int) -> None:
        self._calls = calls
        self._session = session
        self._wake = wake
        self._cursor = cursor
        self._events: list[Event] = []
        self._failure: HarnessError | None = None
        self._lock = threading.Condition()
        self._is_over = False
        threading.Thread(target=self._work, name="harness-log", daemon=True).start()

    def poll(self) -> Sequence[Event]:
        with self._lock:
            if self._failure is not None and not self._events:
                raise self._failure
            events, self._events = self._events, []
            self._lock.notify_all()
            return events

    def close(self) -> None:
        with self._lock:
            self._is_over = True
            self._lock.notify_all()

    def _work(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_over:
            try:
                with _stream(self._calls, self._session, self._cursor, is_followed=True) as answer:
                    pause_s = _FIRST_PAUSE_S
                    self._follow(answer)
            except UsageError as error:
                self._fail(error)
                return
            except (HarnessError, OSError, ValueError):
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _follow(self, answer: Any) -> None:
        lines: list[bytes] = []
        for line in answer:
            if self._is_over:
                return
            if line.startswith(b"data: {"):
                lines.append(line[6:])
            elif line == b"\n" and lines:
                self._take(b"".join(lines))
                lines = []

    def _take(self, data: bytes) -> None:
        events = [event for event in decode_lines(data) if event.seq >= self._cursor]
        if not events:
            return
        self._cursor = events[-1].seq + 1
        with self._lock:
            self._lock.wait_for(lambda: len(self._events) < _MOST_WAITING or self._is_over)
            self._events += events
        self._wake()

    def _fail(self, error: HarnessError) -> None:
        with self._lock:
            self._failure = error
        self._wake()


class ServerScreenData(SourceData):
    """A `ScreenData` of a server."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(lambda: ServedInbox(url, token))
        self._calls = ServerCalls(url, token)

    def start(self, setup: Setup, prompt: str) -> str:
        setup_fields = {name: value for name, value in msgspec.to_builtins(setup).items() if value}
        return self._calls.start(**setup_fields, prompt=prompt)

    def tail(self, session: str, wake: Callable[[], object], cursor: int = 0) -> StreamTail:
        return StreamTail(self._calls, session, wake, cursor)

    def read(self, session: str, first: int = 0) -> Iterable[Event]:
        with _stream(self._calls, session, first, is_followed=False) as answer:
            yield from decode_lines(b"".join(line[6:] for line in answer if line.startswith(b"data: {")))

    def undo(self, session: str, expect: str | None = None, *, is_redo: bool = False) -> UndoAnswer:
        verb = "redo" if is_redo else "undo"
        path = f"/api/sessions/{quote(session, safe='')}/{verb}"
        return msgspec.convert(
            self._calls.post(path, {} if expect is None else {"expect": expect}), UndoAnswer
        )

    def find(self, text: str) -> Sequence[str]:
        answer = self._calls.get(f"/api/sessions?limit={LISTED}&query={quote(text)}")
        return [session["id"] for session in answer["sessions"]]

    def fleets(self) -> RemoteFleets:
        return RemoteFleets(self._calls)

    def agents(self) -> Sequence[str]:
        return [agent["name"] for agent in self._calls.get("/api/agents")["agents"] if agent["usable"]]

    def sandbox(self) -> tuple[str, str]:
        sandboxes = [
            agent["sandbox"] for agent in self._calls.get("/api/agents")["agents"] if agent.get("sandbox")
        ]
        if not sandboxes:
            return "", "this server does not say what it can do"
        best = next((agent for agent in sandboxes if agent["by"]), sandboxes[0])
        return best["by"], best["refusal"]

    def files(self, folder: str, beginning: str) -> Sequence[str]:
        """None: they are on the server's machine."""
        del folder, beginning
        return ()

    def model_calls(self, session: str) -> Sequence[str]:
        path = f"/api/sessions/{quote(session, safe='')}/requests"
        table = msgspec.convert(self._calls.get(path), CallTable)
        lines_of = lambda number: self._calls.get(f"{path}/{number}?new=true")["lines"]  # noqa: E731
        return [revealed(line) for line in sheet(table, lines_of)]

    def usage(self) -> str:
        bill = self._calls.get("/api/usage?by=agent")
        rows = [(str(row["agent"] or ""), _amount(row)) for row in bill["rows"]]
        return table("agent", rows, _amount(bill["total"])) if rows else "No usage was recorded."


def _amount(data: dict[str, Any]) -> Amount:
    return msgspec.convert({name: data.get(name) for name in Amount.__struct_fields__}, Amount)


def _stream(calls: ServerCalls, session: str, first: int, *, is_followed: bool) -> Any:
    """The events of a log. Raises UsageError for a refusal, HarnessError when no server answers."""
    follow = "" if is_followed else "&follow=false"
    path = f"/api/sessions/{quote(session, safe='')}/events?view=log&from={first}{follow}"
    headers = {"Authorization": f"Bearer {calls.token}"}
    try:
        return opened(calls.url, path, headers, None, _SILENT_S)
    except HTTPError as error:
        error.close()
        raise UsageError(f"the server refused the log ({error.code})") from error
    except (URLError, OSError) as error:
        raise HarnessError(f"no server answers at {calls.url}") from error
