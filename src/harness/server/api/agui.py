"""`/agui` and `/agui/AGENT`: front ends that speak AG-UI 1.0, with any agent behind them.

Rules
1. The thread of the client is a session: one that nobody knows is created under that id.
2. A question ends the run with the outcome `interrupt`; `resume` answers it, and the same stream goes on as the next run. An
   answer that comes too late gets the next run all the same.
3. The messages of a request are the whole conversation: only what is new in it is sent. Tools of the front end are not
   given to the agent, which the stream says.
4. A client that closes its stream stops the run, unless it has asked with `forwardedProps.harness.detach` that it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from harness.clients.commands import AnswerCommand, Approve, Attached, Command, Deny, Submit
from harness.clients.conversations.backend import Setup
from harness.errors import AlreadyAnswered, UnknownSession, UsageError
from harness.events import Message, Relay
from harness.folds.standards.agui import PROTOCOL, AgUiFold
from harness.formatting.json_text import encode
from harness.log.ids import is_log_id
from harness.server.access.responses import Conflict, read_body, with_errors
from harness.server.api.openai_models import OfferedModels
from harness.server.api.prompts import Content, files_of, text_of
from harness.server.live.channels import Channels
from harness.server.live.streams import HEADERS, sse
from harness.server.live.turns import KEEP_ALIVE, ConversationTurn, TurnStream, Wire

CLIENT = "a client of AG-UI"
_ENDS = frozenset(("RUN_FINISHED", "RUN_ERROR"))
_MOST_THREADS = 1_000
_SAID_BY_OTHERS = frozenset(("assistant", "tool"))


class FrontEndMessage(msgspec.Struct, kw_only=True):
    role: str
    id: str = ""
    content: Content | dict[str, Any] = None

    @property
    def text(self) -> str:
        return text_of(self.content) if not isinstance(self.content, dict) else ""

    @property
    def files(self) -> list[Attached]:
        return files_of(self.content) if isinstance(self.content, list) else []


class ResumeEntry(msgspec.Struct, kw_only=True, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(msgspec.Struct, kw_only=True, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[FrontEndMessage] = []
    tools: list[dict[str, Any]] | None = None
    context: list[dict[str, Any]] | None = None
    forwarded_props: Any = None
    resume: list[ResumeEntry] | None = None

    @property
    def is_detached(self) -> bool:
        props = self.forwarded_props
        ours = props.get("harness") if isinstance(props, dict) else None
        return isinstance(ours, dict) and ours.get("detach") is True


class AgUiApi:
    """`default`: the setup of new threads."""

    def __init__(self, channels: Channels, models: OfferedModels, default: Setup) -> None:
        self._channels, self._models, self._default = channels, models, default
        self._message_ids: dict[str, set[str]] = {}
        """By thread: the ids of messages that it has been given here."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def routes(self) -> list[Route]:
        return [
            Route("/agui", with_errors(self._run), methods=["POST"]),
            Route("/agui/{agent:path}", with_errors(self._run), methods=["POST"]),
        ]

    async def _run(self, request: Request) -> Response:
        call = await read_body(request, RunAgentInput)
        if not is_log_id(call.thread_id) or not 0 < len(call.run_id) <= 256:
            raise UsageError(
                "threadId is 1 to 128 letters, digits, `_` and `-`, and runId a text", hint="a UUID is one"
            )
        fold = AgUiFold()
        async with self._locks.setdefault(call.thread_id, asyncio.Lock()):
            if call.resume:
                stream = await self._resumed(call, fold)
            else:
                stream = await self._prompted(call, request.path_params.get("agent", ""), fold)
        return StreamingResponse(_pieces(stream, call), media_type="text/event-stream", headers=HEADERS)

    async def _prompted(self, call: RunAgentInput, agent: str, fold: AgUiFold) -> TurnStream:
        turn = self._turn(call)
        prompts: list[Message] = []
        is_busy = False
        with suppress(UnknownSession):
            is_busy = (
                await turn.stays_busy()
            )  # before the log is read: the end of a run is not that of the next one
            for event in turn.past():
                fold.feed(event)
                if isinstance(event, Message) and event.role == "user":
                    prompts.append(event)
        if fold.open_questions:
            waiting = ", ".join(fold.open_questions)
            raise Conflict(f"the thread waits for an answer to {waiting}", hint="`resume` has the answers")
        new = self._new_messages(call, prompts)
        if not new:
            raise UsageError("there is no new message of the user", hint="it is what the agent answers")
        context = [
            f"<context>\n{value.get('description', '')}: {value.get('value', '')}\n</context>"
            for value in call.context or ()
        ]
        texts = [*context, *(message.text for message in new)]
        files = tuple(file for message in new for file in message.files)
        command = Submit(prompt="\n\n".join(text for text in texts if text), attachments=files)
        await self._open(call.thread_id, agent, command)
        if is_busy:
            raise Conflict("the thread is being worked on", hint="wait until its run has ended")
        fold.name_next(call.thread_id, call.run_id)
        await turn.carry_out(command)
        self._remember(call)
        stream = TurnStream(turn, _Told(fold, command.prompt, call.tools), _is_end)
        stream.stops = not call.is_detached
        return stream

    async def _open(self, log_id: str, agent: str, command: Submit) -> None:
        """Create the thread, if there is none. Raises HarnessError."""
        with suppress(UnknownSession):
            self._channels.store.metadata(log_id)
            return
        setup = self._default
        if agent:
            backing = await self._models.chosen(agent)
            setup = msgspec.structs.replace(setup, agent=backing.agent, model=backing.model)
        self._channels.backend.check(setup, command)
        await self._channels.backend.create(setup, log_id)

    async def _resumed(self, call: RunAgentInput, fold: AgUiFold) -> TurnStream:
        turn = self._turn(call)
        entries = {entry.interrupt_id: entry for entry in call.resume or ()}
        wires = _told_since(turn, fold, call, entries)
        if wires is None:
            raise UsageError(
                f"no run of this thread was interrupted by {', '.join(entries)[:200]}",
                hint="`resume` has the ids of the interrupts",
            )
        if not any(map(_is_end, wires)):
            for relay in [relay for relay in fold.open_questions.values() if relay.id in entries]:
                with suppress(AlreadyAnswered):
                    await turn.carry_out(_answer(relay, entries[relay.id]))
        self._remember(call)
        stream = TurnStream(turn, fold, _is_end, wires=wires)
        stream.stops = not call.is_detached
        return stream

    def _turn(self, call: RunAgentInput) -> ConversationTurn:
        return ConversationTurn(self._channels, call.thread_id, CLIENT, self._default)

    def _new_messages(self, call: RunAgentInput, prompts: Sequence[Message]) -> list[FrontEndMessage]:
        """What the user has written since anybody else has, without what the session has: by its id, else its words."""
        last = max(
            (number for number, message in enumerate(call.messages) if message.role in _SAID_BY_OTHERS),
            default=-1,
        )
        candidates = [message for message in call.messages[last + 1 :] if message.role == "user"]
        ids = self._message_ids.get(call.thread_id)
        if ids is not None:
            ids = ids | {message.id for message in prompts}
            return [message for message in candidates if not message.id or message.id not in ids]
        earlier = sum(message.role == "user" for message in call.messages[: last + 1])
        texts = [message.text.strip() for message in prompts][earlier:]
        return [message for message in candidates if not _taken(message.text.strip(), texts)]

    def _remember(self, call: RunAgentInput) -> None:
        ids = self._message_ids.pop(call.thread_id, set())
        self._message_ids[call.thread_id] = ids | {message.id for message in call.messages if message.id}
        while len(self._message_ids) > _MOST_THREADS:
            del self._message_ids[next(iter(self._message_ids))]


def _taken(text: str, texts: list[str]) -> bool:
    """Whether it is among them; each counts once."""
    if text not in texts:
        return False
    texts.remove(text)
    return True


def _told_since(
    turn: ConversationTurn, fold: AgUiFold, call: RunAgentInput, ids: Iterable[str]
) -> list[Wire] | None:
    """What came after the run that one of these interrupted, up to the end of the next; None if there is no such run."""
    wires: list[Wire] | None = None
    for event in turn.past():
        for wire in fold.feed(event):
            if wires is not None and not (wires and _is_end(wires[-1])):
                wires.append(wire)
            elif wires is None and _interrupts(wire) & set(ids):
                wires = []
                fold.name_next(call.thread_id, call.run_id)
    return wires


def _interrupts(wire: Wire) -> set[str]:
    outcome = wire.get("outcome") if wire["type"] == "RUN_FINISHED" else None
    return (
        {interrupt["id"] for interrupt in outcome.get("interrupts", ())}
        if isinstance(outcome, dict)
        else set()
    )


def _answer(relay: Relay, entry: ResumeEntry) -> Command:
    """What is not clearly allowed is denied."""
    payload = entry.payload
    if entry.status == "cancelled":
        return Deny(relay_id=relay.id, reason="The user does not want to answer.")
    if relay.kind not in {"permission", "plan"}:
        answer = payload.get("answer", payload) if isinstance(payload, dict) else payload
        return AnswerCommand(relay_id=relay.id, answer=answer)
    fields = payload if isinstance(payload, dict) else {"approved": payload}
    choice_id = fields.get("choice")
    choice = next((choice for choice in relay.choices or () if choice.id == choice_id), None)
    is_known = choice_id in (None, "") or choice is not None
    if fields.get("approved") is not True or not is_known or (choice and choice.kind == "reject-once"):
        return Deny(relay_id=relay.id, reason=str(fields.get("reason") or ""))
    if choice is None:
        return Approve(relay_id=relay.id)
    return Approve(relay_id=relay.id, option_id=choice.id, always=choice.kind == "allow-always")


class _Told:
    """The events of a run without the prompt that its client has sent, and with what it ignores."""

    def __init__(self, fold: AgUiFold, prompt: str, tools: Sequence[dict[str, Any]] | None) -> None:
        self._fold, self._prompt, self._tools = fold, prompt.strip(), tools
        self._hidden = ""

    def feed(self, event: Any, /) -> list[Wire]:
        return self._seen(self._fold.feed(event))

    def finish(self) -> list[Wire]:
        return self._fold.finish()

    def _seen(self, wires: list[Wire]) -> list[Wire]:
        out = []
        for number, wire in enumerate(wires):
            if self._prompt and wire["type"] == "TEXT_MESSAGE_START" and wire["role"] == "user":
                following = wires[number + 1] if number + 1 < len(wires) else {}
                if following.get("delta", "").strip() == self._prompt:
                    self._hidden, self._prompt = wire["messageId"], ""
            if not self._hidden or wire.get("messageId") != self._hidden:
                out.append(wire)
            if wire["type"] == "RUN_STARTED" and self._tools:
                names = [str(tool.get("name", "")) for tool in self._tools]
                out.append({"type": "CUSTOM", "name": "harness.ignored", "value": {"tools": names}})
        return out


async def _pieces(stream: TurnStream, call: RunAgentInput) -> AsyncIterator[bytes]:
    has_begun = False
    async for wires in stream.wires():
        has_begun = has_begun or bool(wires)
        yield b"".join(sse(encode(wire)) for wire in wires) or KEEP_ALIVE
    if not stream.has_end:
        about = {"threadId": call.thread_id, "runId": call.run_id, "protocolVersion": PROTOCOL}
        start = [] if has_begun else [{"type": "RUN_STARTED", **about}]
        error = {
            "type": "RUN_ERROR",
            "message": "the run has ended without a result",
            "code": "harness.lost",
        }
        yield b"".join(sse(encode(wire)) for wire in (*start, error))


def _is_end(wire: Wire) -> bool:
    return wire["type"] in _ENDS
