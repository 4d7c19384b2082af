"""Messages of a chat ↔ turns of a conversation with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from harness.errors import UsageError
from harness.rendering.state.shapes import text_of
from harness.sources.model import AssistantTurn, Attachment, Call, ToolTurn, Turn, UserTurn


class ChatCall(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: Any = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ChatCall] = []
    tool_call_id: str = ""


Conversation: TypeAlias = tuple[str, list[Turn], str]


def conversation(messages: Sequence[ChatMessage]) -> Conversation:
    """What the model is told, what was said before, and what is to be answered. Raises UsageError."""
    system = "\n\n".join(text_of(message.content) for message in messages if message.role == "system")
    turns = [_turn(message) for message in messages if message.role != "system"]
    if not turns or not isinstance(turns[-1], UserTurn):
        raise UsageError("the last message is not the user's", hint="it is what is to be answered")
    last = turns.pop()
    assert isinstance(last, UserTurn)
    if last.attachments:
        turns.append(UserTurn("", last.attachments))
    return system, turns, last.text


def _turn(message: ChatMessage) -> Turn:
    text = text_of(message.content)
    if message.role == "tool":
        return ToolTurn(message.tool_call_id, text)
    if message.role == "assistant":
        return AssistantTurn(
            text, tuple(Call(call.id, call.name, _arguments(call.arguments)) for call in message.tool_calls)
        )
    return UserTurn(text, tuple(_attachments(message.content)))


def _attachments(content: Any) -> list[Attachment]:
    parts = content if isinstance(content, list) else []
    return [
        Attachment(str(part.get("mediaType", "")), str(part.get("data", "")), str(part.get("name", "")))
        for part in parts
        if part.get("type") in ("image", "document")
    ]


def _arguments(value: Any) -> Any:
    """Some write them as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return {"__toolParseError": True, "rawArguments": value}
