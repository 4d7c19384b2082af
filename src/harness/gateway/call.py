"""One model call, and who answers it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec

from harness.gateway.http_requests import ArrivedRequest
from harness.gateway.reply import Reply
from harness.models.wires.wire import HttpRequest, WireEndpoint, WireFormat, all_wires

KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")
"""Besides `authorization`."""


class GatewayCall:
    """What was asked. Read-only once it is made."""

    def __init__(
        self, number: int, at_ms: int, arrived: ArrivedRequest, plain: bytes, trouble: str = ""
    ) -> None:
        """`plain`: the body without compression; `trouble`: why it cannot be unpacked."""
        self.number = number
        self.at_ms = at_ms
        self.arrived = arrived
        self.plain = plain
        self.trouble = trouble
        self.headers: dict[str, str] = arrived.headers
        bare, _, query = arrived.target.partition("?")
        self.http: HttpRequest = HttpRequest(
            method=arrived.method,
            path=unquote(bare).rstrip("/"),
            query=dict(parse_qsl(query)),
            headers=self.headers,
            body=_decoded(plain),
        )
        wire_name, self.endpoint = _route(self.http)
        self.wire_name: str = wire_name

    @property
    def wire(self) -> WireFormat:
        """Of calls of no API: that of Chat Completions, whose errors most programs understand."""
        return all_wires()[self.wire_name or "chat"]

    @property
    def shown_keys(self) -> list[str]:
        """By which it says who asks."""
        bearer = self.headers.get("authorization", "")
        found = [bearer[7:].strip() if bearer[:7].lower() == "bearer " else ""]
        found += [self.headers.get(name, "") for name in KEY_HEADERS]
        return [key for key in (*found, self.http.query.get("key", "")) if key]

    @cached_property
    def model(self) -> str:
        return self.wire.read(self.http).model if self.endpoint == "answer" else ""


def _route(http: HttpRequest) -> tuple[str, WireEndpoint | None]:
    for name, wire in all_wires().items():
        if (endpoint := wire.endpoint(http)) is not None:
            return name, endpoint
    return "", None


def _decoded(data: bytes) -> Any:
    """JSON where it is JSON, text where it is text."""
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")


class Answerer(Protocol):
    """Contract: `answer` writes one whole answer, or cuts it off; what the far side does is never an exception. It
    raises OSError where the client has gone. Called from any number of threads at once.
    """

    def answer(self, call: GatewayCall, reply: Reply) -> None: ...
