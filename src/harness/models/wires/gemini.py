"""Gemini: `POST …/models/MODEL:generateContent`, `:streamGenerateContent`, `:countTokens`, `GET …/models`.

The model and whether the answer is streamed stand in the path. Arguments are objects, so malformed ones
cannot be sent: the API's own word for them is a finish reason. U+2028 and U+2029 are escaped, for
Google's own client takes them for ends of lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.formats.fields import record_of, text_of
from harness.models.gemini import usage_of
from harness.models.wires.wire import (
    COUNTED_TOKENS,
    MODELS,
    AnswerCall,
    AnswerEnd,
    AnswerReasoning,
    AnswerText,
    HttpRequest,
    JsonObject,
    ModelRequest,
    SaidConversation,
    SaidItem,
    StreamFailure,
    StreamFrame,
    WireAnswer,
    WireEndpoint,
    WireFormat,
    as_text,
    asks_for_models,
    divide,
    encode,
    is_from_google,
    kept_options,
    named_model,
    parts_of,
    pieces,
    plain_text,
    records,
    sse,
)

_STOPS = {"length": "MAX_TOKENS", "refusal": "SAFETY"}
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    504: "DEADLINE_EXCEEDED",
}
_ERRANDS: dict[str, WireEndpoint] = {
    "generateContent": "answer",
    "streamGenerateContent": "answer",
    "countTokens": "count",
}
_SEPARATORS = (("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))
_SIGNATURE = "bGFiLXNpZ25hdHVyZQ=="


def endpoint(arrived: HttpRequest) -> WireEndpoint | None:
    if arrived.method == "POST":
        return _ERRANDS.get(arrived.path.rpartition(":")[2])
    return "models" if asks_for_models(arrived) and is_from_google(arrived) else None


def read(arrived: HttpRequest) -> ModelRequest:
    body = arrived.record
    contents = records(body.get("contents"))
    conversation = divide(contents, lambda content: content.get("role") == "model", lambda _: [], "parts")
    model, _, verb = arrived.path.rpartition("/models/")[2].rpartition(":")
    is_events = arrived.query.get("alt") == "sse"
    form = record_of(body.get("generationConfig"))
    declared = [
        declaration
        for tool in records(body.get("tools"))
        for declaration in records(tool.get("functionDeclarations"))
    ]
    return ModelRequest(
        model=model,
        system=plain_text(record_of(body.get("systemInstruction")).get("parts")),
        opening="\n".join(plain_text(content.get("parts")) for content in conversation.opening),
        leading=tuple(
            (text, "\n".join(plain_text(content.get("parts")) for content in following))
            for text, following in conversation.leading
        ),
        answers=conversation.answers,
        has_conversation=bool(contents),
        results=tuple(
            encode(record_of(part.get("functionResponse")).get("response")).decode()
            for content in conversation.latest
            for part in records(content.get("parts"))
            if "functionResponse" in part
        ),
        tools={
            text_of(tool.get("name")): record_of(tool.get("parametersJsonSchema") or tool.get("parameters"))
            for tool in declared
        },
        schema=record_of(form.get("responseJsonSchema") or form.get("responseSchema")),
        is_streamed=verb == "streamGenerateContent",
        content_type="text/event-stream" if is_events else "application/json",
    )


def whole(answer: WireAnswer) -> JsonObject:
    parts = [part for frame in _groups(answer, is_whole=True) for part in frame[1]]
    return _chunk(answer, parts or [{"text": ""}], is_last=True)


def stream(answer: WireAnswer, request: ModelRequest) -> Iterator[StreamFrame]:
    frames = _events(answer)
    return frames if request.content_type == "text/event-stream" else _elements(frames)


def _events(answer: WireAnswer) -> Iterator[StreamFrame]:
    held_group: tuple[int, list[JsonObject]] | None = None
    for group in _groups(answer):
        if held_group is not None:
            yield _event(answer, *held_group, is_last=False)
        held_group = group
    yield _event(answer, *(held_group or (-1, [{"text": ""}])), is_last=True)


def _event(answer: WireAnswer, index: int, parts: list[JsonObject], *, is_last: bool) -> StreamFrame:
    data = sse(_chunk(answer, parts, is_last=is_last))
    for separator, escape in _SEPARATORS:
        data = data.replace(separator, escape)
    return StreamFrame(data, index)


def _elements(frames: Iterator[StreamFrame]) -> Iterator[StreamFrame]:
    """The same without `alt=sse`: one JSON array, an element at a time."""
    before = b"["
    for frame in frames:
        yield StreamFrame(before + frame.data.removeprefix(b"data: ").rstrip(), frame.part)
        before = b",\r\n"
    yield StreamFrame(b"]")


def _groups(answer: WireAnswer, *, is_whole: bool = False) -> Iterator[tuple[int, list[JsonObject]]]:
    """The parts of each chunk; calls that follow one another come together, as the API sends them."""
    calls: list[JsonObject] = []
    latest = -1
    for index, part in enumerate(answer.parts):
        if calls and not isinstance(part, AnswerCall):
            yield latest, calls
            calls = []
        match part:
            case AnswerText():
                text_pieces = pieces(part.text, 1) if is_whole else part.pieces()
                yield from ((index, [{"text": piece}]) for piece in text_pieces)
            case AnswerReasoning():
                text_pieces = pieces(part.text, 1) if is_whole else part.pieces()
                yield from ((index, [{"text": piece, "thought": True}]) for piece in text_pieces)
            case AnswerCall(is_malformed=False):
                arguments = part.input if isinstance(part.input, dict) else {"input": part.input}
                call: JsonObject = {"functionCall": {"name": part.name, "args": arguments}}
                calls.append(call if calls else call | {"thoughtSignature": _SIGNATURE})
                latest = index
            case AnswerCall():
                continue
    if calls:
        yield latest, calls


def _chunk(answer: WireAnswer, parts: list[JsonObject], *, is_last: bool) -> JsonObject:
    candidate: JsonObject = {"content": {"role": "model", "parts": parts}, "index": 0}
    chunk: JsonObject = {"candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id}
    if is_last:
        candidate["finishReason"] = _stop(answer)
        chunk["usageMetadata"] = _usage(answer)
    return chunk


def _stop(answer: WireAnswer) -> str:
    if answer.stop:
        return _STOPS[answer.stop]
    is_malformed = any(isinstance(part, AnswerCall) and part.is_malformed for part in answer.parts)
    return "MALFORMED_FUNCTION_CALL" if is_malformed else "STOP"


def _usage(answer: WireAnswer) -> JsonObject:
    """Tokens that were written to a cache are not stated: they count as input."""
    tokens = answer.tokens
    prompt = tokens.input + tokens.cache_read + tokens.cache_write
    usage = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": tokens.output,
        "totalTokenCount": prompt + tokens.output + tokens.reasoning,
    }
    if tokens.cache_read:
        usage["cachedContentTokenCount"] = tokens.cache_read
    if tokens.reasoning:
        usage["thoughtsTokenCount"] = tokens.reasoning
    return usage


def refusal(status: int, message: str, retry_after_s: float | None) -> JsonObject:
    default = "FAILED_PRECONDITION" if status < 500 else "UNAVAILABLE"
    error: JsonObject = {"code": status, "message": message, "status": _STATUS_NAMES.get(status, default)}
    if retry_after_s is not None:
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        error["details"] = [{"@type": kind, "retryDelay": f"{retry_after_s:g}s"}]
    return {"error": error}


def failed(failing: StreamFailure, request: ModelRequest) -> bytes:
    body = refusal(failing.status, failing.message, None)
    if request.content_type == "text/event-stream":
        return sse(body)
    return (b",\r\n" if failing.sent else b"[") + encode(body) + b"]"


def models(arrived: HttpRequest) -> JsonObject:
    if name := named_model(arrived):
        return _model(name)
    return {"models": [_model(name) for name in MODELS]}


def _model(name: str) -> JsonObject:
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def said(body: JsonObject) -> SaidConversation:
    instruction = record_of(body.get("systemInstruction") or body.get("system_instruction"))
    system = [as_text(record_of(part).get("text", part)) for part in parts_of(instruction.get("parts"))]
    items = [
        _said_part("assistant" if content.get("role") == "model" else "user", part)
        for content in records(body.get("contents"))
        for part in records(content.get("parts"))
    ]
    tools = {
        text_of(tool.get("name")): tool
        for group in records(body.get("tools"))
        for tool in records(group.get("functionDeclarations"))
    }
    return SaidConversation(system, items, tools, kept_options(body, "generationConfig", "toolConfig"))


def _said_part(role: str, part: JsonObject) -> SaidItem:
    if call := record_of(part.get("functionCall")):
        return SaidItem(role, "call", call.get("args"), text_of(call.get("id")), text_of(call.get("name")))
    if result := record_of(part.get("functionResponse")):
        response, call_id = result.get("response"), text_of(result.get("id"))
        return SaidItem("tool", "result", response, call_id, is_error="error" in record_of(response))
    if part.get("thought"):
        return SaidItem(role, "reasoning", part.get("text"))
    if "inlineData" in part or "fileData" in part:
        return SaidItem(role, "image", part.get("inlineData") or part.get("fileData"))
    return SaidItem(role, "text", as_text(part.get("text", part)))


def end(events: Iterable[JsonObject]) -> AnswerEnd:
    model, stop, calls = "", "", 0
    usage: JsonObject = {}
    for event in events:
        model = text_of(event.get("modelVersion")) or model
        usage |= record_of(event.get("usageMetadata"))
        for candidate in records(event.get("candidates")):
            stop = text_of(candidate.get("finishReason")) or stop
            parts = records(record_of(candidate.get("content")).get("parts"))
            calls += sum("functionCall" in part for part in parts)
    return AnswerEnd(usage_of(usage) if usage else None, model, stop, calls)


WIRE = WireFormat(
    title="Gemini",
    variable="GOOGLE_GEMINI_BASE_URL",
    base_path="",
    conversation="contents",
    endpoint=endpoint,
    read=read,
    whole=whole,
    stream=stream,
    refusal=refusal,
    failed=failed,
    others={"count": lambda _: {"totalTokens": COUNTED_TOKENS}, "models": models},
    said=said,
    end=end,
)
