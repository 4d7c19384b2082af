"""Sends the spans of a run to a collector of OpenTelemetry while it runs: OTLP as protobuf over HTTP.

Rules
1. It is never in the way of a run: spans are sent by a thread of its own, and what it cannot send it drops.
2. A collector that is busy (429, 502, 503, 504) or cannot be reached is asked again, a few times; any other refusal is
   final. One warning says that something was dropped, and why.
3. At the end of a run it waits two seconds for what is left, not longer.
"""

from __future__ import annotations

import gzip
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from harness.errors import UsageError
from harness.events import Event
from harness.folds.standards.otlp import spans_as_protobuf
from harness.folds.standards.spans import SpanFold, TraceSpan
from harness.version import __version__

HEADERS_VARIABLE, PARENT_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS", "TRACEPARENT"
_PATH = "/v1/traces"
_MOST_WAITING = 5_000
_AT_ONCE = 500
_GATHER_S = 0.5
_TIMEOUT_S = 10.0
_ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_LAST_WAIT_S = 2.0
_BUSY = frozenset((408, 429, 502, 503, 504))
_PARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")


class Collector(NamedTuple):
    """Where spans are sent."""

    url: str
    headers: Mapping[str, str]


def collector_of(url: str, environ: Mapping[str, str]) -> Collector:
    """Raises UsageError for what is no address. `/v1/traces` is added where the address has no such end."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address or any(one.isspace() or not one.isprintable() for one in url):
        raise UsageError(
            f"this is not an address of a collector: {url[:100]!r}", hint="such as http://127.0.0.1:4318"
        )
    url = url if parts.path.rstrip("/").endswith(_PATH) else f"{url.rstrip('/')}{_PATH}"
    given = (one.partition("=") for one in environ.get(HEADERS_VARIABLE, "").split(","))
    headers = {
        unquote(name.strip()): unquote(value.strip()) for name, mark, value in given if mark and name.strip()
    }
    if any(not text.isprintable() for text in (*headers, *headers.values())):
        raise UsageError(f"{HEADERS_VARIABLE} has characters that no header can have")
    return Collector(url, headers)


class SpanExport:
    """Contract: `feed` returns at once and never raises; `close` takes two seconds at most. `warn` is called once."""

    def __init__(
        self, collector: Collector, warn: Callable[[str], object], *, content: bool = False, parent: str = ""
    ) -> None:
        known = _PARENT.fullmatch(parent)
        self._fold = SpanFold(
            content=content, trace=known["trace"] if known else "", parent=known["span"] if known else ""
        )
        self._collector, self._warn = collector, warn
        self._waiting: list[TraceSpan] = []
        self._has_more = threading.Condition()
        self._is_over = threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(target=self._work, name="span-export", daemon=True)
        self._thread.start()

    def feed(self, events: Iterable[Event]) -> None:
        for event in events:
            self._put(self._fold.feed(event))

    def close(self) -> None:
        self._put(self._fold.finish())
        self._is_over.set()
        with self._has_more:
            self._has_more.notify()
        self._thread.join(_LAST_WAIT_S)
        if self._thread.is_alive():
            self._drop("the collector has not answered in time")

    def _put(self, spans: Sequence[TraceSpan]) -> None:
        if not spans:
            return
        with self._has_more:
            room = _MOST_WAITING - len(self._waiting)
            self._waiting += spans[:room]
            self._has_more.notify()
        if len(spans) > room:
            self._drop("the collector is too slow")

    def _work(self) -> None:
        while True:
            with self._has_more:
                while not self._waiting and not self._is_over.is_set():
                    self._has_more.wait()
            self._is_over.wait(_GATHER_S)
            with self._has_more:
                spans, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            if not spans and self._is_over.is_set():
                return
            self._send(gzip.compress(spans_as_protobuf(spans), 1))

    def _send(self, body: bytes) -> None:
        pause_s, why = _FIRST_PAUSE_S, ""
        for _ in range(_ATTEMPTS):
            is_final, why, wanted_s = self._post(body)
            if not why:
                return
            if is_final or self._is_over.wait(min(max(pause_s, wanted_s), _LONGEST_PAUSE_S)):
                break
            pause_s *= 2
        self._drop(why)

    def _post(self, body: bytes) -> tuple[bool, str, float]:
        """Whether it is of no use to ask again, why it was not taken (empty: it was), and when to ask again."""
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"harness/{__version__}",
            **self._collector.headers,
        }
        request = urllib.request.Request(self._collector.url, body, headers, method="POST")  # noqa: S310 checked
        try:
            with _opener.open(request, timeout=_TIMEOUT_S) as response:
                response.read(65_536)
        except urllib.error.HTTPError as error:
            with error:
                wanted = error.headers.get("Retry-After", "") if error.headers else ""
            pause_s = float(wanted) if wanted.isdecimal() else 0.0
            return error.code not in _BUSY, f"the collector answers {error.code}", pause_s
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return False, f"the collector cannot be reached: {reason}", 0.0
        return False, "", 0.0

    def _drop(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            with suppress(Exception):  # whoever shows warnings must not end the thread
                self._warn(f"spans were not sent to {self._collector.url}: {why}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A collector that sends us elsewhere is not followed: the headers are for it alone."""

    def redirect_request(self, *_about: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect())
