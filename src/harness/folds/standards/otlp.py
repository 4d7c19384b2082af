"""Spans in OTLP, the protocol of OpenTelemetry: as JSON for files, and as protobuf for collectors.

The protobuf is written by hand: it needs four kinds of fields, and a library for it would be larger than Harness.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from harness.folds.standards.spans import TraceSpan, is_number
from harness.version import __version__ as VERSION  # noqa: N812 a constant

RESOURCE: Mapping[str, Any] = {
    "service.name": "harness",
    "service.version": VERSION,
    "telemetry.sdk.name": "harness",
    "telemetry.sdk.language": "python",
    "telemetry.sdk.version": VERSION,
}
SCOPE = "harness"
_ERROR = 2
_NS = 1_000_000


def spans_as_json(spans: Sequence[TraceSpan], resource: Mapping[str, Any] = RESOURCE) -> dict[str, Any]:
    """A `TracesData`, which is also the body of an export."""
    scope = {"scope": {"name": SCOPE, "version": VERSION}, "spans": [_span_as_json(span) for span in spans]}
    return {"resourceSpans": [{"resource": {"attributes": _pairs_as_json(resource)}, "scopeSpans": [scope]}]}


def _span_as_json(span: TraceSpan) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent} if span.parent else {}
    events = [
        {"timeUnixNano": str(at_ms * _NS), "name": name, "attributes": _pairs_as_json(about)}
        for at_ms, name, about in span.events
    ]
    return {
        "traceId": span.trace,
        "spanId": span.id,
        **parent,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_ms * _NS),
        "endTimeUnixNano": str(max(span.start_ms, span.end_ms) * _NS),
        "attributes": _pairs_as_json(span.attributes),
        **({"events": events} if events else {}),
        "status": {"code": _ERROR, "message": span.error} if span.error else {},
    }


def _pairs_as_json(pairs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value_as_json(value)} for name, value in pairs.items()]


def _value_as_json(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value_as_json(item) for item in value]}}
    if not is_number(value):
        return {"stringValue": str(value)}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def spans_as_protobuf(spans: Sequence[TraceSpan], resource: Mapping[str, Any] = RESOURCE) -> bytes:
    """The same as bytes: the body of a POST to `/v1/traces`."""
    scope = field(1, field(1, SCOPE.encode()) + field(2, VERSION.encode()))
    scope_spans = scope + b"".join(field(2, _span_as_protobuf(span)) for span in spans)
    return field(1, field(1, pairs(1, resource)) + field(2, scope_spans))


def _span_as_protobuf(span: TraceSpan) -> bytes:
    events = b"".join(
        field(11, fixed(1, at_ms * _NS) + field(2, _utf8(name)) + pairs(3, about))
        for at_ms, name, about in span.events
    )
    return b"".join(
        (
            field(1, bytes.fromhex(span.trace)),
            field(2, bytes.fromhex(span.id)),
            field(4, bytes.fromhex(span.parent)) if span.parent else b"",
            field(5, _utf8(span.name)),
            number(6, span.kind),
            fixed(7, span.start_ms * _NS),
            fixed(8, max(span.start_ms, span.end_ms) * _NS),
            pairs(9, span.attributes),
            events,
            field(15, field(2, _utf8(span.error)) + number(3, _ERROR) if span.error else b""),
        )
    )


def pairs(place: int, values: Mapping[str, Any]) -> bytes:
    """Attributes: a list of `KeyValue`."""
    return b"".join(
        field(place, field(1, name.encode()) + field(2, _value(value))) for name, value in values.items()
    )


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return field(1, _utf8(value))
    if isinstance(value, bool):
        return number(2, value)
    if isinstance(value, list):
        return field(5, b"".join(field(1, _value(item)) for item in value))
    if not is_number(value):
        return field(1, _utf8(str(value)))
    return number(3, value) if isinstance(value, int) else double(4, value)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


# The kinds of fields in protobuf


def varint(value: int) -> bytes:
    value &= 0xFFFF_FFFF_FFFF_FFFF
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(place: int, content: bytes) -> bytes:
    return varint(place << 3 | 2) + varint(len(content)) + content


def number(place: int, value: int) -> bytes:
    return varint(place << 3) + varint(value)


def fixed(place: int, value: int) -> bytes:
    return varint(place << 3 | 1) + struct.pack("<Q", value)


def double(place: int, value: float) -> bytes:
    return varint(place << 3 | 1) + struct.pack("<d", value)
