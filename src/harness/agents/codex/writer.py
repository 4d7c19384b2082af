"""Codex: a rollout in `~/.codex/sessions/YYYY/MM/DD/`, as `codex resume ID` finds it.

Its own import of another agent's sessions makes text of calls, so the file is written as it would write it: `response_item`
is what the model sees, `event_msg` what its screen shows.
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
)

_SHELL = OwnTool("exec_command", {"cmd": "{command}"})
_TOOLS = {
    "command": _SHELL,
    "read": _SHELL,
    "search": _SHELL,
    "list": _SHELL,
    "write": OwnTool("apply_patch", "{patch}"),
    "edit": OwnTool("apply_patch", "{patch}"),
}


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    text = SessionText(conversation, place, "codex", _TOOLS)
    lines: list[dict[str, Any]] = []

    def add(kind: str, at_ms: int, payload: dict[str, Any]) -> None:
        lines.append({"timestamp": iso(at_ms), "type": kind, "payload": payload})

    started_ms = conversation.started_ms
    add(
        "session_meta",
        started_ms,
        {
            "id": place.session_id,
            "timestamp": iso(started_ms),
            "cwd": place.cwd,
            "originator": "harness",
            "cli_version": place.version,
            "source": "cli",
        },
    )
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            content = [{"type": "input_text", "text": turn.text}]
            add("response_item", turn.at_ms, {"type": "message", "role": "user", "content": content})
            add("event_msg", turn.at_ms, {"type": "user_message", "message": turn.text, "kind": "plain"})
        else:
            _add_answer(turn, text, add)
    sessions = place.home.folder(".codex", variable="CODEX_HOME", below=("sessions",))
    day, minute = iso(started_ms)[:10].replace("-", "/"), iso(started_ms)[:19].replace(":", "-")
    path = os.path.join(sessions, day, f"rollout-{minute}-{place.session_id}.jsonl")
    return [NewFile(path, json_lines(lines))]


def _add_answer(turn: HandedAnswer, text: SessionText, add: Any) -> None:
    if turn.text:
        content = [{"type": "output_text", "text": turn.text}]
        add("event_msg", turn.at_ms, {"type": "agent_message", "message": turn.text})
        add("response_item", turn.at_ms, {"type": "message", "role": "assistant", "content": content})
    calls = [(text.ids.named("call_"), call, text.call(call)) for call in turn.calls]
    for call_id, call, (name, arguments) in calls:
        if isinstance(arguments, str):
            item = {"type": "custom_tool_call", "status": "completed", "name": name, "input": arguments}
        else:
            item = {"type": "function_call", "name": name, "arguments": json_text(arguments)}
        add("response_item", call.at_ms, {**item, "call_id": call_id})
    for call_id, call, (_name, arguments) in calls:
        kind = "custom_tool_call_output" if isinstance(arguments, str) else "function_call_output"
        add("response_item", call.ended_ms, {"type": kind, "call_id": call_id, "output": call.output})


WRITER = HandoverWriter(
    agent="codex",
    tools=_TOOLS,
    files=_files,
    new_id=lambda ids, at_ms: ids.uuid7(at_ms),
    since=(0, 130),
    proven=(0, 166, 0),
    keeps_failures=False,
    keeps_outputs=False,
)
