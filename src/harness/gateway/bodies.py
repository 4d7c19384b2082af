"""Bodies of requests as differences: what an agent sends is nearly all in what it sent before.

A difference is the longest prefix and suffix that a body shares with one of the last few, and what is between. It is
made of bytes and not of JSON, so that every body comes back as it was, whatever it is. What is between is compressed with
the other body's text around that place as a dictionary: most of it is there too, only elsewhere.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import NamedTuple

_LOOKED_AT = 8
_WORTH_BYTES = 256
"""A shorter part in common is not worth a reference."""
_LONGEST_CHAIN = 64
_LARGEST_CHAIN_BYTES = 4 * 1024 * 1024
"""So much is read at most to get one body back, before a whole one is stored again."""
_LEVEL = 6
_LONGEST_BODY = 256 * 1024 * 1024
"""Of what is unpacked: a gateway takes less, so that more is no recording but an attack with one."""
_BEFORE_BYTES, _AFTER_BYTES = 8_000, 24_768
"""Of the dictionary, which zlib uses up to 32 kB of."""


class StoredBody(NamedTuple):
    """A body as it is stored."""

    data: bytes
    """What is between, compressed."""
    new_bytes: int
    """How much that is."""
    of: int = 0
    """The request of which it is a difference; 0: none, it is whole."""
    prefix: int = 0
    suffix: int = 0


class _Earlier(NamedTuple):
    number: int
    body: bytes
    chain: int
    chain_bytes: int


class BodyWriter:
    """Contract: `store` is called with ever higher numbers, by one thread at a time."""

    def __init__(self) -> None:
        self._earlier: deque[_Earlier] = deque(maxlen=_LOOKED_AT)

    def store(self, number: int, body: bytes) -> StoredBody:
        best: tuple[int, int, int, _Earlier] | None = None
        for earlier in self._earlier:
            if earlier.chain >= _LONGEST_CHAIN or earlier.chain_bytes > _LARGEST_CHAIN_BYTES:
                continue
            prefix = common_prefix(earlier.body, body)
            suffix = common_suffix(earlier.body, body, prefix)
            if best is None or prefix + suffix >= best[0]:
                best = (prefix + suffix, prefix, suffix, earlier)
        if best is None or best[0] < _WORTH_BYTES:
            data = zlib.compress(body, _LEVEL)
            self._earlier.append(_Earlier(number, body, 0, len(data)))
            return StoredBody(data, len(body))
        _, prefix, suffix, earlier = best
        between = body[prefix : len(body) - suffix]
        pack = zlib.compressobj(_LEVEL, zdict=_dictionary(earlier.body, prefix))
        data = pack.compress(between) + pack.flush()
        self._earlier.append(_Earlier(number, body, earlier.chain + 1, earlier.chain_bytes + len(data)))
        return StoredBody(data, len(between), earlier.number, prefix, suffix)


class BodyReader:
    """The way back. Contract: `read` is called in the order of the record. Holds no more bodies than the writer looks at."""

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}

    def read(self, number: int, body_stored: StoredBody) -> bytes | None:
        """None: it is damaged, or the one it is a difference from is."""
        if not body_stored.data and not body_stored.of:
            return b""  # a request without a body: the writer has not looked at it, and so it takes no place here
        base = self._bodies.get(body_stored.of, b"")
        if body_stored.of and (not base or body_stored.prefix + body_stored.suffix > len(base)):
            return None
        try:
            dictionary = _dictionary(base, body_stored.prefix) if body_stored.of else b""
            between = inflated(body_stored.data, dictionary)
        except zlib.error:
            return None
        body = (
            base[: body_stored.prefix]
            + between
            + (base[-body_stored.suffix :] if body_stored.suffix else b"")
        )
        self._bodies.pop(number, None)
        self._bodies[number] = body
        if len(self._bodies) > _LOOKED_AT:
            del self._bodies[next(iter(self._bodies))]
        return body


def inflated(data: bytes, dictionary: bytes = b"") -> bytes:
    """What was compressed here; of nothing, nothing. Raises zlib.error for what is damaged, or longer than a recording can be."""
    if not data:
        return b""
    unpack = zlib.decompressobj(zdict=dictionary) if dictionary else zlib.decompressobj()
    plain = unpack.decompress(data, _LONGEST_BODY)
    if not unpack.eof:
        raise zlib.error("it is longer than a recorded body can be, or ends in the middle")
    return plain


def _dictionary(base: bytes, prefix: int) -> bytes:
    return base[max(0, prefix - _BEFORE_BYTES) : prefix + _AFTER_BYTES]


def common_prefix(left: bytes, right: bytes) -> int:
    """By slices: bytes are compared by the word, views of them byte by byte, which is slower than the copies are."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(left: bytes, right: bytes, prefix: int) -> int:
    """Beyond a common prefix of that length."""
    low, high = 0, min(len(left), len(right)) - prefix
    while low < high:
        middle = (low + high + 1) // 2
        if left[len(left) - middle : len(left) - low] == right[len(right) - middle : len(right) - low]:
            low = middle
        else:
            high = middle - 1
    return low
