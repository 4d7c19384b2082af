"""What a client makes of an answer: the same four things from every API, streamed or whole, checked on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab_client import Reply


@dataclass
class Made:
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Name and input; the text where it is no JSON."""
    ids: list[str] = field(default_factory=list)
    stop: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    pieces: int = 0


def loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def anthropic_stream(reply: Reply) -> Made:
    made = Made()
    events = reply.events
    assert all(name == data["type"] for name, data in events)
    names = [name for name, _ in events]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert events[0][1]["message"]["content"] == []
    kind, opened, text, finished = "", -1, "", -1
    for name, data in events[1:-2]:
        if name == "content_block_start":
            assert (data["index"], opened) == (finished + 1, -1)
            opened, kind, text = data["index"], data["content_block"]["type"], ""
            if kind == "tool_use":
                made.ids.append(data["content_block"]["id"])
                made.calls.append((data["content_block"]["name"], None))
        elif name == "content_block_delta":
            assert data["index"] == opened
            delta = data["delta"]
            made.pieces += 1
            text += delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
        else:
            assert name == "content_block_stop"
            finished, opened = opened, -1
            if kind == "text":
                made.text += text
            elif kind == "thinking":
                made.reasoning += text
            else:
                made.calls[-1] = (made.calls[-1][0], loads(text))
    made.stop = events[-2][1]["delta"]["stop_reason"]
    made.usage = events[-2][1]["usage"]
    return made


def anthropic_whole(reply: Reply) -> Made:
    data = reply.data
    assert (data["type"], data["role"]) == ("message", "assistant")
    made = Made(stop=data["stop_reason"], usage=data["usage"])
    for block in data["content"]:
        match block["type"]:
            case "text":
                made.text += block["text"]
            case "thinking":
                assert block["signature"]
                made.reasoning += block["thinking"]
            case _:
                made.ids.append(block["id"])
                made.calls.append((block["name"], block["input"]))
    return made


def chat_stream(reply: Reply) -> Made:
    made = Made()
    events = [data for _, data in reply.events]
    assert events[-1] == "[DONE]"
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len({event["id"] for event in events[:-1]}) == 1
    arguments: list[str] = []
    for event in events[:-2]:
        assert event["object"] == "chat.completion.chunk"
        (choice,) = event["choices"]
        delta = choice["delta"]
        made.stop = choice["finish_reason"] or made.stop
        made.text += delta.get("content") or ""
        made.reasoning += delta.get("reasoning_content") or ""
        made.pieces += bool(delta.get("content"))
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(arguments)
                arguments.append("")
                made.ids.append(call["id"])
                made.calls.append((call["function"]["name"], None))
            arguments[call["index"]] += call["function"]["arguments"]
    assert events[-2]["choices"] == []
    made.usage = events[-2]["usage"]
    made.calls = [(name, loads(text)) for (name, _), text in zip(made.calls, arguments, strict=True)]
    return made


def chat_whole(reply: Reply) -> Made:
    (choice,) = reply.data["choices"]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    return Made(
        text=message["content"] or "",
        reasoning=message.get("reasoning_content", ""),
        calls=[(call["function"]["name"], loads(call["function"]["arguments"])) for call in calls],
        ids=[call["id"] for call in calls],
        stop=choice["finish_reason"],
        usage=reply.data["usage"],
    )


def responses_stream(reply: Reply) -> Made:
    events = reply.events
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert [name for name, _ in events[:2]] == ["response.created", "response.in_progress"]
    added: dict[int, str] = {}
    pieces: dict[int, str] = {}
    made = _from_response(events[-1][1]["response"])
    for name, data in events[2:-1]:
        index = data["output_index"]
        if name == "response.output_item.added":
            assert index == len(added)
            added[index], pieces[index] = data["item"]["id"], ""
        elif name == "response.output_item.done":
            assert data["item"] == events[-1][1]["response"]["output"][index]
            assert pieces[index] == _text_of(data["item"])
        else:
            assert data["item_id"] == added[index]
            pieces[index] += data.get("delta", "")
            made.pieces += "delta" in data
    assert events[-1][0] == f"response.{events[-1][1]['response']['status']}"
    return made


def responses_whole(reply: Reply) -> Made:
    return _from_response(reply.data)


def _text_of(item: dict[str, Any]) -> str:
    match item["type"]:
        case "message":
            return "".join(part["text"] for part in item["content"])
        case "reasoning":
            return "".join(part["text"] for part in item["summary"])
        case "custom_tool_call":
            return str(item["input"])
        case _:
            return str(item["arguments"])


def _from_response(response: dict[str, Any]) -> Made:
    made = Made(stop=response["status"], usage=response["usage"])
    for item in response["output"]:
        match item["type"]:
            case "message":
                made.text += _text_of(item)
            case "reasoning":
                made.reasoning += _text_of(item)
            case _:
                made.ids.append(item["call_id"])
                made.calls.append((item["name"], loads(_text_of(item))))
    return made


def gemini_stream(reply: Reply) -> Made:
    events = [data for _, data in reply.events]
    assert all("finishReason" not in event["candidates"][0] for event in events[:-1])
    return _from_chunks(events)


def gemini_whole(reply: Reply) -> Made:
    data = reply.data
    return _from_chunks(data if isinstance(data, list) else [data])


def _from_chunks(chunks: list[dict[str, Any]]) -> Made:
    made = Made(stop=chunks[-1]["candidates"][0]["finishReason"], usage=chunks[-1]["usageMetadata"])
    for chunk in chunks:
        for part in chunk["candidates"][0]["content"]["parts"]:
            if "functionCall" in part:
                made.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
            elif part.get("thought"):
                made.reasoning += part["text"]
            else:
                made.text += part["text"]
                made.pieces += 1
    return made


READERS: dict[tuple[str, bool], Callable[[Reply], Made]] = {
    ("anthropic", True): anthropic_stream,
    ("anthropic", False): anthropic_whole,
    ("chat", True): chat_stream,
    ("chat", False): chat_whole,
    ("responses", True): responses_stream,
    ("responses", False): responses_whole,
    ("gemini", True): gemini_stream,
    ("gemini", False): gemini_whole,
}
