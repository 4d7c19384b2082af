"""Pi: `pi --fork FILE`, which takes a session file from anywhere into a session of its own."""

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
)

_BASH = OwnTool("bash", {"command": "{command}"})
_TOOLS = {
    "command": _BASH,
    "read": OwnTool("read", {"path": "{path}", "offset": "{first}", "limit": "{count}"}),
    "write": OwnTool("write", {"path": "{path}", "content": "{content}"}),
    "edit": OwnTool("edit", {"path": "{path}", "edits": [{"oldText": "{old}", "newText": "{new}"}]}),
    "search": _BASH,
    "list": _BASH,
}
_COSTS = dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)
_NOTHING_USED = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": _COSTS}
_ABOUT = {"role": "assistant", "api": "openai-completions", "provider": "harness", "model": "handed-over"}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "pi", _TOOLS)
    start_time = iso(conversation.started_ms)
    head = {
        "type": "session",
        "version": 3,
        "id": place.session_id,
        "timestamp": start_time,
        "cwd": place.cwd,
    }
    lines: list[dict[str, Any]] = [head]

    def add(at_ms: int, message: dict[str, Any]) -> None:
        parent = lines[-1]["id"] if len(lines) > 1 else None
        about = {"type": "message", "id": text.ids.hex(8), "parentId": parent, "timestamp": iso(at_ms)}
        lines.append({**about, "message": {**message, "timestamp": at_ms}})

    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            add(turn.at_ms, {"role": "user", "content": [{"type": "text", "text": turn.text}]})
        else:
            _add_answer(turn, text, add)
    path = os.path.join(
        place.folder, f"{start_time.replace(':', '-').replace('.', '-')}_{place.session_id}.jsonl"
    )
    return [NewFile(path, json_lines(lines))]


def _add_answer(turn: HandedAnswer, text: SessionText, add: Any) -> None:
    calls = text.calls(turn)
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "toolCall", "id": call.id, "name": call.name, "arguments": call.input} for call in calls
    ]
    reason = "toolUse" if calls else "stop"
    add(turn.at_ms, {**_ABOUT, "content": content, "usage": _NOTHING_USED, "stopReason": reason})
    for call in calls:
        result = {"role": "toolResult", "toolCallId": call.id, "toolName": call.name}
        output = [{"type": "text", "text": call.handed.output}]
        add(call.handed.ended_ms, {**result, "content": output, "isError": call.handed.has_failed})


WRITER = HandoverWriter(
    agent="pi",
    tools=_TOOLS,
    files=_files,
    new_id=lambda ids, at_ms: ids.uuid7(at_ms),
    resume_args=("--fork", "{file}"),
    since=(1, 5),
    proven=(1, 5, 0),
)
