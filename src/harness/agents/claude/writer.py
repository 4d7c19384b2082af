"""Claude Code: a file in `~/.claude/projects/<project>/`, as `--resume ID` finds it.

It can be given a file by its path too, but would then leave the continued session beside that file, where its own list
does not show it. Calls of one answer have one message id: with several, it replaces results without a word.
"""

from __future__ import annotations

import os

from harness.contracts.conversation import HandedConversation
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import (
    HandoverPlace,
    HandoverWriter,
    NewFile,
    json_lines,
)
from harness.protocols.claude_session import claude_records

_TOOLS = {
    "command": OwnTool("Bash", {"command": "{command}", "description": "Run a command"}),
    "read": OwnTool("Read", {"file_path": "{path}", "offset": "{first}", "limit": "{count}"}),
    "write": OwnTool("Write", {"file_path": "{path}", "content": "{content}"}),
    "edit": OwnTool("Edit", {"file_path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
    "search": OwnTool("Grep", {"pattern": "{query}", "path": "{path}", "output_mode": "content"}),
    "list": OwnTool("Bash", {"command": "{command}", "description": "Run a command"}),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    projects = place.home.folder(".claude", variable="CLAUDE_CONFIG_DIR", below=("projects",))
    path = os.path.join(projects, place.project, f"{place.session_id}.jsonl")
    return [NewFile(path, json_lines(claude_records(conversation, place, "claude", _TOOLS)))]


WRITER = HandoverWriter(
    agent="claude", tools=_TOOLS, files=_files, since=(2, 0, 60), proven=(2, 1, 325), is_held=True
)
