"""The provider answers: the agent's own request with the real key, and the provider's bytes as they come.

Changed are only the key, `host`, headers that belong to a connection, and `accept-encoding`, because the answer must be
read. What a provider compresses all the same is unpacked on the way, for some programs do not expect it.
"""

from __future__ import annotations

import re
import select
import socket
import ssl
import threading
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from harness.gateway.call import KEY_HEADERS, GatewayCall
from harness.gateway.reply import Reply, head_bytes
from harness.gateway.upstream_answer import NotHttp, UpstreamAnswer

_RECEIVE_BYTES = 64 * 1024
_CONNECT_S = 15.0
_SILENCE_S = 300.0
_LONGEST_ANSWER = 64 * 1024 * 1024
_OF_CONNECTIONS = frozenset(
    ("host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "te", "upgrade", "expect")
) | {"accept-encoding", "content-length", "transfer-encoding", "trailer"}
_KEY_HEADERS = frozenset(("authorization", *KEY_HEADERS, "cookie"))
_UNPACKED = ("gzip", "x-gzip", "deflate")
_ENDED_BY_CLIENT = select.POLLRDHUP if hasattr(select, "POLLRDHUP") else select.POLLHUP


class Upstream(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider is. One per run: nothing else is ever asked."""

    url: str
    """Without a slash at its end."""
    key_headers: tuple[tuple[str, str], ...] = ()
    passes_login: bool = False
    """The agent's own `authorization` goes there."""
    base_path: str = ""
    """What the paths of the agent begin with, and what stands for that of `url`."""

    def __repr__(self) -> str:
        return f"Upstream({self.url!r})"  # without the key

    @property
    def place(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")


class Spending(Protocol):
    """Contract: `refusal` may take a while, when a person is asked. Called from any thread."""

    def refusal(self, call: GatewayCall) -> str:
        """Why the call must not be made; empty: it may."""
        ...


class PassOn:
    """Contract: that of `Answerer`. One `close` at the end."""

    def __init__(self, upstream: Upstream, *, model: str = "", spending: Spending | None = None) -> None:
        """`model`: asked for instead of the one that the agent names; empty: nothing is changed."""
        self._upstream = upstream
        self._model = model
        self._spending = spending
        self._connections = _Connections(upstream)

    def close(self) -> None:
        self._connections.close()

    def answer(self, call: GatewayCall, reply: Reply) -> None:
        is_paid = call.endpoint in ("answer", "compact")
        if is_paid and self._spending is not None and (refusal := self._spending.refusal(call)):
            refuse(call, reply, refusal)
            return
        reply.origin = "provider"
        request = self._request(call)
        while True:
            connection, is_used = None, False
            try:
                connection, is_used = self._connections.take()
                self._transfer(request, connection, call, reply)
            except _NoAnswer as error:
                if is_used:  # the provider had closed it: that says nothing of this call
                    continue
                self._give_up(call, reply, str(error))
            except OSError as error:
                if reply.is_client_gone:
                    raise
                self._give_up(call, reply, error.strerror or str(error))
            return

    def _transfer(self, request: bytes, connection: socket.socket, call: GatewayCall, reply: Reply) -> None:
        """Raises _NoAnswer where not a byte has come; OSError."""
        answer = UpstreamAnswer(call.http.method)
        is_whole = False
        try:
            try:
                connection.sendall(request)
            except OSError as error:
                raise _NoAnswer(error.strerror or str(error)) from error
            is_whole = _Transfer(connection, answer, reply).run()
        except (NotHttp, TimeoutError) as error:
            self._give_up(call, reply, str(error))
        finally:
            can_stay = is_whole and not answer.rest and not answer.ends_with_connection
            is_usable = can_stay and "close" not in answer.headers.get("connection", "").lower()
            self._connections.give_back(connection, is_usable=is_usable)

    def _give_up(self, call: GatewayCall, reply: Reply, reason: str) -> None:
        if reply.status:
            reply.cut()
        else:
            message = f"{self._upstream.place} did not answer: {reason}"
            reply.whole_json(502, call.wire.refusal(502, message, None))

    def _request(self, call: GatewayCall) -> bytes:
        arrived, upstream = call.arrived, self._upstream
        body, target = arrived.body, self._target(arrived.target)
        if self._model and call.endpoint == "answer":
            body, target = with_model(call, target, self._model)
        hidden = _OF_CONNECTIONS | _KEY_HEADERS - ({"authorization"} if upstream.passes_login else set())
        is_changed = body is not arrived.body
        fields = [
            (name, value)
            for name, value in arrived.fields
            if name.lower() not in hidden and not (is_changed and name.lower() == "content-encoding")
        ]
        host = urlsplit(upstream.url).netloc.rpartition("@")[2]
        fields = [("Host", host), *fields, *upstream.key_headers, ("Accept-Encoding", "identity")]
        if body or arrived.method not in ("GET", "HEAD"):
            fields.append(("Content-Length", str(len(body))))
        lines = [f"{arrived.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body

    def _target(self, target: str) -> str:
        bare, mark, query = target.partition("?")
        bare = bare.removeprefix(self._upstream.base_path)
        if mark and "key=" in query:
            query = urlencode([pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != "key"])
        return f"{urlsplit(self._upstream.url).path.rstrip('/')}{bare}" + (f"?{query}" if query else "")


def with_model(call: GatewayCall, target: str, model: str) -> tuple[bytes, str]:
    """A request that asks another model for the same: its body, plain, and its path."""
    if call.wire_name == "gemini":
        return call.plain, re.sub(r"/models/[^:/?]+", lambda _: f"/models/{model}", target, count=1)
    body = {**call.http.record, "model": model}
    return msgspec.json.encode(body), target


REFUSED_BY_BUDGET = {"responses": 400}
"""API → the status that its programs do not retry; 402 for all others."""


def refuse(call: GatewayCall, reply: Reply, message: str) -> None:
    """In words and with a status that no program takes for something to try again."""
    status = REFUSED_BY_BUDGET.get(call.wire_name, 402)
    reply.origin = "gateway"
    reply.whole_json(status, call.wire.refusal(status, message, None), {"x-should-retry": "false"})


class _NoAnswer(Exception):
    """The connection ended before a byte of an answer had come."""


class _Transfer:
    """One answer, from the provider's connection to the client's."""

    def __init__(self, connection: socket.socket, answer: UpstreamAnswer, reply: Reply) -> None:
        self._connection = connection
        self._answer = answer
        self._reply = reply
        self._unpack: Any = None
        self._size = 0
        self._is_reframed = False
        """The content is sent in chunks of our own: it is unpacked here, or its end was that of the connection."""
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(reply.connection, _ENDED_BY_CLIENT)
        self._client = reply.connection.fileno()
        self._pending: Callable[[], int] = getattr(connection, "pending", int)

    def run(self) -> bool:
        """Whether the answer is whole. Raises NotHttp, TimeoutError; _NoAnswer; OSError when the client has gone."""
        answer, reply = self._answer, self._reply
        has_begun = False
        while True:
            data = self._receive()
            if not data:
                if not has_begun:
                    raise _NoAnswer("it closed the connection without an answer")
                if answer.end():
                    self._finish(b"")
                    return True
                reply.cut()
                return False
            has_begun = True
            has_head = bool(answer.status)
            content = self._plain(answer.feed(data))
            if not has_head:
                if not answer.status:
                    continue
                data = self._begin()
                content = self._plain(content) if self._unpack is not None else content
            if content:
                self._keep(content)
            if self._is_reframed:
                data = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
                data = self._head + data if not has_head else data
            if answer.is_complete:
                self._finish(data)
                return True
            if data:
                reply.send(data)

    def _keep(self, content: bytes) -> None:
        """All of it is held until it is on record."""
        self._size += len(content)
        if self._size > _LONGEST_ANSWER:
            raise NotHttp(f"its answer is longer than {_LONGEST_ANSWER // (1024 * 1024)} MB")
        self._reply.keep(content)

    def _receive(self) -> bytes:
        if not self._pending():
            ready = self._poll.poll(_SILENCE_S * 1000)
            if not ready:
                raise TimeoutError(f"it was silent for {_SILENCE_S:.0f} s")
            if any(descriptor == self._client for descriptor, _ in ready):
                self._reply.is_client_gone = True
                raise OSError("the client has gone")
        try:
            return self._connection.recv(_RECEIVE_BYTES)
        except ssl.SSLError as error:
            raise NotHttp(f"its encryption failed: {error.reason or error}") from error
        except ConnectionError:
            return b""

    def _begin(self) -> bytes:
        """The head has come: the bytes to be sent first, without what belongs to the provider's connection."""
        answer, reply = self._answer, self._reply
        hidden = {"connection", "keep-alive", "proxy-connection", "upgrade"}
        if answer.has_body and answer.headers.get("content-encoding", "").lower() in _UNPACKED:
            self._unpack = zlib.decompressobj(47)
            hidden |= {"content-encoding", "content-length", "transfer-encoding"}
        self._is_reframed = answer.has_body and (self._unpack is not None or answer.ends_with_connection)
        fields = [(name, value) for name, value in answer.fields if name.lower() not in hidden]
        if self._is_reframed:
            fields.append(("Transfer-Encoding", "chunked"))
        reply.status = answer.status
        reply.headers = {name.lower(): value for name, value in fields}
        self._head = head_bytes(answer.status, fields)
        return self._head + answer.after_head

    def _finish(self, data: bytes) -> None:
        """The answer goes on record before its last bytes are sent."""
        self._reply.settle()
        if not self._is_reframed and self._answer.rest:
            data = data[: -len(self._answer.rest)]
        if self._is_reframed:
            data += b"0\r\n\r\n"
        if data:
            self._reply.send(data)

    def _plain(self, content: bytes) -> bytes:
        if self._unpack is None or not content:
            return content
        try:
            plain: bytes = self._unpack.decompress(content, _LONGEST_ANSWER)
            if self._unpack.unconsumed_tail:
                raise NotHttp("its answer is packed so that a little of it is much")
        except zlib.error as error:
            raise NotHttp("its answer is packed in a way that cannot be read") from error
        return plain


class _Connections:
    """Connections to one provider, used again: a new one costs more than many answers."""

    def __init__(self, upstream: Upstream) -> None:
        parts = urlsplit(upstream.url)
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_secure else 80)
        self._lock = threading.Lock()
        self._waiting: list[socket.socket] = []
        self._is_closed = False

    def _open(self) -> socket.socket:
        connection = socket.create_connection((self._host, self._port), timeout=_CONNECT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._is_secure:
                connection = _tls().wrap_socket(connection, server_hostname=self._host)
            connection.settimeout(_SILENCE_S)
        except BaseException:
            connection.close()
            raise
        return connection

    def take(self) -> tuple[socket.socket, bool]:
        """One that is open, and whether it was used before. Raises OSError."""
        waiting = self._take_waiting()
        return (waiting, True) if waiting is not None else (self._open(), False)

    def _take_waiting(self) -> socket.socket | None:
        """One that is still open, as far as can be seen."""
        with self._lock:
            while self._waiting:
                connection = self._waiting.pop()
                poll = select.poll()
                poll.register(connection, select.POLLIN)
                if not poll.poll(0):
                    return connection
                connection.close()
        return None

    def give_back(self, connection: socket.socket, *, is_usable: bool) -> None:
        with self._lock:
            if is_usable and not self._is_closed:
                self._waiting.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.close()


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
