"""The checks that every request and every socket must pass.

Rules
1. The `Host` must be one of ours, exactly (else 421): another name that resolves to us is an attack (DNS rebinding).
2. An `Origin`, if there is one, must be that of our own page (else 403); so must `Sec-Fetch-Site`.
3. The token, or the credential that a browser got for its link (else 401), in a header that no browser sends by
   itself. The files of the page, the login and the health check are public.
4. A request that changes something must be JSON (else 415): a form of another page cannot send that.
5. Bodies, the time they take and the rate of changes are limited (413, 408, 429). No answer ever allows another
   origin to read it.
6. A client that is logged out is disconnected.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.clients.server_address import proof_of
from harness.formatting.json_text import encode
from harness.server.access.connections import Connections
from harness.server.access.credentials import Access, AccessGrant
from harness.server.access.host_names import HostNames
from harness.server.access.responses import Failures

LARGEST_BODY_BYTES = 4 * 1024 * 1024
_LARGEST_OF_STRANGERS_BYTES = 16 * 1024
_BODY_PAUSE_S = 20.0
"""How long nothing may come of a body that has not ended."""
_CHANGES_PER_S = 30.0
_CHANGES_AT_ONCE = 120.0
_SWITCHED, _MISTAKE, _LOGGED_OUT = 101, 1011, 4401
_LOOK_EVERY_S = 0.5
_READING = ("GET", "HEAD")
_OWN_SITES = ("same-origin", "none")
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_HOW_TO_LOG_IN = "open a link of `harness serve --link`, or send the token: Authorization: Bearer …"
SUBPROTOCOL = "harness"
_CREDENTIAL = "harness.credential."
"""Begins the subprotocol with which a browser's socket, which cannot have headers of its own, sends its credential."""
LIVENESS, READINESS = "/healthz", "/readyz"
_CHALLENGE = re.compile(rb"challenge=([0-9a-f]{32})")

Report = Callable[[str], object]
IsPublic = Callable[[str, str], bool]
"""Whether a request with this method and path is public."""


class Refused(Exception):
    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint


class Bucket:
    """A token bucket: so many per second, and some more at once after a pause."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._most = self._room_left = at_once
        self._at_s = time.monotonic()

    def take(self, count: int = 1) -> bool:
        now_s = time.monotonic()
        self._room_left = min(self._most, self._room_left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._room_left < count:
            return False
        self._room_left -= count
        return True


class RequestGuard:
    """`names`: the host names under which the page may be opened."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        names: HostNames,
        is_public: IsPublic | None = None,
        is_ready: Callable[[], Awaitable[bool]] | None = None,
        connections: Connections | None = None,
        report: Report | None = None,
        failures: Failures | None = None,
    ) -> None:
        self.connections = connections or Connections()
        self._app = app
        self._access = access
        self._names = names
        self._is_public = is_public or (lambda _method, _path: False)
        self._is_ready = is_ready
        self._report = report
        self._failures = failures
        self._changes = Bucket(_CHANGES_PER_S, _CHANGES_AT_ONCE)
        self._inside: dict[_Outgoing, AccessGrant] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            watching = asyncio.get_running_loop().create_task(self._watch_grants())
            try:
                await self._app(scope, receive, send)
            finally:
                watching.cancel()
            return
        began_s = time.monotonic()
        scope = {**scope, "path": self._names.own_path(scope["path"])}
        self.connections.asked(scope["client"])
        outgoing = _Outgoing(scope, send)
        if scope["type"] == "http" and scope["path"] in (LIVENESS, READINESS) and scope["method"] in _READING:
            await self._answer_health(scope, outgoing)
        else:
            try:
                most_bytes = self._check(scope)
            except Refused as refused:
                await _refuse(scope, outgoing, refused)
            else:
                scope["harness.send"] = send
                await self._pass_on(scope, _limited(scope, receive, outgoing, most_bytes), outgoing)
        if self._report is not None:
            # Never the query: a link's code is in it.
            spent_ms = (time.monotonic() - began_s) * 1000
            method = scope.get("method", "WEBSOCKET")
            self._report(f"{method} {scope['path']!a} {outgoing.status} {spent_ms:.0f} ms")

    async def _pass_on(self, scope: Scope, receive: Receive, send: _Outgoing) -> None:
        grant: AccessGrant | None = scope.get("harness.grant")
        if grant is not None:
            self._inside[send] = grant
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if self._failures is not None:
                self._failures.report_request(scope, error)
            if send.status == _SWITCHED:
                await send.close_socket(_MISTAKE, "a mistake of the server")
            elif not send.is_complete:
                raise  # uvicorn ends the response that has started
        finally:
            self._inside.pop(send, None)

    async def _answer_health(self, scope: Scope, send: _Outgoing) -> None:
        """The health check of a supervisor, under any host name. A program of this machine may ask for a proof that this
        is the server whose token it has.
        """
        is_well = scope["path"] == LIVENESS or self._is_ready is None or await self._is_ready()
        answer = {"status": "ok" if is_well else "not ready"}
        challenge = _CHALLENGE.fullmatch(scope["query_string"])
        if challenge is not None and scope["path"] == LIVENESS:
            answer["proof"] = proof_of(self._access.token, challenge[1].decode(), self._names.local_url)
        await _answer(scope, send, 200 if is_well else 503, encode(answer))

    def _check(self, scope: Scope) -> int:
        """How many bytes its body may have. Raises Refused."""
        headers = _headers(scope)
        is_socket = scope["type"] == "websocket"
        is_change = not is_socket and scope["method"] not in _READING
        if headers.get("host", "").lower() not in self._names.hosts:
            raise Refused(421, "this server does not answer under that name", "see --allow-remote")
        origin = headers.get("origin")
        if origin is not None and origin not in self._names.origins:
            raise Refused(403, "a page of another origin may not ask this")
        is_public = not is_socket and self._is_public(scope["method"], scope["path"])
        is_page = is_public and not is_change and not scope["path"].startswith("/api/")
        # A link in another page may lead to ours, which shows nothing before its script has logged in.
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES and not is_page:
            raise Refused(403, "a page of another site may not ask this")
        if not is_public:
            self._authorize(scope, headers)
        most_bytes = _LARGEST_OF_STRANGERS_BYTES if is_public else LARGEST_BODY_BYTES
        if is_change:
            _check_body(scope["method"], headers, most_bytes)
            if not is_public and not self._changes.take():
                raise Refused(429, "too many changes at once", "wait a moment")
        return most_bytes

    def _authorize(self, scope: Scope, headers: Mapping[str, str]) -> None:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            bearer = _credential(scope) if scope["type"] == "websocket" else ""
        grant = self._access.grant(bearer.strip()) if bearer else None
        if grant is None:
            raise Refused(401, "a token is needed", _HOW_TO_LOG_IN)
        if not self.connections.trust(scope["client"]):
            raise Refused(503, "too many connections at once", "close some, or raise the limit on open files")
        scope["harness.grant"] = grant

    async def _watch_grants(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._access.refresh()
            for outgoing, grant in list(self._inside.items()):
                if not self._access.is_valid(grant):
                    await outgoing.cut_off()


def _check_body(method: str, headers: Mapping[str, str], most_bytes: int) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (method == "DELETE" and not kind):
        raise Refused(415, "what changes something must be application/json")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most_bytes:
        raise Refused(413, f"at most {most_bytes} bytes")


class _Outgoing:
    """Adds the headers that every response has."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.status = 0
        self.is_complete = False
        """Whether a request has its whole answer."""
        self.is_cut_off = asyncio.Event()
        self._is_socket = scope["type"] == "websocket"
        self._send = send

    async def __call__(self, message: Message) -> None:
        if self.is_cut_off.is_set():
            return  # as for a client that has disconnected
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", ())}
            added = [
                (name.encode(), value.encode())
                for name, value in {**_HEADERS, "cache-control": "no-store"}.items()
                if name.encode() not in present
            ]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        elif message["type"] == "websocket.accept":
            self.status = _SWITCHED
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True

    async def close_socket(self, code: int, reason: str) -> None:
        with suppress(OSError, RuntimeError):  # it is closed already
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def cut_off(self) -> None:
        """Send nothing more; for the application, the client has disconnected."""
        is_first = not self.is_cut_off.is_set()
        self.is_cut_off.set()
        if self._is_socket and self.status == _SWITCHED and is_first:
            await self.close_socket(_LOGGED_OUT, "logged out")


def _headers(scope: Scope) -> dict[str, str]:
    """By name; values of a repeated header are joined, so that a header that may come once only is wrong then."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _credential(scope: Scope) -> str:
    """The credential of a browser's socket."""
    credentials = (name for name in scope.get("subprotocols", ()) if name.startswith(_CREDENTIAL))
    return next(credentials, "").removeprefix(_CREDENTIAL)


def _limited(scope: Scope, receive: Receive, outgoing: _Outgoing, most_bytes: int) -> Receive:
    """Ends a body that is too long or does not come, and the stream to a client that is logged out."""
    if scope["type"] != "http":
        return receive
    taken_bytes = 0
    is_whole = False

    async def counted() -> Message:
        nonlocal taken_bytes, is_whole
        if is_whole:
            return await _received(receive, outgoing)
        try:
            message = await asyncio.wait_for(receive(), _BODY_PAUSE_S)
        except TimeoutError:
            scope["harness.is_late"] = True
            return {"type": "http.disconnect"}
        if message["type"] == "http.request":
            taken_bytes += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if taken_bytes > most_bytes:
                return {"type": "http.disconnect"}
        return message

    return counted


async def _received(receive: Receive, outgoing: _Outgoing) -> Message:
    """The next message; a client that is cut off counts as disconnected."""
    receiving, ending = asyncio.ensure_future(receive()), asyncio.ensure_future(outgoing.is_cut_off.wait())
    try:
        await asyncio.wait((receiving, ending), return_when=asyncio.FIRST_COMPLETED)
        return receiving.result() if receiving.done() else {"type": "http.disconnect"}
    finally:
        receiving.cancel()
        ending.cancel()


async def _refuse(scope: Scope, send: Send, refused: Refused) -> None:
    error: dict[str, Any] = {"message": refused.message}
    if refused.hint:
        error["hint"] = refused.hint
    await _answer(scope, send, refused.status, encode({"error": error}))


async def _answer(scope: Scope, send: Send, status: int, body: bytes) -> None:
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
