"""Qwen Code: a chat in `~/.qwen/projects/<project>/chats/`, as `--resume ID` finds it."""

from __future__ import annotations

import os
import re
from typing import Any

from harness.sources.handover.conversation import HandedAnswer, HandedConversation, HandedPrompt
from harness.sources.handover.own_tools import OwnTool
from harness.sources.handover.writer import (
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
    project = re.sub(r"[^A-Za-z0-9]", "-", place.cwd)
    path = place.home.folder(".qwen", "projects", project, "chats", f"{place.session_id}.jsonl")
    return [NewFile(os.path.normpath(path), json_lines(lines))]


def _add_answer(turn: HandedAnswer, text: SessionText, model: str, add: Any) -> None:
    made = [(text.ids.named("call_"), call, *text.object_call(call)) for call in turn.calls]
    parts: list[dict[str, Any]] = [{"text": turn.text}] if turn.text else []
    parts += [
        {"functionCall": {"id": call_id, "name": name, "args": asked}} for call_id, _call, name, asked in made
    ]
    add("assistant", turn.at_ms, {"role": "model", "parts": parts}, {"model": model})
    for call_id, call, name, _asked in made:
        given = {"error" if call.has_failed else "output": call.output}
        response = {"functionResponse": {"id": call_id, "name": name, "response": given}}
        status = "error" if call.has_failed else "success"
        about = {"callId": call_id, "status": status, "resultDisplay": call.output}
        message = {"role": "user", "parts": [response]}
        add("tool_result", call.ended_ms, message, {"toolCallResult": about})


WRITER = HandoverWriter(
    agent="qwen", tools=_TOOLS, files=_files, since=(0, 24), proven=(0, 24, 4), is_held=True
)
