"""Grok Build: a folder in `~/.grok/sessions/<directory>/`, as `--resume ID` finds it."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

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

_TOOLS = {
    "command": OwnTool("run_terminal_command", {"command": "{command}", "description": "Run it"}),
    "read": OwnTool("read_file", {"target_file": "{path}", "offset": "{first}", "limit": "{count}"}),
    "write": OwnTool("write", {"file_path": "{path}", "content": "{content}"}),
    "edit": OwnTool("search_replace", {"file_path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
    "search": OwnTool("grep", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("list_dir", {"target_directory": "{path}"}),
}
_MODEL = "grok-code-fast-1"


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "grok", _TOOLS)
    model = place.model or _MODEL
    lines: list[dict[str, Any]] = []
    prompts = 0
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            query = f"<user_query>\n{turn.text}\n</user_query>"
            content = [{"type": "text", "text": query}]
            lines.append({"type": "user", "content": content, "prompt_index": prompts})
            prompts += 1
        else:
            lines += _answer(turn, text, model)
    # A session without a model is continued with the one that its service has for the user.
    folder = place.home.folder(
        ".grok", "sessions", quote(place.cwd, safe="", errors="surrogateescape"), place.session_id
    )
    start_time, end_time = iso(conversation.started_ms), iso(conversation.ended_ms)
    summary = {
        "info": {"id": place.session_id, "cwd": place.cwd},
        "session_summary": title_of(conversation),
        "created_at": start_time,
        "updated_at": end_time,
        "num_messages": len(lines),
        "num_chat_messages": len(lines),
        "current_model_id": place.model,
        "next_trace_turn": prompts,
        "chat_format_version": 1,
        "session_kind": "headless",
        "last_active_at": end_time,
    }
    return [
        NewFile(os.path.join(folder, "chat_history.jsonl"), json_lines(lines)),
        NewFile(os.path.join(folder, "summary.json"), json_text(summary).encode() + b"\n"),
    ]


def _answer(turn: HandedAnswer, text: SessionText, model: str) -> list[dict[str, Any]]:
    calls = text.calls(turn)
    answer: dict[str, Any] = {"type": "assistant", "content": turn.text, "model_id": model}
    if calls:
        answer["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": json_text(call.input)} for call in calls
        ]
    results = [
        {"type": "tool_result", "tool_call_id": call.id, "content": call.handed.output} for call in calls
    ]
    return [answer, *results]


WRITER = HandoverWriter(
    agent="grok",
    tools=_TOOLS,
    files=_files,
    since=(1, 0),
    proven=(1, 0, 41),
    is_held=True,
    keeps_failures=False,
)
