"""`/v1/chat/completions`: OpenAI's API in front of any agent.

Rules
1. The agent has its own tools, and uses them itself: the answer is its text. Tools in a request are ignored, and a header
   says so.
2. A chat has no questions: what your rules for permissions do not allow is denied, and the text says it.
3. The messages are the whole conversation. The session that has said what came before continues; one that nobody knows
   begins with those messages as its context.
4. A client that goes away stops its run. A request that failed is not to be repeated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.clients.commands import Deny, Submit
from harness.clients.conversations.backend import Setup
from harness.contracts.request import OWN_AGENT
from harness.errors import HarnessError, UsageError
from harness.folds.standards.openai import ChatFold, error_body
from harness.formatting.json_text import encode
from harness.log.ids import is_log_id
from harness.server.access.responses import Conflict, NotFound, read_body
from harness.server.api.openai_models import (
    SESSION_HEADER,
    ChosenAgent,
    OfferedModels,
    answer,
    headers_of,
    with_openai_errors,
)
from harness.server.api.prompts import LastPrompt, PromptMessage, history_key, last_prompt
from harness.server.live.channels import Channels
from harness.server.live.streams import HEADERS, sse
from harness.server.live.turns import KEEP_ALIVE, ConversationTurn, TurnStream, Wire, unless_gone

CLIENT = "a client of the OpenAI API"
LOST = error_body("the run has ended without a result", "lost", "agent_error")
_MOST_KNOWN = 1_000
_NOBODY = "Nobody can be asked in a chat."


class ChatCompletionRequest(msgspec.Struct, kw_only=True):
    model: str
    messages: list[PromptMessage]
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    tools: list[Any] | None = None


class OpenAiConversations:
    """The conversations behind requests. `default`: their setup, of which a request chooses the agent and the model."""

    def __init__(self, channels: Channels, default: Setup) -> None:
        self.channels = channels
        self._default = default
        self._sessions: OrderedDict[str, str] = OrderedDict()
        """The conversation that has said this, by what was said."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, log_id: str) -> asyncio.Lock:
        """Held from the look at a conversation until its prompt is sent: the answer to it is not that to another one."""
        return self._locks.setdefault(log_id, asyncio.Lock())

    async def found(
        self, name: str, backing: ChosenAgent, prompt: LastPrompt
    ) -> tuple[ConversationTurn, Submit]:
        """The one of that name, or that has said what came before; else a new one. Raises HarnessError."""
        log_id = self.existing(name) if name else self._sessions.pop(history_key(prompt.earlier), "")
        if log_id and self.has(log_id):
            return self.turn(log_id), prompt.command
        command = prompt.first(backing.agent)
        instructions = prompt.instructions if backing.agent == OWN_AGENT else ""
        setup = msgspec.structs.replace(
            self._default, agent=backing.agent, model=backing.model, append_system_prompt=instructions
        )
        self.channels.backend.check(setup, command)
        return self.turn(await self.channels.backend.create(setup)), command

    def remember(self, messages: Iterable[PromptMessage], text: str, log_id: str) -> None:
        """What a client shows as the conversation so far."""
        self._sessions[history_key([*messages, PromptMessage(role="assistant", content=text)])] = log_id
        while len(self._sessions) > _MOST_KNOWN:
            self._sessions.popitem(last=False)

    def existing(self, log_id: str) -> str:
        """Raises NotFound."""
        if not self.has(log_id):
            raise NotFound(f"there is no session {log_id[:80]!r}", hint="leave it out to begin one")
        return log_id

    def has(self, log_id: str) -> bool:
        if not is_log_id(log_id):
            return False
        try:
            self.channels.store.metadata(log_id)
        except HarnessError:
            return False
        return True

    def turn(self, log_id: str) -> ConversationTurn:
        return ConversationTurn(self.channels, log_id, CLIENT, self._default)


class OpenAiChat:
    def __init__(self, conversations: OpenAiConversations, models: OfferedModels) -> None:
        self._conversations, self._models = conversations, models

    def routes(self) -> list[Route]:
        return [Route("/v1/chat/completions", with_openai_errors(self._chat), methods=["POST"])]

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, ChatCompletionRequest)
        backing, prompt = await self._models.chosen(body.model), last_prompt(body.messages)
        session = request.headers.get(SESSION_HEADER, "")
        turn, command = await self._conversations.found(session, backing, prompt)
        fold = ChatFold(body.model)
        async with self._conversations.lock(turn.log_id):
            if await turn.stays_busy():
                raise Conflict("this session is being worked on", hint="wait until it has ended")
            for event in turn.past():
                fold.feed(event)
            await turn.carry_out(command)
        stream = TurnStream(turn, fold, ends_chat)
        stream.after_batch = partial(_deny_all, turn, fold)
        headers = headers_of(turn.log_id, *(("tools",) if body.tools else ()))
        if body.stream:
            pieces = self._chunks(stream, fold, body, turn.log_id)
            return StreamingResponse(pieces, media_type="text/event-stream", headers=HEADERS | headers)
        await unless_gone(request, _read(stream))
        if fold.error is not None or not stream.has_end:
            return answer(fold.error or LOST, 422, headers)
        self._conversations.remember(body.messages, fold.text, turn.log_id)
        return answer(fold.whole, 200, headers)

    async def _chunks(
        self, stream: TurnStream, fold: ChatFold, body: ChatCompletionRequest, log_id: str
    ) -> AsyncIterator[bytes]:
        async for wires in stream.wires():
            yield b"".join(sse(encode(wire)) for wire in wires) or KEEP_ALIVE
        if not stream.has_end:
            yield sse(encode(LOST))
        elif fold.error is None:
            self._conversations.remember(body.messages, fold.text, log_id)
            if (body.stream_options or {}).get("include_usage"):
                yield sse(encode(fold.usage_chunk))
        yield sse(b"[DONE]")


def ends_chat(wire: Wire) -> bool:
    return "error" in wire or bool(wire["choices"][0]["finish_reason"])


async def _read(stream: TurnStream) -> None:
    async for _ in stream.wires():
        continue


async def _deny_all(turn: ConversationTurn, fold: ChatFold) -> None:
    for relay_id in list(fold.open_questions):
        with suppress(UsageError):  # somebody was first
            await turn.carry_out(Deny(relay_id=relay_id, reason=_NOBODY))
