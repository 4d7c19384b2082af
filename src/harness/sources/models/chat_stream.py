"""The stream of Chat Completions: chunks with a delta each, then `[DONE]`.

Servers differ: reasoning has three names, indexes are missing or always 0, arguments come as text or as
an object, usage is split in several ways. All of that is read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from harness.events import Usage
from harness.sources.formats.fields import besides
from harness.sources.models.answer import ModelAnswer, StreamedCall
from harness.sources.models.counts_stream import count_in
from harness.sources.models.failure import ModelFailure, read_error
from harness.sources.models.turn_cache import encode
from harness.sources.translation.json_lines import DECODE_ERRORS

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
    """The whole answer, of a server that knows no streams."""
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
        """By index: the id that the server gave it, and the call."""
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
            self.answer.usage = _usage(chunk.usage)
        if chunk.error:
            self.failure = read_error({"error": chunk.error})

    def end(self) -> None:
        if self._reasoning and self._keeps_reasoning:
            self.answer.keep({"reasoning_content": "".join(self._reasoning)})
        if self._details:
            self.answer.keep({"reasoning_details": _joined(self._details)})
        stop = "refusal" if self._was_refused else self._stop
        self.answer.end(_STOPS.get(stop, stop or "end"))

    def _read_other(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.is_over = True
            if self.answer.has_content:
                self.is_complete = True
        else:
            self.answer.skip()

    def _read_delta(self, delta: _Delta) -> None:
        thought = delta.reasoning_content or delta.reasoning
        if thought and isinstance(thought, str):
            self.answer.think(thought)
            if delta.reasoning_content:
                self._reasoning.append(thought)
        if isinstance(delta.reasoning_details, list):
            self._details += delta.reasoning_details
        content = delta.content
        if type(content) is str:
            self.answer.say(content)
        elif content:
            self._read_parts(content)
        if delta.refusal:
            self._was_refused = True
            self.answer.say(delta.refusal)
        if delta.tool_calls:
            for call in delta.tool_calls:
                self._read_call(call)

    def _read_parts(self, parts: str | list[Any]) -> None:
        """Mistral says it in parts when it reasons."""
        for part in parts:
            if not isinstance(part, dict):
                continue
            if isinstance(text := part.get("text"), str):
                self.answer.say(text)
            thinking = part.get("thinking")
            for piece in thinking if isinstance(thinking, list) else ():
                if isinstance(piece, dict) and isinstance(text := piece.get("text"), str):
                    self.answer.think(text)

    def _read_call(self, piece: _ToolCall) -> None:
        function = piece.function or _Function()
        index = piece.index if piece.index is not None else max(self._calls, default=0)
        known = self._calls.get(index)
        if known is None or _is_another(piece, function, *known):
            place = index if known is None or piece.index is not None else index + 1
            call = self.answer.call(piece.id, function.name or "")
            self._calls[place] = (piece.id or "", call)
        else:
            call = known[1]
            call.name = call.name or function.name or ""
        if piece.extra_content is not None:
            call.extras = {"extra_content": piece.extra_content}
        arguments = function.arguments
        if arguments is not None:
            self.answer.argue(call, arguments if isinstance(arguments, str) else encode(arguments).decode())


def _is_another(piece: _ToolCall, function: _Function, id: str, call: StreamedCall) -> bool:
    """Servers that count no calls, or every call as number 0, tell them apart by their ids, if at all."""
    if not function.name:
        return False
    if piece.id and id:
        return piece.id != id
    return piece.index is None and bool(call.pieces)


def _usage(told: dict[str, Any]) -> Usage:
    """Cached input is part of the prompt, and reasoning of the completion, but for those who say otherwise."""
    given, made = told.get("prompt_tokens_details"), told.get("completion_tokens_details")
    prompt, completion = count_in(told, "prompt_tokens"), count_in(told, "completion_tokens")
    cache_read = _first(
        count_in(given, "cached_tokens"),
        count_in(told, "cache_read_input_tokens"),
        count_in(told, "prompt_cache_hit_tokens"),
    )
    cache_write = _first(count_in(given, "cache_write_tokens"), count_in(told, "cache_creation_input_tokens"))
    reasoning = count_in(made, "reasoning_tokens")
    total = count_in(told, "total_tokens")
    is_apart = total is not None and total == (prompt or 0) + (completion or 0) + (reasoning or 0)
    cost = told.get("cost")
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
    """Pieces of one block of reasoning, as one block: that is how it is to be sent back."""
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
