"""Stands before everything: no request and no socket gets further without passing all of this.

Rules
1. The `Host` must be one of ours, exactly (else 421): a name that merely leads here is an attack (rebinding).
2. An `Origin`, where one is told, must be that of our own page (else 403); so must be what the browser says of the
   site that a request comes from.
3. The token, or the cookie that a link was changed for (else 401). A socket or a change with the cookie must tell
   its origin. There are no exceptions but `/login`, which takes the code of a link.
4. What changes something comes as JSON (else 415): no form and no plain text of another page can be that.
5. Bodies and the rate of changes are limited (413, 429). No answer ever allows another origin to read it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.interfaces.server.access import Access
from harness.interfaces.server.door import DOOR, refusal
from harness.interfaces.server.failures import Failures
from harness.rendering.json_text import encode

LARGEST_BODY_BYTES = 4 * 1024 * 1024
_CHANGES_PER_S = 30.0
_CHANGES_AT_ONCE = 120.0
_SWITCHED, _MISTAKE = 101, 1011
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
_HOW_TO_GET_IN = "open the link that `harness serve` printed, or send the token: Authorization: Bearer …"

Report = Callable[[str], object]


class Refused(Exception):
    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint


class Bucket:
    """Lets so many through per second, and some more at once after a pause."""

    def __init__(self, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._most = self._left = at_once
        self._at_s = time.monotonic()

    def take(self, count: int = 1) -> bool:
        now_s = time.monotonic()
        self._left = min(self._most, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < count:
            return False
        self._left -= count
        return True


class Guard:
    """`hosts`: every `Host` under which the page may be opened, with its port."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        access: Access,
        hosts: Iterable[str],
        cookie_name: str,
        report: Report | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._app = app
        self._access = access
        self._hosts = frozenset(hosts)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)
        self._cookie_name = cookie_name
        self._report = report
        self._failures = failures
        self._changes = Bucket(_CHANGES_PER_S, _CHANGES_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began_s = time.monotonic()
        outgoing = _Outgoing(send, cookie=self._cookie_of_link(scope))
        try:
            self._check(scope)
        except Refused as refused:
            await _refuse(scope, outgoing, refused)
        else:
            if scope["path"] == "/login" and scope.get("method") in _READING:
                await _let_in(outgoing)
            else:
                scope["harness.send"] = send
                await self._let_through(scope, _limited(receive), outgoing)
        if self._report is not None:
            # Never the query: a link's code is in it.
            spent_ms = (time.monotonic() - began_s) * 1000
            method = scope.get("method", "WEBSOCKET")
            self._report(f"{method} {scope['path']!a} {outgoing.status} {spent_ms:.0f} ms")

    async def _let_through(self, scope: Scope, receive: Receive, send: _Outgoing) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            if self._failures is not None:
                self._failures.tell_request(scope, error)
            if send.status == _SWITCHED:
                with suppress(OSError, RuntimeError):  # it is gone already
                    await send(
                        {"type": "websocket.close", "code": _MISTAKE, "reason": "a mistake of the server"}
                    )
            elif not send.is_complete:
                raise  # what runs below us ends what has begun

    def _check(self, scope: Scope) -> None:
        headers = _headers(scope)
        is_socket = scope["type"] == "websocket"
        is_change = not is_socket and scope["method"] not in _READING
        if headers.get("host") not in self._hosts:
            raise Refused(421, "this server does not answer under that name")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            raise Refused(403, "a page of another origin may not ask this")
        if scope["path"] == "/login" and not is_change and not is_socket:
            return self._check_link(scope, headers)
        if headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            raise Refused(403, "a page of another site may not ask this")
        self._check_token(headers, needs_origin=is_socket or is_change)
        if is_change:
            self._check_change(scope["method"], headers)
        return None

    def _check_link(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """A browser that is let in already may open its link again."""
        if not scope.get("harness.has_code") and not self._has_cookie(headers):
            raise Refused(401, "this link was used already, or is not one of ours", _HOW_TO_GET_IN)

    def _has_cookie(self, headers: Mapping[str, str]) -> bool:
        return self._access.is_cookie(_cookie(headers.get("cookie", ""), self._cookie_name))

    def _check_token(self, headers: Mapping[str, str], *, needs_origin: bool) -> None:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._access.is_token(token.strip()):
            return
        if not self._has_cookie(headers):
            raise Refused(401, "not without the token", _HOW_TO_GET_IN)
        if needs_origin and "origin" not in headers:
            raise Refused(
                403, "where does this come from?", "a program sends the token instead of the cookie"
            )

    def _check_change(self, method: str, headers: Mapping[str, str]) -> None:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (method == "DELETE" and not kind):
            raise Refused(415, "what changes something must be application/json")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY_BYTES:
            raise Refused(413, f"at most {LARGEST_BODY_BYTES} bytes")
        if not self._changes.take():
            raise Refused(429, "too many changes at once", "wait a moment")

    def _cookie_of_link(self, scope: Scope) -> str:
        """The cookie to be set, when this is a good link under a good name."""
        if scope["type"] != "http" or scope["path"] != "/login" or scope["method"] != "GET":
            return ""
        if _headers(scope).get("host") not in self._hosts:
            return ""
        codes = parse_qs(scope["query_string"].decode("ascii", "replace")).get("token", [""])
        scope["harness.has_code"] = self._access.redeem(codes[0])
        if not scope["harness.has_code"]:
            return ""
        return (
            f"{self._cookie_name}={self._access.cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age=31536000"
        )


class _Outgoing:
    """Puts the headers on that every answer has."""

    def __init__(self, send: Send, cookie: str) -> None:
        self.status = 0
        self.is_complete = False
        """Whether a request has its whole answer."""
        self.cookie = cookie
        self._send = send

    async def __call__(self, message: Message) -> None:
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


def _headers(scope: Scope) -> dict[str, str]:
    """By name; one that is told twice where it may be told once only is as good as a wrong one."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _cookie(header: str, name: str) -> str:
    try:
        morsel = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


def _limited(receive: Receive) -> Receive:
    """Stops a body that is longer than it said."""
    taken_bytes = 0

    async def counted() -> Message:
        nonlocal taken_bytes
        message = await receive()
        if message["type"] == "http.request":
            taken_bytes += len(message.get("body", b""))
            if taken_bytes > LARGEST_BODY_BYTES:
                return {"type": "http.disconnect"}
        return message

    return counted


async def _refuse(scope: Scope, send: Send, refused: Refused) -> None:
    """A person who opens the page reads why; everybody else is a program."""
    is_read = refused.status == 401 and "text/html" in _headers(scope).get("accept", "")
    if is_read and scope["type"] == "http":
        headers = [(b"content-type", b"text/html; charset=utf-8")]
        return await _answer(scope, send, refused.status, headers, refusal(refused.message))
    error: dict[str, Any] = {"message": refused.message}
    if refused.hint:
        error["hint"] = refused.hint
    headers = [(b"content-type", b"application/json")]
    return await _answer(scope, send, refused.status, headers, encode({"error": error}))


async def _let_in(send: _Outgoing) -> None:
    """A page that leads on, not a redirection: a browser sends a strict cookie only from our own page."""
    cookies = [(b"set-cookie", send.cookie.encode())] if send.cookie else []
    headers = [(b"content-type", b"text/html; charset=utf-8"), *cookies]
    await _answer({"type": "http"}, send, 200, headers, DOOR)


async def _answer(
    scope: Scope, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    prefix = "websocket.http" if scope["type"] == "websocket" else "http"
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": f"{prefix}.response.start", "status": status, "headers": headers})
    await send({"type": f"{prefix}.response.body", "body": body})
