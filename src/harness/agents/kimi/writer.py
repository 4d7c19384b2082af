"""Kimi Code: a folder in `~/.kimi-code/sessions/<directory>/`, as `--session ID` finds it."""

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
    json_lines,
    json_text,
)

_TOOLS = {
    "command": OwnTool("Bash", {"command": "{command}"}),
    "read": OwnTool("Read", {"path": "{path}", "line_offset": "{first}", "n_lines": "{count}"}),
    "write": OwnTool("Write", {"path": "{path}", "content": "{content}"}),
    "edit": OwnTool("Edit", {"path": "{path}", "old_string": "{old}", "new_string": "{new}"}),
    "search": OwnTool("Grep", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("Bash", {"command": "{command}"}),
}
_MAIN = "main"
_NOTHING_USED = {"inputOther": 0, "output": 0, "inputCacheRead": 0, "inputCacheCreation": 0}


class _Wire:
    def __init__(self, conversation: HandedConversation, place: HandoverPlace) -> None:
        self._text = SessionText(conversation, place, "kimi", _TOOLS)
        self._step = 0
        self._prompts = 0
        started_ms = conversation.started_ms
        profile: dict[str, Any] = {
            "type": "profile.bind",
            "agentId": _MAIN,
            "modelAlias": place.model or "__kimi_env_model__",
        }
        profile |= {"profileName": "agent", "thinkingEffort": "on", "systemPrompt": "You are an agent."}
        profile |= {"environmentDisclosure": {"cwd": place.cwd}, "agentsMdPaths": [], "time": started_ms}
        profile |= {"activeToolNames": ["Read", "Write", "Edit", "Bash", "Grep"], "disallowedTools": []}
        self.lines: list[dict[str, Any]] = [
            {"type": "metadata", "protocol_version": "1.5", "created_at": started_ms},
            {**profile, "subagents": []},
        ]

    def prompt(self, turn: HandedPrompt) -> None:
        self._prompts += 1
        message: dict[str, Any] = {
            "role": "user",
            "content": [{"type": "text", "text": turn.text}],
            "toolCalls": [],
        }
        message |= {"id": f"msg_{self._prompts}", "origin": {"kind": "user"}}
        record = {"type": "context.append_message", "agentId": _MAIN, "message": message}
        self.lines.append({**record, "time": turn.at_ms})

    def answer(self, turn: HandedAnswer) -> None:
        self._step += 1
        step_id = self._text.ids.uuid()
        turn_id = str(max(0, self._prompts - 1))
        about = {"turnId": turn_id, "step": self._step}
        within = {**about, "stepUuid": step_id}
        self._event(turn.at_ms, {"type": "step.begin", "uuid": step_id, **about})
        if turn.text:
            part = {"type": "text", "text": turn.text}
            content = {"type": "content.part", "uuid": self._text.ids.uuid(), **within, "part": part}
            self._event(turn.at_ms, content)
        records = []
        for call in turn.calls:
            record_id, call_id = self._text.ids.uuid(), self._text.ids.named("call_")
            records.append((record_id, call_id, call))
            name, arguments = self._text.object_call(call)
            start = {"type": "tool.call", "uuid": record_id, **within, "toolCallId": call_id}
            self._event(call.at_ms, {**start, "name": name, "args": arguments})
        for record_id, call_id, call in records:
            result = {"output": call.output, **({"isError": True} if call.has_failed else {})}
            answer = {"type": "tool.result", "parentUuid": record_id, "toolCallId": call_id}
            self._event(call.ended_ms, {**answer, "result": result})
        reason = "tool_use" if records else "end_turn"
        end = {"type": "step.end", "uuid": step_id, **about, "finishReason": reason, "usage": _NOTHING_USED}
        self._event(turn.at_ms, end)

    def _event(self, at_ms: int, event: dict[str, Any]) -> None:
        record = {"type": "context.append_loop_event", "agentId": _MAIN, "event": event}
        self.lines.append({**record, "time": at_ms})


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    wire = _Wire(conversation, place)
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            wire.prompt(turn)
        else:
            wire.answer(turn)
    digest = sha256(place.cwd.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    project = f"wd_{os.path.basename(place.cwd)}_{digest}"
    folder = place.home.folder(".kimi-code", "sessions", project, place.session_id)
    own = os.path.join(folder, "agents", _MAIN)
    state = {
        "id": place.session_id,
        "version": 2,
        "cwd": place.cwd,
        "archived": False,
        "agents": {_MAIN: {"homedir": own, "type": _MAIN}},
        "custom": {},
        "lastTurnReason": "completed",
        "createdAt": conversation.started_ms,
        "updatedAt": conversation.ended_ms,
        "isCustomTitle": False,
    }
    return [
        NewFile(os.path.join(own, "wire.jsonl"), json_lines(wire.lines)),
        NewFile(os.path.join(folder, "state.json"), json_text(state).encode() + b"\n"),
    ]


WRITER = HandoverWriter(
    agent="kimi",
    tools=_TOOLS,
    files=_files,
    new_id=lambda ids, _at_ms: f"session_{ids.uuid()}",
    since=(2, 1),
    proven=(2, 1, 0),
    is_held=True,
    keeps_failures=False,
)
