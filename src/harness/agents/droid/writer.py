"""Factory Droid: a file in `~/.factory/sessions/<project>/`.

It is forked: to resume, droid asks its server first. What its own edits gave back, droid says in its own words.
"""

from __future__ import annotations

import os
from typing import Any

from harness.contracts.conversation import HandedAnswer, HandedConversation, HandedPrompt
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import (
    HandoverPlace,
    HandoverWriter,
    NewFile,
    SessionText,
    iso,
    json_lines,
    json_text,
    title_of,
)

_RISK = {"summary": "Run a command", "riskLevelReason": "It was run before.", "riskLevel": "low"}
_TOOLS = {
    "command": OwnTool("Execute", {"command": "{command}", **_RISK}),
    "read": OwnTool("Read", {"file_path": "{path}", "offset": "{skipped}", "limit": "{count}"}),
    "write": OwnTool("Create", {"file_path": "{path}", "content": "{content}"}),
    "edit": OwnTool("Edit", {"file_path": "{path}", "old_str": "{old}", "new_str": "{new}"}),
    "search": OwnTool("Grep", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("LS", {"directory_path": "{path}"}),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "droid", _TOOLS)
    head = {"type": "session_start", "id": place.session_id, "title": title_of(conversation)}
    lines: list[dict[str, Any]] = [{**head, "owner": "user", "version": 2, "cwd": place.cwd}]

    def add(role: str, at_ms: int, content: list[dict[str, Any]]) -> None:
        about = {"type": "message", "id": text.ids.uuid(), "timestamp": iso(at_ms)}
        parent = {"parentId": lines[-1]["id"]} if len(lines) > 1 else {}
        lines.append({**about, "message": {"role": role, "content": content}, **parent})

    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            add("user", turn.at_ms, [{"type": "text", "text": turn.text}])
        else:
            _add_answer(turn, text, add)
    folder = place.home.folder(".factory", "sessions", place.project)
    settings = {"autonomyMode": "auto-high", **({"model": place.model} if place.model else {})}
    return [
        NewFile(os.path.join(folder, f"{place.session_id}.jsonl"), json_lines(lines)),
        NewFile(os.path.join(folder, f"{place.session_id}.settings.json"), json_text(settings).encode()),
    ]


def _add_answer(turn: HandedAnswer, text: SessionText, add: Any) -> None:
    calls = text.calls(turn)
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in calls]
    add("assistant", turn.at_ms, content)
    if calls:
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": call.handed.output,
                "is_error": call.handed.has_failed,
            }
            for call in calls
        ]
        add("user", turn.calls[-1].ended_ms, results)


WRITER = HandoverWriter(
    agent="droid",
    tools=_TOOLS,
    files=_files,
    resume_args=("--fork", "{id}"),
    since=(0, 225),
    proven=(0, 225, 2),
    keeps_outputs=False,
)
