"""Otter: a session in `~/.otter/sessions/`, as `--session ID` finds it."""

from __future__ import annotations

from typing import Any

from harness.contracts.conversation import HandedConversation, HandedPrompt
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import HandoverPlace, HandoverWriter, NewFile, SessionText, json_lines

_TOOLS = {
    "command": OwnTool("sh", {"command": "{command}"}),
    "read": OwnTool("read", {"path": "{path}"}),
    "search": OwnTool("sh", {"command": "{command}"}),
    "list": OwnTool("sh", {"command": "{command}"}),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "otter", _TOOLS)
    records: list[dict[str, Any]] = [
        {"kind": "session", "id": place.session_id, "cwd": place.cwd, "model": place.model or "otter-1"}
    ]
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            records.append({"kind": "user", "text": turn.text, "at": turn.at_ms})
            continue
        if turn.text:
            records.append({"kind": "say", "text": turn.text, "at": turn.at_ms})
        for call in text.calls(turn):
            about = {"id": call.id, "tool": call.name, "input": call.input}
            records.append({"kind": "call", **about, "at": call.handed.at_ms})
            result = {"id": call.id, "ok": not call.handed.has_failed, "output": call.handed.output}
            records.append({"kind": "result", **result, "at": call.handed.ended_ms})
    path = place.home.folder(".otter", "sessions", f"{place.session_id}.jsonl")
    return [NewFile(path, json_lines(records))]


WRITER = HandoverWriter(agent="otter", tools=_TOOLS, files=_files, since=(1, 0), proven=(1, 0), is_held=True)
