"""OpenAI-compatible Chat Completions: `POST …/chat/completions`; what nearly every other server speaks.

"Compatible" has dialects: they are a table of `Habits`, chosen by the provider. The surprising things:
a tool's result may only be text, so that its images follow in a user's message; who reasons may want to
see the reasoning again, under one of several names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from harness.sources.model import (
    Ask,
    AssistantTurn,
    Attachment,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.sources.models.answer import MadeCall, ModelAnswer, SaidText, in_order
from harness.sources.models.chat_stream import ChatReader
from harness.sources.models.http import ModelEndpoint, Prepared
from harness.sources.models.turn_cache import (
    EncodedOnce,
    arguments_of,
    cannot_show,
    data_url,
    encode,
    fitting_id,
    fitting_name,
    ids_in,
    later_instruction,
    schema_format,
    split_system,
    text_of,
    titled_text,
)

_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a server differs from the others."""

    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    effort: Literal["reasoning_effort", "reasoning", ""] = "reasoning_effort"
    """Where it is told how much to reason; empty: nowhere."""
    asks_usage: bool = True
    """Whether it tells the usage of a stream only when asked."""
    has_schemas: bool = True
    """Whether an answer can be held to a schema, or only to JSON."""
    wants_reasoning: bool = False
    """Whether it wants its `reasoning_content` back."""
    call_id: str = r"[!-~]{1,40}"
    """Which ids of calls it takes; others are made anew, with so many characters."""
    call_id_length: int = 32


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    message: bytes
    aside: tuple[bytes, ...] = ()
    """Parts that must wait for a message of the user."""
    is_result: bool = False


class ChatCompletions:
    def __init__(self, endpoint: ModelEndpoint, habits: Habits | None = None) -> None:
        self._endpoint = endpoint
        self._habits = habits or Habits()
        self._turns = EncodedOnce[Turn, _Encoded](self._turn)
        self._tools = EncodedOnce[ToolSpec, bytes](_tool)

    def url(self) -> str:
        return f"{self._endpoint.url}/chat/completions"

    def headers(self) -> dict[str, str]:
        return self._endpoint.bearer_headers

    def prepare(self, ask: Ask) -> Prepared:
        system, turns = split_system(ask.turns)
        encoded = self._turns.all(turns)
        fields = self._options(ask)
        if ask.schema is not None and not self._habits.has_schemas:
            system += _told_schema(ask.schema)
        first = [encode({"role": "system", "content": system})] if system else []
        body = [encode(fields)[:-1], b',"messages":[', b",".join(first + _messages(encoded)), b"]"]
        if ask.tools:
            body.append(b',"tools":[%b]' % b",".join(self._tools.all(ask.tools)))
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    def reader(self, answer: ModelAnswer) -> ChatReader:
        return ChatReader(answer, keeps_reasoning=self._habits.wants_reasoning)

    def _options(self, ask: Ask) -> dict[str, Any]:
        habits = self._habits
        fields: dict[str, Any] = {"model": self._endpoint.model, "stream": True}
        if habits.asks_usage:
            fields["stream_options"] = {"include_usage": True}
        if ask.max_output_tokens is not None:
            fields[habits.limit_field] = ask.max_output_tokens
        if ask.temperature is not None:
            fields["temperature"] = ask.temperature
        if ask.effort and habits.effort:
            fields[habits.effort] = {"effort": ask.effort} if habits.effort == "reasoning" else ask.effort
        if ask.schema is not None:
            fields["response_format"] = (
                {"type": "json_schema", "json_schema": schema_format(ask.schema)}
                if habits.has_schemas
                else {"type": "json_object"}
            )
        return fields

    def _turn(self, turn: Turn) -> _Encoded:
        match turn:
            case SystemTurn():
                return _Encoded(encode({"role": "user", "content": later_instruction(turn)}))
            case UserTurn(attachments=()):
                return _Encoded(encode({"role": "user", "content": turn.text}))
            case UserTurn():
                parts = [*map(_attachment, turn.attachments), *([_text(turn.text)] if turn.text else [])]
                return _Encoded(encode({"role": "user", "content": parts}))
            case ToolTurn():
                text = turn.text or ("(see the next message)" if turn.attachments else "")
                message = {"role": "tool", "tool_call_id": self._id(turn.call_id), "content": text}
                aside = tuple(encode(_attachment(one)) for one in turn.attachments)
                return _Encoded(encode(message), aside, is_result=True)
            case AssistantTurn():
                return self._answered(turn)

    def _id(self, call_id: str) -> str:
        return fitting_id(call_id, self._habits.call_id, self._habits.call_id_length)

    def _answered(self, turn: AssistantTurn) -> _Encoded:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        calls: list[dict[str, Any]] = []
        for part in in_order(turn, self._endpoint.name):
            match part:
                case MadeCall(call=call, extras=extras):
                    function = {"name": fitting_name(call), "arguments": encode(arguments_of(call)).decode()}
                    calls.append(
                        {"id": self._id(call.id), "type": "function", "function": function, **extras}
                    )
                case SaidText():
                    continue
                case _:
                    message |= part.value
        if calls:
            message["tool_calls"] = calls
        elif not turn.text:
            if len(message) == 2:
                return _Encoded(b"")  # nothing at all was said, and some servers refuse to hear it
            message["content"] = ""
        return _Encoded(encode(message))


def _messages(encoded: Sequence[_Encoded]) -> list[bytes]:
    """The results of one answer stand together; what could not be in them follows."""
    messages: list[bytes] = []
    aside: list[bytes] = []
    for one in encoded:
        if not one.message:
            continue
        if aside and not one.is_result:
            messages.append(_said_aside(aside))
            aside.clear()
        messages.append(one.message)
        if one.aside:
            aside += one.aside
    if aside:
        messages.append(_said_aside(aside))
    return messages


def _said_aside(parts: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(parts)


def _told_schema(schema: dict[str, Any]) -> str:
    return f"\n\nAnswer with JSON that satisfies this JSON Schema:\n{encode(schema).decode()}"


def _tool(tool: ToolSpec) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return encode({"type": "function", "function": function})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _attachment(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url(attachment)}}
    if kind == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "file", "file": {"filename": name, "file_data": data_url(attachment)}}
    if kind in _SOUNDS:
        return {"type": "input_audio", "input_audio": {"data": attachment.data, "format": _SOUNDS[kind]}}
    text = text_of(attachment)
    return _text(cannot_show(attachment) if text is None else titled_text(attachment, text))
