"""Gemini: `POST …/models/MODEL:streamGenerateContent?alt=sse`.

Peculiarities of the API: a tool result names the function, not only the call; calls often have no id; the
signature of the reasoning is attached to the call or the text that followed it, and newer models refuse a
call without one; a malformed call is reported by name, without its content.

The stream consists of chunks of parts, each a piece of text or a whole call. The stream reader comes first in
this file, the request below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

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
from harness.models.answer import ModelAnswer, TurnCall, TurnText, count_in, in_order
from harness.models.failure import ModelFailure, read_error
from harness.models.http import ModelEndpoint, Prepared
from harness.models.turn_cache import (
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

_STOPS = {"STOP": "end", "MAX_TOKENS": "length"}
_REFUSALS = frozenset(
    (
        "BLOCKLIST",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "PROHIBITED_CONTENT",
        "RECITATION",
        "SAFETY",
        "SPII",
    )
)
_MALFORMED_CALL = "MALFORMED_FUNCTION_CALL"
_BOTCHED = frozenset(("MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"))
"""The model broke its own output format; the API does not return what it wrote."""
_CALLED = re.compile(r"default_api\.(\w+)\(|call:(?:default_api:)?(\w+)")
"""How the provider's message quotes the malformed call."""


class _FunctionCall(msgspec.Struct):
    name: str = ""
    args: Any = None
    id: str | None = None


class _Part(msgspec.Struct):
    text: str | None = None
    thought: bool = False
    thoughtSignature: str | None = None  # noqa: N815
    functionCall: _FunctionCall | None = None  # noqa: N815


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct):
    content: _Content | None = None
    finishReason: str | None = None  # noqa: N815
    finishMessage: str | None = None  # noqa: N815


class _Feedback(msgspec.Struct):
    blockReason: str | None = None  # noqa: N815
    blockReasonMessage: str | None = None  # noqa: N815


class _Chunk(msgspec.Struct):
    candidates: list[_Candidate] | None = None
    usageMetadata: dict[str, Any] | None = None  # noqa: N815
    responseId: str | None = None  # noqa: N815
    promptFeedback: _Feedback | None = None  # noqa: N815
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class GeminiReader:
    def __init__(self, answer: ModelAnswer) -> None:
        self.answer = answer
        self.failure: ModelFailure | None = None
        self.is_complete = False
        self.is_over = False
        """Never set: usage may follow the last part, so only the end of the stream is certain."""
        self._stop = ""

    def read(self, data: bytes) -> None:
        try:
            chunk = _decode(data)
        except DECODE_ERRORS:
            self.answer.skip_unreadable()
            return
        if chunk.candidates:
            self._read_candidate(chunk.candidates[0])
        elif chunk.promptFeedback is not None and chunk.promptFeedback.blockReason:
            reason = chunk.promptFeedback.blockReason
            message = chunk.promptFeedback.blockReasonMessage or f"the prompt was blocked: {reason}"
            self.failure = ModelFailure(message=message, code=reason)
        if chunk.responseId:
            self.answer.response_id = chunk.responseId
        if chunk.usageMetadata:
            self.answer.usage = usage_of(chunk.usageMetadata)
        if chunk.error:
            self.failure = read_error({"error": chunk.error})

    def end(self) -> None:
        stop = "refusal" if self._stop in _REFUSALS else _STOPS.get(self._stop, self._stop or "end")
        self.answer.end(stop)

    def _read_candidate(self, candidate: _Candidate) -> None:
        if candidate.content is not None and candidate.content.parts:
            for part in candidate.content.parts:
                self._read_part(part)
        reason = candidate.finishReason
        if reason == _MALFORMED_CALL:
            self._read_malformed(
                candidate.finishMessage or "the provider does not say what was wrong with it"
            )
        elif reason in _BOTCHED:
            message = candidate.finishMessage or f"the model's answer was not valid: {reason}"
            self.failure = ModelFailure(message=message, code=reason or "", is_passing=True)
        elif reason:
            self._stop = reason
            self.is_complete = True

    def _read_malformed(self, message: str) -> None:
        """Record a call that the provider could not parse: the model gets an error result and can retry."""
        match = _CALLED.search(message)
        name = (match[1] or match[2]) if match else "malformed_call"
        self.answer.add_arguments(self.answer.begin_call(None, name), message)
        self._stop, self.is_complete = "STOP", True

    def _read_part(self, part: _Part) -> None:
        signature: dict[str, Any] = (
            {"thoughtSignature": part.thoughtSignature} if part.thoughtSignature else {}
        )
        if part.functionCall is not None:
            function_call = part.functionCall
            call = self.answer.begin_call(function_call.id, function_call.name)
            if function_call.id == call.id:
                signature["has_id"] = True
            call.extras = signature or None
            if function_call.args is not None:
                self.answer.add_arguments(call, encode(function_call.args).decode())
        elif part.thought:
            self.answer.add_reasoning(part.text or "")
        else:
            if part.text:
                self.answer.add_text(part.text)
            if signature:
                self.answer.end_text(signature)


def usage_of(reported: dict[str, Any]) -> Usage:
    """Cached tokens are included in the prompt count; thoughts are not included in the candidates count."""
    cache_read = count_in(reported, "cachedContentTokenCount")
    prompt = count_in(reported, "promptTokenCount")
    if prompt is not None:
        prompt += count_in(reported, "toolUsePromptTokenCount") or 0
    return Usage(
        input=besides(prompt, cache_read),
        output=count_in(reported, "candidatesTokenCount"),
        cache_read=cache_read,
        reasoning=count_in(reported, "thoughtsTokenCount"),
    )


VERSION = "v1beta"
_THINKS = re.compile(r"gemini-(2\.5|[3-9])")
_TAKES_BOTH = re.compile(r"gemini-([3-9]|\d\d)")
"""Older ones refuse JSON answers where there are tools."""
_HAS_BUDGET = re.compile(r"gemini-2\.5")
_CHECKS_SIGNATURES = re.compile(r"gemini-[3-9]")
_NO_SIGNATURE = "skip_thought_signature_validator"
"""The API's own placeholder for a call that was not made by one of its models."""
_SHOWN = re.compile(r"image/(png|jpe?g|webp|heic|heif)\b|application/pdf\b|audio/|video/")
"""The accepted media types; with any other file the API refuses the whole request."""
_BUDGETS = {"low": 1_024, "medium": 8_192, "high": 24_576}


class _Encoded(msgspec.Struct, frozen=True, gc=False):
    role: bytes
    parts: bytes
    calls: dict[str, bytes] | None = None
    """By our call id: how a result must refer to the call."""
    result_of: str = ""
    """Our id of the call that this result belongs to."""


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

    @property
    def takes_schema_beside_tools(self) -> bool:
        return _TAKES_BOTH.search(self._endpoint.model) is not None

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
                text = [_text(turn.text)] if turn.text or not turn.attachments else []
                return _Encoded(b"user", b",".join([*map(_attachment, turn.attachments), *text]))
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
                case TurnText(text=text, extras=extras):
                    parts.append(encode({"text": text, **extras}))
                case TurnCall(call=call, extras=extras):
                    own_id = {"id": call.id} if extras.get("has_id") else {}
                    name, arguments = fitting_name(call), arguments_of(call)
                    function_call: dict[str, Any] = {
                        "functionCall": {"name": name, "args": arguments, **own_id}
                    }
                    if "thoughtSignature" in extras:
                        function_call["thoughtSignature"] = extras["thoughtSignature"]
                    elif not calls and _CHECKS_SIGNATURES.search(self._endpoint.model):
                        function_call["thoughtSignature"] = _NO_SIGNATURE
                    parts.append(encode(function_call))
                    calls[call.id] = b'{"functionResponse":%b,' % encode({"name": name, **own_id})[:-1]
                case _:
                    parts.append(encode(part.value))
        return _Encoded(b"model", b",".join(parts), calls or None)


def _contents(encoded: Iterable[_Encoded]) -> list[bytes]:
    """Join adjacent turns of one role into one content: all results of one answer must be together."""
    pieces: list[bytes] = []
    role = b""
    calls: dict[str, bytes] = {}
    for turn in encoded:
        if not turn.parts:
            continue
        if turn.role == role:
            pieces.append(b",")
        else:
            pieces.append((b']},{"role":"%b","parts":[' if role else b'{"role":"%b","parts":[') % turn.role)
            role = turn.role
        if turn.calls is not None:
            calls |= turn.calls
        elif turn.result_of:
            pieces.append(calls.get(turn.result_of, _UNKNOWN_CALL))
        pieces.append(turn.parts)
    if pieces:
        pieces.append(b"]}")
    return pieces


_UNKNOWN_CALL = b'{"functionResponse":{"name":"unknown",'


def _tool(tool: ToolSpec) -> bytes:
    declaration: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.schema.get("properties"):  # the API refuses an object without properties
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
