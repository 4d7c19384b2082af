"""The messages in which a state and its changes are sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.views.formatting.json_text import encode
from harness.views.page_state.object_stream import Operation


def state_message(state: bytes, seq: int) -> bytes:
    """`state`: as JSON."""
    return b'{"type":"state","state":%b,"seq":%d}' % (state, seq)


def delta_message(operations: Sequence[Operation], seq: int) -> bytes:
    return b'{"type":"delta","operations":%b,"seq":%d}' % (encode(operations), seq)


class _Sent(msgspec.Struct):
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    operations: msgspec.Raw = msgspec.Raw(b"[]")


def operations_of(message: bytes) -> bytes:
    """What one of these messages does, as a list of operations: a whole state is set at the empty path."""
    sent = _read(message)
    if isinstance(sent.state, msgspec.UnsetType):
        return bytes(sent.operations)
    return b'[{"type":"set","path":[],"value":%b}]' % bytes(sent.state)


_read = msgspec.json.Decoder(_Sent).decode
