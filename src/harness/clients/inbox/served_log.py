"""The log of a session of a server, as a stream of events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote

from harness.clients.server_address import ServerCalls, opened
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.log.codec import decode_lines

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
                with stream_of(self._calls, self._session, self._cursor, is_followed=True) as answer:
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


def stream_of(calls: ServerCalls, session: str, first: int, *, is_followed: bool) -> Any:
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
