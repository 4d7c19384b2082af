"""Metadata ↔ bytes, whatever the application has put into its settings."""

from __future__ import annotations

import msgspec

from harness.errors import StoreError
from harness.log import codec
from harness.log.store import Metadata


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
    """Of damaged data nothing but the id is known: the log itself is the truth."""
    try:
        return msgspec.json.decode(data, type=Metadata)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Metadata(session_id=log_id)
