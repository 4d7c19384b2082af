"""Events for listeners, messages and the display state as plain data and as JSON, and back. Writing never fails."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from harness.folds.session.messages import Growing, HarnessMessage, MessageDraft
from harness.log.codec import storable

Value = TypeVar("Value")
_UNENCODABLE = (UnicodeEncodeError, OverflowError, RecursionError, TypeError, ValueError)


def _written(value: Any) -> Any:
    """The `enc_hook` of msgspec: encodes types that it does not know."""
    if isinstance(value, HarnessMessage | MessageDraft):
        return value.data()
    if isinstance(value, Growing):
        return str(value)
    raise NotImplementedError


def _written_plainly(value: Any) -> Any:
    """The same without values that JSON cannot hold; an object that is no data becomes its `repr`."""
    try:
        return storable(_written(value))
    except NotImplementedError:
        return storable(repr(value))


def _read(kind: type, value: Any) -> Any:
    if kind is HarnessMessage:
        return HarnessMessage.from_data(value)
    if kind is MessageDraft:
        return MessageDraft.from_data(value)
    if kind is Growing:
        return Growing(value)
    raise NotImplementedError


_encode = msgspec.json.Encoder(enc_hook=_written).encode
_encode_odd = msgspec.json.Encoder(enc_hook=_written_plainly).encode


def encode(value: Any) -> bytes:
    """JSON of an event, a message or a display state."""
    try:
        return _encode(value)
    except _UNENCODABLE:
        return _encode_odd(storable(value))


def to_wire(value: Any) -> Any:
    """The same as plain data, as a copy: later changes do not reach it."""
    return msgspec.json.decode(encode(value))


def read(data: Any, kind: type[Value]) -> Value:
    """The inverse of `to_wire`. Raises msgspec.ValidationError."""
    return msgspec.convert(data, kind, dec_hook=_read)
