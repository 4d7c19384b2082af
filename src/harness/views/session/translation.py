"""A thread's log as the events that listeners get.

Rules
1. A run without a parent is the agent: agent_start, agent_end. All other runs are sub-agents of the call that
   began them. One run speaks at a time: one that begins while another has not ended says that that was cut short.
2. A run writes one message until somebody else speaks or its goal was judged; then another. A message that
   was written piece by piece is not told again when it is whole. Where the conversation was noted down, the
   message has a mark.
3. Ids of messages are those of the log; where it has none they follow from the place in the log, so that they are
   the same wherever one begins to read.
4. Nothing that has ended is remembered: what is kept does not grow with the thread.
5. Any log will do, whoever wrote it and wherever it begins; what has no place here is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

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
from harness.log.run_tree import RunTree
from harness.views.session import events as wire
from harness.views.session import lifecycle
from harness.views.session.content import (
    part_of_observation,
    part_of_signal,
    parts_of_contents,
    parts_of_message,
    role_of_signal,
    task_items,
)
from harness.views.session.encoding import read, to_wire
from harness.views.session.events import HarnessEvent
from harness.views.session.facts import FACTS, memory_failure
from harness.views.session.lifecycle import Lifecycle, State
from harness.views.session.messages import HarnessMessage, Role
from harness.views.session.parts import FilePart, ImagePart, OmThreadTitleUpdatedPart, Part, TextPart
from harness.views.session.runs import SPEECH, TopRun
from harness.views.session.tool_calls import TOOLS
from harness.views.session.usage import NOTHING_USED, TokenUsage, read_usage, token_usage

_OF_RUNS: Mapping[type[Event], Callable[[TopRun, Any], Sequence[HarnessEvent]]] = {**SPEECH, **TOOLS}


class SessionTranslation:
    """Stage: event of a log → events for listeners. A snapshot of it is plain data."""

    def __init__(self, *, signals_apart: bool = False, tree: RunTree | None = None) -> None:
        """`tree`: of the same log, where somebody else reads it too.

        `signals_apart`: each signal is a message of its own, as in a list of messages; else one that comes while
        a run speaks is a part of what the run says.
        """
        self._signals_apart = signals_apart
        self.tree = tree or RunTree()
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
        """Go on with another tree of the same log, at the same event."""
        self.tree = self._runs.tree = tree

    @property
    def usage(self) -> TokenUsage:
        """Of all runs of the thread."""
        return self._runs.state.usage

    @usage.setter
    def usage(self, usage: TokenUsage) -> None:
        self._runs.state.usage = usage

    def knows(self, values: Mapping[str, Any]) -> None:
        """Begin with this state of the application's, which no log has told."""
        self._runs.state.values = dict(values)

    @property
    def open_message(self) -> HarnessMessage | None:
        """What is being written."""
        draft = self._runs.active.draft if self._runs.active is not None else None
        return None if draft is None else HarnessMessage(draft, len(draft.changes))

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        tree = self.tree
        tree.feed(event)
        kind = type(event)
        run = self._runs.active
        if kind is TextDelta and run is not None and run.run_id == event.run_id:
            # Without a detour: nine of ten events are this.
            stream, draft = run.texts.get(event.id), run.draft  # type: ignore[attr-defined]
            text: str = event.text  # type: ignore[attr-defined]
            if text and stream is not None and draft is not None and stream.place == draft.writing:
                stream.pieces.append(text)
                changes = draft.changes
                changes.append(text)
                draft.size += len(text)
                return (
                    TextPart(text=text),
                    wire.MessageUpdate(message=HarnessMessage(draft, len(changes))),
                )
        if tree.ended:
            cut_off = [one for one in tree.ended if one is not tree.run or kind is not Result]
            if told := [told for one in cut_off for told in self._runs.interrupted(one)]:
                return [*told, *self._told(event)]
        return self._told(event)

    def _told(self, event: Event) -> Sequence[HarnessEvent]:
        kind = type(event)
        handler = self._handlers.get(kind)
        if handler is not None:
            return handler(event)
        fact = FACTS.get(kind)
        if fact is not None:
            return () if self._is_below() else fact(event)
        return self._of_run(event) if kind in _OF_RUNS else ()

    def feed_fork(self, call_id: str, event: Event) -> Sequence[HarnessEvent]:
        """What a forked sub-agent does: events of its own log, for the call that it works for."""
        child = self._runs.state.forks.get(call_id)
        if child is None:
            self._forks.pop(call_id, None)
            return ()
        tree = self._forks.setdefault(call_id, RunTree())
        tree.feed(event)
        if isinstance(event, Result) and not event.parent_id:
            del self._runs.state.forks[call_id], self._forks[call_id]
        return lifecycle.child_events(child, event, tree)

    def finish(self) -> Sequence[HarnessEvent]:
        return ()

    def snapshot(self) -> dict[str, Any]:
        """What is needed to go on from here, and nothing of what has ended."""
        return {"tree": self.tree.snapshot(), "told": to_wire(self._runs.state)}

    def restore(self, snapshot: dict[str, Any], /) -> None:
        """Raises msgspec.ValidationError for what is no snapshot of this version."""
        self.tree.restore(snapshot["tree"])
        self._runs.restore(read(snapshot["told"], State))

    def _of_run(self, event: Event) -> Sequence[HarnessEvent]:
        state = self._runs.state
        child = state.children.get(event.run_id)
        if child is not None:
            return lifecycle.child_events(child, event, self.tree)
        if isinstance(event, Message) and event.role != "assistant":
            return self._said(event, event.role, event.id, parts_of_message(event))
        run = state.runs.get(event.run_id)
        told: Sequence[HarnessEvent] = ()
        if run is None:
            node = self.tree.run
            if node.status != "open" or node.depth:
                return ()  # too late, or of a sub-agent that nobody announced
            told, run = self._runs.begin(node)
        if not run.is_running and not isinstance(event, ToolEnd):
            return told
        done = self._runs.end_fork(event) if isinstance(event, ToolEnd) else ()
        return [*told, *done, *_OF_RUNS[type(event)](run, event)]

    def _is_below(self) -> bool:
        """Whether it is of a sub-agent."""
        return self.tree.run.depth > 0

    def _on_usage(self, event: UsageDelta) -> Sequence[HarnessEvent]:
        if event.counted is not None:
            self._runs.state.usage = total = read_usage(event.counted)
            return (wire.UsageUpdate(usage=TokenUsage(), total=total),)
        used = token_usage(event.usage)
        self._runs.state.usage = self._runs.state.usage.plus(used)
        return (wire.UsageUpdate(usage=used),)

    def _on_error(self, event: Error) -> Sequence[HarnessEvent]:
        state = self._runs.state
        if self._is_below() or self.tree.run.status == "ended":
            return ()
        known, state.told_failure = state.told_failure, ""
        if event.message == known:
            return ()
        run = state.runs.get(event.run_id)
        if run is not None and run.cut_off and event.message == run.failure:
            return ()  # it was told when the answer ended
        if run is not None:
            run.failure = event.message
        return (wire.Error(error=wire.Problem(message=event.message), error_type=event.code or None),)

    def _on_tasks(self, event: TasksChanged) -> Sequence[HarnessEvent]:
        return () if self._is_below() else (wire.TaskUpdated(tasks=task_items(event)),)

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
        """Somebody else speaks: what the run was writing is done."""
        told = self._runs.active.end_message("complete") if self._runs.active is not None else []
        return [*told, *self._message(event, role, id, parts, attributes)]

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
        return [wire.MessageStart(message=message), *files, wire.MessageEnd(message=message)]

    def _on_goal(self, event: GoalEvaluated) -> Sequence[HarnessEvent]:
        told = self._runs.active.end_message("complete") if self._runs.active is not None else []
        return [*told, wire.GoalEvaluation(payload=event.payload)]

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
        return (wire.ThreadCreated(thread=thread),)

    def _on_title(self, event: ThreadRenamed) -> Sequence[HarnessEvent]:
        if not event.cycle_id:
            return ()
        thread_id, old_title = self._runs.state.thread_id, event.old_title or None
        updated = wire.OmThreadTitleUpdated(
            cycle_id=event.cycle_id, thread_id=thread_id, old_title=old_title, new_title=event.title
        )
        part = OmThreadTitleUpdatedPart(thread_id=thread_id, old_title=old_title, new_title=event.title)
        return [updated, *self._mark(part)]

    def _on_state(self, event: StateChanged) -> Sequence[HarnessEvent]:
        state = self._runs.state
        state.values = {**state.values, **event.changes}
        return (wire.StateChanged(state=dict(state.values), changed_keys=list(event.changes)),)

    def _on_observation(self, event: ObservationStart | ObservationEnd) -> Sequence[HarnessEvent]:
        told = FACTS[type(event)](event)
        if isinstance(event, ObservationEnd) and event.thread_id:
            return told  # of another thread: this one says nothing of it
        began: Sequence[HarnessEvent] = ()
        if isinstance(event, ObservationStart) and self._runs.active is not None:
            began = self._runs.active.begin_message(event)
        return [*told, *began, *self._mark(part_of_observation(event))]

    def _mark(self, part: Part) -> Sequence[HarnessEvent]:
        """In the message that is being written. It is not told by itself: the event of the same name is."""
        run = self._runs.active
        return run.add([part])[1:] if run is not None else ()

    def _on_memory_failure(
        self, event: ObservationFailed | ReflectionFailed | BufferingFailed
    ) -> Sequence[HarnessEvent]:
        failed, text = memory_failure(event)
        told: list[HarnessEvent] = [failed]
        if isinstance(event, ObservationFailed):
            told = [*self._mark(part_of_observation(event)), failed]
        elif event.will_retry:
            return told
        if event.stopped:
            return told
        self._runs.state.told_failure = text
        if self._runs.active is not None:
            self._runs.active.failure = text
        return [*told, wire.Error(error=wire.Problem(message=text))]


def history_messages(events: Iterable[Event]) -> list[HarnessMessage]:
    """All messages of a log, or of a part of it, in order; the last may still be being written, or still be to be
    told to the agent.
    """
    translation = SessionTranslation(signals_apart=True)
    messages: dict[str, HarnessMessage] = {}
    untaken: dict[str, HarnessMessage] = {}
    for event in events:
        if isinstance(event, SteeringQueued):
            said = Message(role="user", text=event.text, parts=event.parts)
            untaken[event.id] = HarnessMessage.of(
                id=event.id, role="user", content=parts_of_message(said), created_at=event.timestamp_ms
            )
        for told in translation.feed(event):
            if isinstance(told, wire.MessageStart | wire.MessageEnd):
                messages[told.message.id] = told.message
                untaken.pop(told.message.id, None)
    if (unfinished := translation.open_message) is not None:
        messages[unfinished.id] = unfinished
    return [*messages.values(), *untaken.values()]
