"""A state as assistant-ui wants it: `ThreadMessage[]`, and whether something runs.

A state of the plain protocol alone (content, then tool calls) gives text, then calls; one with `parts` gives them in
their order.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

Data = dict[str, Any]

_STATUS: dict[str, Data] = {
    "pending": {"type": "running"},
    "streaming": {"type": "running"},
    "complete": {"type": "complete", "reason": "stop"},
}
_OPTIONS = (
    ("allow-once", "Allow"),
    ("reject-once", "Deny"),
)


def to_thread(state: Data) -> Data:
    """`{messages, isRunning}`."""
    relays = {relay["id"]: relay for relay in state.get("relays", ())}
    error = state.get("error")
    messages = [_message(message, relays, error) for message in state.get("messages", ())]
    return {"messages": messages, "isRunning": state.get("status") == "running"}


def _message(message: Data, relays: dict[str, Data], error: Any) -> Data:
    common = {
        "id": message["id"],
        "createdAt": _time(message.get("createdMs", 0)),
        "role": message["role"],
        "metadata": {
            "unstable_state": None,
            "unstable_annotations": [],
            "unstable_data": [],
            "steps": [],
            "custom": {name: message[name] for name in ("runId",) if name in message},
        },
    }
    content = _content(message, relays)
    if message["role"] == "user":
        return common | {"content": content or [_text(message["content"])], "attachments": []}
    return common | {"content": content, "status": _status(message, content, error)}


def _content(message: Data, relays: dict[str, Data]) -> list[Data]:
    calls = {call["id"]: call for call in message.get("toolCalls") or ()}
    if "parts" not in message:
        texts = [_text(message["content"])] if message["content"].strip() else []
        return texts + [_call(call, relays) for call in calls.values()]
    found: list[Data] = []
    for part in message["parts"]:
        match part["type"]:
            case "text" | "reasoning" if part["text"].strip():
                found.append({"type": part["type"], "text": part["text"]})
            case "tool" if part["callId"] in calls:
                found.append(_call(calls[part["callId"]], relays))
            case "file":
                found.append(_file(part))
            case "notice":
                found.append({"type": "data", "name": "notice", "data": part})
            case _:
                continue
    return found


def _call(call: Data, relays: dict[str, Data]) -> Data:
    arguments = call.get("input")
    part: Data = {
        "type": "tool-call",
        "toolCallId": call["id"],
        "toolName": call["name"],
        "args": arguments if isinstance(arguments, dict) else {},
        "argsText": call.get("inputText") or _json(arguments),
    }
    if call["status"] != "running":
        part["result"] = call.get("output", "")
        part["isError"] = call["status"] == "error"
    relay = relays.get(call.get("relayId") or "")
    if relay is not None and relay["kind"] == "permission":
        part["approval"] = _approval(relay)
    elif relay is not None and relay["status"] == "pending":
        part["interrupt"] = {"type": "human", "payload": relay["payload"] or {"question": relay["question"]}}
    if "messages" in call:
        part["messages"] = [_message(message, relays, None) for message in call["messages"]]
    return part


def _approval(relay: Data) -> Data:
    if relay["status"] == "pending":
        usual = [{"id": kind, "kind": kind, "label": label} for kind, label in _OPTIONS]
        return {"id": relay["id"], "options": relay["options"] or usual}
    approval = {"id": relay["id"], "approved": relay["status"] == "approved"}
    return approval | ({"reason": relay["reason"]} if relay["reason"] else {})


def _status(message: Data, content: list[Data], error: Any) -> Data:
    if message["status"] == "error":
        return {"type": "incomplete", "reason": "error", "error": error}
    if message["status"] in ("pending", "streaming"):
        if any("approval" in part and "approved" not in part["approval"] for part in content):
            return {"type": "requires-action", "reason": "tool-calls"}
        if any("interrupt" in part for part in content):
            return {"type": "requires-action", "reason": "interrupt"}
    return dict(_STATUS[message["status"]])


def _file(part: Data) -> Data:
    data = part.get("url") or f"data:{part['mediaType']};base64,{part.get('data', '')}"
    if part["mediaType"].startswith("image/"):
        return {"type": "image", "image": data}
    return {"type": "file", "data": data, "mimeType": part["mediaType"], "filename": part["name"]}


def _text(text: str) -> Data:
    return {"type": "text", "text": text}


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
