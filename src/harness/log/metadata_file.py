"""Metadata ↔ bytes, whatever the application has put into its settings."""

from __future__ import annotations

import msgspec

from harness.errors import StoreError
from harness.log import codec
from harness.log.store import Metadata

_DAMAGED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_END_OF_TIME_MS = 2**53
"""No clock shows more: such a time was damaged, and would fit into no database."""


def encode(metadata: Metadata) -> bytes:
    """Raises StoreError when a setting is no JSON."""
    try:
        return msgspec.json.encode(metadata)
    except (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError):
        pass  # a lone surrogate in a title must not cost the thread its settings
    try:
        return msgspec.json.encode(codec.storable(metadata))
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"the settings of {metadata.session_id} cannot be stored: {error}", hint="a setting is JSON"
        ) from error


def decode(data: bytes, log_id: str) -> Metadata:
    """Of damaged data what can be saved, at the least the id: the log itself is the truth, and its name its id."""
    try:
        metadata = msgspec.json.decode(data, type=Metadata)
    except _DAMAGED:
        metadata = _salvaged(data)
    metadata.session_id = log_id
    for name in ("created_ms", "updated_ms"):
        if not 0 <= getattr(metadata, name) < _END_OF_TIME_MS:
            setattr(metadata, name, 0)
    if len(metadata.start_time) > len(str(_END_OF_TIME_MS)):
        metadata.start_time = ""
    return metadata


def _salvaged(data: bytes) -> Metadata:
    """Field for field: each begins a line of its own, so that damage costs one of them."""
    metadata = Metadata(session_id="")
    for part in data.rstrip().removesuffix(b"}").split(b'\n  "')[1:]:
        name = part.partition(b'"')[0].decode("ascii", "replace")
        try:
            field = b'{"session_id":"","%b}' % part.rstrip().removesuffix(b",")
            value = msgspec.json.decode(field, type=Metadata)
        except _DAMAGED:
            continue
        if name in Metadata.__struct_fields__:
            setattr(metadata, name, getattr(value, name))
    return metadata
