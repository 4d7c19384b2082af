"""OpenAI Chat Completions: `POST /v1/chat/completions`, `GET /v1/models`; which most other servers use too.

Reasoning is `reasoning_content`, as most of those servers have it: the API itself shows none. Usage
comes at the end of a stream whether it was asked for or not, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from harness.formats.fields import record_of, text_of
from harness.models.chat import usage_of
from harness.models.wires.wire import (
    CREATED_S,
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
    is_from_google,
    kept_options,
    named_model,
    openai_error,
    parsed_arguments,
    parts_of,
    pieces,
    plain_text,
    records,
    sse,
    texts_of_roles,
)

_STOPS = {"length": "length", "refusal": "content_filter"}
_ERROR_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def endpoint(arrived: HttpRequest) -> WireEndpoint | None:
    if arrived.path.endswith("/chat/completions"):
        return "answer" if arrived.method == "POST" else None
    return "models" if asks_for_models(arrived) and not is_from_google(arrived) else None


def read(arrived: HttpRequest) -> ModelRequest:
    body = arrived.record
    messages = records(body.get("messages"))
    conversation = divide(messages, lambda message: message.get("role") == "assistant", _call_ids)
    functions = [record_of(tool.get("function")) for tool in records(body.get("tools"))]
    choice = record_of(record_of(body.get("tool_choice")).get("function"))
    form = record_of(record_of(body.get("response_format")).get("json_schema"))
    return ModelRequest(
        model=text_of(body.get("model")),
        system=texts_of_roles(("system", "developer"), messages),
        opening=texts_of_roles(("user",), conversation.opening),
        leading=tuple(
            (text, texts_of_roles(("user",), following)) for text, following in conversation.leading
        ),
        answers=conversation.answers,
        has_conversation=bool(messages),
        results=tuple(
            plain_text(message.get("content"))
            for message in conversation.latest
            if message.get("role") == "tool"
        ),
        tools={text_of(tool.get("name")): record_of(tool.get("parameters")) for tool in functions},
        forced_tool=text_of(choice.get("name")),
        schema=record_of(form.get("schema")),
        is_streamed=body.get("stream") is True,
        wants_usage=record_of(body.get("stream_options")).get("include_usage") is True,
    )


def _call_ids(message: JsonObject) -> list[Any]:
    return [call.get("id") for call in records(message.get("tool_calls"))]


def whole(answer: WireAnswer) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": None}
    calls = []
    for part in answer.parts:
        match part:
            case AnswerText():
                message["content"] = (message["content"] or "") + part.text
            case AnswerReasoning():
                message["reasoning_content"] = message.get("reasoning_content", "") + part.text
            case AnswerCall():
                calls.append(_call(part, part.arguments))
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _stop(answer)}
    return _completion(answer, "chat.completion", [choice]) | {"usage": _usage(answer)}


def stream(answer: WireAnswer, request: ModelRequest) -> Iterator[StreamFrame]:
    yield _chunk(answer, {"role": "assistant", "content": ""})
    calls = 0
    for index, part in enumerate(answer.parts):
        match part:
            case AnswerText():
                deltas: Iterable[JsonObject] = ({"content": piece} for piece in part.pieces())
            case AnswerReasoning():
                deltas = ({"reasoning_content": piece} for piece in part.pieces())
            case AnswerCall():
                tool_call: JsonObject = {"index": calls, **_call(part, "")}
                rest = [
                    {"index": calls, "function": {"arguments": piece}} for piece in pieces(part.arguments)
                ]
                deltas = ({"tool_calls": [call]} for call in (tool_call, *rest))
                calls += 1
        for delta in deltas:
            yield _chunk(answer, delta, index)
    yield _chunk(answer, {}, finish=_stop(answer))
    if request.wants_usage:
        yield StreamFrame(sse(_completion(answer, "chat.completion.chunk", []) | {"usage": _usage(answer)}))
    yield StreamFrame(b"data: [DONE]\n\n")


def _chunk(answer: WireAnswer, delta: JsonObject, part: int = -1, finish: str | None = None) -> StreamFrame:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return StreamFrame(sse(_completion(answer, "chat.completion.chunk", [choice])), part)


def _call(part: AnswerCall, arguments: str) -> JsonObject:
    return {
        "id": f"call_{part.id}",
        "type": "function",
        "function": {"name": part.name, "arguments": arguments},
    }


def _completion(answer: WireAnswer, kind: str, choices: list[JsonObject]) -> JsonObject:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": CREATED_S,
        "model": answer.model,
        "choices": choices,
    }


def _stop(answer: WireAnswer) -> str:
    if answer.stop:
        return _STOPS[answer.stop]
    return "tool_calls" if answer.has_calls else "stop"


def _usage(answer: WireAnswer) -> JsonObject:
    """Tokens that were written to a cache are not stated: they count as input."""
    tokens = answer.tokens
    prompt = tokens.input + tokens.cache_read + tokens.cache_write
    completion = tokens.output + tokens.reasoning
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def refusal(status: int, message: str, retry_after_s: float | None) -> JsonObject:
    del retry_after_s
    return openai_error(_ERROR_KINDS, status, message)


def failed(failing: StreamFailure, request: ModelRequest) -> bytes:
    del request
    return sse(refusal(failing.status, failing.message, None))


def models(arrived: HttpRequest) -> JsonObject:
    if name := named_model(arrived):
        return _model(name)
    return {"object": "list", "data": [_model(name) for name in MODELS]}


def _model(name: str) -> JsonObject:
    return {"id": name, "object": "model", "created": CREATED_S, "owned_by": "lab"}


_OPTIONS = (
    *("max_completion_tokens", "max_tokens", "reasoning", "reasoning_effort", "response_format"),
    *("seed", "stop", "stream", "temperature", "tool_choice"),
)


def said(body: JsonObject) -> SaidConversation:
    system: list[str] = []
    items: list[SaidItem] = []
    for message in records(body.get("messages")):
        if message.get("role") in ("system", "developer"):
            system += [
                as_text(record_of(part).get("text", part)) for part in parts_of(message.get("content"))
            ]
        else:
            items += _said_message(text_of(message.get("role")), message)
    functions = [record_of(tool.get("function")) or tool for tool in records(body.get("tools"))]
    tools = {text_of(tool.get("name") or tool.get("type")): tool for tool in functions}
    return SaidConversation(system, items, tools, kept_options(body, *_OPTIONS))


def _said_message(role: str, message: JsonObject) -> Iterator[SaidItem]:
    if role == "tool":
        yield SaidItem("tool", "result", message.get("content"), text_of(message.get("tool_call_id")))
        return
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        yield SaidItem(role, "reasoning", reasoning)
    for part in parts_of(message.get("content")):
        if not isinstance(part, dict):
            if part:
                yield SaidItem(role, "text", as_text(part))
            continue
        kind = text_of(part.get("type"))
        if "image" in kind or "file" in kind or "audio" in kind:
            yield SaidItem(role, "image", part.get(kind, part))
        else:
            yield SaidItem(role, "text", as_text(part.get("text", part)))
    for call in records(message.get("tool_calls")):
        function = record_of(call.get("function")) or record_of(call.get("custom"))
        arguments = parsed_arguments(function.get("arguments", function.get("input")))
        yield SaidItem(role, "call", arguments, text_of(call.get("id")), text_of(function.get("name")))


def end(events: Iterable[JsonObject]) -> AnswerEnd:
    model, stop = "", ""
    calls: set[Any] = set()
    usage: JsonObject = {}
    for number, event in enumerate(events):
        model = text_of(event.get("model")) or model
        usage = record_of(event.get("usage")) or usage
        for choice in records(event.get("choices")):
            stop = text_of(choice.get("finish_reason")) or stop
            said_now = record_of(choice.get("delta")) or record_of(choice.get("message"))
            calls |= {
                call.get("index", call.get("id", number)) for call in records(said_now.get("tool_calls"))
            }
    return AnswerEnd(usage_of(usage) if usage else None, model, stop, len(calls))


WIRE = WireFormat(
    title="OpenAI Chat Completions",
    variable="OPENAI_BASE_URL",
    base_path="/v1",
    conversation="messages",
    endpoint=endpoint,
    read=read,
    whole=whole,
    stream=stream,
    refusal=refusal,
    failed=failed,
    others={"models": models},
    said=said,
    end=end,
)
