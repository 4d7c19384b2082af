"""The file that `opencode import` and `kilo import` take: a session with its messages and their parts."""

from __future__ import annotations

import os
from typing import Any

from harness.contracts.agent import Version
from harness.contracts.conversation import (
    HandedAnswer,
    HandedCall,
    HandedConversation,
    HandedPrompt,
)
from harness.contracts.own_tools import OwnTool
from harness.contracts.writer import (
    HandoverPlace,
    HandoverWriter,
    NewFile,
    NewIds,
    SessionText,
    json_text,
    title_of,
)

_TOOLS = {
    "command": OwnTool("bash", {"command": "{command}", "description": "Run a command"}),
    "read": OwnTool("read", {"filePath": "{path}", "offset": "{first}", "limit": "{count}"}),
    "write": OwnTool("write", {"filePath": "{path}", "content": "{content}"}),
    "edit": OwnTool("edit", {"filePath": "{path}", "oldString": "{old}", "newString": "{new}"}),
    "search": OwnTool("grep", {"pattern": "{query}", "path": "{path}"}),
    "list": OwnTool("read", {"filePath": "{path}"}),
}
_NOTHING_USED = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
_UNKNOWN = ("unknown", "unknown")


class _Session:
    def __init__(self, conversation: HandedConversation, place: HandoverPlace, agent: str) -> None:
        self._text = SessionText(conversation, place, agent, _TOOLS)
        self._place = place
        provider, slash, model = place.model.partition("/")
        self._model = (provider, model) if slash else _UNKNOWN
        self._last_ms = 0
        self._prompt = ""
        self.messages: list[dict[str, Any]] = []

    def add(self, turn: HandedPrompt | HandedAnswer) -> None:
        message_id = self._id("msg", turn.at_ms)
        provider, model = self._model
        info: dict[str, Any] = {"id": message_id, "sessionID": self._place.session_id}
        if isinstance(turn, HandedPrompt):
            self._prompt = message_id
            info |= {"role": "user", "time": {"created": self._last_ms}, "agent": "build"}
            info["model"] = {"providerID": provider, "modelID": model}
            parts = [{"type": "text", "text": turn.text}]
        else:
            times = {"created": self._last_ms, "completed": self._last_ms}
            info |= {"parentID": self._prompt, "role": "assistant", "mode": "build", "agent": "build"}
            info |= {"path": {"cwd": self._place.cwd, "root": self._place.cwd}, "cost": 0}
            info |= {"tokens": _NOTHING_USED, "modelID": model, "providerID": provider, "time": times}
            info["finish"] = "tool-calls" if turn.calls else "stop"
            parts = self._parts(turn)
        about = {"sessionID": self._place.session_id, "messageID": message_id}
        full_parts = [{"id": self._id("prt", self._last_ms), **about, **part} for part in parts]
        self.messages.append({"info": info, "parts": full_parts})

    def _parts(self, turn: HandedAnswer) -> list[dict[str, Any]]:
        times = {"start": self._last_ms, "end": self._last_ms}
        parts: list[dict[str, Any]] = (
            [{"type": "text", "text": turn.text, "time": times}] if turn.text else []
        )
        return parts + [self._call(call) for call in turn.calls]

    def _call(self, call: HandedCall) -> dict[str, Any]:
        name, arguments = self._text.object_call(call)
        times = {"start": call.at_ms, "end": call.ended_ms}
        state: dict[str, Any] = {"input": arguments, "time": times}
        if call.has_failed:
            state |= {"status": "error", "error": call.output}
        else:
            state |= {"status": "completed", "output": call.output, "title": name, "metadata": {}}
        return {"type": "tool", "tool": name, "callID": self._text.ids.named("call_"), "state": state}

    def _id(self, prefix: str, at_ms: int) -> str:
        """Ids sort by time, and so do messages."""
        self._last_ms = max(self._last_ms + 1, at_ms)
        return f"{prefix}_{self._last_ms:012x}{self._text.ids.hex(14)}"


def opencode_writer(agent: str, proven: Version, since: Version, *, is_held: bool = False) -> HandoverWriter:
    def files(conversation: HandedConversation, place: HandoverPlace) -> list[NewFile]:
        session = _Session(conversation, place, agent)
        for turn in conversation.turns:
            session.add(turn)
        info = {
            "id": place.session_id,
            "slug": "handed-over",
            "projectID": "global",
            "directory": place.cwd,
            "title": title_of(conversation),
            "version": place.version,
            "time": {"created": conversation.started_ms, "updated": conversation.ended_ms},
        }
        data = json_text({"info": info, "messages": session.messages}).encode() + b"\n"
        return [NewFile(os.path.join(place.folder, f"{place.session_id}.json"), data)]

    return HandoverWriter(
        agent=agent,
        tools=_TOOLS,
        files=files,
        new_id=_new_id,
        importing=("import", "{file}"),
        removing=("session", "delete", "{id}"),
        since=since,
        proven=proven,
        is_held=is_held,
    )


def _new_id(ids: NewIds, at_ms: int) -> str:
    """Newer ones come first: the time counts down."""
    return f"ses_{(1 << 48) - 1 - (at_ms << 4) % (1 << 48):012x}{ids.hex(14)}"
