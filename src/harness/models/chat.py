"""OpenAI-compatible Chat Completions: `POST …/chat/completions`, the API of nearly every other server.

Servers differ in details: `Habits` lists them, chosen by the provider. Peculiarities of the API: a tool
result may only be text, so its images follow in a user message; some reasoning models need their reasoning
sent back, under one of several names.

The stream consists of chunks with one delta each, then `[DONE]`. The stream reader comes first in this file,
the request below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from harness.contracts.model import (
    Ask,
    AssistantTurn,
    Attachment,
    SystemTurn,
    ToolSpec,
    ToolTurn,
    Turn,
    UserTurn,
)
from harness.events import Usage
from harness.formats.fields import besides
from harness.formats.json_lines import DECODE_ERRORS
from harness.models.answer import ModelAnswer, StreamedCall, TurnCall, TurnText, count_in, in_order
from harness.models.failure import ModelFailure, read_error
from harness.models.http import ModelEndpoint, Prepared
from harness.models.turn_cache import (
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

_STOPS = {
    "stop": "end",
    "eos": "end",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "refusal",
}


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(msgspec.Struct):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """The whole answer, from a server that does not stream."""
    finish_reason: str | None = None
    index: int | None = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatReader:
    def __init__(self, answer: ModelAnswer, *, keeps_reasoning: bool) -> None:
        self.answer = answer
        self.failure: ModelFailure | None = None
        self.is_complete = False
        self.is_over = False
        self._keeps_reasoning = keeps_reasoning
        self._stop = ""
        self._calls: dict[int, tuple[str, StreamedCall]] = {}
        """By index: the server's id of the call, and the call."""
        self._reasoning: list[str] = []
        self._details: list[Any] = []
        self._was_refused = False

    def read(self, data: bytes) -> None:
        try:
            chunk = _decode(data)
        except DECODE_ERRORS:
            self._read_other(data)
            return
        if chunk.choices:
            choice = chunk.choices[0]
            if choice.delta is not None:
                self._read_delta(choice.delta)
            elif choice.message is not None:
                self._read_delta(choice.message)
            if choice.finish_reason:
                self._stop = choice.finish_reason
                self.is_complete = True
        if not self.answer.response_id and chunk.id:
            self.answer.response_id = chunk.id
        if chunk.usage:
            self.answer.usage = usage_of(chunk.usage)
        if chunk.error:
            self.failure = read_error({"error": chunk.error})

    def end(self) -> None:
        if self._reasoning and self._keeps_reasoning:
            self.answer.add_opaque({"reasoning_content": "".join(self._reasoning)})
        if self._details:
            self.answer.add_opaque({"reasoning_details": _joined(self._details)})
        stop = "refusal" if self._was_refused else self._stop
        self.answer.end(_STOPS.get(stop, stop or "end"))

    def _read_other(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.is_over = True
            if self.answer.has_content:
                self.is_complete = True
        else:
            self.answer.skip_unreadable()

    def _read_delta(self, delta: _Delta) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if thought and isinstance(thought, str):
            self.answer.add_reasoning(thought)
            if delta.reasoning_content:
                self._reasoning.append(thought)
        if isinstance(delta.reasoning_details, list):
            self._details += delta.reasoning_details
        content = delta.content
        if type(content) is str:
            self.answer.add_text(content)
        elif content:
            self._read_parts(content)
        if delta.refusal:
            self._was_refused = True
            self.answer.add_text(delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._read_call(call)

    def _read_parts(self, parts: str | list[Any]) -> None:
        """Mistral sends the content as a list of parts when it reasons."""
        for part in parts:
            if not isinstance(part, dict):
                continue
            if isinstance(text := part.get("text"), str):
                self.answer.add_text(text)
            thinking = part.get("thinking")
            for piece in thinking if isinstance(thinking, list) else ():
                if isinstance(piece, dict) and isinstance(text := piece.get("text"), str):
                    self.answer.add_reasoning(text)

    def _read_call(self, piece: _ToolCall) -> None:
        function = piece.function or _Function()
        index = piece.index if piece.index is not None else max(self._calls, default=0)
        entry = self._calls.get(index)
        if entry is None or _is_another(piece, function, *entry):
            place = index if entry is None or piece.index is not None else index + 1
            call = self.answer.begin_call(piece.id, function.name or "")
            self._calls[place] = (piece.id or "", call)
        else:
            call = entry[1]
            call.name = call.name or function.name or ""
        if piece.extra_content is not None:
            call.extras = {"extra_content": piece.extra_content}
        arguments = function.arguments
        if arguments is not None:
            self.answer.add_arguments(
                call, arguments if isinstance(arguments, str) else encode(arguments).decode()
            )


def _is_another(piece: _ToolCall, function: _Function, id: str, call: StreamedCall) -> bool:
    """Whether a piece begins another call: some servers send no index, or always 0, and only new ids."""
    if not function.name:
        return False
    if piece.id and id:
        return piece.id != id
    return piece.index is None and bool(call.pieces)


def usage_of(reported: dict[str, Any]) -> Usage:
    """Most servers count cached input as part of the prompt, and reasoning as part of the completion."""
    prompt_details, answer_details = (
        reported.get("prompt_tokens_details"),
        reported.get("completion_tokens_details"),
    )
    prompt, completion = count_in(reported, "prompt_tokens"), count_in(reported, "completion_tokens")
    cache_read = _first(
        count_in(prompt_details, "cached_tokens"),
        count_in(reported, "cache_read_input_tokens"),
        count_in(reported, "prompt_cache_hit_tokens"),
    )
    cache_write = _first(
        count_in(prompt_details, "cache_write_tokens"), count_in(reported, "cache_creation_input_tokens")
    )
    reasoning = count_in(answer_details, "reasoning_tokens")
    total = count_in(reported, "total_tokens")
    is_apart = total is not None and total == (prompt or 0) + (completion or 0) + (reasoning or 0)
    cost = reported.get("cost")
    has_cost = isinstance(cost, int | float) and not isinstance(cost, bool)
    return Usage(
        input=besides(prompt, cache_read, cache_write),
        output=completion if is_apart else besides(completion, reasoning),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        cost_usd=float(cost) if has_cost and cost is not None else None,
        cost_source="stated" if has_cost else "",
    )


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def _joined(details: list[Any]) -> list[Any]:
    """Join the pieces of each reasoning block: a block must be sent back whole."""
    blocks: list[Any] = []
    for piece in details:
        last = blocks[-1] if blocks else None
        is_same = (
            isinstance(piece, dict)
            and isinstance(last, dict)
            and (piece.get("type"), piece.get("index")) == (last.get("type"), last.get("index"))
        )
        if not is_same or last is None:
            blocks.append(dict(piece) if isinstance(piece, dict) else piece)
            continue
        for name, value in piece.items():
            if (
                name in ("text", "summary", "data")
                and isinstance(last.get(name), str)
                and isinstance(value, str)
            ):
                last[name] += value
            elif value is not None:
                last[name] = value
    return blocks


_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """How a server differs from other Chat Completions servers."""

    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    effort: Literal["reasoning_effort", "reasoning", ""] = "reasoning_effort"
    """The request field that sets the reasoning effort; empty: there is none."""
    asks_usage: bool = True
    """Whether usage is included in a stream only on request."""
    has_schemas: bool = True
    """Whether structured output accepts a schema; else only plain JSON mode."""
    wants_reasoning: bool = False
    """Whether `reasoning_content` must be sent back."""
    call_id: str = r"[!-~]{1,40}"
    """The call ids that the server accepts; others are replaced by ids of `call_id_length` characters."""
    call_id_length: int = 32


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    message: bytes
    aside: tuple[bytes, ...] = ()
    """Parts that are sent in the next user message."""
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
            system += _schema_prompt(ask.schema)
        first = [encode({"role": "system", "content": system})] if system else []
        body = [encode(fields)[:-1], b',"messages":[', b",".join(first + _messages(encoded)), b"]"]
        if ask.tools:
            body.append(b',"tools":[%b]' % b",".join(self._tools.all(ask.tools)))
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    @property
    def takes_schema_beside_tools(self) -> bool:
        return self._habits.has_schemas

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
                aside = tuple(encode(_attachment(attachment)) for attachment in turn.attachments)
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
                case TurnCall(call=call, extras=extras):
                    function = {"name": fitting_name(call), "arguments": encode(arguments_of(call)).decode()}
                    calls.append(
                        {"id": self._id(call.id), "type": "function", "function": function, **extras}
                    )
                case TurnText():
                    continue
                case _:
                    message |= part.value
        if calls:
            message["tool_calls"] = calls
        elif not turn.text:
            if len(message) == 2:
                return _Encoded(b"")  # some servers refuse an empty message
            message["content"] = ""
        return _Encoded(encode(message))


def _messages(encoded: Sequence[_Encoded]) -> list[bytes]:
    """Keep the tool results of one answer together; the parts that they cannot contain follow."""
    messages: list[bytes] = []
    aside: list[bytes] = []
    for turn in encoded:
        if not turn.message:
            continue
        if aside and not turn.is_result:
            messages.append(_said_aside(aside))
            aside.clear()
        messages.append(turn.message)
        if turn.aside:
            aside += turn.aside
    if aside:
        messages.append(_said_aside(aside))
    return messages


def _said_aside(parts: list[bytes]) -> bytes:
    return b'{"role":"user","content":[%b]}' % b",".join(parts)


def _schema_prompt(schema: dict[str, Any]) -> str:
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
