"""Gemini CLI: `gemini --session-file FILE`, which copies the file among its own chats.

A result is written once, in the call. Its own sessions have it a second time, as a message, and it then sends both.
"""

from __future__ import annotations

import os
from hashlib import sha256
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

_CHANGE = {"instruction": "Change it.", "old_string": "{old}", "new_string": "{new}"}
_TOOLS = {
    "command": OwnTool("run_shell_command", {"command": "{command}", "description": "Run a command"}),
    "read": OwnTool("read_file", {"file_path": "{path}", "start_line": "{first}", "end_line": "{last}"}),
    "write": OwnTool("write_file", {"file_path": "{path}", "content": "{content}"}),
    "edit": OwnTool("replace", {"file_path": "{path}", **_CHANGE}),
    "search": OwnTool("grep_search", {"pattern": "{query}", "dir_path": "{path}"}),
    "list": OwnTool("list_directory", {"dir_path": "{path}"}),
}
_MODEL = "gemini-2.5-flash"


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "gemini", _TOOLS)
    start_time, end_time = iso(conversation.started_ms), iso(conversation.ended_ms)
    head = {
        "sessionId": place.session_id,
        "projectHash": sha256(place.cwd.encode("utf-8", "surrogateescape")).hexdigest(),
        "startTime": start_time,
        "lastUpdated": end_time,
        "kind": "main",
        "directories": [place.cwd],
    }
    lines: list[dict[str, Any]] = [head]
    for turn in conversation.turns:
        about = {"id": text.ids.uuid(), "timestamp": iso(turn.at_ms)}
        if isinstance(turn, HandedPrompt):
            lines.append({**about, "type": "user", "content": [{"text": turn.text}]})
        else:
            lines.append({**about, **_answer(turn, text, place.model or _MODEL)})
    name = f"session-{start_time[:16].replace(':', '-')}-{place.session_id[:8]}.jsonl"
    return [NewFile(os.path.join(place.folder, name), json_lines(lines))]


def _answer(turn: HandedAnswer, text: SessionText, model: str) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "gemini", "content": turn.text, "thoughts": [], "model": model}
    calls: list[dict[str, Any]] = []
    for call in turn.calls:
        name, arguments = text.object_call(call)
        call_id = text.ids.named("call_")
        result = {"error" if call.has_failed else "output": call.output}
        response = {"functionResponse": {"id": call_id, "name": name, "response": result}}
        calls.append(
            {
                "id": call_id,
                "name": name,
                "args": arguments,
                "result": [response],
                "status": "error" if call.has_failed else "success",
                "timestamp": iso(call.ended_ms),
            }
        )
    return {**answer, "toolCalls": calls} if calls else answer


WRITER = HandoverWriter(
    agent="gemini",
    tools=_TOOLS,
    files=_files,
    resume_args=("--session-file", "{file}"),
    since=(0, 61),
    proven=(0, 61, 0),
)
