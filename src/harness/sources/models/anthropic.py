"""Anthropic Messages: `POST …/v1/messages`.

The surprising things: tool results are a user's message, and those of one answer must be one message;
thinking blocks must come back unchanged and in their place; a conversation that tells of tool calls must
define tools, even where none may be called; a prompt is cached only up to where one says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

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
from harness.sources.model_answer import Answer, MadeCall, SaidText, in_order
from harness.sources.model_http import Endpoint, Prepared
from harness.sources.model_streams.anthropic import AnthropicReader
from harness.sources.model_turns import (
    EncodedOnce,
    cannot_show,
    closed,
    encode,
    ids_in,
    later_instruction,
    split_system,
    text_of,
)

VERSION = "2023-06-01"
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_FOREIGN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_OUTPUT_LIMITS = ((re.compile(r"claude-3-5|claude-3-7"), 8_192), (re.compile(r"claude-(3|2|instant)"), 4_096))
_USUAL_OUTPUT_LIMIT = 32_000
"""The API wants a limit; every model since Claude 4 allows this one."""
_BUDGETED = re.compile(r"claude-(3-7|opus-4(-[015])?(-20\d{6})?$|sonnet-4(-[05])?(-20\d{6})?$|haiku-4)")
"""Models that are told how many tokens to think, not how hard."""
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_000}


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    role: bytes
    blocks: bytes
    tool_names: tuple[str, ...] = ()


class Anthropic:
    def __init__(self, endpoint: Endpoint, *, is_token: bool = False) -> None:
        """`is_token`: the key is one for bearers, as a gateway gives them out."""
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

    def reader(self, answer: Answer) -> AnthropicReader:
        return AnthropicReader(answer)

    def _offered(self, ask: Ask, encoded: list[_Encoded]) -> list[bytes]:
        if ask.tools:
            return list(self._tools.all(ask.tools))
        names = dict.fromkeys(name for one in encoded for name in one.tool_names)
        return [encode({"name": name, "input_schema": {"type": "object"}}) for name in names]

    def _turn(self, turn: Turn) -> _Encoded:
        match turn:
            case SystemTurn():
                return _Encoded(b"user", _text(later_instruction(turn)))
            case UserTurn():
                said = [_text(turn.text)] if turn.text.strip() else []
                blocks = [*map(_attachment, turn.attachments), *said]
                return _Encoded(b"user", b",".join(blocks) or _text("(no text)"))
            case ToolTurn():
                return _Encoded(b"user", _result(turn))
            case AssistantTurn():
                blocks = [_answered(part) for part in in_order(turn, self._endpoint.name)]
                names = tuple(call.name for call in turn.calls)
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
    """With a budget, calls under way must have been thought about: those of another model were not."""
    for turn in reversed(turns):
        if isinstance(turn, AssistantTurn):
            return not turn.calls or turn.opaque is not None
        if isinstance(turn, UserTurn):
            return True
    return True


def _messages(encoded: Iterable[_Encoded]) -> list[bytes]:
    """Neighbours of one role are one message; the last two of the user say how far to cache."""
    pieces: list[bytes] = []
    role = b""
    ends: list[int] = []
    for one in encoded:
        if not one.blocks:
            continue
        if one.role == role:
            pieces.append(b",")
        else:
            if role == b"user":
                ends.append(len(pieces) - 1)
            pieces.append(
                (b']},{"role":"%b","content":[' if role else b'{"role":"%b","content":[') % one.role
            )
            role = one.role
        pieces.append(one.blocks)
    if role == b"user":
        ends.append(len(pieces) - 1)
    for end in ends[-2:]:
        pieces[end] = _marked(pieces[end])
    if pieces:
        pieces.append(b"]}")
    return pieces


def _marked(blocks: bytes) -> bytes:
    """The last of them is the end of a prefix that is worth caching."""
    return blocks[:-1] + _MARK


def _tool(tool: ToolSpec) -> bytes:
    return encode({"name": tool.name, "description": tool.description, "input_schema": tool.schema})


def _text(text: str) -> bytes:
    return encode({"type": "text", "text": text})


def _answered(part: Any) -> bytes:
    match part:
        case SaidText():
            return _text(part.text) if part.text.strip() else b""
        case MadeCall(call=call):
            use = {"type": "tool_use", "id": _own_id(call.id), "name": call.name, "input": call.input}
            return encode(use)
        case _:
            return encode(part.value)


def _result(turn: ToolTurn) -> bytes:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _own_id(turn.call_id)}
    if turn.is_error:
        block["is_error"] = True
    if turn.attachments:
        parts = [_text(turn.text)] if turn.text.strip() else []
        parts += map(_attachment, turn.attachments)
        block["content"] = list(map(msgspec.Raw, parts))
    elif turn.text:
        block["content"] = turn.text
    return encode(block)


def _own_id(id: str) -> str:
    """The id of a call that another provider's model made may have letters that are not allowed here."""
    return _FOREIGN_ID.sub("_", id)


def _attachment(attachment: Attachment) -> bytes:
    kind = attachment.media_type
    source = {"type": "base64", "media_type": kind, "data": attachment.data}
    if kind in _IMAGES:
        return encode({"type": "image", "source": source})
    title = {"title": attachment.name} if attachment.name else {}
    if kind == "application/pdf":
        return encode({"type": "document", "source": source, **title})
    text = text_of(attachment)
    if text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return encode({"type": "document", "source": source, **title})
    return _text(cannot_show(attachment))
