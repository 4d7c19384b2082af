"""Qwen Code: a chat in `~/.qwen/projects/<project>/chats/`, as `--resume ID` finds it."""

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

_TOOLS = {
    "command": OwnTool("run_shell_command", {"command": "{command}", "is_background": False}),
    "read": OwnTool("read_file", {"file_path": "{path}", "offset": "{skipped}", "limit": "{count}"}),
    "write": OwnTool("write_file", {"file_path": "{path}", "content": "{content}"}),
    "edit": OwnTool("edit", {"file_path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
    "search": OwnTool("grep_search", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("list_directory", {"path": "{path}"}),
}
_MODEL = "qwen3-coder-plus"


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "qwen", _TOOLS)
    lines: list[dict[str, Any]] = []

    def add(kind: str, at_ms: int, message: dict[str, Any], more: dict[str, Any]) -> None:
        about = {"uuid": text.ids.uuid(), "parentUuid": lines[-1]["uuid"] if lines else None}
        about |= {"sessionId": place.session_id, "timestamp": iso(at_ms), "type": kind}
        lines.append({**about, "cwd": place.cwd, "version": place.version, "message": message, **more})

    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            message = {"role": "user", "parts": [{"text": turn.text}]}
            add("user", turn.at_ms, message, {"provenance": "real_user"})
        else:
            _add_answer(turn, text, place.model or _MODEL, add)
    path = place.home.folder(".qwen", "projects", place.project, "chats", f"{place.session_id}.jsonl")
    return [NewFile(os.path.normpath(path), json_lines(lines))]


def _add_answer(turn: HandedAnswer, text: SessionText, model: str, add: Any) -> None:
    calls = text.calls(turn)
    parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text else []
    parts += [{"functionCall": {"id": call.id, "name": call.name, "args": call.input}} for call in calls]
    add("assistant", turn.at_ms, {"role": "model", "parts": parts}, {"model": model})
    for call in calls:
        output, has_failed = call.handed.output, call.handed.has_failed
        result = {"error" if has_failed else "output": output}
        response = {"functionResponse": {"id": call.id, "name": call.name, "response": result}}
        status = "error" if has_failed else "success"
        about = {"callId": call.id, "status": status, "resultDisplay": output}
        message = {"role": "user", "parts": [response]}
        add("tool_result", call.handed.ended_ms, message, {"toolCallResult": about})


WRITER = HandoverWriter(
    agent="qwen", tools=_TOOLS, files=_files, since=(0, 24), proven=(0, 24, 4), is_held=True
)
