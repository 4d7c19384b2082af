"""What events that say who speaks carry: requests of a model, results of a call, words of a person."""

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
    """What a call came to, as far as the log tells."""
    output = end.output
    if end.result is not None and end.success is not False:
        return {"context": output or "", "result": end.result}
    if end.exit_code is not None:  # a program that ran to its end, well or not
        return {"context": output or "", "result": {"exitCode": end.exit_code}}
    if end.success is False:
        return _stated_failure(output) or {"error": output or "failed"}
    return {} if output is None else {"context": output}


def context_of(output: Any) -> Any:
    """What of a result is meant for the model, where a part of it is."""
    context = output.get("context") if isinstance(output, dict) else None
    return context if isinstance(context, str) else output


def question_of(relay: Relay) -> Any:
    """The arguments of a call that asks for permission, else what is asked."""
    if relay.input is not None:
        return relay.input
    asked = {"question": relay.question, "options": relay.options}
    return {name: value for name, value in asked.items() if value}


def denial(reason: str) -> dict[str, Any]:
    return {"status": "denied", "reason": reason} if reason else {"status": "denied"}


def _stated_failure(output: str | None) -> dict[str, Any] | None:
    """A failure that the loop has already put into the words of this format, for the model to read."""
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
    """A part as it stands in the file; in a run that is going on it may still be a struct."""
    if isinstance(part, msgspec.Struct):
        part = msgspec.to_builtins(part)
    return part if isinstance(part, dict) else {}
