"""The initial values of the parts of a state: plain data under the names of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from harness.events import Relay, SessionStart, Task, Usage
from harness.folds.page_state.object_stream import ObjectChange
from harness.formatting.approval import calls_data, choices_data, preview_data
from harness.formatting.json_text import encode

Data: TypeAlias = dict[str, Any]


CAPABILITIES = ("submit", "steer", "answer", "cancel", "branch")
"""What a client can do with a conversation that is running."""


def new_state(session_id: str, title: str) -> Data:
    return {
        "status": "idle",
        "messages": [],
        "seq": 0,
        "sessionId": session_id,
        "title": title,
        "agent": "",
        "model": "",
        "mode": "",
        "cwd": "",
        "tasks": [],
        "followUps": [],
        "steering": [],
        "relays": [],
        "grants": [],
        "usage": usage(Usage()),
        "runs": [],
        "capabilities": dict.fromkeys(CAPABILITIES, False),
        "isLive": False,
    }


def message(message_id: str, role: str, *, status: str, created_ms: int, run_id: str) -> Data:
    return {
        "id": message_id,
        "role": role,
        "content": "",
        "status": status,
        "createdMs": max(0, created_ms),
        "runId": run_id,
        "parts": [],
    }


def tool_call(call_id: str, name: str, value: Any = None) -> Data:
    return {
        "id": call_id,
        "name": name,
        "status": "running",
        "input": value,
        "inputText": "",
        "output": "",
        "outputLength": 0,
        "exitCode": None,
        "durationMs": None,
        "operations": [],
        "relayId": None,
    }


def relay(event: Relay) -> Data:
    return {
        "id": event.id,
        "kind": event.kind,
        "callId": event.call_id,
        "toolName": event.tool_name,
        "input": event.input,
        "question": event.question,
        "options": choices_data(event) if event.kind == "permission" else event.options,
        "payload": event.payload,
        "resumeSchema": event.resume_schema,
        "category": event.category,
        "preview": preview_data(event),
        "subagent": event.subagent,
        "parentCallId": event.spawn_call_id,
        "status": "pending",
        "reason": "",
        "answer": None,
        "by": "",
        "choice": "",
        "runId": event.run_id,
        "further": calls_data(event),
        "why": event.why,
    }


def run(event: SessionStart) -> Data:
    return {
        "id": event.run_id,
        "agent": event.agent,
        "model": event.model,
        "name": event.name,
        "parentCallId": event.parent_id,
        "status": "running",
        "startedMs": max(0, event.timestamp_ms),
        "durationMs": None,
        "usage": usage(Usage()),
    }


def usage(tokens: Usage) -> Data:
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cacheRead": tokens.cache_read,
        "cacheWrite": tokens.cache_write,
        "reasoning": tokens.reasoning,
        "costUsd": tokens.cost_usd,
    }


def task(task_listed: Task) -> Data:
    return {
        "id": task_listed.id,
        "text": task_listed.text,
        "status": task_listed.status,
        "activeForm": task_listed.active_form,
    }


def notice(level: str, text: str, code: str = "") -> Data:
    return {"type": "notice", "level": level, "text": text, "code": code}


def follow_up(pending: Any, position: int) -> Data:
    """The entry of a queued prompt, which is a text, or an object with its text under one of the usual names."""
    if not isinstance(pending, dict):
        return {"id": f"follow-up-{position}", "text": str(pending)}
    content = next((pending[name] for name in ("text", "content", "prompt") if name in pending), "")
    return {"id": str(pending.get("id") or f"follow-up-{position}"), "text": text_of(content)}


def text_of(content: Any) -> str:
    """The text of a string, of a part, or of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return ""
    texts = [part if isinstance(part, str) else part.get("text") for part in content if _is_textual(part)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _is_textual(part: Any) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") in (None, "text"))


def named(file: Data) -> Data:
    """A file without its data: tools return many images, and clients fetch them when they show them."""
    return {name: value for name, value in file.items() if name != "data"}


def files_of(parts: Any) -> Iterable[Data]:
    """The images and files of a message."""
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") in ("file", "image"):
            media = part.get("media_type") or part.get("mediaType") or part.get("mimeType") or ""
            file: Data = {"type": "file", "mediaType": str(media), "name": str(part.get("name") or "")}
            yield file | {key: part[key] for key in ("data", "url") if isinstance(part.get(key), str)}


# The messages in which a state and its changes are sent.


def state_message(state: bytes, seq: int) -> bytes:
    """`state`: as JSON."""
    return b'{"type":"state","state":%b,"seq":%d}' % (state, seq)


def delta_message(operations: Sequence[ObjectChange], seq: int) -> bytes:
    return b'{"type":"delta","operations":%b,"seq":%d}' % (encode(operations), seq)


class _Sent(msgspec.Struct):
    state: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    operations: msgspec.Raw = msgspec.Raw(b"[]")


def operations_of(message: bytes) -> bytes:
    """One of these messages as a list of operations: a whole state is set at the empty path."""
    frame = _decode(message)
    if isinstance(frame.state, msgspec.UnsetType):
        return bytes(frame.operations)
    return b'[{"type":"set","path":[],"value":%b}]' % bytes(frame.state)


_decode = msgspec.json.Decoder(_Sent).decode
