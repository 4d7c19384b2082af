"""The contents of run events: requests of a model, results of a call, messages of a user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from harness.events import Message, Relay, ToolEnd


class RequestedCall(NamedTuple):
    id: str
    """The model's own."""
    name: str
    input: Any


def requested_calls(parts: Sequence[Any]) -> list[RequestedCall]:
    """The calls among the parts of a model's answer."""
    calls = [part for part in map(_as_data, parts) if part.get("type") == "tool_call"]
    return [
        RequestedCall(str(call.get("id", "")), str(call.get("name", "")), call.get("input")) for call in calls
    ]


def user_content(message: Message) -> Any:
    """A text, or parts where there is more than text."""
    parts = [_content_part(part) for part in map(_as_data, message.parts or ()) if part]
    if not parts:
        return message.text
    return [{"type": "text", "text": message.text}, *parts] if message.text else parts


def outcome_of(end: ToolEnd) -> dict[str, Any]:
    """The outcome of a call, as far as it is in the log."""
    output = end.output
    if end.result is not None and end.success is not False:
        return {"context": output or "", "result": end.result}
    if end.exit_code is not None:  # a program that exited, with any code
        return {"context": output or "", "result": {"exitCode": end.exit_code}}
    if end.success is False:
        return _stated_failure(output) or {"error": output or "failed"}
    return {} if output is None else {"context": output}


def context_of(output: Any) -> Any:
    """The part of a result that is meant for the model, if there is one."""
    context = output.get("context") if isinstance(output, dict) else None
    return context if isinstance(context, str) else output


def question_of(relay: Relay) -> Any:
    """The arguments of a call that needs approval, else the question."""
    if relay.input is not None:
        return relay.input
    asked = {"question": relay.question, "options": relay.options}
    return {name: value for name, value in asked.items() if value}


def denial(reason: str) -> dict[str, Any]:
    return {"status": "denied", "reason": reason} if reason else {"status": "denied"}


def _stated_failure(output: str | None) -> dict[str, Any] | None:
    """A failure that the loop has already written in this format, for the model."""
    if output is None or not output.startswith(('{"status":"denied"', '{"error":')):
        return None
    try:
        value: dict[str, Any] = msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if value.keys() in ({"status"}, {"status", "reason"}, {"error"}) else None


def _content_part(part: dict[str, Any]) -> dict[str, Any]:
    media_type = part.get("media_type")
    if part.get("type") != "file" or not isinstance(media_type, str):
        return part
    kind = "image" if media_type.startswith("image/") else "document"
    return {"type": kind, "mediaType": media_type, "data": part.get("data", "")}


def _as_data(part: Any) -> dict[str, Any]:
    """A part as plain data, as in the log file; in a live run it may still be a struct."""
    if isinstance(part, msgspec.Struct):
        part = msgspec.to_builtins(part)
    return part if isinstance(part, dict) else {}
