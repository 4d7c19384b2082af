"""A local HTTP server that an agent program runs, behind the interface of `Child`: lines in, lines out.

    driver ── {"id":1,"method":"POST","path":"/session","body":{…}} ──▶ HttpChild ── HTTP ──▶ server on 127.0.0.1
           ◀─ {"id":1,"status":200,"body":…} ───────────────────────           ◀── one stream of events, and answers
           ◀─ {"event":"session.idle","data":{…}} ──────────────────

The server prints its address on stdout. It gets a random password in its environment, so that programs of other
users cannot use it (commands that the agent runs have that environment, too). Requests wait until the stream of
events is open, so no event is missed. When the stream breaks off it is opened again, and the server's first event
(`server.connected`) shows that: what was missed has to be requested. A request that cannot be carried out is
answered with status 0 and an `error`; the event `transport.lost` says that no further one can be. Everything that
the server itself writes is stderr.

The sockets are polled together with the pipes of the process: there is no thread.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import select
import socket
import time
from base64 import b64encode
from collections import deque
from math import inf
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from harness.process.child import DEFAULT_TIMEOUTS, Child, ChildTimeouts, OutputChunk
from harness.process.invocation import Invocation

# HTTP and server-sent events as pure parsers: bytes in as they arrive, content and events out.
#
# Only what a server on this machine answers to a request with `Connection: close` is read; `http_child.py` has the
# sockets.


MOST_BYTES = 64 * 1024 * 1024
"""Of an answer or of one event."""
LONGEST_HEAD_BYTES = 64 * 1024
_NO_CONTENT = (204, 304)
_HEARTBEAT = "server.heartbeat"
"""Not passed on: it would count as a sign that the agent works."""

_encode = msgspec.json.Encoder().encode


class _Typed(msgspec.Struct, frozen=True):
    type: str = ""


_typed_of = msgspec.json.Decoder(_Typed).decode


class UnreadableAnswer(ValueError):
    """What the server wrote is not HTTP."""


class HttpAnswer:
    """The answer to one request, from its bytes as they arrive: status, then content."""

    def __init__(self) -> None:
        self.status = 0
        self.is_complete = False
        self._head = b""
        """Bytes of a line, or of the head, that is not complete yet."""
        self._bytes_left: float = inf
        """Bytes of the content, or of the current chunk, that are still to come."""
        self._is_chunked = False

    def feed(self, data: bytes) -> bytes:
        """The content in these bytes. Raises UnreadableAnswer."""
        if not self.status:
            head, separator, data = (self._head + data).partition(b"\r\n\r\n")
            if not separator:
                self._head = head
                if len(head) > LONGEST_HEAD_BYTES:
                    raise UnreadableAnswer("the head of its answer has no end")
                return b""
            self._head = b""
            self._take_head(head)
            if not self.status:  # a provisional head is followed by another
                return self.feed(data)
        return self._chunks(data) if self._is_chunked else self._plain(data)

    def end(self) -> None:
        """The connection was closed. Raises UnreadableAnswer if something is missing."""
        if not self.is_complete and (not self.status or self._is_chunked or self._bytes_left != inf):
            raise UnreadableAnswer("it closed the connection in the middle of an answer")
        self.is_complete = True

    def _take_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        matched = re.match(rb"HTTP/1\.[01] (\d{3})(?: |$)", first)
        if matched is None:
            raise UnreadableAnswer("what it answers is not HTTP")
        if (status := int(matched[1])) < 200:
            return
        fields = {
            name.strip().lower(): value.strip() for name, _, value in (x.partition(b":") for x in lines)
        }
        self._is_chunked = b"chunked" in fields.get(b"transfer-encoding", b"").lower()
        length = fields.get(b"content-length", b"")
        if status in _NO_CONTENT:
            self._bytes_left = 0
        elif not self._is_chunked and length:
            if not length.isdigit():
                raise UnreadableAnswer("the length of its answer is no number")
            self._bytes_left = int(length)
        elif self._is_chunked:
            self._bytes_left = 0
        self.status = status
        self.is_complete = self._bytes_left == 0 and not self._is_chunked

    def _plain(self, data: bytes) -> bytes:
        content = data if self._bytes_left == inf else data[: int(self._bytes_left)]
        self._bytes_left -= len(content)
        self.is_complete = self._bytes_left == 0
        return content

    def _chunks(self, data: bytes) -> bytes:
        data = self._head + data
        self._head = b""
        pieces: list[bytes] = []
        while data and not self.is_complete:
            if self._bytes_left:
                piece = data[: int(self._bytes_left)]
                self._bytes_left -= len(piece)
                data = data[len(piece) :]
                pieces.append(piece)
                continue
            line, separator, rest = data.partition(b"\r\n")
            if not separator:
                if len(line) > LONGEST_HEAD_BYTES:
                    raise UnreadableAnswer("a chunk of its answer has no size")
                self._head = line
                break
            data = rest
            if line:  # empty: the end of the chunk before
                self._take_size(line)
        return b"".join(pieces)

    def _take_size(self, line: bytes) -> None:
        try:
            size = int(line.partition(b";")[0], 16)
        except ValueError:
            raise UnreadableAnswer("a chunk of its answer has no size") from None
        if size < 0:
            raise UnreadableAnswer("a chunk of its answer has no size")
        self._bytes_left = size
        self.is_complete = size == 0  # trailers say nothing to us


class EventStream:
    """Server-sent events from the bytes of their stream: the data of each as one line of JSON."""

    def __init__(self) -> None:
        self._head = b""
        self._data: list[bytes] = []

    def feed(self, content: bytes) -> list[bytes]:
        """Lines for the driver. Raises UnreadableAnswer when an event has no end."""
        *lines, self._head = (self._head + content).split(b"\n")
        if len(self._head) > MOST_BYTES:
            raise UnreadableAnswer("an event has no end")
        events: list[bytes] = []
        for line in (each.removesuffix(b"\r") for each in lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                # In JSON a line end can only stand between two values.
                data, self._data = b" ".join(self._data), []
                if event := event_line(data):
                    events.append(event)
        return events


def event_line(data: bytes) -> bytes:
    """What the driver reads of an event; nothing of a heartbeat. Data that is not JSON is passed on as a text."""
    try:
        name = _typed_of(data).type
    except (msgspec.DecodeError, UnicodeDecodeError):
        name, data = "", _encode(data.decode("utf-8", "replace"))
    return b"" if name == _HEARTBEAT else b'{"event":%b,"data":%b}\n' % (_encode(name), data)


HOST = "127.0.0.1"
USER = "harness"
_CREDENTIALS = re.compile(r"_SERVER_(PASSWORD|USERNAME)$")
_ADDRESS = re.compile(rb"listening on http://127\.0\.0\.1:(\d{1,5})/?\s")
_EVENTS_PATH = "/event"
_RECEIVE_BYTES = 256 * 1024


class HttpPatience(NamedTuple):
    """How long each step may take."""

    address_s: float = 120.0
    """From the start to the address."""
    answer_s: float = 60.0
    silence_s: float = 90.0
    """Without a byte on the stream of events, in which heartbeats come every 10 s."""
    pauses_s: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0)
    """Before each further attempt to open that stream."""
    lasting_s: float = 5.0
    """A stream that broke off earlier than this was an attempt, too."""


DEFAULT_PATIENCE = HttpPatience()


class ServerRequest(msgspec.Struct, frozen=True):
    """A line of the driver."""

    id: int
    method: str
    path: str
    body: msgspec.Raw = msgspec.Raw()


_request_of = msgspec.json.Decoder(ServerRequest).decode


class Exchange:
    """One request on a connection of its own, and its answer. Raises OSError."""

    def __init__(
        self, connection: socket.socket, request: bytes, deadline: float, request_id: int | None
    ) -> None:
        """`connection`: not blocking, and perhaps not established yet."""
        self.answer = HttpAnswer()
        self.request_id = request_id
        """None: the stream of events."""
        self.deadline = deadline
        self.content: list[bytes] = []
        self.size = 0
        self._unsent = memoryview(request)
        self.socket = connection

    @property
    def wants(self) -> int:
        """What has to be polled for."""
        return select.POLLOUT if self._unsent else select.POLLIN

    def send(self) -> None:
        if failed := self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(failed, os.strerror(failed))
        try:
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return

    def receive(self) -> bytes | None:
        """The content that has arrived; None: nothing for now. The end makes the answer complete."""
        try:
            data = self.socket.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return None
        if not data:
            self.answer.end()
            return b""
        return self.answer.feed(data)


class HttpChild(Child):
    """The server and its connections. Contract: as that of `Child`; `write` takes whole lines of JSON.

    `invocation.env` names the variables for the password, `…_SERVER_PASSWORD`, and for the user of its server,
    `…_SERVER_USERNAME`; what they hold is replaced.
    """

    def __init__(
        self,
        invocation: Invocation,
        timeouts: ChildTimeouts = DEFAULT_TIMEOUTS,
        patience: HttpPatience = DEFAULT_PATIENCE,
    ) -> None:
        password = secrets.token_urlsafe(32)
        self._credentials = b64encode(f"{USER}:{password}".encode())
        self._patience = patience
        self._dial = invocation.dial or _connection
        self._port = 0
        self._printed = b""
        """The beginning of a line of the server's stdout, until the address was read."""
        self._queue: deque[bytes] = deque()
        self._waiting: deque[ServerRequest] = deque()
        self._exchanges: dict[int, Exchange] = {}
        self._events: EventStream | None = None
        """Set while the stream of events is open."""
        self._is_subscribed = False
        self._opened_at = inf
        self._attempts = 0
        self._next_attempt = inf
        self._lost = ""
        """Why the server cannot be reached any more."""
        self._is_ending = False
        self._lines: list[bytes] = []
        self._address_due = time.monotonic() + patience.address_s
        super().__init__(_secured(invocation, password), timeouts)

    def write(self, data: bytes) -> None:
        """Carry out requests. From any thread."""
        self._queue.append(data)
        self.wake()

    def close_stdin(self) -> None:
        """End the server once the requests so far are answered. From any thread."""
        self._is_ending = True
        self.wake()

    def read(self, timeout_s: float | None = None) -> list[OutputChunk]:
        give_up_at = inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            now = time.monotonic()
            self._take_written()
            self._take_due(now)
            if self._lines:
                return self._output()
            due = min((exchange.deadline for exchange in self._exchanges.values()), default=inf)
            due = min(due, self._next_attempt, self._address_due)
            wait_s = min(due, give_up_at) - now
            chunks = super().read(None if wait_s == inf else max(0, wait_s)) + self._output()
            now = time.monotonic()
            is_due = now >= due or self._next_attempt < inf
            if chunks or self.exit is not None or now >= give_up_at or not is_due:
                return chunks

    def _output(self) -> list[OutputChunk]:
        lines, self._lines = b"".join(self._lines), []
        return [OutputChunk("stdout", lines)] if lines else []

    # What arrives

    def _serve(self, ready: list[tuple[int, int]]) -> tuple[list[OutputChunk], bool]:
        chunks, woken = super()._serve(ready)
        for chunk in chunks:
            if chunk.stream == "stdout" and not self._port:
                self._look_for_address(chunk.data)
        for descriptor, events in ready:
            if descriptor in self._exchanges:
                self._advance(self._exchanges[descriptor], events)
        output = [OutputChunk("stderr", chunk.data) for chunk in chunks] + self._output()
        return output, woken or self._next_attempt < inf

    def _finish(self) -> None:
        for exchange in list(self._exchanges.values()):  # the last that the server wrote
            while self._advance(exchange, select.POLLIN):
                continue
        super()._finish()

    def _look_for_address(self, data: bytes) -> None:
        self._printed = (self._printed + data)[-LONGEST_HEAD_BYTES:]
        if (match := _ADDRESS.search(self._printed)) is not None and 0 < int(match[1]) < 65536:
            self._port = int(match[1])
            self._printed = b""
            self._address_due = inf
            self._next_attempt = 0.0

    def _advance(self, exchange: Exchange, events: int) -> bool:
        """Send or receive what can be. False: nothing more for now, or ever."""
        try:
            if events & select.POLLOUT:
                exchange.send()
                self._pipes.poll.modify(exchange.socket.fileno(), exchange.wants)
            elif (content := exchange.receive()) is not None:
                self._take_content(exchange, content)
                return exchange.socket.fileno() in self._exchanges
        except (OSError, UnreadableAnswer) as error:
            self._fail(exchange, _words(error))
        return False

    def _take_content(self, exchange: Exchange, content: bytes) -> None:
        answer = exchange.answer
        if exchange.request_id is None:
            self._take_events(exchange, content)
            return
        exchange.content.append(content)
        exchange.size += len(content)
        if exchange.size > MOST_BYTES:
            raise UnreadableAnswer("its answer is too long")
        if answer.is_complete:
            self._forget(exchange)
            self._answer(exchange.request_id, answer.status, b"".join(exchange.content))

    def _take_events(self, exchange: Exchange, content: bytes) -> None:
        answer = exchange.answer
        if answer.status and answer.status != 200:
            raise UnreadableAnswer(f"it refuses its stream of events with status {answer.status}")
        if answer.status and self._events is None:
            self._events = EventStream()
            self._opened_at = time.monotonic()
        if self._events is not None and (news := self._events.feed(content)):
            # Only its first event shows that the server will not leave any out.
            self._lines += news
            self._is_subscribed = True
            self._begin_requests()
        exchange.deadline = time.monotonic() + self._patience.silence_s
        if answer.is_complete:
            raise UnreadableAnswer("it closed its stream of events")

    # What is sent

    def _take_written(self) -> None:
        while self._queue:
            lines = self._queue.popleft().split(b"\n")
            self._waiting += [_request_of(line) for line in lines if line]
        if self._waiting and (self._is_subscribed or self._lost):
            self._begin_requests()
        is_answered = not self._waiting and len(self._exchanges) == 1
        if self._is_ending and (self._events is None or is_answered):
            self._is_ending = False
            self.stop()
            self.stop()  # SIGTERM at once: servers end tidily with it, and some ignore SIGINT

    def _begin_requests(self) -> None:
        while self._waiting:
            request = self._waiting.popleft()
            if self._lost:
                self._refuse(request.id, self._lost)
            else:
                body = bytes(request.body)
                self._open(request.method, request.path, body, self._patience.answer_s, request.id)

    def _open(self, method: str, path: str, body: bytes, patience_s: float, request_id: int | None) -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\nConnection: close\r\n"
        head += f"Authorization: Basic {self._credentials.decode()}\r\n"
        head += "Accept: text/event-stream\r\n" if request_id is None else "Accept: application/json\r\n"
        if body or method != "GET":
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        request = f"{head}\r\n".encode() + body
        try:
            connection = self._dial(self._port)
        except OSError as error:
            self._after_failure(request_id, _words(error))
            return
        exchange = Exchange(connection, request, time.monotonic() + patience_s, request_id)
        self._exchanges[exchange.socket.fileno()] = exchange
        self._pipes.poll.register(exchange.socket, exchange.wants)

    def _take_due(self, now: float) -> None:
        """What the clock demands."""
        if now >= self._address_due:
            self._give_up(f"it did not print its address within {self._patience.address_s:.0f} s")
        if now >= self._next_attempt:
            self._next_attempt = inf
            self._open("GET", _EVENTS_PATH, b"", self._patience.answer_s, None)
        for exchange in [each for each in self._exchanges.values() if now >= each.deadline]:
            self._fail(exchange, "it did not answer in time")

    # What fails

    def _fail(self, exchange: Exchange, reason: str) -> None:
        self._forget(exchange)
        self._after_failure(exchange.request_id, reason)

    def _after_failure(self, request_id: int | None, reason: str) -> None:
        if request_id is not None:
            self._refuse(request_id, f"the agent's server failed: {reason}")
            return
        self._events = None
        self._is_subscribed = False
        if time.monotonic() - self._opened_at >= self._patience.lasting_s:
            self._attempts = 0
        self._opened_at = inf
        if self._attempts >= len(self._patience.pauses_s):
            self._give_up(reason)
        else:
            self._next_attempt = time.monotonic() + self._patience.pauses_s[self._attempts]
            self._attempts += 1

    def _give_up(self, reason: str) -> None:
        self._address_due = self._next_attempt = inf
        self._lost = f"the agent's server cannot be reached: {reason}"
        self._lines.append(b'{"event":"transport.lost","data":%b}\n' % _encode({"error": self._lost}))
        self._begin_requests()

    def _answer(self, request_id: int, status: int, content: bytes) -> None:
        try:
            body: Any = msgspec.json.decode(content) if content else None
        except (msgspec.DecodeError, UnicodeDecodeError):
            body = content.decode("utf-8", "replace")
        self._lines.append(_encode({"id": request_id, "status": status, "body": body}) + b"\n")

    def _refuse(self, request_id: int, reason: str) -> None:
        self._lines.append(_encode({"id": request_id, "status": 0, "error": reason}) + b"\n")

    def _forget(self, exchange: Exchange) -> None:
        descriptor = exchange.socket.fileno()
        if self._exchanges.pop(descriptor, None) is not None:
            self._pipes.poll.unregister(descriptor)
            exchange.socket.close()

    def _close_all(self) -> None:
        for exchange in list(self._exchanges.values()):
            self._forget(exchange)
        super()._close_all()


def _connection(port: int) -> socket.socket:
    """Raises OSError."""
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    connection.setblocking(False)
    failed = connection.connect_ex((HOST, port))
    if failed not in (0, errno.EINPROGRESS):
        connection.close()
        raise OSError(failed, os.strerror(failed))
    return connection


def _secured(invocation: Invocation, password: str) -> Invocation:
    """The same command, with a password that no one else knows, and without a stdin."""
    env = dict(invocation.env)
    credentials = {name: match[1] for name in env if (match := _CREDENTIALS.search(name))}
    assert "PASSWORD" in credentials.values(), "the environment has no variable for the server's password"
    env |= {name: password if what == "PASSWORD" else USER for name, what in credentials.items()}
    return replace(invocation, env=env, stdin=None, stdin_stays_open=False)


def _words(error: Exception) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
