"""Asking a model in a test: real HTTP, one event loop per question, and what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from harness.contracts.model import Ask, AssistantTurn, Call, Model, ToolSpec, UserTurn
from harness.events import Event, Message
from harness.models.failure import Retries
from harness.models.http import HttpTimeouts
from harness.models.registry import open_model

KEY = "test-key-0123456789abcdef"
QUICK = Retries(limit=2, first_wait_s=0.001)
READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
HELLO = Ask(turns=[UserTurn("hello")])

_Event = TypeVar("_Event", bound=Event)


class Api(NamedTuple):
    """One wire format, and how to reach a server that speaks it."""

    model: str
    url_variable: str
    key_variable: str
    path: str

    def open(
        self,
        url: str,
        *,
        model: str = "",
        retries: Retries = QUICK,
        timeouts: HttpTimeouts | None = None,
    ) -> Model:
        environ = {self.url_variable: url + self.path, self.key_variable: KEY}
        return open_model(model or self.model, environ, retries=retries, timeouts=timeouts)


ANTHROPIC = Api("anthropic/claude-sonnet-4-6", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "")
RESPONSES = Api("openai/gpt-5.5", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1")
CHAT = Api("openai-chat/some-model", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1")
GEMINI = Api("gemini/gemini-2.5-pro", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", "")
APIS = {"anthropic": ANTHROPIC, "responses": RESPONSES, "chat": CHAT, "gemini": GEMINI}


def ask(model: Model, question: Ask = HELLO) -> list[Event]:
    """All events of one answer."""
    return asyncio.run(collect(model, question))


async def collect(model: Model, question: Ask = HELLO) -> list[Event]:
    return [event async for event in model.answer(question)]


def kinds(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def only(events: Sequence[Event], kind: type[_Event]) -> _Event:
    (found,) = all_of(events, kind)
    return found


def all_of(events: Sequence[Event], kind: type[_Event]) -> list[_Event]:
    return [event for event in events if isinstance(event, kind)]


def text_of(events: Sequence[Event], kind: Any) -> str:
    return "".join(event.text for event in events if isinstance(event, kind))


def turn_of(events: Sequence[Event]) -> AssistantTurn:
    """The answer as the next question has it, after it was in a log."""
    message = msgspec.json.decode(msgspec.json.encode(only(events, Message)), type=Message)
    calls = tuple(msgspec.convert(part, Call) for part in message.parts or ())
    return AssistantTurn(message.text, calls, message.opaque)
