"""Translates a thread's log into the events that listeners get.

Rules
1. A run without a parent is the agent: agent_start, agent_end. All other runs are sub-agents of the call that
   started them. One top run is open at a time: a run that starts while another is open interrupts that one.
2. A run writes one message until another message arrives or its goal is evaluated; then it starts the next one.
   A message that was streamed is not emitted again when it is complete. An observation of the conversation by the
   memory adds a part to the message.
3. Message ids are those of the log. A message without one gets an id from its position in the log, so that the id
   is the same from whichever event reading starts.
4. Nothing that has ended is stored: the state does not grow with the thread.
5. Any log is accepted, from any agent and from any point on; events without an equivalent here are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from harness.events import (
    BufferingFailed,
    Error,
    Event,
    Forked,
    GoalEvaluated,
    Message,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    ReflectionFailed,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    StateChanged,
    SteeringQueued,
    Suspended,
    TasksChanged,
    TextDelta,
    ThreadCreated,
    ThreadRenamed,
    ToolEnd,
    UsageDelta,
)
from harness.folds.session import events as wire
from harness.folds.session import lifecycle
from harness.folds.session.content import (
    part_of_observation,
    part_of_signal,
    parts_of_contents,
    parts_of_message,
    role_of_signal,
    task_items,
)
from harness.folds.session.encoding import read, to_wire
from harness.folds.session.events import HarnessEvent
from harness.folds.session.facts import FACTS, memory_failure
from harness.folds.session.lifecycle import Lifecycle, State
from harness.folds.session.messages import HarnessMessage, Role
from harness.folds.session.parts import (
    FilePart,
    ImagePart,
    OmThreadTitleUpdatedPart,
    Part,
    TextPart,
)
from harness.folds.session.runs import SPEECH, TopRun
from harness.folds.session.tool_calls import TOOLS
from harness.folds.session.usage import NOTHING_USED, TokenUsage, read_usage, token_usage
from harness.log.run_tree import RunTree

_OfRun: TypeAlias = Callable[[TopRun, Any], Sequence[HarnessEvent]]
_OF_RUNS: Mapping[type[Event], _OfRun] = {**SPEECH, **TOOLS}


class SessionTranslation:
    """Stage: event of a log → events for listeners. Its snapshot is plain data."""

    def __init__(self, *, signals_apart: bool = False, tree: RunTree | None = None) -> None:
        """`tree`: the run tree of the same log, if another reader shares it.

        `signals_apart`: each signal is a message of its own, as in a list of messages. Otherwise a signal that
        arrives while a run is open becomes a part of the run's message.
        """
        self._signals_apart = signals_apart
        self.tree: RunTree = tree or RunTree()
        self._runs = Lifecycle(self.tree)
        self._forks: dict[str, RunTree] = {}
        self._handlers: Mapping[type[Event], Callable[[Any], Sequence[HarnessEvent]]] = {
            SessionStart: self._runs.start,
            Result: self._runs.end,
            Suspended: self._runs.suspend,
            Resumed: self._runs.resume,
            Forked: self._runs.fork,
            Relay: self._runs.relay,
            RelayReply: self._runs.reply,
            UsageDelta: self._on_usage,
            Error: self._on_error,
            TasksChanged: self._on_tasks,
            Signal: self._on_signal,
            GoalEvaluated: self._on_goal,
            ThreadCreated: self._on_thread,
            ThreadRenamed: self._on_title,
            StateChanged: self._on_state,
            ObservationStart: self._on_observation,
            ObservationEnd: self._on_observation,
            ObservationFailed: self._on_memory_failure,
            ReflectionFailed: self._on_memory_failure,
            BufferingFailed: self._on_memory_failure,
        }

    def share(self, tree: RunTree) -> None:
        """Continue with another tree of the same log, at the same event."""
        self.tree = self._runs.tree = tree

    @property
    def usage(self) -> TokenUsage:
        """Of all runs of the thread."""
        return self._runs.state.usage

    @usage.setter
    def usage(self, usage: TokenUsage) -> None:
        self._runs.state.usage = usage

    def knows(self, values: Mapping[str, Any]) -> None:
        """Start with this application state, which is not in the log."""
        self._runs.state.values = dict(values)

    @property
    def open_message(self) -> HarnessMessage | None:
        """The message that is being written."""
        draft = self._runs.active.draft if self._runs.active is not None else None
        return None if draft is None else HarnessMessage(draft, len(draft.changes))

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        tree = self.tree
        if tree.event is not event:
            tree.feed(event)
        kind = type(event)
        run = self._runs.active
        if kind is TextDelta and run is not None and run.run_id == event.run_id:
            # Fast path: nine of ten events are text deltas.
            stream, draft = run.texts.get(event.id), run.draft  # type: ignore[attr-defined]
            text: str = event.text  # type: ignore[attr-defined]
            if text and stream is not None and draft is not None and stream.place == draft.writing:
                stream.pieces.append(text)
                changes = draft.changes
                changes.append(text)
                draft.size += len(text)
                return (
                    TextPart(text=text),
                    wire.MessageUpdateEvent(message=HarnessMessage(draft, len(changes))),
                )
        if tree.ended:
            cut_off = [other for other in tree.ended if other is not tree.run or kind is not Result]
            if interruptions := [event for node in cut_off for event in self._runs.interrupted(node)]:
                return [*interruptions, *self._translated(event)]
        return self._translated(event)

    def _translated(self, event: Event) -> Sequence[HarnessEvent]:
        kind = type(event)
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(event)
        fact = FACTS.get(kind)
        if fact is not None:
            return () if self._is_below() else fact(event)
        of_run = _OF_RUNS.get(kind) if self.tree.withdrawn is None else self._withdraw
        return () if of_run is None else self._of_run(event, of_run)

    def feed_fork(self, call_id: str, event: Event) -> Sequence[HarnessEvent]:
        """Feed an event of a forked sub-agent's own log. `call_id`: the call that started the fork."""
        child = self._runs.state.forks.get(call_id)
        if child is None:
            self._forks.pop(call_id, None)
            return ()
        tree = self._forks.setdefault(call_id, RunTree())
        if tree.feed(event).depth:
            return ()  # what its own sub-agents do is shown where its log is
        if isinstance(event, Result):
            del self._runs.state.forks[call_id], self._forks[call_id]
        return lifecycle.child_events(child, event, tree)

    def finish(self) -> Sequence[HarnessEvent]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        """What is needed to continue from here; nothing that has ended."""
        return {"tree": self.tree.snapshot(), "state": to_wire(self._runs.state)}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Raises msgspec.ValidationError if it is not a snapshot of this version."""
        self.tree.restore(snapshot["tree"])
        self._runs.restore(read(snapshot["state"], State))

    def _withdraw(self, run: TopRun, event: Event) -> Sequence[HarnessEvent]:
        del event
        return () if self.tree.withdrawn is None else run.withdraw(self.tree.withdrawn)

    def _of_run(self, event: Event, handler: _OfRun) -> Sequence[HarnessEvent]:
        state = self._runs.state
        child = state.children.get(event.run_id)
        if child is not None:
            return lifecycle.child_events(child, event, self.tree)
        if isinstance(event, Message) and event.role != "assistant":
            return self._said(event, event.role, event.id, parts_of_message(event))
        run = state.runs.get(event.run_id)
        emitted: Sequence[HarnessEvent] = ()
        if run is None:
            node = self.tree.run
            if node.status != "open" or node.depth:
                return ()  # too late, or of a sub-agent that was not announced
            emitted, run = self._runs.begin(node)
        if not run.is_running and not isinstance(event, ToolEnd):
            return emitted
        fork_events = self._runs.end_fork(event) if isinstance(event, ToolEnd) else ()
        return [*emitted, *fork_events, *handler(run, event)]

    def _is_below(self) -> bool:
        """Whether the current event is of a sub-agent."""
        return self.tree.run.depth > 0

    def _on_usage(self, event: UsageDelta) -> Sequence[HarnessEvent]:
        if event.counted is not None:
            self._runs.state.usage = total = read_usage(event.counted)
            return (wire.UsageUpdateEvent(usage=TokenUsage(), total=total),)
        tokens = token_usage(event.usage)
        self._runs.state.usage = self._runs.state.usage.plus(tokens)
        return (wire.UsageUpdateEvent(usage=tokens),)

    def _on_error(self, event: Error) -> Sequence[HarnessEvent]:
        state = self._runs.state
        if self._is_below() or self.tree.run.status == "ended":
            return ()
        earlier_message, state.emitted_failure = state.emitted_failure, ""
        if event.message == earlier_message:
            return ()
        run = state.runs.get(event.run_id)
        if run is not None and run.cut_off and event.message == run.failure:
            return ()  # it was emitted when the answer ended
        if run is not None:
            run.failure = event.message
        return (wire.ErrorEvent(error=wire.Problem(message=event.message), error_type=event.code or None),)

    def _on_tasks(self, event: TasksChanged) -> Sequence[HarnessEvent]:
        return () if self._is_below() else (wire.TaskUpdatedEvent(tasks=task_items(event)),)

    def _on_signal(self, event: Signal) -> Sequence[HarnessEvent]:
        if event.category == "user":
            return self._said(event, "user", event.id, parts_of_contents(event.contents), event.attributes)
        part = part_of_signal(event)
        run = self._runs.active
        if run is None or self._signals_apart:
            return [part, *self._message(event, role_of_signal(event), event.id, [part])]
        return [*run.begin_message(event), *run.add([part], len(part.message))]

    def _said(
        self,
        event: Event,
        role: Role,
        id: str,
        parts: Sequence[Part],
        attributes: dict[str, Any] | None = None,
    ) -> Sequence[HarnessEvent]:
        """A message of another role: it ends the message that the run was writing."""
        emitted = self._runs.active.end_message("complete") if self._runs.active is not None else []
        return [*emitted, *self._message(event, role, id, parts, attributes)]

    def _message(
        self,
        event: Event,
        role: Role,
        id: str,
        parts: Sequence[Part],
        attributes: dict[str, Any] | None = None,
    ) -> Sequence[HarnessEvent]:
        state = self._runs.state
        if not id:
            state.messages += 1
            place = event.seq if event.seq >= 0 else f"said-{state.messages}"
            id = f"{event.run_id}/{place}"
        message = HarnessMessage.of(
            id=id, role=role, content=parts, created_at=event.timestamp_ms, attributes=attributes
        )
        files = [part for part in parts if isinstance(part, ImagePart | FilePart)]
        return [wire.MessageStartEvent(message=message), *files, wire.MessageEndEvent(message=message)]

    def _on_goal(self, event: GoalEvaluated) -> Sequence[HarnessEvent]:
        emitted = self._runs.active.end_message("complete") if self._runs.active is not None else []
        return [*emitted, wire.GoalEvaluationEvent(payload=event.payload)]

    def _on_thread(self, event: ThreadCreated) -> Sequence[HarnessEvent]:
        state = self._runs.state
        state.thread_id = event.id
        state.usage = NOTHING_USED
        state.values = {**state.values, **(event.state or {})}
        thread = wire.HarnessThread(
            id=event.id,
            resource_id=event.resource_id,
            title=event.title,
            created_at=event.timestamp_ms,
            updated_at=event.timestamp_ms,
            metadata=event.metadata or None,
        )
        return (wire.ThreadCreatedEvent(thread=thread),)

    def _on_title(self, event: ThreadRenamed) -> Sequence[HarnessEvent]:
        if not event.cycle_id:
            return ()
        thread_id, old_title = self._runs.state.thread_id, event.old_title or None
        updated = wire.OmThreadTitleUpdatedEvent(
            cycle_id=event.cycle_id, thread_id=thread_id, old_title=old_title, new_title=event.title
        )
        part = OmThreadTitleUpdatedPart(thread_id=thread_id, old_title=old_title, new_title=event.title)
        return [updated, *self._mark(part)]

    def _on_state(self, event: StateChanged) -> Sequence[HarnessEvent]:
        state = self._runs.state
        state.values = {**state.values, **event.changes}
        return (wire.StateChangedEvent(state=dict(state.values), changed_keys=list(event.changes)),)

    def _on_observation(self, event: ObservationStart | ObservationEnd) -> Sequence[HarnessEvent]:
        emitted = FACTS[type(event)](event)
        if isinstance(event, ObservationEnd) and event.thread_id:
            return emitted  # of another thread: no part in this thread's messages
        began: Sequence[HarnessEvent] = ()
        if isinstance(event, ObservationStart) and self._runs.active is not None:
            began = self._runs.active.begin_message(event)
        return [*emitted, *began, *self._mark(part_of_observation(event))]

    def _mark(self, part: Part) -> Sequence[HarnessEvent]:
        """Add a part to the message being written. The part is not emitted: the event of the same name is."""
        run = self._runs.active
        return run.add([part])[1:] if run is not None else ()

    def _on_memory_failure(
        self, event: ObservationFailed | ReflectionFailed | BufferingFailed
    ) -> Sequence[HarnessEvent]:
        failed, text = memory_failure(event)
        emitted: list[HarnessEvent] = [failed]
        if isinstance(event, ObservationFailed):
            emitted = [*self._mark(part_of_observation(event)), failed]
        elif event.will_retry:
            return emitted
        if event.stopped:
            return emitted
        self._runs.state.emitted_failure = text
        if self._runs.active is not None:
            self._runs.active.failure = text
        return [*emitted, wire.ErrorEvent(error=wire.Problem(message=text))]


def history_messages(events: Iterable[Event]) -> list[HarnessMessage]:
    """All messages of a log, or of a part of it, in order. The last ones may be incomplete, or queued and not yet
    delivered to the agent.
    """
    translation = SessionTranslation(signals_apart=True)
    messages: dict[str, HarnessMessage] = {}
    undelivered: dict[str, HarnessMessage] = {}
    for event in events:
        if isinstance(event, SteeringQueued):
            message = Message(role="user", text=event.text, parts=event.parts)
            undelivered[event.id] = HarnessMessage.of(
                id=event.id, role="user", content=parts_of_message(message), created_at=event.timestamp_ms
            )
        for emitted in translation.feed(event):
            if isinstance(emitted, wire.MessageStartEvent | wire.MessageEndEvent):
                messages[emitted.message.id] = emitted.message
                undelivered.pop(emitted.message.id, None)
    if (unfinished := translation.open_message) is not None:
        messages[unfinished.id] = unfinished
    return [*messages.values(), *undelivered.values()]
