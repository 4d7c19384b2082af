"""OpenAI Responses: `POST /v1/responses`.

A conversation comes whole in `input`, as items: one answer is a run of them (reasoning, messages,
calls), which outputs of tools or a message end. With `previous_response_id` only the newest part
comes, and the id says what it continues.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from harness.formats.fields import record_of, text_of
from harness.models.responses import usage_of
from harness.models.wires.wire import (
    CREATED_S,
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
    divide,
    kept_options,
    openai_error,
    parsed_arguments,
    parts_of,
    pieces,
    plain_text,
    records,
    sse,
    texts_of_roles,
)

_ANSWER_KINDS = frozenset(
    (
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "reasoning",
        "tool_search_call",
        "web_search_call",
    )
)
_ERROR_KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_exceeded", "rate_limit_exceeded"),
    503: ("server_error", "server_is_overloaded"),
    529: ("server_error", "server_is_overloaded"),
}


def endpoint(arrived: HttpRequest) -> WireEndpoint | None:
    if arrived.method != "POST":
        return None
    if arrived.path.endswith("/responses/compact"):
        return "compact"
    return "answer" if arrived.path.endswith("/responses") else None


def read(arrived: HttpRequest) -> ModelRequest:
    body = arrived.record
    prompt = body.get("input")
    items = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else records(prompt)
    conversation = divide(items, _is_answer, lambda item: [item.get("call_id")])
    tools = records(body.get("tools"))
    for item in items:
        if item.get("type") == "additional_tools":
            tools = tools + records(item.get("tools"))
    choice = record_of(body.get("tool_choice"))
    return ModelRequest(
        model=text_of(body.get("model")),
        system="\n".join([text_of(body.get("instructions")), texts_of_roles(("system", "developer"), items)]),
        opening=texts_of_roles(("user", None), conversation.opening),
        leading=tuple(
            (text, texts_of_roles(("user", None), messages)) for text, messages in conversation.leading
        ),
        answers=conversation.answers,
        has_conversation=bool(items) or "previous_response_id" in body,
        results=tuple(
            _output(item) for item in conversation.latest if text_of(item.get("type")).endswith("_output")
        ),
        tools={
            text_of(tool.get("name")) or text_of(tool.get("type")): record_of(tool.get("parameters"))
            for tool in tools
        },
        forced_tool=text_of(choice.get("name")),
        schema=record_of(record_of(record_of(body.get("text")).get("format")).get("schema")),
        previous_id=text_of(body.get("previous_response_id")).removeprefix("resp_"),
        is_streamed=body.get("stream") is True,
    )


def _is_answer(item: JsonObject) -> bool:
    return item.get("role") == "assistant" or text_of(item.get("type")) in _ANSWER_KINDS


def _output(item: JsonObject) -> str:
    output = item.get("output")
    return output if isinstance(output, str) else plain_text(output)


def whole(answer: WireAnswer) -> JsonObject:
    items = [_item(answer, index, part, is_done=True) for index, part in enumerate(answer.parts)]
    return _response(answer, items, is_done=True)


def stream(answer: WireAnswer, request: ModelRequest) -> Iterator[StreamFrame]:
    del request
    numbers = itertools.count()

    def event(kind: str, part: int = -1, /, **fields: Any) -> StreamFrame:
        return StreamFrame(sse({"type": kind, "sequence_number": next(numbers), **fields}, kind), part)

    response = _response(answer, [], is_done=False)
    yield event("response.created", response=response)
    yield event("response.in_progress", response=response)
    items = []
    for index, part in enumerate(answer.parts):
        item = _item(answer, index, part, is_done=False)
        yield event("response.output_item.added", output_index=index, item=item)
        for kind, fields in _steps(part):
            place = {"item_id": item["id"], "output_index": index}
            yield event(f"response.{kind}", index, **place, **fields)
        item = _item(answer, index, part, is_done=True)
        yield event("response.output_item.done", output_index=index, item=item)
        items.append(item)
    whole_response = _response(answer, items, is_done=True)
    yield event(f"response.{whole_response['status']}", response=whole_response)


def _steps(part: AnswerText | AnswerReasoning | AnswerCall) -> Iterator[tuple[str, JsonObject]]:
    """Between the beginning of an item and its end: its pieces, and once more its whole."""
    match part:
        case AnswerText():
            place: JsonObject = {"content_index": 0}
            yield "content_part.added", place | {"part": _text("")}
            for piece in part.pieces():
                yield "output_text.delta", place | {"delta": piece}
            yield "output_text.done", place | {"text": part.text}
            yield "content_part.done", place | {"part": _text(part.text)}
        case AnswerReasoning():
            place = {"summary_index": 0}
            yield "reasoning_summary_part.added", place | {"part": _summary("")}
            for piece in part.pieces():
                yield "reasoning_summary_text.delta", place | {"delta": piece}
            yield "reasoning_summary_text.done", place | {"text": part.text}
            yield "reasoning_summary_part.done", place | {"part": _summary(part.text)}
        case AnswerCall():
            is_custom = _is_custom(part)
            kind = "custom_tool_call_input" if is_custom else "function_call_arguments"
            field = "input" if is_custom else "arguments"
            for piece in pieces(part.arguments):
                yield f"{kind}.delta", {"delta": piece}
            yield f"{kind}.done", {field: part.arguments}


def _item(
    answer: WireAnswer, index: int, part: AnswerText | AnswerReasoning | AnswerCall, *, is_done: bool
) -> JsonObject:
    status = "completed" if is_done else "in_progress"
    number = f"{answer.id}_{index}"
    match part:
        case AnswerText():
            content = [_text(part.text)] if is_done else []
            head = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
            return {**head, "status": status, "content": content}
        case AnswerReasoning():
            summary = [_summary(part.text)] if is_done else []
            opaque = "bGFi" if is_done else None
            return {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": opaque,
            }
        case AnswerCall():
            text = part.arguments if is_done else ""
            item: JsonObject = {"call_id": f"call_{part.id}", "name": part.name, "status": status}
            if _is_custom(part):
                return {"type": "custom_tool_call", "id": f"ctc_{number}", **item, "input": text}
            if part.namespace:
                item["namespace"] = part.namespace
            return {"type": "function_call", "id": f"fc_{number}", **item, "arguments": text}


def _is_custom(part: AnswerCall) -> bool:
    """Tools of free text have calls of a kind of their own."""
    return isinstance(part.input, str)


def _text(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def _summary(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}


def _response(answer: WireAnswer, items: list[JsonObject], *, is_done: bool) -> JsonObject:
    details = None
    status = "completed" if is_done else "in_progress"
    if is_done and answer.stop:
        status = "incomplete"
        details = {"reason": "max_output_tokens" if answer.stop == "length" else "content_filter"}
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": CREATED_S,
        "status": status,
        "model": answer.model,
        "output": items,
        "error": None,
        "incomplete_details": details,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(answer) if is_done else None,
    }


def _usage(answer: WireAnswer) -> JsonObject:
    tokens = answer.tokens
    input_tokens = tokens.input + tokens.cache_read + tokens.cache_write
    output_tokens = tokens.output + tokens.reasoning
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {
            "cached_tokens": tokens.cache_read,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": input_tokens + output_tokens,
    }


def refusal(status: int, message: str, retry_after_s: float | None) -> JsonObject:
    del retry_after_s
    return openai_error(_ERROR_KINDS, status, message)


def failed(failing: StreamFailure, request: ModelRequest) -> bytes:
    del request
    error = refusal(failing.status, failing.message, None)["error"]
    response = _response(failing.answer, [], is_done=False) | {
        "status": "failed",
        "error": {"code": error["code"] or error["type"], "message": failing.message},
    }
    kind = "response.failed"
    return sse({"type": kind, "sequence_number": failing.sent, "response": response}, kind)


_OPTIONS = (
    "max_output_tokens",
    "parallel_tool_calls",
    "reasoning",
    "stream",
    "temperature",
    "text",
    "tool_choice",
)
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "mcp_call")


def said(body: JsonObject) -> SaidConversation:
    system = [as_text(body.get("instructions") or "")]
    items: list[SaidItem] = []
    tool_records = records(body.get("tools"))
    for item in parts_of(body.get("input")):
        if not isinstance(item, dict):
            items.append(SaidItem("user", "text", as_text(item)))
        elif item.get("type") == "additional_tools":
            tool_records += records(item.get("tools"))
        elif item.get("role") in ("developer", "system"):
            system += [as_text(record_of(part).get("text", part)) for part in parts_of(item.get("content"))]
        else:
            items += _said_item(item)
    tools = {text_of(tool.get("name") or tool.get("type")): tool for tool in tool_records}
    return SaidConversation(system, items, tools, kept_options(body, *_OPTIONS))


def _said_item(item: JsonObject) -> Iterator[SaidItem]:
    kind = text_of(item.get("type")) or "message"
    if kind in _CALLS:
        arguments = item.get("arguments", item.get("input", item.get("action")))
        name, call_id = text_of(item.get("name")) or kind, text_of(item.get("call_id"))
        yield SaidItem("assistant", "call", parsed_arguments(arguments), call_id, name)
    elif kind.endswith("_output"):
        output = item.get("output", item.get("tools"))
        yield SaidItem("tool", "result", output, text_of(item.get("call_id")))
    elif kind == "reasoning":
        yield SaidItem("assistant", "reasoning", item.get("encrypted_content") or item.get("summary"))
    elif kind == "message":
        for part in parts_of(item.get("content")):
            of_part = text_of(record_of(part).get("type"))
            if "image" in of_part or "file" in of_part:
                yield SaidItem(text_of(item.get("role")), "image", record_of(part).get("image_url") or part)
            else:
                yield SaidItem(text_of(item.get("role")), "text", as_text(record_of(part).get("text", part)))
    else:
        yield SaidItem(text_of(item.get("role")), "other", item)


def end(events: Iterable[JsonObject]) -> AnswerEnd:
    model, stop, calls = "", "", 0
    usage: JsonObject = {}
    for event in events:
        is_whole = event.get("object") == "response"
        response = event if is_whole else record_of(event.get("response"))
        model = text_of(response.get("model")) or model
        usage = record_of(response.get("usage")) or usage
        if response.get("status") not in (None, "in_progress", "queued"):
            details = record_of(response.get("incomplete_details"))
            stop = text_of(details.get("reason")) or text_of(response.get("status"))
        items = records(response.get("output")) if is_whole else []
        if event.get("type") == "response.output_item.done":
            items = records(event.get("item"))
        calls += sum(item.get("type") in _CALLS for item in items)
    return AnswerEnd(usage_of(usage) if usage else None, model, stop, calls)


WIRE = WireFormat(
    title="OpenAI Responses",
    variable="OPENAI_BASE_URL",
    base_path="/v1",
    conversation="input",
    endpoint=endpoint,
    read=read,
    whole=whole,
    stream=stream,
    refusal=refusal,
    failed=failed,
    others={},
    said=said,
    end=end,
)
