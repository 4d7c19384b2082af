"""Any value that an agent may have written, as JSON; never fails."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.log.codec import storable

_encode = msgspec.json.Encoder().encode
_UNENCODABLE = (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError)


def encode(value: Any) -> bytes:
    try:
        return _encode(value)
    except _UNENCODABLE:
        return _encode(storable(value))


def compact(value: Any) -> str:
    return encode(value).decode()


def pretty(value: Any) -> str:
    """Indented by two; what is nested too deeply for that stays on one line."""
    text = compact(value)
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
