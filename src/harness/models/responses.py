"""OpenAI Responses: `POST …/responses`, with nothing stored on the server.

Peculiarities of the API: an answer is a list of items, and the reasoning behind a call must be sent back,
encrypted, right before the call; fields for reasoning models are errors for other models.

The stream consists of items that begin, grow and are finally sent whole. The stream reader comes first in
this file, the request below it.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, TypeAlias

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
from harness.formats.fields import text_of as text_field
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
    schema_format,
    split_system,
    text_of,
    titled_text,
)

_LIMITS = {"max_output_tokens": "length", "content_filter": "refusal"}


class _TextDelta(msgspec.Struct, tag="response.output_text.delta"):
    delta: str


class _SummaryPart(msgspec.Struct, tag="response.reasoning_summary_part.added"):
    summary_index: int = 0


class _SummaryDelta(msgspec.Struct, tag="response.reasoning_summary_text.delta"):
    delta: str


class _ReasoningDelta(msgspec.Struct, tag="response.reasoning_text.delta"):
    delta: str


class _RefusalDelta(msgspec.Struct, tag="response.refusal.delta"):
    delta: str


class _ArgumentsDelta(msgspec.Struct, tag="response.function_call_arguments.delta"):
    output_index: int
    delta: str


class _ItemAdded(msgspec.Struct, tag="response.output_item.added"):
    output_index: int
    item: dict[str, Any]


class _ItemDone(msgspec.Struct, tag="response.output_item.done"):
    output_index: int
    item: dict[str, Any]


class _Response(msgspec.Struct):
    id: str = ""
    usage: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    error: Any = None


class _Created(msgspec.Struct, tag="response.created"):
    response: _Response


class _Completed(msgspec.Struct, tag="response.completed"):
    response: _Response


class _Incomplete(msgspec.Struct, tag="response.incomplete"):
    response: _Response


class _Failed(msgspec.Struct, tag="response.failed"):
    response: _Response


class _Broken(msgspec.Struct, tag="error"):
    message: str | None = None
    code: Any = None
    error: Any = None


_Record: TypeAlias = (
    _TextDelta
    | _SummaryPart
    | _SummaryDelta
    | _ReasoningDelta
    | _RefusalDelta
    | _ArgumentsDelta
    | _ItemAdded
    | _ItemDone
    | _Created
    | _Completed
    | _Incomplete
    | _Failed
    | _Broken
)
_decode = msgspec.json.Decoder(_Record).decode


class _OfAnyKind(msgspec.Struct):
    type: str


_decode_any = msgspec.json.Decoder(_OfAnyKind).decode
_KNOWN = frozenset(str(kind.__struct_config__.tag) for kind in _Record.__args__)


class ResponsesReader:
    def __init__(self, answer: ModelAnswer) -> None:
        self.answer = answer
        self.failure: ModelFailure | None = None
        self.is_complete = False
        self.is_over = False
        self._stop = "end"
        self._calls: dict[int, StreamedCall] = {}
        self._has_said = False
        """Whether the current item has been streamed."""

    def read(self, data: bytes) -> None:
        try:
            record = _decode(data)
        except DECODE_ERRORS:
            self._read_unknown(data)
            return
        match record:
            case _TextDelta():
                self._has_said = True
                self.answer.add_text(record.delta)
            case _SummaryDelta() | _ReasoningDelta():
                self.answer.add_reasoning(record.delta)
            case _ArgumentsDelta():
                if (call := self._calls.get(record.output_index)) is not None:
                    self.answer.add_arguments(call, record.delta)
            case _RefusalDelta():
                self._has_said = True
                self._stop = "refusal"
                self.answer.add_text(record.delta)
            case _SummaryPart():
                self.answer.add_reasoning("\n\n" if record.summary_index else "")
            case _ItemAdded():
                self._has_said = False
                self._begin(record.output_index, record.item)
            case _ItemDone():
                self._finish(record.output_index, record.item)
            case _Created():
                self.answer.response_id = record.response.id
            case _Completed() | _Incomplete():
                self._complete(record.response)
            case _Failed() | _Broken():
                self._fail(record)

    def end(self) -> None:
        self.answer.end(self._stop)

    def _read_unknown(self, data: bytes) -> None:
        """Ignore other kinds of events: there are many, and none is an error."""
        try:
            if _decode_any(data).type not in _KNOWN:
                return
        except DECODE_ERRORS:
            if data.strip() == b"[DONE]":
                return
        self.answer.skip_unreadable()

    def _begin(self, index: int, item: dict[str, Any]) -> None:
        if item.get("type") == "function_call":
            call = self._calls[index] = self.answer.begin_call(
                text_field(item.get("call_id")), text_field(item.get("name"))
            )
            self.answer.add_arguments(call, text_field(item.get("arguments")))

    def _finish(self, index: int, item: dict[str, Any]) -> None:
        match item.get("type"):
            case "message":
                if not self._has_said:
                    self.answer.add_text(_text_of(item))
                self.answer.end_text({"phase": item["phase"]} if item.get("phase") else None)
            case "reasoning" if item.get("encrypted_content"):
                self.answer.add_opaque({name: value for name, value in item.items() if name != "status"})
            case "function_call":
                if index not in self._calls:
                    self._begin(index, {**item, "arguments": ""})
                call = self._calls[index]
                if not call.pieces:
                    self.answer.add_arguments(call, text_field(item.get("arguments")))

    def _complete(self, response: _Response) -> None:
        self.is_complete = self.is_over = True
        self.answer.response_id = response.id or self.answer.response_id
        if response.incomplete_details:
            reason = text_field(response.incomplete_details.get("reason"))
            self._stop = _LIMITS.get(reason, reason or "length")
        if response.usage:
            self.answer.usage = usage_of(response.usage)

    def _fail(self, record: _Failed | _Broken) -> None:
        error: Any = record.response.error if isinstance(record, _Failed) else record.error
        if isinstance(record, _Broken) and error is None:
            error = {"message": record.message, "code": record.code}
        failure = read_error({"error": error})
        message = failure.message or "the provider failed, and did not say why"
        code = failure.code or "server_error"
        self.failure = ModelFailure(
            message=message, code=code, is_passing=failure.is_passing or not failure.code
        )


def _text_of(item: dict[str, Any]) -> str:
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    return "".join(text_field(part.get("text")) for part in parts if isinstance(part, dict))


def usage_of(reported: dict[str, Any]) -> Usage:
    input_details, output_details = (
        reported.get("input_tokens_details"),
        reported.get("output_tokens_details"),
    )
    cache_read = count_in(input_details, "cached_tokens")
    cache_write = count_in(input_details, "cache_write_tokens")
    reasoning = count_in(output_details, "reasoning_tokens")
    total_in, total_out = count_in(reported, "input_tokens"), count_in(reported, "output_tokens")
    return Usage(
        input=besides(total_in, cache_read, cache_write),
        output=besides(total_out, reasoning),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
    )


_REASONS = re.compile(r"(o\d|gpt-[5-9]|gpt-\d\d|codex)")
"""Reasoning models, by the beginning of their names."""


def _cache_key(conversation_id: str) -> str:
    """Requests with one key reach a machine that has read their beginning. Not the id itself: the key is the provider's to
    see, and may be no longer than 64 characters.
    """
    return (
        f"harness-{hashlib.blake2b(conversation_id.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"
    )


_CALL_ID = r"[!-~]{1,64}"


class Responses:
    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._does_reason = _REASONS.match(endpoint.model.rpartition("/")[2]) is not None
        self._own_id = os.urandom(8).hex()
        self._turns = EncodedOnce[Turn, bytes](self._turn)
        self._tools = EncodedOnce[ToolSpec, bytes](_tool)

    def url(self) -> str:
        return f"{self._endpoint.url}/responses"

    def headers(self) -> dict[str, str]:
        return self._endpoint.bearer_headers

    def prepare(self, ask: Ask) -> Prepared:
        system, turns = split_system(ask.turns)
        fields = self._options(ask)
        if system:
            fields["instructions"] = system
        items = b",".join(filter(None, self._turns.all(turns)))
        body = [encode(fields)[:-1], b',"input":[', items, b"]"]
        if ask.tools:
            body.append(b',"tools":[%b]' % b",".join(self._tools.all(ask.tools)))
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    takes_schema_beside_tools = True

    def reader(self, answer: ModelAnswer) -> ResponsesReader:
        return ResponsesReader(answer)

    def _options(self, ask: Ask) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "model": self._endpoint.model,
            "stream": True,
            "store": False,
            "prompt_cache_key": _cache_key(ask.conversation_id or self._own_id),
        }
        if self._does_reason:
            fields["include"] = ["reasoning.encrypted_content"]
        if ask.effort:
            fields["reasoning"] = {"effort": ask.effort, "summary": "auto"}
        if ask.max_output_tokens is not None:
            fields["max_output_tokens"] = ask.max_output_tokens
        if ask.temperature is not None:
            fields["temperature"] = ask.temperature
        if ask.schema is not None:
            fields["text"] = {"format": {"type": "json_schema", **schema_format(ask.schema)}}
        return fields

    def _turn(self, turn: Turn) -> bytes:
        match turn:
            case SystemTurn():
                return encode({"role": "developer", "content": turn.text})
            case UserTurn():
                parts = [*map(_attachment, turn.attachments), *([_text(turn.text)] if turn.text else [])]
                return encode({"role": "user", "content": parts if turn.attachments else turn.text})
            case ToolTurn():
                return encode(_result(turn))
            case AssistantTurn():
                items = [encode(_answered(part)) for part in in_order(turn, self._endpoint.name)]
                return b",".join(items)


def _answered(part: Any) -> Any:
    match part:
        case TurnText(text=text, extras=extras):
            if not extras:  # of another model: a message of that type would need an id and a state
                return {"role": "assistant", "content": text}
            content = [{"type": "output_text", "text": text, "annotations": []}]
            return {"type": "message", "role": "assistant", "content": content, **extras}
        case TurnCall(call=call, extras=extras):
            arguments = encode(arguments_of(call)).decode()
            item = {"type": "function_call", "call_id": fitting_id(call.id, _CALL_ID)}
            item["name"] = fitting_name(call)
            return {**item, "arguments": arguments, **extras}
        case _:
            return part.value


def _result(turn: ToolTurn) -> dict[str, Any]:
    output: Any = turn.text
    if turn.attachments:
        output = [*([_text(turn.text)] if turn.text else []), *map(_attachment, turn.attachments)]
    call_id = fitting_id(turn.call_id, _CALL_ID)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _tool(tool: ToolSpec) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    # By default this API applies its strict rules to every schema, and few tools follow them.
    return encode({"type": "function", **function, "strict": False})


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _attachment(attachment: Attachment) -> dict[str, Any]:
    kind = attachment.media_type
    if kind.startswith("image/"):
        return {"type": "input_image", "image_url": data_url(attachment), "detail": "auto"}
    if kind == "application/pdf":
        name = attachment.name or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": data_url(attachment)}
    text = text_of(attachment)
    return _text(cannot_show(attachment) if text is None else titled_text(attachment, text))
