"""`/models`, `/chat` and `/chat/relay/<id>`: one answer of the built-in agent to a list of messages, as it comes.

A chat is not stored: closing the stream stops it. Whatever model `/models` offers, `/chat` takes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.agents.registry import load
from harness.approvals.work_folder import WorkFolder
from harness.clients import installed_agents
from harness.clients.conversations.backend import Setup
from harness.config import Settings, model_names
from harness.contracts import request as asked
from harness.contracts.model import AssistantTurn, Attachment, Call, ToolTurn, Turn, UserTurn
from harness.contracts.request import OWN_AGENT
from harness.contracts.tool import ToolPermission
from harness.errors import HarnessError, UsageError
from harness.events import Event
from harness.folds.page_state.shapes import text_of
from harness.folds.run_events.events import UNTOLD
from harness.folds.run_events.translation import WireTranslation
from harness.formatting.json_text import encode
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.log.stores.memory import MemoryStore
from harness.models.local import USUAL
from harness.models.registry import DEMO, LOCAL, PROVIDERS, SCRIPTED, any_model, open_model, usable
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.orchestrator import Orchestrator
from harness.native.tools.registry import default_tools
from harness.questions.permissions import Denial, Permissions
from harness.runs.agent_rules import rules_for
from harness.runs.run import Run, start
from harness.server.access.responses import NotFound, json_response, read_body, with_errors
from harness.server.live.streams import HEADERS, sse


class ChatCall(msgspec.Struct, frozen=True):
    id: str
    name: str
    arguments: Any = None


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ChatCall] = []
    tool_call_id: str = ""


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
    """The id of one of the options of the `Relay`."""


class RelayRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    response: RelayResponse


class ChatModelList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    models: list[str]
    default_model: str


class ChatRun(Protocol):
    """A chat in progress."""

    def events(self) -> AsyncIterator[Event]: ...

    def reply(self, relay_id: str, response: RelayResponse) -> bool: ...

    async def close(self) -> None: ...


class ChatApi:
    def __init__(self, settings: Settings, default: Setup) -> None:
        self._models_here = ChatModels(settings, default)
        self._clock = new_clock()
        self._chats: dict[str, ChatRun] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/models", with_errors(self._models), methods=["GET"]),
            Route("/chat", with_errors(self._chat), methods=["POST"]),
            Route("/chat/relay/{id}", with_errors(self._relay), methods=["POST"]),
        ]

    async def close(self) -> None:
        await asyncio.gather(*(chat.close() for chat in self._chats.values()))

    async def _models(self, request: Request) -> Response:
        del request
        models = await asyncio.to_thread(self._models_here.offered)
        return json_response(ChatModelList(models=models, default_model=models[0]))

    async def _chat(self, request: Request) -> Response:
        body = await read_body(request, ChatRequest)
        if not body.messages:
            raise UsageError("there are no messages", hint="the last one is the message to answer")
        body = replace(body, model=self._models_here.resolved(body.model))
        chat = _AgentChat(body) if body.mode == "agent" else await _rlm_chat(body)
        session_id = new_run_id(self._clock())
        self._chats[session_id] = chat
        return StreamingResponse(
            self._stream(session_id, chat), media_type="text/event-stream", headers=HEADERS
        )

    async def _relay(self, request: Request) -> Response:
        body = await read_body(request, RelayRequest)
        chat = self._chats.get(body.session_id)
        if chat is None:
            raise NotFound("session not found", hint="a chat ends with its stream")
        if not chat.reply(request.path_params["id"], body.response):
            raise NotFound(
                "relay not found", hint="it may have been answered already; the first answer counts"
            )
        return json_response({"success": True})

    async def _stream(self, session_id: str, chat: ChatRun) -> AsyncIterator[bytes]:
        translation = WireTranslation()
        try:
            yield sse(encode({"type": "connected", "sessionId": session_id}), event="connected")
            async for event in chat.events():
                for data in translation.feed(event):
                    if type(data) not in UNTOLD:
                        yield sse(encode(data), event=data.__struct_config__.tag)  # type: ignore[arg-type]
        except HarnessError as error:
            yield sse(encode({"type": "error", "message": error.message}), event="error")
        finally:
            self._chats.pop(session_id, None)
            await chat.close()


class _AgentChat:
    def __init__(self, body: ChatRequest) -> None:
        system, turns, prompt = conversation(body.messages)
        cwd = os.path.abspath(body.cwd or os.getcwd())
        permissions = Permissions(
            "ask",
            allowlist=body.permissions.allowlist,
            allow_once=body.permissions.allow_once,
            deny=[
                Denial(call_id=denial.tool_call_id, reason=denial.reason) for denial in body.permissions.deny
            ],
            folder=WorkFolder(root=os.path.realpath(cwd)),
            rules=rules_for(OWN_AGENT, cwd),
        )
        options = AgentOptions(
            model=open_model(body.model),
            tools=tuple(default_tools(cwd, "agent-default")),
            permissions=permissions,
            system_prompt=system,
            max_iterations=body.max_iterations or 10,
            max_depth=3 if body.max_depth is None else body.max_depth,
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


class _RunChat:
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


async def _rlm_chat(body: ChatRequest) -> ChatRun:
    _system, _turns, prompt = conversation(body.messages)
    depth = () if body.max_depth is None else ("--max-depth", str(body.max_depth))
    request = asked.Request(
        agent="rlm",
        prompt=prompt,
        model=body.model,
        cwd=body.cwd,
        permissions="agent-default",
        extra_args=depth,
        limits=asked.Limits(max_turns=body.max_iterations),
    )
    return _RunChat(await asyncio.to_thread(start, request, store=MemoryStore()))


_Conversation: TypeAlias = tuple[str, list[Turn], str]


def conversation(messages: Sequence[ChatMessage]) -> _Conversation:
    """The system prompt, the earlier turns, and the message to answer. Raises UsageError."""
    system = "\n\n".join(text_of(message.content) for message in messages if message.role == "system")
    turns = [_turn(message) for message in messages if message.role != "system"]
    if not turns or not isinstance(turns[-1], UserTurn):
        raise UsageError("the last message is not the user's", hint="it is the message to answer")
    last = turns.pop()
    assert isinstance(last, UserTurn)
    if last.attachments:
        turns.append(UserTurn("", last.attachments))
    return system, turns, last.text


def _turn(message: ChatMessage) -> Turn:
    text = text_of(message.content)
    if message.role == "tool":
        return ToolTurn(message.tool_call_id, text)
    if message.role == "assistant":
        return AssistantTurn(
            text, tuple(Call(call.id, call.name, _arguments(call.arguments)) for call in message.tool_calls)
        )
    return UserTurn(text, tuple(_attachments(message.content)))


def _attachments(content: Any) -> list[Attachment]:
    parts = content if isinstance(content, list) else []
    return [
        Attachment(str(part.get("mediaType", "")), str(part.get("data", "")), str(part.get("name", "")))
        for part in parts
        if part.get("type") in ("image", "document")
    ]


def _arguments(value: Any) -> Any:
    """Some clients send them as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return {"__toolParseError": True, "rawArguments": value}


class ChatModels:
    """`default`: the setup of new conversations."""

    def __init__(self, settings: Settings, default: Setup) -> None:
        self._settings = settings
        self._default = default

    @property
    def default(self) -> str:
        default_model = self._default.model if self._default.agent == OWN_AGENT else ""
        default_model = default_model or self._settings.model_for(_spellings())
        return self.resolved(default_model) if default_model else any_model()

    def offered(self) -> list[str]:
        """Full names, the default first: one of each provider that can be asked here."""
        usual = [name for row in usable() if row.is_usable and (name := usual_of(row.provider))]
        return list(dict.fromkeys([self.default, *usual]))

    def resolved(self, name: str) -> str:
        """The full name of a model that the settings call by a short one, or of which only the provider is named."""
        model_id = model_names.load(self._settings).resolve(name, _spellings()).id
        return model_id if "/" in model_id else usual_of(model_id) or model_id


def usual_of(provider: str) -> str:
    """The usual model of a provider; empty if there is none."""
    usual = {name: provider.usual_model for name, provider in PROVIDERS.items()} | {LOCAL: USUAL}
    if provider == SCRIPTED:
        return DEMO
    return f"{provider}/{usual[provider]}" if usual.get(provider) else ""


def _spellings() -> tuple[str, ...]:
    return installed_agents.names_of(load(OWN_AGENT))
