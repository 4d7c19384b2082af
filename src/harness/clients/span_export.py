"""Sends the spans and metrics of runs to a collector of OpenTelemetry while they run: OTLP as protobuf over HTTP.

    with export_spans("http://127.0.0.1:4318"):     # all that this process records from here on
        ...

Rules
1. It is never in the way of a run: a thread of its own reads what was recorded, another one sends, and what cannot be
   sent is dropped.
2. A collector that is busy (429, 502, 503, 504) or cannot be reached is asked again, a few times; any other refusal is
   final. One warning says that something was dropped, and why. One that takes no metrics is sent none.
3. At the end it waits two seconds for what is left, not longer.
4. A run that began in another process is sent by the one in which it ends. Programs get their span as `TRACEPARENT`.
"""

from __future__ import annotations

import gzip
import http.client
import logging
import os
import re
import struct
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from harness.errors import UsageError
from harness.folds.standards.metrics import CUMULATIVE, DELTA, MetricFold
from harness.folds.standards.otlp import RESOURCE, spans_as_protobuf
from harness.folds.standards.spans import SpanFold, TraceSpan, ids_of_run
from harness.log.hub import Follower, Hub, observe
from harness.version import __version__

_logger = logging.getLogger("harness")
HEADERS_VARIABLE, PARENT_VARIABLE = "OTEL_EXPORTER_OTLP_HEADERS", "TRACEPARENT"
_RESOURCE_VARIABLE, _NAME_VARIABLE = "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME"
FROM_ENVIRONMENT = "env"
"""In place of an address."""
_ENDPOINT, _TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOL, _TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_DISABLED = "OTEL_SDK_DISABLED"
_METRICS_VARIABLE = "OTEL_METRICS_EXPORTER"
_TEMPORALITY_VARIABLE = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_PATH, _METRICS_PATH = "/v1/traces", "/v1/metrics"
_MOST_WAITING = 5_000
_MOST_WAITING_BYTES = 64 * 1024 * 1024
"""With texts, arguments and results a span can be large."""
_AT_ONCE = 500
_AT_ONCE_BYTES = 2 * 1024 * 1024
"""Collectors refuse what is too long as a whole."""
_MOST_BEFORE = 50_000
"""Of a log that is continued: how many events before are read, to know what is going on in it."""
_GATHER_S = 0.5
_METRICS_EVERY_S = 30.0
_TIMEOUT_S = 10.0
_ATTEMPTS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_LAST_WAIT_S = 2.0
_BUSY = frozenset((408, 429, 502, 503, 504))
_NO_METRICS = frozenset((404, 405, 415, 501))
_PARENT = re.compile(r"00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")


class Collector(NamedTuple):
    """Where spans are sent, and what is said of who sends them."""

    url: str
    headers: Mapping[str, str]
    resource: Mapping[str, Any] = RESOURCE
    temporality: int = CUMULATIVE
    takes_metrics: bool = True

    @property
    def metrics_url(self) -> str:
        return self.url.removesuffix("/").removesuffix(_PATH) + _METRICS_PATH


def collector_of(url: str, environ: Mapping[str, str]) -> Collector:
    """Raises UsageError for what is no address. `/v1/traces` is added where the address has no such end.

    `env`: the one that the variables of OpenTelemetry name. They alone send nothing: they are often set for other programs.
    """
    if url == FROM_ENVIRONMENT:
        url = _named_address(environ)
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise UsageError(
            f"this is not an address of a collector: {url[:100]!r}", hint="such as http://127.0.0.1:4318"
        )
    url = url if parts.path.rstrip("/").endswith(_PATH) else f"{url.rstrip('/')}{_PATH}"
    headers = _pairs(environ, HEADERS_VARIABLE)
    if any(not text.isprintable() for text in (*headers, *headers.values())):
        raise UsageError(f"{HEADERS_VARIABLE} has characters that no header can have")
    name = environ.get(_NAME_VARIABLE, "")
    instance = {"service.instance.id": str(uuid.uuid4())}
    resource = {**RESOURCE, **instance, **_pairs(environ, _RESOURCE_VARIABLE)}
    return Collector(
        url,
        headers,
        resource | ({"service.name": name} if name else {}),
        DELTA if environ.get(_TEMPORALITY_VARIABLE, "").lower() == "delta" else CUMULATIVE,
        environ.get(_METRICS_VARIABLE, "").lower() != "none",
    )


def _named_address(environ: Mapping[str, str]) -> str:
    """Raises UsageError."""
    protocol = environ.get(_TRACES_PROTOCOL) or environ.get(_PROTOCOL) or "http/protobuf"
    if protocol != "http/protobuf":
        raise UsageError(
            f"spans are sent as http/protobuf, and {_PROTOCOL} asks for {protocol[:40]}",
            hint="most collectors take it at port 4318",
        )
    url = environ.get(_TRACES_ENDPOINT) or environ.get(_ENDPOINT)
    if not url:
        raise UsageError(f"{_ENDPOINT} does not name a collector", hint="such as http://127.0.0.1:4318")
    return url


def _pairs(environ: Mapping[str, str], variable: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in environ.get(variable, "").split(","))
    return {
        unquote(name.strip()): unquote(value.strip()) for name, mark, value in pairs if mark and name.strip()
    }


@contextmanager
def export_spans(
    url: str, *, content: bool = False, warn: Callable[[str], object] = _logger.warning
) -> Iterator[None]:
    """Send the spans of all that this process records meanwhile to the collector at `url`.

    `url` may be `env`: the one that `OTEL_EXPORTER_OTLP_ENDPOINT` names. `OTEL_SDK_DISABLED=true` sends nothing.
    `content` sends texts, arguments and results as well. Raises UsageError for what is no address.
    """
    if os.environ.get(_DISABLED, "").lower() == "true":
        yield
        return
    export = LogExport(
        collector_of(url, os.environ), warn, content=content, parent=os.environ.get(PARENT_VARIABLE, "")
    )
    try:
        yield
    finally:
        export.close()


class _FollowedLog(NamedTuple):
    follower: Follower
    fold: SpanFold
    first: int
    """What is earlier was sent by another process, or not at all."""


class LogExport:
    """Follows all logs that this process opens (`log.hub.observe`). Contract: `close` takes four seconds at most."""

    def __init__(
        self, collector: Collector, warn: Callable[[str], object], *, content: bool = False, parent: str = ""
    ) -> None:
        match = _PARENT.fullmatch(parent)
        self._trace, self._parent = (match["trace"], match["span"]) if match else ("", "")
        self._has_content = content
        self._sender = SpanSender(collector, warn)
        self._woken: dict[int, _FollowedLog] = {}
        self._logs: dict[int, Callable[[], None]] = {}
        """What stops each log from waking this."""
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name="log-export", daemon=True)
        self._thread.start()
        self._stop_observing = observe(self)

    def opened(self, hub: Hub, /) -> None:
        fold = SpanFold(content=self._has_content, trace=self._trace, parent=self._parent)
        follower = hub.follower(max(0, hub.next_seq - _MOST_BEFORE))
        log = _FollowedLog(follower, fold, hub.next_seq)
        self._logs[id(log)] = hub.add_waker(partial(self._wake, log))
        self._wake(log)

    def environment(self, _log_id: str, run_id: str, /) -> Mapping[str, str]:
        if not run_id:
            return {}
        own = ids_of_run(run_id)
        return {PARENT_VARIABLE: f"00-{self._trace or own.trace}-{own.span}-01"}

    def close(self) -> None:
        self._stop_observing()
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(_LAST_WAIT_S)
        while self._logs:
            self._logs.popitem()[1]()
        self._sender.close()

    def _wake(self, log: _FollowedLog) -> None:
        with self._changed:
            self._woken[id(log)] = log
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._woken and not self._is_over:
                    self._changed.wait()
                woken, self._woken = self._woken, {}
            if not woken:
                return
            for log in woken.values():
                try:
                    self._read(log)
                except Exception:
                    _logger.exception("the spans of a log are not sent any more")
                    self._forget(log)

    def _read(self, log: _FollowedLog) -> None:
        while events := log.follower.poll():
            for event in events:
                spans = log.fold.feed(event)
                if spans and event.seq >= log.first:
                    self._sender.put(spans)
        if log.follower.is_ended:
            self._forget(log)

    def _forget(self, log: _FollowedLog) -> None:
        log.follower.close()
        if stop := self._logs.pop(id(log), None):
            stop()


class SpanSender:
    """Contract: `put` returns at once and never raises; `close` takes two seconds at most. `warn` is called once."""

    def __init__(self, collector: Collector, warn: Callable[[str], object]) -> None:
        self._collector, self._warn = collector, warn
        self._waiting: deque[tuple[TraceSpan, int]] = deque()
        """With about how many bytes each has."""
        self._size = 0
        self._metrics = MetricFold(_now_ms(), collector.temporality) if collector.takes_metrics else None
        self._metrics_at_s = time.monotonic() + _METRICS_EVERY_S
        self._has_more = threading.Condition()
        self._is_over = threading.Event()
        self._has_warned = False
        self._thread = threading.Thread(target=self._work, name="span-export", daemon=True)
        self._thread.start()

    def put(self, spans: Sequence[TraceSpan]) -> None:
        with self._has_more:
            if (metrics := self._metrics) is not None:
                for span in spans:
                    metrics.feed(span)
            too_many = [span for span in spans if not self._wait(span)]
            self._has_more.notify()
        if too_many:
            self._drop("the collector is too slow")

    def _wait(self, span: TraceSpan) -> bool:
        """Whether there was room for it."""
        size = _size_of(span)
        if len(self._waiting) >= _MOST_WAITING or self._size + size > _MOST_WAITING_BYTES:
            return False
        self._waiting.append((span, size))
        self._size += size
        return True

    def close(self) -> None:
        self._is_over.set()
        with self._has_more:
            self._has_more.notify()
        self._thread.join(_LAST_WAIT_S)
        if self._thread.is_alive():
            self._drop("the collector has not answered in time")

    def _work(self) -> None:
        while True:
            with self._has_more:
                while not self._waiting and not self._is_over.is_set() and not self._is_time_for_metrics():
                    self._has_more.wait(_METRICS_EVERY_S if self._has_metrics() else None)
            self._is_over.wait(_GATHER_S)
            with self._has_more:
                spans = self._taken_spans()
                is_last = not self._waiting and self._is_over.is_set()
                metrics = self._taken_metrics() if is_last or self._is_time_for_metrics() else b""
            if spans:
                self._send_spans(spans)
            if metrics:
                self._send(self._collector.metrics_url, metrics)
            if is_last:
                return

    def _taken_spans(self) -> list[TraceSpan]:
        """Some of those that wait, as many as are sent at once."""
        spans: list[TraceSpan] = []
        total = 0
        while self._waiting and len(spans) < _AT_ONCE and (not spans or total < _AT_ONCE_BYTES):
            span, size = self._waiting.popleft()
            spans.append(span)
            total += size
        self._size -= total
        return spans

    def _send_spans(self, spans: Sequence[TraceSpan]) -> None:
        try:
            body = spans_as_protobuf(spans, self._collector.resource)
        except (struct.error, ValueError, TypeError) as error:  # a log can say anything
            self._drop(f"what the log says cannot be written: {error}")
            return
        self._send(self._collector.url, body)

    def _has_metrics(self) -> bool:
        metrics = self._metrics
        return metrics is not None and metrics.has_news

    def _is_time_for_metrics(self) -> bool:
        return self._has_metrics() and time.monotonic() >= self._metrics_at_s

    def _taken_metrics(self) -> bytes:
        if (metrics := self._metrics) is None or not metrics.has_news:
            return b""
        self._metrics_at_s = time.monotonic() + _METRICS_EVERY_S
        return metrics.export(_now_ms(), self._collector.resource)

    def _send(self, url: str, body: bytes) -> None:
        pause_s, why, packed = _FIRST_PAUSE_S, "", gzip.compress(body, 1)
        for _ in range(_ATTEMPTS):
            is_final, why, wanted_s = self._post(url, packed)
            if not why:
                return
            if is_final or self._is_over.wait(min(max(pause_s, wanted_s), _LONGEST_PAUSE_S)):
                break
            pause_s *= 2
        self._drop(why)

    def _post(self, url: str, body: bytes) -> tuple[bool, str, float]:
        """Whether it is of no use to ask again, why it was not taken (empty: it was), and when to ask again."""
        headers = {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "gzip",
            "User-Agent": f"harness/{__version__}",
            **self._collector.headers,
        }
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 checked
        try:
            with _opener.open(request, timeout=_TIMEOUT_S) as response:
                response.read(65_536)
        except urllib.error.HTTPError as error:
            with error:
                delay = error.headers.get("Retry-After", "") if error.headers else ""
            if url != self._collector.url and error.code in _NO_METRICS:
                self._metrics = None
                return True, "", 0.0
            pause_s = float(delay) if delay.isdecimal() else 0.0
            return error.code not in _BUSY, f"the collector answers {error.code}", pause_s
        except http.client.HTTPException as error:
            return False, f"the collector does not speak HTTP: {type(error).__name__}", 0.0
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            return False, f"the collector cannot be reached: {reason}", 0.0
        return False, "", 0.0

    def _drop(self, why: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            with suppress(Exception):  # whoever shows warnings must not end the thread
                self._warn(f"spans were not sent to {self._collector.url}: {why}")


def _size_of(span: TraceSpan) -> int:
    return 400 + sum(len(value) for value in span.attributes.values() if isinstance(value, str))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A collector that sends us elsewhere is not followed: the headers are for it alone."""

    def redirect_request(self, *_about: object) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect())
