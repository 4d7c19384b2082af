"""The stream of Gemini: chunks of parts, each a piece of text or a whole call."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from harness.events import Usage
from harness.sources.formats.fields import besides
from harness.sources.models.answer import ModelAnswer
from harness.sources.models.counts_stream import count_in
from harness.sources.models.failure import ModelFailure, read_error
from harness.sources.models.turn_cache import encode
from harness.sources.translation.json_lines import DECODE_ERRORS

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
"""The model failed at its own format; what it wrote is not shown."""
_CALLED = re.compile(r"default_api\.(\w+)\(|call:(?:default_api:)?(\w+)")
"""How the provider's message quotes what the model wrote."""


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
        """Never known before the end: usage may follow the last part."""
        self._stop = ""

    def read(self, data: bytes) -> None:
        try:
            chunk = _decode(data)
        except DECODE_ERRORS:
            self.answer.skip()
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
            self.answer.usage = _usage(chunk.usageMetadata)
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
        """A call that the provider could not read is one all the same: the model is told so, and tries again."""
        found = _CALLED.search(message)
        name = (found[1] or found[2]) if found else "malformed_call"
        self.answer.argue(self.answer.call(None, name), message)
        self._stop, self.is_complete = "STOP", True

    def _read_part(self, part: _Part) -> None:
        signature = {"thoughtSignature": part.thoughtSignature} if part.thoughtSignature else {}
        if part.functionCall is not None:
            made = part.functionCall
            call = self.answer.call(made.id, made.name)
            if made.id == call.id:
                signature["has_id"] = True  # type: ignore[assignment]
            call.extras = signature or None
            if made.args is not None:
                self.answer.argue(call, encode(made.args).decode())
        elif part.thought:
            self.answer.think(part.text or "")
        else:
            if part.text:
                self.answer.say(part.text)
            if signature:
                self.answer.end_text(signature)


def _usage(told: dict[str, Any]) -> Usage:
    """What comes from the cache is part of the prompt; thoughts are no part of the candidates."""
    cache_read = count_in(told, "cachedContentTokenCount")
    prompt = count_in(told, "promptTokenCount")
    if prompt is not None:
        prompt += count_in(told, "toolUsePromptTokenCount") or 0
    return Usage(
        input=besides(prompt, cache_read),
        output=count_in(told, "candidatesTokenCount"),
        cache_read=cache_read,
        reasoning=count_in(told, "thoughtsTokenCount"),
    )
