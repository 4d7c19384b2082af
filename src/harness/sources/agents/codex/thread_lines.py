"""Lines of `codex app-server` that need no rule of their own: pieces of messages, read many at once, and what is said
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec

SAID_ELSEWHERE = (
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "fs/changed",
    "hook/completed",
    "hook/started",
    "item/autoApprovalReview/completed",
    "item/autoApprovalReview/started",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "model/verification",
    "remoteControl/status/changed",
    "serverRequest/resolved",
    "skills/changed",
    "thread/closed",
    "thread/compacted",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/queue/changed",
    "thread/readState/changed",
    "thread/settings/updated",
    "thread/started",
    "thread/status/changed",
    "turn/diff/updated",
    # Requests, which the driver turns into questions.
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
)
"""Notifications that say nothing new, and requests."""


class _Piece(msgspec.Struct, rename="camel", gc=False):
    thread_id: str
    turn_id: str
    item_id: str
    delta: str


class MessagePiece(msgspec.Struct, tag_field="method", tag="item/agentMessage/delta", gc=False):
    """A line that holds the next piece of a message and nothing else."""

    params: _Piece


@cache
def _decoder() -> Callable[[bytes], list[MessagePiece]]:
    return msgspec.json.Decoder(MessagePiece).decode_lines


def message_pieces(lines: Sequence[bytes]) -> list[MessagePiece]:
    """Many lines at once; raises one of `DECODE_ERRORS` when one of them is anything else."""
    return _decoder()(b"".join(lines))
