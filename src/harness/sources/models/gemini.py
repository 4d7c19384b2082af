"""Gemini: `POST …/models/MODEL:streamGenerateContent?alt=sse`.

The surprising things: a result names the function, not only the call; calls often have no id; the
signature of the reasoning hangs on the call or the text that came out of it, and newer models refuse a
call without one; what is malformed is never shown, only named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

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
from harness.sources.models.gemini_stream import GeminiReader
from harness.sources.models.http import ModelEndpoint, Prepared
from harness.sources.models.turn_cache import (
    EncodedOnce,
    arguments_of,
    cannot_show,
    encode,
    fitting_name,
    ids_in,
    later_instruction,
    split_system,
    text_of,
    titled_text,
)

VERSION = "v1beta"
_THINKS = re.compile(r"gemini-(2\.5|[3-9])")
_HAS_BUDGET = re.compile(r"gemini-2\.5")
_CHECKS_SIGNATURES = re.compile(r"gemini-[3-9]")
_NO_SIGNATURE = "skip_thought_signature_validator"
"""The API's own word for a call that one of its models did not make."""
_SHOWN = re.compile(r"image/(png|jpe?g|webp|heic|heif)\b|application/pdf\b|audio/|video/")
"""Of which kinds a file may be; the rest is refused, and the whole conversation with it."""
_BUDGETS = {"low": 1_024, "medium": 8_192, "high": 24_576}


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    role: bytes
    parts: bytes
    calls: dict[str, bytes] | None = None
    """By our ids: how a result has to name the call."""
    result_of: str = ""
    """Our id of the call whose result this is."""


class Gemini:
    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self._turns = EncodedOnce[Turn, _Encoded](self._turn)
        self._tools = EncodedOnce[ToolSpec, bytes](_tool)

    def url(self) -> str:
        base = self._endpoint.url
        base = base if base.endswith((f"/{VERSION}", "/v1")) else f"{base}/{VERSION}"
        return f"{base}/models/{quote(self._endpoint.model)}:streamGenerateContent?alt=sse"

    def headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self._endpoint.key, "content-type": "application/json"}

    def prepare(self, ask: Ask) -> Prepared:
        system, turns = split_system(ask.turns)
        body = [b'{"contents":[', *_contents(self._turns.all(turns)), b"]"]
        if system:
            body.append(b',"systemInstruction":%b' % encode({"parts": [{"text": system}]}))
        if ask.tools:
            body.append(b',"tools":[{"functionDeclarations":[%b]}]' % b",".join(self._tools.all(ask.tools)))
        if options := self._options(ask):
            body.append(b',"generationConfig":%b' % encode(options))
        body.append(b"}")
        return Prepared(b"".join(body), lambda: ids_in(turns))

    def reader(self, answer: ModelAnswer) -> GeminiReader:
        return GeminiReader(answer)

    def _options(self, ask: Ask) -> dict[str, Any]:
        model = self._endpoint.model
        options: dict[str, Any] = {}
        if ask.max_output_tokens is not None:
            options["maxOutputTokens"] = ask.max_output_tokens
        if ask.temperature is not None:
            options["temperature"] = ask.temperature
        if ask.schema is not None:
            options |= {"responseMimeType": "application/json", "responseJsonSchema": ask.schema}
        if _THINKS.search(model):
            thinking: dict[str, Any] = {"includeThoughts": True}
            if ask.effort and _HAS_BUDGET.search(model):
                thinking["thinkingBudget"] = _BUDGETS.get(ask.effort, _BUDGETS["high"])
            elif ask.effort:
                thinking["thinkingLevel"] = ask.effort.upper()
            options["thinkingConfig"] = thinking
        return options

    def _turn(self, turn: Turn) -> _Encoded:
        match turn:
            case SystemTurn():
                return _Encoded(b"user", _text(later_instruction(turn)))
            case UserTurn():
                said = [_text(turn.text)] if turn.text or not turn.attachments else []
                return _Encoded(b"user", b",".join([*map(_attachment, turn.attachments), *said]))
            case ToolTurn():
                outcome = b'"response":%b}}' % encode({"error" if turn.is_error else "output": turn.text})
                parts = b",".join((outcome, *map(_attachment, turn.attachments)))
                return _Encoded(b"user", parts, result_of=turn.call_id)
            case AssistantTurn():
                return self._answered(turn)

    def _answered(self, turn: AssistantTurn) -> _Encoded:
        parts: list[bytes] = []
        calls: dict[str, bytes] = {}
        for part in in_order(turn, self._endpoint.name):
            match part:
                case SaidText(text=text, extras=extras):
                    parts.append(encode({"text": text, **extras}))
                case MadeCall(call=call, extras=extras):
                    own_id = {"id": call.id} if extras.get("has_id") else {}
                    name, arguments = fitting_name(call), arguments_of(call)
                    made: dict[str, Any] = {"functionCall": {"name": name, "args": arguments, **own_id}}
                    if "thoughtSignature" in extras:
                        made["thoughtSignature"] = extras["thoughtSignature"]
                    elif not calls and _CHECKS_SIGNATURES.search(self._endpoint.model):
                        made["thoughtSignature"] = _NO_SIGNATURE
                    parts.append(encode(made))
                    calls[call.id] = b'{"functionResponse":%b,' % encode({"name": name, **own_id})[:-1]
                case _:
                    parts.append(encode(part.value))
        return _Encoded(b"model", b",".join(parts), calls or None)


def _contents(encoded: Iterable[_Encoded]) -> list[bytes]:
    """Neighbours of one role are one content: all results of one answer must be together."""
    pieces: list[bytes] = []
    role = b""
    calls: dict[str, bytes] = {}
    for one in encoded:
        if not one.parts:
            continue
        if one.role == role:
            pieces.append(b",")
        else:
            pieces.append((b']},{"role":"%b","parts":[' if role else b'{"role":"%b","parts":[') % one.role)
            role = one.role
        if one.calls is not None:
            calls |= one.calls
        elif one.result_of:
            pieces.append(calls.get(one.result_of, _UNKNOWN_CALL))
        pieces.append(one.parts)
    if pieces:
        pieces.append(b"]}")
    return pieces


_UNKNOWN_CALL = b'{"functionResponse":{"name":"unknown",'


def _tool(tool: ToolSpec) -> bytes:
    declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.schema.get("properties"):  # an object without properties is refused
        declaration["parametersJsonSchema"] = tool.schema
    return encode(declaration)


def _text(text: str) -> bytes:
    return encode({"text": text})


def _attachment(attachment: Attachment) -> bytes:
    if (text := text_of(attachment)) is not None:
        return _text(titled_text(attachment, text))
    if not _SHOWN.match(attachment.media_type):
        return _text(cannot_show(attachment))
    return encode({"inlineData": {"mimeType": attachment.media_type, "data": attachment.data}})
