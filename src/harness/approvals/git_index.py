"""Which repositories a repository holds, by its index: git looks into them too, and obeys what they say of programs."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_MODE_OF_A_REPOSITORY = 0o160000
_MODE_AS_STORED = struct.pack(">I", _MODE_OF_A_REPOSITORY)
_BEFORE_NAME = 62
"""Bytes of an entry with a SHA-1: ten numbers, the hash, the flags."""
_LARGER_HASH = 12
"""By how much a SHA-256 is longer."""
_IS_EXTENDED, _NAME_LENGTH = 0x4000, 0x0FFF
_LARGEST_BYTES = 256 << 20


def nested_repositories(git_folder: str) -> list[str] | None:
    """Their paths from the top of the work tree on; None where the index cannot be read."""
    try:
        with open(os.path.join(git_folder, "index"), "rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError:
        return None
    if len(data) > _LARGEST_BYTES:
        return None
    if _MODE_AS_STORED not in data:  # as in most repositories: nothing has to be read in full
        return []
    for before_name in (_BEFORE_NAME, _BEFORE_NAME + _LARGER_HASH):
        try:
            return [name for mode, name in _entries(data, before_name) if mode == _MODE_OF_A_REPOSITORY]
        except (struct.error, ValueError, IndexError):
            continue
    return None


def _entries(data: bytes, before_name: int) -> Iterator[tuple[int, str]]:
    """Mode and name of each. Raises ValueError, IndexError or struct.error for what is no index."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError(version)
    position, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">I", data, position + 24)
        (flags,) = struct.unpack_from(">H", data, position + before_name - 2)
        if mode >> 12 not in (0o4, 0o10, 0o12, 0o16):
            raise ValueError(mode)
        start = position + before_name + (2 if flags & _IS_EXTENDED else 0)
        if version == 4:
            dropped, start = _number(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - dropped] + data[start:end]
            position = end + 1
        else:
            length = flags & _NAME_LENGTH
            end = start + length if length < _NAME_LENGTH else data.index(b"\0", start)
            name = data[start:end]
            position += (end - position + 8) // 8 * 8
        yield mode, os.fsdecode(name)


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    byte = data[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, position + 1
