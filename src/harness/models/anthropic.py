"""Anthropic Messages: `POST …/v1/messages`.

Peculiarities of the API: tool results are sent as a user message, and all results of one answer must be in
one message; thinking blocks must be sent back unchanged and in their place; a conversation that contains tool
calls must define tools, even where none may be called; a prompt is cached only up to an explicit marker; a
single image that is too large, however old, makes the API refuse every later request.

The stream consists of blocks that begin, grow and end inside one message. The stream reader comes first in
this file, the request below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

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
from harness.models.answer import ModelAnswer, StreamedCall, TurnCall, TurnText, in_order
from harness.models.failure import ModelFailure, read_error
from harness.models.http import ModelEndpoint, Prepared
from harness.models.turn_cache import (
    EncodedOnce,
    arguments_of,
    cannot_show,
    closed,
    encode,
    fitting_id,
    fitting_name,
    ids_in,
    later_instruction,
    longest_side,
    split_system,
    text_of,
)

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
                self.answer.add_text(text)
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
        """Unknown kinds of events and deltas are ignored, as the API requires."""
        try:
            kind = _decode_any(data).type
        except DECODE_ERRORS:
            self.answer.skip_unreadable()
            return
        if kind in ("message_start", "content_block_start", "message_delta"):
            self.answer.skip_unreadable()

    def _begin(self, index: int, block: _Block) -> None:
        match block.type:
            case "text":
                self.answer.add_text(block.text or "")
            case "thinking":
                self._thoughts[index] = {"type": "thinking", "thinking": [], "signature": ""}
            case "redacted_thinking":
                self.answer.add_opaque({"type": "redacted_thinking", "data": block.data or ""})
            case "tool_use":
                call = self._calls[index] = self.answer.begin_call(block.id, block.name or "")
                if block.input:
                    self.answer.add_arguments(call, encode(block.input).decode())

    def _continue(self, record: _BlockDelta) -> None:
        match record.delta:
            case _InputDelta(partial_json=piece):
                if (call := self._calls.get(record.index)) is not None:
                    self.answer.add_arguments(call, piece)
            case _ThinkingDelta(thinking=text):
                self.answer.add_reasoning(text)
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
            self.answer.add_opaque({**thought, "thinking": "".join(thought["thinking"])})

    def _count(self, reported: _Usage | None) -> None:
        """Usage is reported as running totals: a later report replaces the earlier one."""
        if reported is None:
            return
        thinking = reported.output_tokens_details.thinking_tokens if reported.output_tokens_details else None
        before = self.answer.usage
        self.answer.usage = Usage(
            input=_latest(reported.input_tokens, before.input),
            output=_latest(besides(reported.output_tokens, thinking), before.output),
            cache_read=_latest(reported.cache_read_input_tokens, before.cache_read),
            cache_write=_latest(reported.cache_creation_input_tokens, before.cache_write),
            reasoning=_latest(thinking, before.reasoning),
        )


def _latest(now: int | None, before: int | None) -> int | None:
    return before if now is None else now


VERSION = "2023-06-01"
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MOST_IMAGE_CHARACTERS = 5 * 1024 * 1024
"""The limit for one image in base64. Some providers of this API accept twice as much, none accepts less."""
_LONGEST_SIDE = 8_000
_MANY_IMAGES = 20
_LONGEST_SIDE_OF_MANY = 2_000
"""In pixels: the limit for every image in a request with many images."""
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_CALL_ID = r"[a-zA-Z0-9_-]{1,64}"
_OUTPUT_LIMITS = ((re.compile(r"claude-3-5|claude-3-7"), 8_192), (re.compile(r"claude-(3|2|instant)"), 4_096))
_USUAL_OUTPUT_LIMIT = 32_000
"""The API requires a limit; every model since Claude 4 allows this one."""
_BUDGETED = re.compile(r"claude-(3-7|opus-4(-[015])?(-20\d{6})?$|sonnet-4(-[05])?(-20\d{6})?$|haiku-4)")
"""Models whose thinking is set as a budget of tokens instead of an effort level."""
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_000}


_Seen = TypeVar("_Seen", UserTurn, ToolTurn)


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    role: bytes
    blocks: bytes
    tool_names: tuple[str, ...] = ()
    images: int = 0
    blocks_among_many: bytes = b""
    """Set if there are images: the same blocks for a request with many images."""


class Anthropic:
    def __init__(self, endpoint: ModelEndpoint, *, is_token: bool = False) -> None:
        """`is_token`: the key is a bearer token, as gateways issue them."""
        self._endpoint = endpoint
        self._is_token = is_token
        self._turns = EncodedOnce[Turn, _Encoded](self._turn)
        self._tools = EncodedOnce[ToolSpec, bytes](_tool)

    def url(self) -> str:
        return f"{self._endpoint.url.removesuffix('/v1')}/v1/messages"

    def headers(self) -> dict[str, str]:
        key = self._endpoint.key
        secret = {"authorization": f"Bearer {key}"} if self._is_token else {"x-api-key": key}
        return {**secret, "anthropic-version": VERSION, "content-type": "application/json"}

    def prepare(self, ask: Ask) -> Prepared:
        system, turns = split_system(ask.turns)
        encoded = self._turns.all(turns)
        if sum(turn.images for turn in encoded) > _MANY_IMAGES:
            encoded = [
                replace(turn, blocks=turn.blocks_among_many) if turn.blocks_among_many else turn
                for turn in encoded
            ]
        fields = _options(ask, self._endpoint.model, turns)
        body = [encode(fields)[:-1]]
        body += [b',"messages":[', *_messages(encoded), b"]"]
        if system:
            body.append(b',"system":[%b]' % _marked(encode({"type": "text", "text": system})))
        if tools := self._offered(ask, encoded):
            if not system:
                tools[-1] = _marked(tools[-1])
            body.append(b',"tools":[%b]' % b",".join(tools))
            if not ask.tools:
                body.append(b',"tool_choice":{"type":"none"}')
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    takes_schema_beside_tools = True

    def reader(self, answer: ModelAnswer) -> AnthropicReader:
        return AnthropicReader(answer)

    def _offered(self, ask: Ask, encoded: list[_Encoded]) -> list[bytes]:
        if ask.tools:
            return list(self._tools.all(ask.tools))
        names = dict.fromkeys(name for turn in encoded for name in turn.tool_names)
        return [encode({"name": name, "input_schema": {"type": "object"}}) for name in names]

    def _turn(self, turn: Turn) -> _Encoded:
        match turn:
            case SystemTurn():
                return _Encoded(b"user", _text(later_instruction(turn)))
            case UserTurn():
                return _with_images(turn, _user_content)
            case ToolTurn():
                return _with_images(turn, _result)
            case AssistantTurn():
                blocks = [_answered(part) for part in in_order(turn, self._endpoint.name)]
                names = tuple(map(fitting_name, turn.calls))
                return _Encoded(b"assistant", b",".join(filter(None, blocks)), names)


def _options(ask: Ask, model: str, turns: Sequence[Turn]) -> dict[str, Any]:
    limit = ask.max_output_tokens or next(
        (tokens for models, tokens in _OUTPUT_LIMITS if models.search(model)), _USUAL_OUTPUT_LIMIT
    )
    fields: dict[str, Any] = {"model": model, "max_tokens": limit, "stream": True}
    output: dict[str, Any] = {}
    if ask.effort and not _BUDGETED.search(model):
        fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        output["effort"] = ask.effort
    elif ask.effort and limit > 1_024 and _may_think(turns):
        budget = min(_BUDGETS.get(ask.effort, _BUDGETS["high"]), limit - 1)
        fields["thinking"] = {"type": "enabled", "budget_tokens": max(1_024, budget)}
    if ask.temperature is not None and "thinking" not in fields:
        fields["temperature"] = ask.temperature
    if ask.schema is not None:
        output["format"] = {"type": "json_schema", "schema": closed(ask.schema)}
    if output:
        fields["output_config"] = output
    return fields


def _may_think(turns: Sequence[Turn]) -> bool:
    """With a thinking budget, open calls must follow a thinking block; calls of another model have none."""
    for turn in reversed(turns):
        if isinstance(turn, AssistantTurn):
            return not turn.calls or turn.opaque is not None
        if isinstance(turn, UserTurn):
            return True
    return True


def _messages(encoded: Iterable[_Encoded]) -> list[bytes]:
    """Join adjacent turns of one role into a message; the last two user messages carry the cache markers."""
    pieces: list[bytes] = []
    role = b""
    ends: list[int] = []
    for turn in encoded:
        if not turn.blocks:
            continue
        if turn.role == role:
            pieces.append(b",")
        else:
            if role == b"user":
                ends.append(len(pieces) - 1)
            pieces.append(
                (b']},{"role":"%b","content":[' if role else b'{"role":"%b","content":[') % turn.role
            )
            role = turn.role
        pieces.append(turn.blocks)
    if role == b"user":
        ends.append(len(pieces) - 1)
    for end in ends[-2:]:
        pieces[end] = _marked(pieces[end])
    if pieces:
        pieces.append(b"]}")
    return pieces


def _marked(blocks: bytes) -> bytes:
    """Put a cache marker on the last block."""
    return blocks[:-1] + _MARK


def _tool(tool: ToolSpec) -> bytes:
    return encode({"name": tool.name, "description": tool.description, "input_schema": tool.schema})


def _text(text: str) -> bytes:
    return encode({"type": "text", "text": text})


def _answered(part: Any) -> bytes:
    match part:
        case TurnText():
            return _text(part.text) if part.text.strip() else b""
        case TurnCall(call=call):
            use = {"type": "tool_use", "id": fitting_id(call.id, _CALL_ID), "name": fitting_name(call)}
            return encode({**use, "input": arguments_of(call)})
        case _:
            return encode(part.value)


def _with_images(turn: _Seen, encoded: Callable[[_Seen, int], bytes]) -> _Encoded:
    blocks = encoded(turn, _LONGEST_SIDE)
    images = sum(attachment.media_type in _IMAGES for attachment in turn.attachments)
    return _Encoded(
        b"user",
        blocks,
        images=images,
        blocks_among_many=encoded(turn, _LONGEST_SIDE_OF_MANY) if images else b"",
    )


def _user_content(turn: UserTurn, most_pixels: int) -> bytes:
    blocks = [_attachment(attachment, most_pixels) for attachment in turn.attachments]
    if turn.text.strip():
        blocks.append(_text(turn.text))
    return b",".join(blocks) or _text("(no text)")


def _result(turn: ToolTurn, most_pixels: int) -> bytes:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": fitting_id(turn.call_id, _CALL_ID)}
    if turn.is_error and not turn.attachments:  # an error result may contain only text
        block["is_error"] = True
    if turn.attachments:
        parts = [_text(turn.text)] if turn.text.strip() else []
        parts += [_attachment(attachment, most_pixels) for attachment in turn.attachments]
        block["content"] = list(map(msgspec.Raw, parts))
    elif turn.text:
        block["content"] = turn.text
    return encode(block)


def _attachment(attachment: Attachment, most_pixels: int) -> bytes:
    kind = attachment.media_type
    source = {"type": "base64", "media_type": kind, "data": attachment.data}
    if kind in _IMAGES:
        if (too_large := _too_large(attachment, most_pixels)) is not None:
            return _text(f"[{attachment.name or 'an image'} cannot be shown: {too_large}]")
        return encode({"type": "image", "source": source})
    title = {"title": attachment.name} if attachment.name else {}
    if kind == "application/pdf":
        return encode({"type": "document", "source": source, **title})
    text = text_of(attachment)
    if text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return encode({"type": "document", "source": source, **title})
    return _text(cannot_show(attachment))


def _too_large(image: Attachment, most_pixels: int) -> str | None:
    if len(image.data) > _MOST_IMAGE_CHARACTERS:
        most_mb, size_mb = _MOST_IMAGE_CHARACTERS * 3 / 4e6, len(image.data) * 3 / 4e6
        return f"it has {size_mb:.1f} MB, and may have {most_mb:.1f}"
    side = longest_side(image.media_type, image.data)
    if side <= most_pixels:
        return None
    among = f" in a conversation with more than {_MANY_IMAGES} images" if most_pixels < _LONGEST_SIDE else ""
    return f"its longer side has {side} pixels, and may have {most_pixels}{among}"
