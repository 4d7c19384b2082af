"""`/models`, `/chat` and `/chat/relay/<id>`: one answer of an agent of our own to a list of messages, as it comes.

A chat is not kept: who closes the stream has stopped it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Literal, Protocol

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.config import Settings
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.interfaces.server.backend import Setup
from harness.interfaces.server.chat_messages import ChatMessage, conversation
from harness.interfaces.server.chat_models import ChatModels
from harness.interfaces.server.responses import NotFound, json_answer, read_body
from harness.interfaces.server.sessions_api import answering
from harness.interfaces.server.streams import HEADERS, sse
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.log.stores.memory import MemoryStore
from harness.rendering.json_text import encode
from harness.rendering.wire.events import UNTOLD
from harness.rendering.wire.translation import WireTranslation
from harness.sources import request as asked
from harness.sources.loop.options import AgentOptions
from harness.sources.loop.orchestrator import Orchestrator
from harness.sources.loop.permissions import Denial, Permissions
from harness.sources.models.registry import open_model
from harness.sources.run import Run, start
from harness.sources.tool import ToolPermission
from harness.sources.tools.registry import default_tools

_HEARTBEAT_S = 15.0


class ChatDenial(msgspec.Struct, frozen=True, rename="camel"):
    tool_call_id: str
    reason: str = ""


class ChatPermissions(msgspec.Struct, frozen=True, rename="camel"):
    allowlist: list[ToolPermission] = []
    allow_once: list[ToolPermission] = []
    deny: list[ChatDenial] = []


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    model: str
    messages: list[ChatMessage]
    permissions: ChatPermissions = ChatPermissions()
    mode: Literal["agent", "rlm"] = "agent"
    max_iterations: int | None = None
    max_depth: int | None = None
    cwd: str = ""


class RelayResponse(msgspec.Struct, frozen=True):
    approved: bool
    always: bool = False
    reason: str = ""
    answer: Any = None
    choice: str = ""
    """The id of one of the relay's options."""


class RelayRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    response: RelayResponse


class ChatModelList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    models: list[str]
    default_model: str


class ChatRun(Protocol):
    """One chat that goes on."""

    def events(self) -> AsyncIterator[Event]: ...

    def reply(self, relay_id: str, response: RelayResponse) -> bool: ...

    async def close(self) -> None: ...


class ChatApi:
    def __init__(self, settings: Settings, default: Setup) -> None:
        self._models_here = ChatModels(settings, default)
        self._clock = new_clock()
        self._talks: dict[str, ChatRun] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/models", answering(self._models), methods=["GET"]),
            Route("/chat", answering(self._chat), methods=["POST"]),
            Route("/chat/relay/{id}", answering(self._relay), methods=["POST"]),
        ]

    async def close(self) -> None:
        await asyncio.gather(*(talk.close() for talk in self._talks.values()))

    async def _models(self, request: Request) -> Response:
        del request
        models = await asyncio.to_thread(self._models_here.offered)
        return json_answer(ChatModelList(models=models, default_model=models[0]))

    async def _chat(self, request: Request) -> Response:
        wanted = await read_body(request, ChatRequest)
        if not wanted.messages:
            raise UsageError("there are no messages", hint="the last one is what is to be answered")
        wanted = replace(wanted, model=self._models_here.resolved(wanted.model))
        talk = _AgentTalk(wanted) if wanted.mode == "agent" else await _rlm_talk(wanted)
        session_id = new_run_id(self._clock())
        self._talks[session_id] = talk
        return StreamingResponse(
            self._stream(session_id, talk), media_type="text/event-stream", headers=HEADERS
        )

    async def _relay(self, request: Request) -> Response:
        wanted = await read_body(request, RelayRequest)
        talk = self._talks.get(wanted.session_id)
        if talk is None:
            raise NotFound("session not found", hint="a chat ends with its stream")
        if not talk.reply(request.path_params["id"], wanted.response):
            raise NotFound("relay not found", hint="it may have been answered; the first answer counts")
        return json_answer({"success": True})

    async def _stream(self, session_id: str, talk: ChatRun) -> AsyncIterator[bytes]:
        translation = WireTranslation()
        try:
            yield sse(encode({"type": "connected", "sessionId": session_id}), event="connected")
            async for event in talk.events():
                for told in translation.feed(event):
                    if type(told) not in UNTOLD:
                        yield sse(encode(told), event=told.__struct_config__.tag)  # type: ignore[arg-type]
        except HarnessError as error:
            yield sse(encode({"type": "error", "message": error.message}), event="error")
        finally:
            self._talks.pop(session_id, None)
            await talk.close()


class _AgentTalk:
    def __init__(self, wanted: ChatRequest) -> None:
        system, turns, prompt = conversation(wanted.messages)
        cwd = os.path.abspath(wanted.cwd or os.getcwd())
        permissions = Permissions(
            "ask",
            allowlist=wanted.permissions.allowlist,
            allow_once=wanted.permissions.allow_once,
            deny=[Denial(call_id=one.tool_call_id, reason=one.reason) for one in wanted.permissions.deny],
        )
        options = AgentOptions(
            model=open_model(wanted.model),
            tools=tuple(default_tools(cwd, "agent-default")),
            permissions=permissions,
            system_prompt=system,
            max_iterations=wanted.max_iterations or 10,
            max_depth=3 if wanted.max_depth is None else wanted.max_depth,
        )
        self._agents = Orchestrator(options, cwd=cwd)
        self._agents.spawn(prompt, turns=turns)

    def events(self) -> AsyncIterator[Event]:
        return self._agents.events()

    def reply(self, relay_id: str, response: RelayResponse) -> bool:
        return self._agents.resolve(
            relay_id,
            approved=response.approved,
            always=response.always,
            reason=response.reason,
            choice=response.choice,
            answer=response.answer,
        )

    async def close(self) -> None:
        await self._agents.close()


class _RunTalk:
    def __init__(self, run: Run) -> None:
        self._run = run

    def events(self) -> AsyncIterator[Event]:
        return self._run.events()

    def reply(self, relay_id: str, response: RelayResponse) -> bool:
        return self._run.reply(
            relay_id,
            approved=response.approved,
            always=response.always,
            answer=response.answer,
            reason=response.reason,
            choice=response.choice,
        )

    async def close(self) -> None:
        self._run.cancel()
        with suppress(HarnessError):
            await asyncio.to_thread(self._run.wait)


async def _rlm_talk(wanted: ChatRequest) -> ChatRun:
    _system, _turns, prompt = conversation(wanted.messages)
    depth = () if wanted.max_depth is None else ("--max-depth", str(wanted.max_depth))
    request = asked.Request(
        agent="rlm",
        prompt=prompt,
        model=wanted.model,
        cwd=wanted.cwd,
        permissions="agent-default",
        extra_args=depth,
        limits=asked.Limits(max_turns=wanted.max_iterations),
    )
    return _RunTalk(await asyncio.to_thread(start, request, store=MemoryStore()))
