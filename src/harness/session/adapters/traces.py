"""Spans as lines of OTLP/JSON in a file, which any OpenTelemetry collector can read."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from harness.log.private_files import append_all, make_private_directory, open_private

_logger = logging.getLogger("harness.session")
_INTERNAL, _OK, _ERROR = 1, 1, 2


class TraceFile:
    """Implements `Observability`. Each span is one line, written when it has ended."""

    def __init__(self, path: str, *, service_name: str = "harness") -> None:
        self._path = os.path.abspath(path)
        self._service_name = service_name

    def start_span(
        self, name: str, *, attributes: Mapping[str, Any], context: Mapping[str, Any] | None = None
    ) -> FileSpan:
        """`context`: `traceId` and `spanId` of the caller's span, if there is one."""
        return FileSpan(self, name, attributes, context or {})

    def write(self, span: dict[str, Any]) -> None:
        resource = {"attributes": _attributes({"service.name": self._service_name})}
        scope = {"scope": {"name": "harness"}, "spans": [span]}
        line = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        try:
            make_private_directory(os.path.dirname(self._path))
            fd = open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                append_all(fd, (msgspec.json.encode(line) + b"\n",))
            finally:
                os.close(fd)
        except OSError:
            _logger.warning("a span could not be written to %s", self._path, exc_info=True)


class FileSpan:
    """Implements `Span`."""

    def __init__(
        self, file: TraceFile, name: str, attributes: Mapping[str, Any], context: Mapping[str, Any]
    ) -> None:
        self.trace_id: str = str(context.get("traceId") or secrets.token_hex(16))
        self.span_id: str = secrets.token_hex(8)
        self._parent_id = str(context.get("spanId") or "")
        self._file = file
        self._name = name
        self._attributes = dict(attributes)
        self._started_ns = time.time_ns()

    def end(self, *, attributes: Mapping[str, Any], error: str = "") -> None:
        span: dict[str, Any] = {
            "traceId": self.trace_id,
            "spanId": self.span_id,
            "name": self._name,
            "kind": _INTERNAL,
            "startTimeUnixNano": str(self._started_ns),
            "endTimeUnixNano": str(max(time.time_ns(), self._started_ns)),
            "attributes": _attributes({**self._attributes, **attributes}),
            "status": {"code": _ERROR, "message": error} if error else {"code": _OK},
        }
        if self._parent_id:
            span["parentSpanId"] = self._parent_id
        self._file.write(span)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value if isinstance(value, str) else msgspec.json.encode(value).decode()}
