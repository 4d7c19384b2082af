"""The events for listeners when a run of a thread begins, waits or ends. The run tree says which run that is.

                agent_start                       agent_end: complete, error, aborted
(not there) ──────────────────► running ─────────────────────────────────────────────► (gone)
                                 │  ▲                                                     ▲
         agent_end: suspended    │  │ agent_start with what was answered                  │
                                 ▼  │                                                     │
                                waiting ──────────────────────────────────────────────────┘
                                           its questions are cancelled; no agent_end
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from harness.events import (
    Event,
    Forked,
    Message,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    Result,
    SessionStart,
    Suspended,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.folds.session import events as wire
from harness.folds.session import tool_calls
from harness.folds.session.display import approval_shown
from harness.folds.session.display_state import PendingApproval
from harness.folds.session.events import HarnessEvent
from harness.folds.session.runs import ChildRun, OpenCall, TopRun
from harness.folds.session.usage import NOTHING_USED, TokenUsage
from harness.formatting.approval import choices_data, every_call, preview_data
from harness.formatting.question_data import PreviewedFile
from harness.log.run_tree import REPL_TOOL, RunNode, RunTree

# Child runs and forks, shown as the sub-agents of the calls that started them.


def started(
    event: SessionStart, call: OpenCall | None, number: int
) -> tuple[ChildRun, Sequence[HarnessEvent]]:
    """A run that a call started. `number`: 1 for the first run of that call."""
    name = event.name or (call.agent_name if call is not None else "") or event.agent or "sub-agent"
    # A call can start several runs. Each needs an id of its own.
    tool_call_id = event.parent_id if number == 1 else f"{event.parent_id}#{number}"
    child = ChildRun(tool_call_id, name, event.timestamp_ms)
    start = wire.SubagentStartEvent(
        tool_call_id=tool_call_id,
        agent_type=name,
        task=call.task if call is not None else "",
        model_id=event.model,
    )
    return child, (start,)


def forked(event: Forked) -> tuple[ChildRun, Sequence[HarnessEvent]]:
    child = ChildRun(event.call_id, event.agent_type, event.timestamp_ms, is_fork=True)
    start = wire.SubagentStartEvent(
        tool_call_id=event.call_id,
        agent_type=event.agent_type,
        task=event.task,
        model_id=event.model_id,
        forked=True,
    )
    return child, (start,)


def child_events(child: ChildRun, event: Event, tree: RunTree) -> Sequence[HarnessEvent]:
    """The events of a sub-agent's run, except its start. `tree`: the run tree of its log."""
    if isinstance(event, Message):
        rest = tree.rest(event)
        return child.say(event.text if rest is None else rest) if event.role == "assistant" else ()
    handler = _HANDLERS.get(type(event))
    return () if handler is None else handler(child, event)


def _result(child: ChildRun, event: Result) -> Sequence[HarnessEvent]:
    duration_ms = event.duration_ms
    if duration_ms is None:
        duration_ms = max(0, event.timestamp_ms - child.started_ms)
    open_calls = [
        event_out
        for call_id in list(child.calls)
        for event_out in child.end_call(call_id, None, is_error=True)
    ]
    if event.outcome == "interrupted":
        return [*open_calls, *child.stop(event.text, duration_ms)]
    is_error = not event.success and event.outcome != "limit_exceeded"
    return [*open_calls, *child.end(event.text, duration_ms, is_error=is_error)]


_HANDLERS: Mapping[type[Event], Callable[[ChildRun, Any], Sequence[HarnessEvent]]] = {
    TextDelta: lambda child, event: child.say(event.text),
    ToolStart: lambda child, event: child.start_call(event.call_id, event.tool_name, event.input),
    ToolEnd: lambda child, event: child.end_call(
        event.call_id, tool_calls.result_of(event), is_error=event.has_failed
    ),
    ReplInput: lambda child, event: child.start_call(event.id, REPL_TOOL, {"code": event.code}),
    ReplOutput: lambda child, event: child.end_call(
        event.id, event.error or event.stdout, is_error=bool(event.error)
    ),
    Result: _result,
}


_Ending: TypeAlias = Literal["complete", "aborted", "error"]

_TOOLS_THAT_ASK = {"question": "ask_user", "plan": "submit_plan"}
_ABORTED = "Aborted by the user"


class State(msgspec.Struct):
    thread_id: str = ""
    values: dict[str, Any] = {}
    """The application's own state."""
    usage: TokenUsage = NOTHING_USED
    runs: dict[str, TopRun] = {}
    """Top runs that have not ended: the active one, and those that wait. By id."""
    children: dict[str, ChildRun] = {}
    """By run id."""
    started: dict[str, int] = {}
    """How many sub-agents each call has started, by call id. Reset when the last top run ends."""
    forks: dict[str, ChildRun] = {}
    """By call id."""
    messages: int = 0
    """How many messages without an id were numbered."""
    emitted_failure: str = ""
    """An error that was emitted before its `Error` event is in the log."""


class Lifecycle:
    """Contract: `tree` and `state` hold everything, as plain data except for the message being written."""

    def __init__(self, tree: RunTree) -> None:
        self.tree = tree
        self.state = State()
        self.active: TopRun | None = None
        """The top run that is open, if any."""

    def restore(self, state: State) -> None:
        self.state = state
        self._activate()

    def _activate(self) -> None:
        top = self.tree.open_top
        self.active = None if top is None else self.state.runs.get(top.id)

    def interrupted(self, run: RunNode) -> Sequence[HarnessEvent]:
        """The run ended without a `Result`."""
        child = self.state.children.pop(run.id, None)
        if child is not None:
            return child.cut_off(is_stopped=self.tree.ended[-1].outcome == "interrupted")
        top = self.state.runs.get(run.id)
        return () if top is None else self._end_run(top, "aborted")

    def start(self, event: SessionStart) -> Sequence[HarnessEvent]:
        node = self.tree.run
        if not node.depth:
            run = self.state.runs.get(event.run_id)
            if run is not None and self.tree.restarted:
                run.leave_open_texts()
            return self.begin(node)[0] if run is None else () if run.is_running else self.resume(event)
        if not self.tree.began or not node.call_id:
            return ()
        caller = self.tree.get(node.parent)
        call = None if caller is None else caller.calls.get(node.call_id)
        number = 1
        if call is not None:
            number = self.state.started[node.call_id] = self.state.started.get(node.call_id, 0) + 1
        child, events = started(event, None if call is None else OpenCall.of(call), number)
        self.state.children[event.run_id] = child
        return events

    def begin(self, node: RunNode) -> tuple[Sequence[HarnessEvent], TopRun]:
        run = self.state.runs[node.id] = TopRun(node.id)
        self._activate()
        return [wire.AgentStartEvent()], run

    def end(self, event: Result) -> Sequence[HarnessEvent]:
        child = self.state.children.pop(event.run_id, None)
        if child is not None:
            return child_events(child, event, self.tree)
        run = self.state.runs.get(event.run_id)
        events: Sequence[HarnessEvent] = ()
        if run is None:
            if not self.tree.began or self.tree.run.depth:
                return ()
            events, run = self.begin(self.tree.run)
        answer: Sequence[HarnessEvent] = ()
        if self.tree.said is not None and run.is_running:
            answer = [*run.begin_message(event), *run.complete("", event.text)]
        reason: _Ending = "complete" if event.success else "error"
        if event.outcome == "interrupted":
            reason = "aborted"
        elif run.cut_off:
            reason = "error"
        return [*events, *answer, *self._end_run(run, reason, event.outcome)]

    def _end_run(self, run: TopRun, reason: _Ending, outcome: str = "") -> list[HarnessEvent]:
        state = self.state
        open_relays = [relay for relay in self.tree.relays if relay.run_id == run.run_id]
        events = [
            *(event_out for relay in open_relays for event_out in _cancelled(relay, _ABORTED)),
            *tool_calls.abandoned(run),
        ]
        if len(state.runs) == 1:
            for fork in state.forks.values():
                events += fork.cut_off(is_stopped=reason == "aborted")
            state.forks, state.started = {}, {}
        if reason == "error" and not run.failure:
            run.failure = f"the run ended badly: {outcome.replace('_', ' ')}"
            events.append(wire.ErrorEvent(error=wire.Problem(message=run.failure), error_type=outcome))
        events += run.end_message(reason, run.failure if reason == "error" else "")
        if run.is_running:
            events.append(wire.AgentEndEvent(reason=reason))
        del state.runs[run.run_id]
        self._activate()
        return events

    def suspend(self, event: Suspended) -> Sequence[HarnessEvent]:
        run = self.state.runs.get(event.run_id)
        if run is None or not run.is_running:
            return ()
        run.is_running = False
        self._activate()
        return [*run.end_inputs(), *run.end_message("tool_use"), wire.AgentEndEvent(reason="suspended")]

    def resume(self, event: Event) -> Sequence[HarnessEvent]:
        node = self.tree.run
        run = self.state.runs.get(event.run_id)
        if run is None:
            return () if node.status == "ended" or node.depth else self.begin(node)[0]
        events: list[HarnessEvent] = []
        if run.is_running:  # its process died before it could write `Suspended`
            events += self.suspend(Suspended(run_id=run.run_id))
        answered, run.answered = run.answered, []
        run.is_running = True
        self._activate()
        return [*events, wire.AgentStartEvent(resumed_tool_call_ids=answered or None)]

    def fork(self, event: Forked) -> Sequence[HarnessEvent]:
        child, events = forked(event)
        self.state.forks[event.call_id] = child
        return events

    def end_fork(self, event: ToolEnd) -> Sequence[HarnessEvent]:
        child = self.state.forks.pop(event.call_id, None)
        if child is None:
            return ()
        duration_ms = max(0, event.timestamp_ms - child.started_ms)
        return child.end(event.output or "", duration_ms, is_error=event.success is False)

    def relay(self, event: Relay) -> Sequence[HarnessEvent]:
        if self.tree.run.status == "ended":
            return ()
        call_id = event.call_id or event.id
        run = self.state.runs.get(event.run_id)
        events: list[HarnessEvent] = []
        if self.tree.began and not self.tree.run.depth:
            start, run = self.begin(self.tree.run)
            events += start
        if run is not None and run.inputs.pop(call_id, None) is not None:
            events.append(wire.ToolInputEndEvent(tool_call_id=call_id))
        if event.kind == "permission":
            return [*events, *self._asked(event, run), approval_required(event)]
        return [*events, data_required(event)]

    def _asked(self, event: Relay, run: TopRun | None) -> Sequence[HarnessEvent]:
        if not event.call_id or (event.spawn_call_id and run is not None):
            return ()  # of a sub-agent with its own log, which has its calls
        if run is not None and run.is_running:
            return tool_calls.asked(run, event, event.call_id, _tool_name(event))
        child = self.state.children.get(event.run_id)
        return () if child is None else child.start_call(event.call_id, _tool_name(event), event.input)

    def reply(self, event: RelayReply) -> Sequence[HarnessEvent]:
        relay = next(iter(self.tree.relays), None)
        if relay is None or relay.kind == "permission":
            return ()
        if not event.approved and event.answer is None:
            return _cancelled(relay, event.reason or _ABORTED)
        run = self.state.runs.get(relay.run_id)
        if run is not None:
            run.answered.append(relay.call_id or relay.id)
        return ()


def approval_required(relay: Relay) -> wire.ToolApprovalRequiredEvent:
    return wire.ToolApprovalRequiredEvent(
        tool_call_id=relay.call_id or relay.id,
        tool_name=_tool_name(relay),
        args=relay.input,
        options=choices_data(relay),
        category=relay.category or None,
        preview=cast("list[PreviewedFile] | None", preview_data(relay)),  # as it is in the log
        calls=every_call(relay),
        **_asker(relay),
    )


def pending_approval(relay: Relay) -> PendingApproval:
    """The same, as an entry of the display state."""
    return approval_shown(approval_required(relay))


def data_required(relay: Relay) -> wire.ToolSuspendedEvent:
    return wire.ToolSuspendedEvent(
        tool_call_id=relay.call_id or relay.id,
        tool_name=_tool_name(relay),
        args=relay.input,
        suspend_payload=_payload(relay),
        resume_schema=relay.resume_schema,
        **_asker(relay),
    )


def question_of(relay: Relay) -> wire.Question:
    """What the relay asks, as the event that listeners get."""
    return approval_required(relay) if relay.kind == "permission" else data_required(relay)


def _tool_name(relay: Relay) -> str:
    return relay.tool_name or _TOOLS_THAT_ASK.get(relay.kind, relay.kind)


def _payload(relay: Relay) -> Any:
    return _question(relay) if relay.payload is None else relay.payload


def _asker(relay: Relay) -> dict[str, Any]:
    return {"agent_type": relay.subagent or None, "parent_tool_call_id": relay.spawn_call_id or None}


def _cancelled(relay: Relay, reason: str) -> list[HarnessEvent]:
    if relay.kind == "permission":
        return []
    cancelled = wire.ToolSuspensionCancelledEvent(
        tool_call_id=relay.call_id or relay.id, tool_name=_tool_name(relay), reason=reason
    )
    return [cancelled]


def _question(relay: Relay) -> dict[str, Any]:
    """The payload of a question that has none of its own."""
    fields: dict[str, Any] = {"question": relay.question}
    if relay.options:
        fields["options"] = [{"label": option} for option in relay.options]
    return fields
