"""The client of a sandbox runner: plain HTTP, server-sent events that can be resumed, and commands in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from harness.errors import HarnessError, UsageError
from harness.log.ids import new_run_id

_ANSWER_S = 30.0
_SILENCE_S = 45.0
"""The runner gives a sign of life every 15 seconds."""

BROKEN = (OSError, HTTPException)
"""What a connection that is cut off raises."""
_PASSING = (429, 502, 503, 504)
"""Sent by a busy runner, or by a proxy whose runner is away: the request may be repeated."""


_HINTS = {
    401: "is this its token? Give --token-file, or set HARNESS_RUNNER_TOKEN",
    404: "it may be another runner than it was, or have been started again",
    421: "it is reached under another name or port than it knows: start it with --allow-remote HOST:PORT",
}


class Unreachable(ConnectionError):
    """Nothing was sent: there was no connection."""


class Started(NamedTuple):
    run_id: str
    is_steerable: bool


class ServerEvent(NamedTuple):
    """One server-sent event."""

    id: int
    name: str
    data: dict[str, Any]


class RunnerRefused(HarnessError):
    """The runner says no. `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, hint=_HINTS.get(status, "is this the runner's address?"))
        self.status = status


class RunnerClient:
    """Contract: every call has a connection of its own, so that any thread may call."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"not the address of a runner: {url!r}", hint="write http://host:port")
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._address = (parts.hostname, parts.port)
        self._headers = {"Authorization": f"Bearer {token}"}

    def start(self, run_fields: dict[str, Any]) -> Started:
        """A run there: of the same key the same one. Raises RunnerRefused, Unreachable and the rest of `BROKEN`."""
        answer = self._post("/runs", run_fields)
        if "runId" not in answer:
            raise RunnerRefused("what answers there is no runner", 200)
        return Started(str(answer["runId"]), bool(answer.get("steerable")))

    def send(self, run_id: str, action: str, body: dict[str, Any]) -> bool:
        """Cancel, steer or reply; whether it was taken. Raises `BROKEN`."""
        try:
            self._post(f"/runs/{quote(run_id, safe='')}/{action}", body)
        except RunnerRefused:
            return False
        return True

    def events(self, run_id: str, after: int) -> Iterator[ServerEvent]:
        """What came after the event of that id, until the run has ended. Raises RunnerRefused, and `BROKEN`."""
        connection = self._connection(*self._address, timeout=_SILENCE_S)
        try:
            headers = {**self._headers, **({"Last-Event-ID": str(after)} if after else {})}
            connection.request("GET", f"/runs/{quote(run_id, safe='')}/events", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(answer)
            yield from _read(answer)
        finally:
            connection.close()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = self._connection(*self._address, timeout=_ANSWER_S)
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(error.strerror or str(error)) from error
        try:
            headers = {**self._headers, "Content-Type": "application/json"}
            connection.request("POST", path, body=msgspec.json.encode(body), headers=headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise _refusal(answer)
            text = answer.read()
        finally:
            connection.close()
        try:
            reply: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise HTTPException(f"the answer is no JSON: {error}") from error
        return reply


def _read(answer: HTTPResponse) -> Iterator[ServerEvent]:
    """Whole events only: one whose end was not received is as good as never sent."""
    fields: dict[str, str] = {}
    data: list[bytes] = []
    while line := answer.readline():
        if line in (b"\n", b"\r\n"):
            if data and fields.get("id", "").isdecimal():
                yield ServerEvent(
                    int(fields["id"]), fields.get("event", "message"), msgspec.json.decode(b"\n".join(data))
                )
            fields, data = {}, []
            continue
        name, _, value = line.rstrip(b"\r\n").partition(b": ")
        if name == b"data":
            data.append(value)
        else:
            fields[name.decode("ascii", "replace")] = value.decode("ascii", "replace")


def _refusal(answer: HTTPResponse) -> Exception:
    message = _message(answer)
    return ConnectionError(message) if answer.status in _PASSING else RunnerRefused(message, answer.status)


def _message(answer: HTTPResponse) -> str:
    try:
        answered = msgspec.json.decode(answer.read(65536))
        return f"the runner refuses ({answer.status}): {answered['error']['message']}"
    except (msgspec.DecodeError, KeyError, TypeError, *BROKEN):
        return f"the runner refuses ({answer.status})"


_TIMEOUT_S = 60.0
"""How long one thing is tried."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0


class PendingCommand(NamedTuple):
    action: str
    body: dict[str, Any]


class CommandSender:
    """Sends commands to a run one after the other, each until the runner has answered.

    Contract: `put` may be called from any thread, and does not wait. What is sent again has the same key, by which
    the runner knows it.
    """

    def __init__(self, client: RunnerClient, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._changed = threading.Condition()
        self._waiting: deque[PendingCommand] = deque()
        self._refused: list[PendingCommand] = []
        self._is_busy = False
        self._is_closed = False

    def put(self, action: str, **body: Any) -> None:
        key = new_run_id(time.time_ns() // 1_000_000)
        with self._changed:
            self._waiting.append(PendingCommand(action, {**body, "key": key}))
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._send_all, name=f"send-{self._run_id}", daemon=True).start()

    def drain(self, within_s: float) -> list[PendingCommand]:
        """Wait until all commands were sent. Returns those that the run did not accept."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy, within_s)
            refused, self._refused = [*self._refused, *self._waiting], []
            self._waiting.clear()
            return refused

    def close(self) -> None:
        """The run has ended here: nothing is tried again but to stop it there."""
        self._is_closed = True

    def _send_all(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
                command = self._waiting.popleft()
            if not self._send(command):
                with self._changed:
                    self._refused.append(command)

    def _send(self, command: PendingCommand) -> bool:
        """Whether it was taken."""
        until_s, pause_s = time.monotonic() + _TIMEOUT_S, _FIRST_PAUSE_S
        while True:
            try:
                return self._client.send(self._run_id, command.action, command.body)
            except BROKEN:
                is_over = self._is_closed and command.action != "cancel"
                if is_over or time.monotonic() > until_s:
                    return False
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
