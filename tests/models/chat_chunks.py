"""What a server that speaks Chat Completions streams, and a model that is asked for it. Not a test."""

from __future__ import annotations

from typing import Any

from harness.contracts.model import Ask
from harness.events import Event, Message
from model_asking import CHAT, HELLO, ask, only
from model_far_side import FarSide, stream

DONE = "[DONE]"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": "read", "arguments": arguments}, **more}]}


def chat(*events: Any, question: Ask = HELLO) -> list[Event]:
    with FarSide(stream(*events)) as far_side:
        return ask(CHAT.open(far_side.url), question)


def calls_of(events: list[Event]) -> list[Any]:
    return only(events, Message).parts or []
