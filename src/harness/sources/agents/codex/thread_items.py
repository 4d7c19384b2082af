"""The items of `codex app-server` in the spelling of `codex exec`, so that both have the same rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from harness.events.operation import Operation, Read
from harness.sources.agents.codex.items import CALLS, CallItem, Item
from harness.sources.formats.fields import record_of, text_of

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
    found: Item = {spelled(name): value for name, value in item.items()}
    found["type"] = CALL_KINDS.get(text_of(item.get("type")), "")
    if "status" in item:
        found["status"] = spelled(text_of(item["status"]))
    elif found["type"] == "image_view":
        found["status"] = "completed"
    if found["type"] == "collab_tool_call":
        found["tool"] = spelled(text_of(item.get("tool")))
        states = record_of(item.get("agentsStates"))
        found["agents_states"] = {thread: _state(state) for thread, state in states.items()}
    return found


def _state(state: Any) -> Item:
    return {**record_of(state), "status": spelled(text_of(record_of(state).get("status")))}


def _image_view(item: Item, _cwd: str) -> CallItem:
    path = text_of(item.get("path"))
    looked_at: list[Operation] = [Read(path=path)] if path else []
    return CallItem(tool_name="view_image", input={"path": path}, operations=looked_at)


THREAD_CALLS: dict[str, Callable[[Item, str], CallItem | None]] = {**CALLS, "image_view": _image_view}
"""As `items.CALLS`, by the names of `CALL_KINDS`."""
