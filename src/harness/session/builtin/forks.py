"""A sub-agent on a fork of the conversation: the same agent, with the whole conversation so far.

Rules
1. The model is sent exactly the same prefix as the parent: the same system prompt, tool specs and turns, so
   that the provider's cache is used.
2. The parent's thread records only that it was forked.
3. Tools that a fork must not use are still offered, and return an error.
4. The parent's permission rules apply. Approvals and questions are put in the parent's log, where the user
   can answer them. Both logs have the question and the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from harness.contracts.model import AssistantTurn
from harness.contracts.tool import (
    FileChange,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
    category_of,
)
from harness.conversation.turns import TranscriptEntry, tool_turn
from harness.events import (
    Event,
    Forked,
    Operation,
    Relay,
    RelayReply,
    Result,
    Suspended,
    ToolEnd,
    ToolStart,
)
from harness.log.hub import Hub
from harness.log.store import Fork, Metadata, Store, read_all
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.session.child_threads import HIDDEN, ChildThread, ChildThreadHost, create_child
from harness.session.config import Subagent

MOST_STEPS = 1000
_HERE_BEGINS = (
    "This call started you: from here on you are the sub-agent that it asked for, and the task follows."
)
_NOT_OURS = "The result of this call is known to the parent conversation alone."
_NO_NESTING = (
    "[You are a sub-agent on a fork of this conversation. The subagent tool cannot be used here: do the task "
    "yourself with the other tools, and end with your answer.]"
)
_NO_TASKS = "[The task list belongs to the parent conversation: task_write, task_update, task_complete and task_check cannot be used here.]"
_UNATTENDED = "no user can be asked inside a forked sub-agent: decide yourself, or say in your answer what has to be asked"


class ForkRefused(Exception):
    """Why there can be no fork, as a message for the model."""


class ForkParent(ChildThreadHost, Protocol):
    """What a session gives to forks."""

    def conversation(self) -> AgentConversation | None:
        """The conversation of the current thread; None for agents that Harness does not run itself."""
        ...

    def options(self) -> AgentOptions | None:
        """The options of the current run."""
        ...

    def fork_options(self, options: AgentOptions, log_id: str) -> AgentOptions:
        """The same options for a fork: with its own memory, if there is one."""
        ...

    def follow_fork(self, call_id: str, hub: Hub) -> None:
        """Called when a fork begins: its events are published on this hub until it is closed."""
        ...

    def new_id(self) -> str:
        """A new thread id."""
        ...


class UnavailableTool(Tool):
    """A tool that is shown to the model unchanged, but cannot be used here."""

    def __init__(self, tool: Tool) -> None:
        self.spec = tool.spec
        self.category: str = category_of(tool)
        self._tool = tool

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return self._tool.operations(arguments)

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        return self._tool.permission(arguments)

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        """Nothing to approve: the tool cannot be used."""
        del arguments, context
        raise ToolFailure(self._words())

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del arguments, context
        raise ToolFailure(self._words())

    def _words(self) -> str:
        return f"The {self.spec.name} tool is not available inside a forked sub-agent. Go on without it."


class ParentApprovals:
    """Puts the approvals of a sub-agent in the parent's log, because no client answers in its own log."""

    def __init__(self, parent: LoopContext, call: ToolContext, name: str) -> None:
        """`call`: the call that started the sub-agent."""
        self._parent = parent
        self._call = call
        self._name = name

    async def ask(self, relay: Relay, deadline_s: float | None) -> RelayReply:
        question_asked = replace(
            relay,
            seq=-1,
            timestamp_ms=-1,
            run_id="",
            subagent=relay.subagent or self._name,
            spawn_call_id=self._call.call_id,
        )
        channel = self._parent.outbox.channel(self._call.run_id)
        expected = self._parent.questions.expect(question_asked)
        channel.put(question_asked)
        reply = RelayReply(
            id=question_asked.id, approved=False, by="policy", reason="the sub-agent was stopped"
        )
        try:
            reply = await self._parent.questions.answer(question_asked, deadline_s, expected)
        finally:
            channel.put(reply)
            channel.close()
        return reply


class OpenFork(NamedTuple):
    side: ChildThread
    options: AgentOptions


def open_fork(
    parent: ForkParent,
    definition: Subagent,
    task: str,
    context: ToolContext,
    withheld: tuple[type[Tool], ...],
) -> OpenFork:
    """Raises ForkRefused when there is nothing to fork, or no store for it. `withheld`: tools that it must not use."""
    conversation, options = parent.conversation(), parent.options()
    if conversation is None or options is None:
        raise ForkRefused("Forked subagents need a parent agent that runs in this process.")
    thread_id, store = parent.thread_id(), parent.store()
    if thread_id is None:
        raise ForkRefused("Forked subagents need an active parent thread.")
    if store is None:
        raise ForkRefused("Forked subagents need a memory, and a store for threads.")
    try:
        conversation.context.outbox.flush()  # so that the fork has the whole conversation
    except Exception:  # noqa: BLE001, S110 # the fork then has what was stored so far
        pass
    try:
        side = _forked(parent, store, thread_id, conversation, definition, context)
    except Exception as error:
        raise ForkRefused(f"Failed to fork the parent thread: {error}") from error
    try:
        channel = conversation.context.outbox.channel(context.run_id)
        channel.put(
            Forked(
                call_id=context.call_id,
                log_id=side.metadata.session_id,
                agent_type=definition.id,
                task=task,
                model_id=options.model.name or "parent-agent",
            )
        )
        channel.close()
        parent.follow_fork(context.call_id, side.hub)
        asking = ParentApprovals(conversation.context, context, definition.id)
        own = replace(_options_of_fork(options, withheld), ask_permission=asking.ask)
        return OpenFork(side, parent.fork_options(own, side.metadata.session_id))
    except Exception as error:
        side.close()
        raise ForkRefused(f"Failed to fork the parent thread: {error}") from error


async def converse(fork: OpenFork, definition: Subagent, task: str) -> Result:
    """Send the fork its task and return the result. Questions that suspend the fork are declined."""
    conversation, options = fork.side.conversation, fork.options
    text = f"{task}\n\n{_NO_NESTING}\n\n{_NO_TASKS}"
    end = await conversation.send(options, text, name=definition.id)
    while isinstance(end, Suspended):
        relays = conversation.pending.relays if conversation.pending is not None else ()
        if not relays:
            raise RuntimeError("it is suspended without an open question")
        end = await conversation.resume(options, {relay.id: _refused(relay) for relay in relays})
        await asyncio.sleep(0)
    return end


def _options_of_fork(options: AgentOptions, withheld: tuple[type[Tool], ...]) -> AgentOptions:
    tools = tuple(UnavailableTool(tool) if isinstance(tool, withheld) else tool for tool in options.tools)
    return replace(
        options,
        tools=tools,
        max_iterations=MOST_STEPS,
        stop_when=None,
        after_answer=None,
    )


def _refused(relay: Relay) -> RelayReply:
    return RelayReply(id=relay.id, approved=False, by="policy", reason=_UNATTENDED)


def _forked(
    parent: ForkParent,
    store: Store,
    thread_id: str,
    conversation: AgentConversation,
    definition: Subagent,
    context: ToolContext,
) -> ChildThread:
    """Fork the parent in the middle of the step that requested it: the open calls are closed in the fork."""
    entries = list(conversation.entries)
    answer = entries[-1] if entries and isinstance(entries[-1].turn, AssistantTurn) else None
    tail = list(read_all(store, thread_id, answer.seq if answer is not None else 0))
    metadata = Metadata(
        session_id=parent.new_id(),
        kind="thread",
        resource_id=parent.resource_id(),
        name=f"Fork: {definition.name} subagent",
        settings={HIDDEN: True, "parentThreadId": thread_id},
        fork=Fork(thread_id, tail[-1].seq + 1 if tail else 0),
        cwd=conversation.context.cwd,
    )
    closing = _closing(tail, context)
    side = create_child(store, metadata, parent.loop_context)
    stamped = side.hub.source(context.run_id).append(closing)
    if answer is not None:
        entries += _results(answer, [*tail, *stamped], context.run_id)
    side.conversation = AgentConversation(side.context, entries)
    return side


def _closing(tail: Sequence[Event], context: ToolContext) -> list[Event]:
    """The events that end the parent's run in the fork."""
    own = [event for event in tail if event.run_id == context.run_id]
    ended_ids = {event.call_id for event in own if isinstance(event, ToolEnd)}
    still_open = [event for event in own if isinstance(event, ToolStart) and event.call_id not in ended_ids]
    ends: list[Event] = [
        ToolEnd(
            call_id=event.call_id,
            tool_name=event.tool_name,
            success=True if event.call_id == context.call_id else None,
            output=_HERE_BEGINS if event.call_id == context.call_id else _NOT_OURS,
        )
        for event in still_open
    ]
    return [*ends, Result(success=False, outcome="interrupted", stop_reason="forked")]


def _results(answer: TranscriptEntry, events: Sequence[Event], run_id: str) -> list[TranscriptEntry]:
    """One result for each call of the answer, in order: models do not accept a call without a result."""
    assert isinstance(answer.turn, AssistantTurn)
    ends = {event.call_id: event for event in events if isinstance(event, ToolEnd)}
    last = events[-1]
    results: list[TranscriptEntry] = []
    for call in answer.turn.calls:
        call_id = f"{run_id}/{call.id}"
        end = ends.get(call_id) or ToolEnd(
            call_id=call_id,
            tool_name=call.name,
            output=_NOT_OURS,
            seq=last.seq,
            timestamp_ms=last.timestamp_ms,
        )
        results.append(TranscriptEntry(tool_turn(call.id, end), answer.message_id, end.timestamp_ms, end.seq))
    return results
