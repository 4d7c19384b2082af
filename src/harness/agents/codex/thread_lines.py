"""Lines of `codex app-server` that need no rule of their own: pieces of messages, read many at once, and what is said
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec

from harness.agents.codex.items import CALLS, CallItem, Item
from harness.events.operation import Operation, Read
from harness.formats.fields import record_of, text_of

CONSUMED = (
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


# The items of `codex app-server` in the spelling of `codex exec`, so that both have the same rules.


_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")

CALL_KINDS = {
    "collabAgentToolCall": "collab_tool_call",
    "commandExecution": "command_execution",
    "fileChange": "file_change",
    "imageView": "image_view",
    "mcpToolCall": "mcp_tool_call",
    "webSearch": "web_search",
}
"""Items that are calls, and their names in `codex exec`, which does not show images that are looked at."""


@lru_cache(maxsize=512)
def spelled(word: str) -> str:
    """`agentsStates` → `agents_states`."""
    return _HUMP.sub("_", word).lower()


def as_of_exec(item: Item) -> Item:
    """A call as `codex exec` would write it."""
    item_fields: Item = {spelled(name): value for name, value in item.items()}
    item_fields["type"] = CALL_KINDS.get(text_of(item.get("type")), "")
    if "status" in item:
        item_fields["status"] = spelled(text_of(item["status"]))
    elif item_fields["type"] == "image_view":
        item_fields["status"] = "completed"
    if item_fields["type"] == "collab_tool_call":
        item_fields["tool"] = spelled(text_of(item.get("tool")))
        states = record_of(item.get("agentsStates"))
        item_fields["agents_states"] = {thread: _state(state) for thread, state in states.items()}
    return item_fields


def _state(state: Any) -> Item:
    return {**record_of(state), "status": spelled(text_of(record_of(state).get("status")))}


def _image_view(item: Item, _cwd: str) -> CallItem:
    path = text_of(item.get("path"))
    looked_at: list[Operation] = [Read(path=path)] if path else []
    return CallItem(tool_name="view_image", input={"path": path}, operations=looked_at)


THREAD_CALLS: dict[str, Callable[[Item, str], CallItem | None]] = {**CALLS, "image_view": _image_view}
"""As `items.CALLS`, by the names of `CALL_KINDS`."""
