"""JSON of what names files, whose names are bytes: a byte that is not UTF-8 is written as the escape of the half
character that Python keeps for it, and read back as that.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

import msgspec

Kind = TypeVar("Kind")


def encode(value: Any, order: Literal["sorted"] | None = None, indent: int = 0) -> bytes:
    """As `msgspec` does; it refuses such a half, and then it is written the slow way."""
    try:
        data = msgspec.json.encode(value, order=order)
        return msgspec.json.format(data, indent=indent) if indent else data
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, str_keys=True, order=order)
        return json.dumps(plain, indent=indent or None).encode()


def decode(data: bytes, type: type[Kind]) -> Kind:
    """Raises msgspec.DecodeError, of which the one for a wrong shape is a kind."""
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if b"\\ud" not in data:
            raise
    try:
        plain = json.loads(data)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    return msgspec.convert(plain, type)
