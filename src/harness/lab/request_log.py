"""Every request that reached the scripted model, without the secrets that it carried."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec

from harness.errors import UsageError

HIDDEN = "***"
_SECRET_HEADERS = frozenset(
    ("api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-goog-api-key")
)
_SECRET_PARAMETERS = frozenset(("access_token", "api_key", "key", "token"))


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
    """Contract: may be used from any number of threads at once; `path` is written line by line."""

    def __init__(self, path: str = "", on_entry: Callable[[RequestEntry], object] | None = None) -> None:
        self._lock = threading.Lock()
        self._entries: list[RequestEntry] = []
        self._on_entry = on_entry
        self._file = -1
        self.failure = ""
        """Why the file has no further entries; empty when all is well."""
        if path:
            try:
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except (OSError, ValueError) as error:
                reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
                raise UsageError(f"cannot record requests in {path!r}: {reason}") from error

    @property
    def entries(self) -> list[RequestEntry]:
        with self._lock:
            return sorted(self._entries, key=lambda entry: entry.number)

    def add(self, entry: RequestEntry) -> None:
        with self._lock:
            self._entries.append(entry)
            if self._file >= 0:
                self._write(msgspec.json.encode(entry) + b"\n")
            if self._on_entry is not None:
                self._on_entry(entry)

    def _write(self, line: bytes) -> None:
        """A disk that is full is no reason to leave an agent without an answer."""
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self.failure = error.strerror or str(error)
            os.close(self._file)
            self._file = -1

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1


def without_secrets(headers: dict[str, str]) -> dict[str, str]:
    return {name: HIDDEN if name in _SECRET_HEADERS else value for name, value in headers.items()}


def public_path(path: str) -> str:
    """A path whose query holds no key."""
    bare, mark, query = path.partition("?")
    if not mark:
        return path
    pairs = parse_qsl(query, keep_blank_values=True)
    shown = [(name, HIDDEN if name.lower() in _SECRET_PARAMETERS else value) for name, value in pairs]
    return f"{bare}?{urlencode(shown, safe='*')}"
