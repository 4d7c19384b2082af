"""How large an image is, read from its first bytes: an API may refuse a whole conversation for one that is too large."""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Mapping

_HEAD_CHARACTERS = 4 * 65_536
"""Of base64: before the size of a JPEG there may be long descriptions of it."""
_FRAMES = frozenset((*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)))
"""The segments of a JPEG that tell its size."""


def longest_side(media_type: str, data: str) -> int:
    """In pixels; 0 when it cannot be told. `data` is base64."""
    reader = _READERS.get(media_type)
    if reader is None:
        return 0
    try:
        return reader(a2b_base64(data[:_HEAD_CHARACTERS]))
    except (Base64Error, ValueError, IndexError):
        return 0


def _png(head: bytes) -> int:
    return max(int.from_bytes(head[16:20]), int.from_bytes(head[20:24]))


def _gif(head: bytes) -> int:
    return max(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"))


def _jpeg(head: bytes) -> int:
    place = 2
    while head[place] == 0xFF:
        kind, length = head[place + 1], int.from_bytes(head[place + 2 : place + 4])
        if kind in _FRAMES:
            height, width = head[place + 5 : place + 7], head[place + 7 : place + 9]
            return max(int.from_bytes(width), int.from_bytes(height))
        place += 2 + length
    return 0


def _webp(head: bytes) -> int:
    kind, body = head[12:16], head[20:]
    if kind == b"VP8X":
        return 1 + max(int.from_bytes(body[4:7], "little"), int.from_bytes(body[7:10], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return 1 + max(bits & 0x3FFF, bits >> 14 & 0x3FFF)
    frame = re.match(rb".{3}\x9d\x01\x2a(..)(..)", body, re.DOTALL)
    return max(int.from_bytes(side, "little") & 0x3FFF for side in frame.groups()) if frame else 0


_READERS: Mapping[str, Callable[[bytes], int]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/jpeg": _jpeg,
    "image/webp": _webp,
}
