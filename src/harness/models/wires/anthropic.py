"""Anthropic Messages: `POST /v1/messages`, `…/count_tokens`, `GET /v1/models`.

Claude Code asks once more without streaming after two streams that broke, so both forms must agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from harness.events import Usage
from harness.formats.fields import besides, record_of, speed_of, text_of
from harness.models.answer import count_in
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
    kept_options,
    named_model,
    parts_of,
    pieces,
    plain_text,
    records,
    sse,
)

_SERVER_TOOLS = ("web_search", "web_fetch", "code_execution")
"""Kinds of tools that the model's side runs itself: a request with only these is no agent's."""
_SIGNATURE = "bGFiLXNpZ25hdHVyZQ=="
_STOPS = {"length": "max_tokens", "refusal": "refusal"}
_ERROR_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def endpoint(arrived: HttpRequest) -> WireEndpoint | None:
    if arrived.path.endswith("/messages"):
        return "answer" if arrived.method == "POST" else None
    if arrived.path.endswith("/messages/count_tokens"):
        return "count"
    is_ours = "anthropic-version" in arrived.headers
    return "models" if is_ours and asks_for_models(arrived) else None


def read(arrived: HttpRequest) -> ModelRequest:
    body = arrived.record
    messages = records(body.get("messages"))
    conversation = divide(messages, lambda message: message.get("role") == "assistant", _call_ids)
    choice = record_of(body.get("tool_choice"))
    form = record_of(body.get("output_format")) or record_of(
        record_of(body.get("output_config")).get("format")
    )
    return ModelRequest(
        model=text_of(body.get("model")),
        system=plain_text(body.get("system")),
        opening="\n".join(plain_text(message.get("content")) for message in conversation.opening),
        leading=tuple(
            (text, "\n".join(plain_text(message.get("content")) for message in following))
            for text, following in conversation.leading
        ),
        answers=conversation.answers,
        has_conversation=bool(messages),
        results=tuple(result for message in conversation.latest for result in _results(message)),
        tools={
            text_of(tool.get("name")): record_of(tool.get("input_schema"))
            for tool in records(body.get("tools"))
            if not text_of(tool.get("type")).startswith(_SERVER_TOOLS)
        },
        forced_tool=text_of(choice.get("name")) if choice.get("type") == "tool" else "",
        schema=record_of(form.get("schema")),
        # A thread that the server is to remember: only what is new is sent.
        previous_id=text_of(record_of(body.get("thread")).get("previous_message_id")).removeprefix("msg_"),
        is_streamed=body.get("stream") is True,
    )


def _call_ids(message: JsonObject) -> list[Any]:
    return [block.get("id") for block in records(message.get("content"))]


def _results(message: JsonObject) -> list[str]:
    return [
        plain_text(block.get("content"))
        for block in records(message.get("content"))
        if block.get("type") == "tool_result"
    ]


def whole(answer: WireAnswer) -> JsonObject:
    return _message(answer, [_block(part) for part in answer.parts], _stop(answer), _usage(answer))


def _block(part: AnswerText | AnswerReasoning | AnswerCall) -> JsonObject:
    match part:
        case AnswerText():
            return {"type": "text", "text": part.text}
        case AnswerReasoning():
            return {"type": "thinking", "thinking": part.text, "signature": _SIGNATURE}
        case AnswerCall():
            # What is malformed cannot be an object here: the client gets the text.
            arguments = part.arguments if part.is_malformed else part.input
            return {"type": "tool_use", "id": f"toolu_{part.id}", "name": part.name, "input": arguments}


def stream(answer: WireAnswer, request: ModelRequest) -> Iterator[StreamFrame]:
    del request
    message = _message(answer, [], None, _usage(answer) | {"output_tokens": 1})
    yield _event("message_start", message=message)
    for index, part in enumerate(answer.parts):
        match part:
            case AnswerText():
                block: JsonObject = {"type": "text", "text": ""}
                deltas: Iterable[JsonObject] = (_delta("text", piece) for piece in part.pieces())
            case AnswerReasoning():
                block = {"type": "thinking", "thinking": "", "signature": ""}
                signature = {"type": "signature_delta", "signature": _SIGNATURE}
                deltas = chain((_delta("thinking", piece) for piece in part.pieces()), (signature,))
            case AnswerCall():
                block = _block(part) | {"input": {}}
                deltas = [
                    {"type": "input_json_delta", "partial_json": piece} for piece in pieces(part.arguments)
                ]
        yield _event("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield _event("content_block_delta", index, index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    stopped = {"stop_reason": _stop(answer), "stop_sequence": None}
    yield _event("message_delta", delta=stopped, usage=_usage(answer))
    yield _event("message_stop")


def _delta(kind: str, piece: str) -> JsonObject:
    return {"type": f"{kind}_delta", kind: piece}


def _event(kind: str, part: int = -1, /, **fields: Any) -> StreamFrame:
    return StreamFrame(sse({"type": kind, **fields}, kind), part)


def _message(
    answer: WireAnswer, content: list[JsonObject], stop: str | None, usage: JsonObject
) -> JsonObject:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _stop(answer: WireAnswer) -> str:
    if answer.stop:
        return _STOPS[answer.stop]
    return "tool_use" if answer.has_calls else "end_turn"


def _usage(answer: WireAnswer) -> JsonObject:
    """Thinking counts as output, and is not counted apart."""
    tokens = answer.tokens
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.output + tokens.reasoning,
        "service_tier": "standard",
    }


def refusal(status: int, message: str, retry_after_s: float | None) -> JsonObject:
    del retry_after_s
    kind = _ERROR_KINDS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_lab"}


def failed(failing: StreamFailure, request: ModelRequest) -> bytes:
    del request
    return sse(refusal(failing.status, failing.message, None), "error")


def models(arrived: HttpRequest) -> JsonObject:
    if name := named_model(arrived):
        return _model(name)
    entries = [_model(name) for name in MODELS]
    return {"data": entries, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


def _model(name: str) -> JsonObject:
    return {"type": "model", "id": name, "display_name": name, "created_at": "2025-01-01T00:00:00Z"}


_OPTIONS = (
    "max_tokens",
    "output_config",
    "output_format",
    "stop_sequences",
    "stream",
    "temperature",
    "thinking",
)


def said(body: JsonObject) -> SaidConversation:
    messages = records(body.get("messages"))
    # Instructions may also come between messages.
    instructions = [message.get("content") for message in messages if message.get("role") == "system"]
    blocks = [block for content in (body.get("system"), *instructions) for block in parts_of(content)]
    system = [as_text(record_of(block).get("text", block)) for block in blocks]
    items = [
        _said_block(text_of(message.get("role")), block)
        for message in messages
        for block in parts_of(message.get("content"))
        if message.get("role") != "system"
    ]
    tools = {text_of(tool.get("name") or tool.get("type")): tool for tool in records(body.get("tools"))}
    return SaidConversation(system, items, tools, kept_options(body, "tool_choice", *_OPTIONS))


def _said_block(role: str, block: Any) -> SaidItem:
    if not isinstance(block, dict):
        return SaidItem(role, "text", as_text(block))
    kind = text_of(block.get("type"))
    if kind == "text":
        return SaidItem(role, "text", as_text(block.get("text", "")))
    if kind.endswith("tool_use"):
        return SaidItem(
            role, "call", block.get("input"), text_of(block.get("id")), text_of(block.get("name"))
        )
    if kind.endswith("tool_result"):
        call_id, is_error = text_of(block.get("tool_use_id")), block.get("is_error") is True
        return SaidItem("tool", "result", block.get("content"), call_id, is_error=is_error)
    if kind in ("thinking", "redacted_thinking"):
        return SaidItem(role, "reasoning", block.get("thinking") or block.get("data"))
    if kind in ("image", "document"):
        return SaidItem(role, "image", block.get("source"))
    return SaidItem(role, "other", block)


def end(events: Iterable[JsonObject]) -> AnswerEnd:
    """Usage comes in two parts: what was read at the beginning, what was written at the end."""
    model, stop, calls = "", "", 0
    usage: JsonObject = {}
    for event in events:
        message = event if event.get("type") == "message" else record_of(event.get("message"))
        model = text_of(message.get("model")) or model
        stop = text_of(record_of(event.get("delta")).get("stop_reason") or message.get("stop_reason")) or stop
        blocks = [*records(event.get("content_block")), *records(message.get("content"))]
        calls += sum(text_of(block.get("type")).endswith("tool_use") for block in blocks)
        for counts in (record_of(message.get("usage")), record_of(event.get("usage"))):
            usage |= {name: value for name, value in counts.items() if value is not None}
    speed = speed_of(usage.get("speed"))
    return AnswerEnd(_stated(usage) if usage else None, model, stop, calls, speed)


def _stated(usage: JsonObject) -> Usage:
    cache_creation, output_details = (
        record_of(usage.get("cache_creation")),
        usage.get("output_tokens_details"),
    )
    thinking = count_in(output_details, "thinking_tokens")
    return Usage(
        input=count_in(usage, "input_tokens"),
        output=besides(count_in(usage, "output_tokens"), thinking),
        reasoning=thinking,
        cache_read=count_in(usage, "cache_read_input_tokens"),
        cache_write=count_in(usage, "cache_creation_input_tokens"),
        cache_write_1h=count_in(cache_creation, "ephemeral_1h_input_tokens") or None,
    )


WIRE = WireFormat(
    title="Anthropic Messages",
    variable="ANTHROPIC_BASE_URL",
    base_path="",
    conversation="messages",
    endpoint=endpoint,
    read=read,
    whole=whole,
    stream=stream,
    refusal=refusal,
    failed=failed,
    others={"count": lambda _: {"input_tokens": COUNTED_TOKENS}, "models": models},
    said=said,
    end=end,
)
