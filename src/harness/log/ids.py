"""Ids of runs: UUIDv7, so that sorting by name is sorting by time. Ids of logs: those, or the application's own."""

from __future__ import annotations

import os
import re

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_VERSION_AT = 14
_LOG_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def new_run_id(timestamp_ms: int) -> str:
    return _uuid7(timestamp_ms, os.urandom(10))


def derived_run_id(timestamp_ms: int, *words: str) -> str:
    """The same id for the same time and words, in every process."""
    from hashlib import sha256

    return _uuid7(timestamp_ms, sha256("\0".join(words).encode("utf-8", "replace")).digest()[:10])


def _uuid7(timestamp_ms: int, rest: bytes) -> str:
    number = (timestamp_ms & (2**48 - 1)) << 80 | int.from_bytes(rest, "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def time_of(run_id: str) -> int | None:
    """When an id of ours was made, in milliseconds; None for any other id."""
    is_ours = _UUID.fullmatch(run_id) is not None and run_id[_VERSION_AT] == "7"
    return int(run_id[:8] + run_id[9:13], 16) if is_ours else None


def is_run_id(text: str) -> bool:
    """Whether a text is an id that we could have made."""
    return _UUID.fullmatch(text) is not None


def is_log_id(text: str) -> bool:
    """Whether a text may name a log: the gate before any file is opened."""
    return _LOG_ID.fullmatch(text) is not None
