"""Which runs of a thread are going on, which wait and for what, and what is told when one begins or ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET

from harness.events import Event, Forked, Relay, RelayReply, Result, SessionStart, Suspended, ToolEnd
from harness.rendering.relays import choices_data, preview_data
from harness.rendering.session import events as wire
from harness.rendering.session import subagents, tool_calls
from harness.rendering.session.display import approval_shown
from harness.rendering.session.display_state import PendingApproval, PendingSuspension
from harness.rendering.session.events import HarnessEvent
from harness.rendering.session.runs import ChildRun, OpenCall, OpenRelay, TopRun
from harness.rendering.session.usage import NOTHING_USED, TokenUsage

Ending: TypeAlias = Literal["complete", "aborted", "error"]

_MOST_ENDED = 32
_TOOLS_THAT_ASK = {"question": "ask_user", "plan": "submit_plan"}
_ABORTED = "Aborted by the user"


class State(msgspec.Struct):
    thread_id: str = ""
    values: dict[str, Any] = {}
    """The application's own state."""
    usage: TokenUsage = NOTHING_USED
    active: str | None = None
    """The run that speaks."""
    runs: dict[str, TopRun] = {}
    """Those that have not ended: the one that speaks, and those that wait."""
    children: dict[str, ChildRun] = {}
    """By run."""
    forks: dict[str, ChildRun] = {}
    """By call."""
    child_calls: dict[str, OpenCall] = {}
    """Open calls of sub-agents, which may begin sub-agents themselves."""
    relays: dict[str, OpenRelay] = {}
    messages: int = 0
    """That were given an id, because what somebody said had none."""
    ended: list[str] = []
    """The last runs that ended: what is still said in their names is passed over."""
    told_failure: str = ""
    """An error that was told before the log says it."""


class Lifecycle:
    """Contract: `state` is all there is to know, and is plain but for the message that is being written."""

    def __init__(self) -> None:
        self.state = State()
        self.active: TopRun | None = None
        """The run that speaks."""

    def restore(self, state: State) -> None:
        self.state = state
        self.active = state.runs.get(state.active) if state.active is not None else None

    def start(self, event: SessionStart) -> Sequence[HarnessEvent]:
        state = self.state
        if event.parent_id:
            if event.run_id in state.children:
                return ()
            child, told = subagents.started(event, self._call(event.parent_id))
            state.children[event.run_id] = child
            return told
        run = state.runs.get(event.run_id)
        if run is not None:
            return () if run.is_running else self.resume(event)
        return self.begin(event.run_id)[0]

    def begin(self, run_id: str) -> tuple[Sequence[HarnessEvent], TopRun]:
        told = self._end_run(self.active, "aborted") if self.active is not None else []
        run = self.state.runs[run_id] = TopRun(run_id)
        self._activate(run)
        return [*told, wire.AgentStart()], run

    def _activate(self, run: TopRun | None) -> None:
        self.active = run
        self.state.active = None if run is None else run.run_id

    def _call(self, call_id: str) -> OpenCall | None:
        for run in self.state.runs.values():
            if call_id in run.calls:
                return run.calls[call_id]
        return self.state.child_calls.get(call_id)

    def end(self, event: Result) -> Sequence[HarnessEvent]:
        state = self.state
        child = state.children.pop(event.run_id, None)
        if child is not None:
            for call_id in child.calls:
                state.child_calls.pop(call_id, None)
            return subagents.told(child, event)
        run = state.runs.get(event.run_id)
        if run is None:
            return ()
        unheard: Sequence[HarnessEvent] = ()
        if event.success and event.text and run.is_running and not run.has_spoken:
            unheard = [*run.begin_message(event), *run.complete("", event.text)]
        reason: Ending = "complete" if event.success else "error"
        if event.outcome == "interrupted":
            reason = "aborted"
        elif run.cut_off:
            reason = "error"
        return [*unheard, *self._end_run(run, reason, event.outcome)]

    def _end_run(self, run: TopRun, reason: Ending, outcome: str = "") -> list[HarnessEvent]:
        state = self.state
        told = [*self._cancel_relays(run), *tool_calls.abandoned(run)]
        if len(state.runs) == 1:
            for child in (*state.children.values(), *state.forks.values()):
                told += child.stop() if reason == "aborted" else child.end("", 0, is_error=True)
            state.children, state.forks, state.child_calls = {}, {}, {}
        if reason == "error" and not run.failure:
            run.failure = f"the run ended badly: {outcome.replace('_', ' ')}"
            told.append(wire.Error(error=wire.Problem(message=run.failure), error_type=outcome))
        told += run.end_message(reason, run.failure if reason == "error" else "")
        if run.is_running:
            told.append(wire.AgentEnd(reason=reason))
        del state.runs[run.run_id]
        state.ended = [*state.ended[1 - _MOST_ENDED :], run.run_id]
        if self.active is run:
            self._activate(None)
        return told

    def _cancel_relays(self, run: TopRun) -> list[HarnessEvent]:
        relays = self.state.relays
        left = [id for id, relay in relays.items() if relay.run_id == run.run_id]
        return [told for id in left for told in _cancelled(relays.pop(id), _ABORTED)]

    def suspend(self, event: Suspended) -> Sequence[HarnessEvent]:
        run = self.state.runs.get(event.run_id)
        if run is None or not run.is_running:
            return ()
        run.is_running = False
        if self.active is run:
            self._activate(None)
        return [*run.end_inputs(), *run.end_message("tool_use"), wire.AgentEnd(reason="suspended")]

    def resume(self, event: Event) -> Sequence[HarnessEvent]:
        run = self.state.runs.get(event.run_id)
        if run is None:
            return () if event.run_id in self.state.ended else self.begin(event.run_id)[0]
        told: list[HarnessEvent] = []
        if run.is_running:  # whoever ran it died before it could say that it waits
            told += self.suspend(Suspended(run_id=run.run_id))
        if self.active is not None:
            told += self._end_run(self.active, "aborted")
        answered, run.answered = run.answered, []
        run.is_running = True
        self._activate(run)
        return [*told, wire.AgentStart(resumed_tool_call_ids=answered or None)]

    def fork(self, event: Forked) -> Sequence[HarnessEvent]:
        child, told = subagents.forked(event)
        self.state.forks[event.call_id] = child
        return told

    def end_fork(self, event: ToolEnd) -> Sequence[HarnessEvent]:
        child = self.state.forks.pop(event.call_id, None)
        if child is None:
            return ()
        duration_ms = max(0, event.timestamp_ms - child.started_ms)
        return child.end(event.output or "", duration_ms, is_error=event.success is False)

    def relay(self, event: Relay) -> Sequence[HarnessEvent]:
        state = self.state
        if event.run_id in state.ended:
            return ()
        relay = OpenRelay(
            event.run_id, event.call_id or event.id, _tool_name(event), event.kind != "permission"
        )
        state.relays[event.id] = relay
        run = state.runs.get(event.run_id)
        is_written = run is not None and run.inputs.pop(relay.call_id, None) is not None
        told: list[HarnessEvent] = [wire.ToolInputEnd(tool_call_id=relay.call_id)] if is_written else []
        asked = {"tool_call_id": relay.call_id, "tool_name": relay.tool_name, "args": event.input}
        if not relay.is_suspension:
            return [*told, *self._asked(event, relay, run), approval_required(event)]
        payload = _payload(event)
        suspended = wire.ToolSuspended(
            **asked, **_asker(event), suspend_payload=payload, resume_schema=event.resume_schema
        )
        return [*told, suspended]

    def _asked(self, event: Relay, relay: OpenRelay, run: TopRun | None) -> Sequence[HarnessEvent]:
        if not event.call_id or (event.spawn_call_id and run is not None):
            return ()  # of a sub-agent in a log of its own: that tells of its calls
        if run is not None and run.is_running:
            return tool_calls.asked(run, event, relay.call_id, relay.tool_name)
        child = self.state.children.get(event.run_id)
        return () if child is None else child.start_call(relay.call_id, relay.tool_name, event.input)

    def reply(self, event: RelayReply) -> Sequence[HarnessEvent]:
        relay = self.state.relays.pop(event.id, None)
        if relay is None or not relay.is_suspension:
            return ()
        if not event.approved and event.answer is None:
            return _cancelled(relay, event.reason or _ABORTED)
        run = self.state.runs.get(relay.run_id)
        if run is not None:
            run.answered.append(relay.call_id)
        return ()


def approval_required(relay: Relay) -> wire.ToolApprovalRequired:
    return wire.ToolApprovalRequired(
        tool_call_id=relay.call_id or relay.id,
        tool_name=_tool_name(relay),
        args=relay.input,
        options=choices_data(relay),
        category=relay.category or None,
        preview=preview_data(relay),
        **_asker(relay),
    )


def pending_approval(relay: Relay) -> PendingApproval:
    """The same as a screen keeps it."""
    return approval_shown(approval_required(relay))


def pending_suspension(relay: Relay) -> PendingSuspension:
    """What waits for data, as it was told."""
    return PendingSuspension(
        tool_call_id=relay.call_id or relay.id,
        tool_name=_tool_name(relay),
        args=relay.input,
        suspend_payload=_payload(relay),
        resume_schema=UNSET if relay.resume_schema is None else relay.resume_schema,
    )


def _tool_name(relay: Relay) -> str:
    return relay.tool_name or _TOOLS_THAT_ASK.get(relay.kind, relay.kind)


def _payload(relay: Relay) -> Any:
    return _question(relay) if relay.payload is None else relay.payload


def _asker(relay: Relay) -> dict[str, Any]:
    return {"agent_type": relay.subagent or None, "parent_tool_call_id": relay.spawn_call_id or None}


def _cancelled(relay: OpenRelay, reason: str) -> list[HarnessEvent]:
    if not relay.is_suspension:
        return []
    cancelled = wire.ToolSuspensionCancelled(
        tool_call_id=relay.call_id, tool_name=relay.tool_name, reason=reason
    )
    return [cancelled]


def _question(relay: Relay) -> dict[str, Any]:
    """What is asked, where whoever asks has no payload of its own."""
    asked: dict[str, Any] = {"question": relay.question}
    if relay.options:
        asked["options"] = [{"label": option} for option in relay.options]
    return asked
