"""The stream of Anthropic Messages: blocks that begin, grow and end, inside of one message."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from harness.events import Usage
from harness.sources.formats.fields import besides
from harness.sources.models.answer import ModelAnswer, StreamedCall
from harness.sources.models.failure import ModelFailure, read_error
from harness.sources.models.turn_cache import encode
from harness.sources.translation.json_lines import DECODE_ERRORS

_STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class _Details(msgspec.Struct):
    thinking_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None


class _Message(msgspec.Struct):
    id: str = ""
    usage: _Usage | None = None


class _MessageStart(msgspec.Struct, tag="message_start"):
    message: _Message


class _Block(msgspec.Struct):
    type: str
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    data: str | None = None


class _BlockStart(msgspec.Struct, tag="content_block_start"):
    index: int
    content_block: _Block


class _TextDelta(msgspec.Struct, tag="text_delta"):
    text: str


class _ThinkingDelta(msgspec.Struct, tag="thinking_delta"):
    thinking: str


class _SignatureDelta(msgspec.Struct, tag="signature_delta"):
    signature: str


class _InputDelta(msgspec.Struct, tag="input_json_delta"):
    partial_json: str


class _BlockDelta(msgspec.Struct, tag="content_block_delta"):
    index: int
    delta: _TextDelta | _ThinkingDelta | _SignatureDelta | _InputDelta


class _BlockStop(msgspec.Struct, tag="content_block_stop"):
    index: int


class _Delta(msgspec.Struct):
    stop_reason: str | None = None


class _MessageDelta(msgspec.Struct, tag="message_delta"):
    delta: _Delta
    usage: _Usage | None = None


class _MessageStop(msgspec.Struct, tag="message_stop"):
    pass


class _Failed(msgspec.Struct, tag="error"):
    error: Any = None


_Record: TypeAlias = (
    _MessageStart | _BlockStart | _BlockDelta | _BlockStop | _MessageDelta | _MessageStop | _Failed
)
_decode = msgspec.json.Decoder(_Record).decode


class _OfAnyKind(msgspec.Struct):
    type: str


_decode_any = msgspec.json.Decoder(_OfAnyKind).decode


class AnthropicReader:
    def __init__(self, answer: ModelAnswer) -> None:
        self.answer = answer
        self.failure: ModelFailure | None = None
        self.is_complete = False
        self.is_over = False
        self._stop = ""
        self._calls: dict[int, StreamedCall] = {}
        self._thoughts: dict[int, dict[str, Any]] = {}

    def read(self, data: bytes) -> None:
        try:
            record = _decode(data)
        except DECODE_ERRORS:
            self._read_unknown(data)
            return
        match record:
            case _BlockDelta(delta=_TextDelta(text=text)):
                self.answer.say(text)
            case _BlockDelta():
                self._continue(record)
            case _BlockStart():
                self._begin(record.index, record.content_block)
            case _BlockStop():
                self._end_block(record.index)
            case _MessageStart():
                self.answer.response_id = record.message.id
                self._count(record.message.usage)
            case _MessageDelta():
                self._count(record.usage)
                if record.delta.stop_reason:
                    self._stop = record.delta.stop_reason
                    self.is_complete = True
            case _MessageStop():
                self.is_complete = self.is_over = True
            case _Failed():
                self.failure = read_error(record.error)

    def end(self) -> None:
        self.answer.end(_STOPS.get(self._stop, self._stop or "end"))

    def _read_unknown(self, data: bytes) -> None:
        """Kinds of events and deltas that are newer than this file are left out, as the API demands."""
        try:
            kind = _decode_any(data).type
        except DECODE_ERRORS:
            self.answer.skip()
            return
        if kind in ("message_start", "content_block_start", "message_delta"):
            self.answer.skip()

    def _begin(self, index: int, block: _Block) -> None:
        match block.type:
            case "text":
                self.answer.say(block.text or "")
            case "thinking":
                self._thoughts[index] = {"type": "thinking", "thinking": [], "signature": ""}
            case "redacted_thinking":
                self.answer.keep({"type": "redacted_thinking", "data": block.data or ""})
            case "tool_use":
                call = self._calls[index] = self.answer.call(block.id, block.name or "")
                if block.input:
                    self.answer.argue(call, encode(block.input).decode())

    def _continue(self, record: _BlockDelta) -> None:
        match record.delta:
            case _InputDelta(partial_json=piece):
                if (call := self._calls.get(record.index)) is not None:
                    self.answer.argue(call, piece)
            case _ThinkingDelta(thinking=text):
                self.answer.think(text)
                if (thought := self._thoughts.get(record.index)) is not None:
                    thought["thinking"].append(text)
            case _SignatureDelta(signature=signature):
                if (thought := self._thoughts.get(record.index)) is not None:
                    thought["signature"] += signature

    def _end_block(self, index: int) -> None:
        thought = self._thoughts.pop(index, None)
        if thought is None:
            if index not in self._calls:
                self.answer.end_text()
        elif thought["signature"]:
            self.answer.keep({**thought, "thinking": "".join(thought["thinking"])})

    def _count(self, told: _Usage | None) -> None:
        """What is told later is told in total, and replaces what was told before."""
        if told is None:
            return
        thinking = told.output_tokens_details.thinking_tokens if told.output_tokens_details else None
        before = self.answer.usage
        self.answer.usage = Usage(
            input=_latest(told.input_tokens, before.input),
            output=_latest(besides(told.output_tokens, thinking), before.output),
            cache_read=_latest(told.cache_read_input_tokens, before.cache_read),
            cache_write=_latest(told.cache_creation_input_tokens, before.cache_write),
            reasoning=_latest(thinking, before.reasoning),
        )


def _latest(now: int | None, before: int | None) -> int | None:
    return before if now is None else now
