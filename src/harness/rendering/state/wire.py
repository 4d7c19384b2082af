"""The messages in which a state and its changes are sent."""

from __future__ import annotations

from collections.abc import Sequence

from harness.rendering.json_text import encode
from harness.rendering.object_stream import Operation


def state_message(state: bytes, seq: int) -> bytes:
    """`state`: as JSON."""
    return b'{"type":"state","state":%b,"seq":%d}' % (state, seq)


def delta_message(operations: Sequence[Operation], seq: int) -> bytes:
    return b'{"type":"delta","operations":%b,"seq":%d}' % (encode(operations), seq)
