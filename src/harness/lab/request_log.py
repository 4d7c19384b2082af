"""Every request that reached the scripted model, without the secrets that it carried."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import msgspec

from harness.gateway.call import GatewayCall
from harness.gateway.call_records import public_path, shown_headers


class RequestEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    number: int
    """From 1, in order of arrival."""
    at_ms: int
    method: str
    path: str
    headers: dict[str, str]
    body: Any
    status: int
    """0 when the connection was closed without an answer."""
    wire: str = ""
    """Empty: no API has such a route."""
    lane: str = ""
    turn: int | None = None
    model: str = ""
    outcome: str = ""
    """answered, side, over (the script had no further turn), count, models, page, refused, dropped, not found, unreadable."""


class RequestLog:
    """Contract: may be used from any number of threads at once."""

    def __init__(self, on_entry: Callable[[RequestEntry], object] | None = None) -> None:
        self._lock = threading.Lock()
        self._entries: list[RequestEntry] = []
        self._on_entry = on_entry

    @property
    def entries(self) -> list[RequestEntry]:
        with self._lock:
            return sorted(self._entries, key=lambda entry: entry.number)

    def note(self, call: GatewayCall, status: int, outcome: str, **about: Any) -> None:
        """Called before a byte is sent: a client that has an answer finds its request here."""
        entry = RequestEntry(
            number=call.number,
            at_ms=call.at_ms,
            method=call.http.method,
            path=public_path(call.arrived.target),
            headers=shown_headers(call.headers),
            body=call.http.body,
            status=status,
            outcome=outcome,
            wire=call.wire_name,
            **about,
        )
        with self._lock:
            self._entries.append(entry)
            if self._on_entry is not None:
                self._on_entry(entry)
