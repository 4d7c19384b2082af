"""Goose: `goose session import FILE`, which takes a session file of Claude Code with all its calls."""

from __future__ import annotations

import os

from harness.contracts.conversation import HandedConversation
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import HandoverPlace, HandoverWriter, NewFile, json_lines
from harness.protocols.claude_session import claude_records

_SHELL = OwnTool("shell", {"command": "{command}"})
_TOOLS = {
    "command": _SHELL,
    "read": _SHELL,
    "search": _SHELL,
    "list": OwnTool("tree", {"path": "{path}", "depth": 1}),
    "write": OwnTool("write", {"path": "{path}", "content": "{content}"}),
    "edit": OwnTool("edit", {"path": "{path}", "before": "{old}", "after": "{new}"}),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    path = os.path.join(place.folder, f"{place.session_id}.jsonl")
    return [NewFile(path, json_lines(claude_records(conversation, place, "goose", _TOOLS)))]


WRITER = HandoverWriter(
    agent="goose",
    tools=_TOOLS,
    files=_files,
    importing=("session", "import", "{file}"),
    removing=("session", "remove", "--session-id", "{id}"),
    imported_id=r"\b(\d{8}_\d+)\b",
    since=(1, 52),
    proven=(1, 52, 0),
    keeps_outputs=False,
)
