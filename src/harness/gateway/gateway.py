"""Who may ask what: every request is checked here, answered by an `Answerer`, and recorded."""

from __future__ import annotations

import errno
import hmac
import itertools
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Self

from msgspec.structs import replace

from harness.errors import UsageError
from harness.gateway.call import Answerer, GatewayCall
from harness.gateway.call_records import CallRecords
from harness.gateway.http_requests import (
    USUAL_BOUNDS,
    ArrivedRequest,
    BadRequest,
    RequestBounds,
    UnreadableBody,
    unpacked,
)
from harness.gateway.listener import ADDRESS, ConnectionListener
from harness.gateway.reply import JSON, Reply
from harness.gateway.routes import is_route

_OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]", "::1")


class LocalAnswer(Exception):
    """A request that the gateway answers itself: with which status, what it is called, and why."""

    def __init__(
        self,
        status: int,
        outcome: str,
        message: str = "",
        headers: Mapping[str, str] = {},
        page: tuple[str, bytes] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.outcome = outcome
        self.message = message
        self.headers = headers
        self.page = page


class ModelGateway:
    """Contract: listens on loopback from its construction until `close`, which ends every open answer. Answers
    requests with its token only; without one, all. A call is recorded before its last byte is sent. Never raises into
    a run; `faults` holds what went wrong in here, and should stay empty.

    Raises UsageError when the port is taken.
    """

    def __init__(
        self,
        answerer: Answerer,
        *,
        token: str = "",
        records: CallRecords | None = None,
        port: int = 0,
        bounds: RequestBounds = USUAL_BOUNDS,
        pages: Mapping[str, tuple[str, bytes]] = {},
        on_local: Callable[[GatewayCall, LocalAnswer], object] | None = None,
        tunnel: Callable[[str, socket.socket], bool] | None = None,
        is_token_in_path: bool = False,
    ) -> None:
        """`pages`: further paths, with a type and a content. `on_local`: told of each request that the gateway answers
        itself, before it does. `tunnel`: connects a client to a host that it may reach, and returns when that is over;
        False: it may not. `is_token_in_path`: paths begin with it, since a log-in of the program's is in its place.
        """
        self.records = records
        self.closing = threading.Event()
        self._answerer = answerer
        self._token = token
        self._bounds = bounds
        self._pages = pages
        self._on_local = on_local
        self._tunnel = tunnel
        self._is_token_in_path = is_token_in_path
        self._numbers = itertools.count(1)
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((ADDRESS, port))
            self.port: int = listening.getsockname()[1]
            self._listener = ConnectionListener([listening], self._serve, self._refuse, bounds, self._admit)
        except (OSError, OverflowError) as error:
            listening.close()
            raise _cannot_listen(port, error) from error
        self.url = f"http://{ADDRESS}:{self.port}"

    @property
    def faults(self) -> list[BaseException]:
        return self._listener.faults

    def listen_on(self, listening: socket.socket) -> None:
        """Answer there as well: a socket that is bound, also one of another network."""
        self._listener.add(listening)

    def close(self) -> None:
        if not self.closing.is_set():
            self.closing.set()
            self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, arrived: ArrivedRequest, connection: socket.socket) -> Reply:
        if self._is_token_in_path:
            arrived = replace(arrived, target=arrived.target.removeprefix(f"/{self._token}"))
        call = self._call(arrived)
        reply = Reply(connection, arrived.method, lambda reply: self._record(call, reply))
        try:
            self._require_allowed(call, connection)
            self._answerer.answer(call, reply)
        except LocalAnswer as local:
            self._answer_locally(call, reply, local)
        except OSError:
            reply.must_close = True
            reply.is_cut = True
        except Exception as error:  # noqa: BLE001 # the agent gets an answer, and the run reports the fault
            self.faults.append(error)
            self._give_up(call, reply)
        finally:
            reply.settle()
        return reply

    def _call(self, arrived: ArrivedRequest) -> GatewayCall:
        at_ms = time.time_ns() // 1_000_000
        plain, trouble = arrived.body, ""
        try:
            plain = unpacked(arrived.body, arrived.headers, self._bounds)
        except UnreadableBody as error:
            trouble = str(error)
        return GatewayCall(next(self._numbers), at_ms, arrived, plain, trouble)

    def _require_allowed(self, call: GatewayCall, connection: socket.socket) -> None:
        """Raises LocalAnswer for what is not for the model."""
        arrived, path = call.arrived, call.http.path
        if arrived.method == "CONNECT":
            self._connect(call, connection)
        if not arrived.target.startswith("/") or "/../" in f"{path}/":
            raise LocalAnswer(400, "refused", "only paths are answered here, and none that leads upwards")
        if "upgrade" in call.headers:
            close = {"connection": "close"}
            raise LocalAnswer(426, "refused", "websockets are not offered here: use HTTP", close)
        if call.endpoint is not None and (not self._token or is_route(arrived.target)):
            return
        if page := next((page for end, page in self._pages.items() if path.endswith(end)), None):
            raise LocalAnswer(200, "page", page=page)
        if arrived.method == "HEAD":  # some agents check first that there is a server
            raise LocalAnswer(200, "answered")
        raise LocalAnswer(404, "not found", f"there is no route for {arrived.method} {path or '/'} here")

    def _admit(self, head: ArrivedRequest) -> bool:
        """Other users, other runs and web pages can reach the port, but do not know the token: not a byte of a body is
        read from them, and nothing of theirs is recorded.
        """
        if not self._token:
            return True
        if head.method == "CONNECT":  # its host is the one that it wants to reach
            if _is_proxy_user(head.headers.get("proxy-authorization", ""), self._token):
                return True
            raise BadRequest(403, "no other host can be reached from here")
        host = head.headers.get("host", "")
        if host and (host.rpartition(":")[0] or host) not in _OWN_HOSTS and host not in _OWN_HOSTS:
            raise BadRequest(403, "this address is not answered for another host")
        if "origin" in head.headers:
            raise BadRequest(403, "web pages are not answered here")
        call = GatewayCall(0, 0, head, b"")
        key = [self._place_of_token(head)] if self._is_token_in_path else call.shown_keys
        if any(_is_same(shown_key, self._token) for shown_key in key):
            return True
        if head.method == "HEAD" and call.endpoint is None:  # a probe, sent without a key, which says nothing
            return False
        raise BadRequest(401, "this key is not known here: it is that of another run, or of none")

    @staticmethod
    def _place_of_token(head: ArrivedRequest) -> str:
        return head.target.removeprefix("/").partition("/")[0]

    def _connect(self, call: GatewayCall, connection: socket.socket) -> None:
        if self._tunnel is None:
            raise LocalAnswer(
                403, "refused", "no other host can be reached from here", {"connection": "close"}
            )
        if not self._tunnel(call.arrived.target, connection):
            message = f"{call.arrived.target} is not among the hosts that this run may reach"
            raise LocalAnswer(403, "refused", message, {"connection": "close"})
        raise OSError(errno.EPIPE, "the tunnel has ended")

    def _answer_locally(self, call: GatewayCall, reply: Reply, local: LocalAnswer) -> None:
        if self._on_local is not None:
            self._on_local(call, local)
        if local.page is not None:
            reply.whole(200, *local.page)
        elif local.status == 200:
            reply.whole(200, JSON, b"")
        else:
            body = call.wire.refusal(local.status, local.message, None)
            reply.whole_json(local.status, body, local.headers)

    def _give_up(self, call: GatewayCall, reply: Reply) -> None:
        try:
            if reply.status:
                reply.cut()
            else:
                message = "the gateway itself failed; see the end of the run"
                reply.whole_json(502, call.wire.refusal(502, message, None))
        except OSError:
            reply.must_close = True

    def _refuse(self, head: ArrivedRequest | None, error: BadRequest, connection: socket.socket) -> None:
        arrived = head or ArrivedRequest(method="GET", target="/", fields=())
        call = GatewayCall(next(self._numbers), time.time_ns() // 1_000_000, arrived, b"")
        local = LocalAnswer(error.status, "unreadable", error.message, {"connection": "close"})
        try:
            self._answer_locally(call, Reply(connection, arrived.method), local)
        except OSError:
            return

    def _record(self, call: GatewayCall, reply: Reply) -> None:
        if self.records is not None:
            try:
                self.records.record(call, reply)
            except Exception as error:  # noqa: BLE001 # whatever it is, the agent gets its answer
                self.faults.append(error)


def _is_proxy_user(words: str, token: str) -> bool:
    try:
        user = (
            b64decode(words[6:].strip()).decode("utf-8", "replace") if words[:6].lower() == "basic " else ""
        )
    except ValueError:
        return False
    return _is_same(user.partition(":")[2], token)


def _is_same(key: str, token: str) -> bool:
    return bool(token) and hmac.compare_digest(key.encode("utf-8", "replace"), token.encode())


def _cannot_listen(port: int, error: OSError | OverflowError) -> UsageError:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", hint="choose another with --port, or 0 for any free one")
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return UsageError(f"cannot listen on port {port}: {reason}", hint="choose another with --port")
