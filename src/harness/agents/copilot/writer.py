"""GitHub Copilot CLI: a folder in `~/.copilot/session-state/`, as `--resume ID` finds it."""

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

_TOOLS = {
    "command": OwnTool("bash", {"command": "{command}", "description": "Run a command"}),
    "read": OwnTool("view", {"path": "{path}", "view_range": "{range}"}),
    "write": OwnTool("create", {"path": "{path}", "file_text": "{content}"}),
    "edit": OwnTool("edit", {"path": "{path}", "old_str": "{old}", "new_str": "{new}"}),
    "search": OwnTool("grep", {"pattern": "{query}", "paths": "{path}"}),
    "list": OwnTool("view", {"path": "{path}"}),
}
_MODEL = "gpt-4.1"


class _Events:
    def __init__(self, conversation: HandedConversation, place: HandoverPlace) -> None:
        self._text = SessionText(conversation, place, "copilot", _TOOLS)
        self._interaction = self._text.ids.uuid()
        self._model = place.model or _MODEL
        self._turn = 0
        self.lines: list[dict[str, Any]] = []
        start_time = iso(conversation.started_ms)
        about = {"sessionId": place.session_id, "version": 1, "producer": "copilot-agent"}
        about |= {"copilotVersion": place.version, "startTime": start_time, "selectedModel": self._model}
        about |= {"contextTier": None, "context": {"cwd": place.cwd, "gitRoot": place.cwd}}
        about |= {"alreadyInUse": False, "remoteSteerable": False}
        self.add("session.start", conversation.started_ms, about)

    def add(self, kind: str, at_ms: int, data: dict[str, Any]) -> None:
        parent = self.lines[-1]["id"] if self.lines else None
        event = {"type": kind, "data": data, "id": self._text.ids.uuid(), "timestamp": iso(at_ms)}
        self.lines.append({**event, "parentId": parent})

    def prompt(self, turn: HandedPrompt) -> None:
        self._interaction = self._text.ids.uuid()
        about = {"messageId": self._text.ids.uuid(), "interactionId": self._interaction, "turnId": "0"}
        message = {"content": turn.text, "transformedContent": turn.text}
        self.add("user.message", turn.at_ms, {**message, **about})

    def answer(self, turn: HandedAnswer) -> None:
        about = {"turnId": str(self._turn), "interactionId": self._interaction}
        self._turn += 1
        calls = self._text.calls(turn, self._text.ids.uuid)
        requests = [
            {"toolCallId": call.id, "name": call.name, "arguments": call.input, "type": "function"}
            for call in calls
        ]
        self.add("assistant.turn_start", turn.at_ms, about)
        message = {"messageId": self._text.ids.uuid(), "model": self._model, "content": turn.text}
        self.add("assistant.message", turn.at_ms, {**message, "toolRequests": requests, **about})
        for call in calls:
            start = {"toolCallId": call.id, "toolName": call.name, "arguments": call.input}
            self.add("tool.execution_start", call.handed.at_ms, {**start, "model": self._model, **about})
        for call in calls:
            output, has_failed = call.handed.output, call.handed.has_failed
            # Of a failed call only the error reaches the model.
            result = {"error": {"message": output}} if has_failed else {"result": {"content": output}}
            end = {"toolCallId": call.id, "model": self._model, "success": not has_failed}
            self.add("tool.execution_complete", call.handed.ended_ms, {**end, **result, **about})
        self.add("assistant.turn_end", turn.at_ms, {"turnId": about["turnId"]})


def _files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
    events = _Events(conversation, place)
    for turn in conversation.turns:
        if isinstance(turn, HandedPrompt):
            events.prompt(turn)
        else:
            events.answer(turn)
    folder = place.home.folder(".copilot", variable="COPILOT_HOME", below=("session-state", place.session_id))
    settings = {
        "id": place.session_id,
        "cwd": place.cwd,
        "git_root": place.cwd,
        "client_name": "github/cli",
        "name": title_of(conversation),
        "user_named": False,
        "summary_count": 0,
        "fork_count": 0,
        "created_at": iso(conversation.started_ms),
        "updated_at": iso(conversation.ended_ms),
    }
    # JSON values are YAML too, so that no name can be taken for something else.
    about = "".join(f"{name}: {json_text(value)}\n" for name, value in settings.items())
    return [
        NewFile(os.path.join(folder, "events.jsonl"), json_lines(events.lines)),
        NewFile(os.path.join(folder, "workspace.yaml"), about.encode()),
    ]


WRITER = HandoverWriter(
    agent="copilot", tools=_TOOLS, files=_files, since=(1, 0), proven=(1, 0, 102), is_held=True
)
