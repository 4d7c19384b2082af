"""Any value that an agent may have written, as JSON; never fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from harness.log.codec import LINES_AT_ONCE, storable

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode
_UNENCODABLE = (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError)


def encode(value: Any) -> bytes:
    try:
        return _encode(value)
    except _UNENCODABLE:
        return _encode(storable(value))


def encode_blocks(values: Sequence[Any]) -> list[bytes]:
    """One value a line, each with its newline, in blocks of whole lines."""
    return [_block(values[start : start + LINES_AT_ONCE]) for start in range(0, len(values), LINES_AT_ONCE)]


def _block(values: Sequence[Any]) -> bytes:
    try:
        return _encoder.encode_lines(values)
    except _UNENCODABLE:
        return b"".join(encode(value) + b"\n" for value in values)


def compact(value: Any) -> str:
    return encode(value).decode()


def pretty(value: Any) -> str:
    """Indented by two; what is nested too deeply for that stays on one line."""
    text = compact(value)
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return text
