"""`/v1/responses`: OpenAI's newer API in front of any agent.

Rules
1. Calls of the agent are items `mcp_call`, which it has carried out itself. Tools in a request are ignored.
2. What asks for permission ends the response with an item `mcp_approval_request`; the next request has the
   `mcp_approval_response`. Any other question is a message, and the next input is its answer.
3. `previous_response_id` continues a session, also after this server was started again. Without it the input is the whole
   conversation, as in a chat.
4. A client that goes away stops its run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.clients.commands import AnswerCommand, Approve, Command, Deny
from harness.errors import UsageError
from harness.events import Relay
from harness.folds.standards.openai import APPROVAL, ResponseFold, session_of
from harness.formatting.json_text import encode
from harness.server.access.responses import Conflict, NotFound, read_body
from harness.server.api.openai_chat import LOST, OpenAiConversations
from harness.server.api.openai_models import (
    SESSION_HEADER,
    OfferedModels,
    answer,
    headers_of,
    with_openai_errors,
)
from harness.server.api.prompts import PromptMessage, last_prompt
from harness.server.live.streams import HEADERS, sse
from harness.server.live.turns import KEEP_ALIVE, ConversationTurn, TurnStream, Wire, unless_gone

_ENDS = frozenset(("response.completed", "response.failed", "response.incomplete"))


class ResponseRequest(msgspec.Struct, kw_only=True):
    model: str
    input: str | list[PromptMessage]
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = False
    background: bool | None = False
    tools: list[Any] | None = None

    @property
    def items(self) -> list[PromptMessage]:
        if isinstance(self.input, str):
            return [PromptMessage(role="user", content=self.input)]
        return self.input

    @property
    def messages(self) -> list[PromptMessage]:
        above = [PromptMessage(role="system", content=self.instructions)] if self.instructions else []
        return [*above, *(item for item in self.items if item.role)]

    @property
    def approvals(self) -> list[PromptMessage]:
        return [item for item in self.items if item.type == "mcp_approval_response"]


class OpenAiResponses:
    def __init__(self, conversations: OpenAiConversations, models: OfferedModels) -> None:
        self._conversations, self._models = conversations, models

    def routes(self) -> list[Route]:
        return [Route("/v1/responses", with_openai_errors(self._respond), methods=["POST"])]

    async def _respond(self, request: Request) -> Response:
        body = await read_body(request, ResponseRequest)
        if body.background:
            raise UsageError("a response in the background is not offered", hint="read it as a stream")
        fold = ResponseFold(body.model)
        if body.previous_response_id:
            stream, turn = await self._continued(body, body.previous_response_id, fold)
        else:
            stream, turn = await self._begun(body, request.headers.get(SESSION_HEADER, ""), fold)
        headers = headers_of(turn.log_id, *(("tools",) if body.tools else ()))
        if body.stream:
            pieces = self._pieces(stream, body, turn.log_id)
            return StreamingResponse(pieces, media_type="text/event-stream", headers=HEADERS | headers)
        whole = await unless_gone(request, _last(stream))
        if whole is None:
            return answer(LOST, 422, headers)
        self._remember(body, whole, turn.log_id)
        return answer(whole, 200, headers)

    async def _pieces(self, stream: TurnStream, body: ResponseRequest, log_id: str) -> AsyncIterator[bytes]:
        async for wires in stream.wires():
            yield b"".join(sse(encode(wire), event=wire["type"]) for wire in wires) or KEEP_ALIVE
            if wires and _is_end(wires[-1]):
                self._remember(body, wires[-1]["response"], log_id)
        if not stream.has_end:
            yield sse(encode({"type": "error", "sequence_number": 0, **LOST["error"]}), event="error")

    def _remember(self, body: ResponseRequest, response: Wire, log_id: str) -> None:
        if not body.previous_response_id and response["status"] == "completed":
            messages = [item for item in response["output"] if item["type"] == "message"]
            texts = [part["text"] for item in messages for part in item["content"]]
            self._conversations.remember(body.messages, "\n\n".join(texts), log_id)

    async def _begun(
        self, body: ResponseRequest, session: str, fold: ResponseFold
    ) -> tuple[TurnStream, ConversationTurn]:
        backing = await self._models.chosen(body.model)
        turn, command = await self._conversations.found(session, backing, last_prompt(body.messages))
        async with self._conversations.lock(turn.log_id):
            await _check_idle(turn)
            for event in turn.past():
                fold.feed(event)
            await turn.carry_out(command)
        return TurnStream(turn, fold, _is_end), turn

    async def _continued(
        self, body: ResponseRequest, previous: str, fold: ResponseFold
    ) -> tuple[TurnStream, ConversationTurn]:
        """Raises NotFound for a response that is not one of ours."""
        log_id = session_of(previous)
        if not log_id or not self._conversations.has(log_id):
            raise NotFound(f"there is no response {previous[:120]!r}", hint="begin without one")
        turn = self._conversations.turn(log_id)
        async with self._conversations.lock(log_id):
            await turn.stays_busy()  # a run that has said its last word takes a moment to be over
            wires = await self._continue(body, turn, _told_since(turn, fold, previous), fold)
        return TurnStream(turn, fold, _is_end, wires=wires), turn

    async def _continue(
        self, body: ResponseRequest, turn: ConversationTurn, since: list[Wire], fold: ResponseFold
    ) -> list[Wire]:
        """`since`: what came after the previous response. What of it is a part of the next one."""
        if body.approvals:
            if not any(map(_is_end, since)):
                for command in _answers(fold.question, body.approvals):
                    await turn.carry_out(command)
            return since
        question, prompt = fold.question, last_prompt(body.messages)
        if question is None:
            await _check_idle(turn)
            await turn.carry_out(prompt.command)
        elif question.kind in {"permission", "plan"}:
            raise UsageError(
                f"{APPROVAL}{question.id} is not answered", hint="send an `mcp_approval_response` for it"
            )
        else:
            await turn.carry_out(AnswerCommand(relay_id=question.id, answer=prompt.text))
        return []


def _told_since(turn: ConversationTurn, fold: ResponseFold, previous: str) -> list[Wire]:
    """What came after a response: another client may have answered what it asked. Up to the end of the next one."""
    wires: list[Wire] = []
    is_after = False
    for event in turn.past():
        for wire in fold.feed(event):
            if is_after and not (wires and _is_end(wires[-1])):
                wires.append(wire)
            elif _is_end(wire) and wire["response"]["id"] == previous:
                is_after = True
    return wires


def _answers(question: Relay | None, approvals: Sequence[PromptMessage]) -> list[Command]:
    """Raises UsageError for an answer to something else."""
    request_id = f"{APPROVAL}{question.id}" if question is not None else ""
    commands: list[Command] = []
    for item in approvals:
        if question is None or item.approval_request_id != request_id:
            raise UsageError(
                f"nothing waits for the answer to {item.approval_request_id[:120]!r}",
                hint="the first answer counts",
            )
        reason = item.reason or ""
        commands.append(
            Approve(relay_id=question.id) if item.approve else Deny(relay_id=question.id, reason=reason)
        )
    return commands[:1]


async def _check_idle(turn: ConversationTurn) -> None:
    if await turn.stays_busy():
        raise Conflict("this session is being worked on", hint="wait until it has ended")


def _is_end(wire: Wire) -> bool:
    return wire["type"] in _ENDS


async def _last(stream: TurnStream) -> Wire | None:
    whole: Wire | None = None
    async for wires in stream.wires():
        if wires and _is_end(wires[-1]):
            whole = wires[-1]["response"]
    return whole
