"""All that a session must know of a thread, as a fold of its log, so that a snapshot opens a long one at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from harness.events import (
    Event,
    FollowUpsChanged,
    GoalChanged,
    Info,
    Message,
    ModeChanged,
    NotificationChanged,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    StateChanged,
    SteeringQueued,
    Suspended,
    Task,
    TasksChanged,
    TextDelta,
    ThreadCreated,
)
from harness.log.run_tree import RunTree
from harness.rendering.session.display import DisplayState, reduce
from harness.rendering.session.encoding import encode, read, to_wire
from harness.rendering.session.events import HarnessEvent
from harness.rendering.session.lifecycle import pending_approval
from harness.rendering.session.translation import SessionTranslation
from harness.session.builtin.submit_plan import is_approved
from harness.session.memory.record import RecordFold
from harness.session.state_lanes import StateLanes
from harness.sources.request import REMOTE_AGENT


class Facts(msgspec.Struct, kw_only=True):
    """What is true of a thread now, apart from what it shows."""

    state: dict[str, Any] = msgspec.field(default_factory=dict)
    tasks: list[Task] = msgspec.field(default_factory=list)
    follow_ups: list[Any] = msgspec.field(default_factory=list)
    objective: dict[str, Any] | None = None
    notifications: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    relays: Mapping[str, Relay] = msgspec.field(default_factory=dict)
    """What waits for an answer, by relay id."""
    open_run: str = ""
    """The top-level run that has not ended."""
    is_suspended: bool = False
    agent_sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """By agent: its own id of its latest session in this thread."""
    last_agent: str = ""
    last_run: str = ""
    last_outcome: str = ""
    """Of the last run that has ended; `suspended` while one waits."""
    untaken: dict[str, SteeringQueued] = msgspec.field(default_factory=dict)
    """What was said to a run and not taken by it yet, by the id of the message that it will be."""
    mode_id: str = ""
    """The one that was last entered; empty when none was, since the thread was created."""
    is_plan_approved: bool = False
    """Whether a plan was approved, and no mode was entered and no run begun since."""
    lanes: StateLanes = msgspec.field(default_factory=StateLanes)
    """What the model was told of changing things."""

    @property
    def activity(self) -> Literal["", "running", "waiting"]:
        """Whether a run goes on, or waits for somebody."""
        if not self.open_run:
            return ""
        return "waiting" if self.relays or self.is_suspended else "running"


_VERSION = 4
_OF_RUNS = frozenset((SessionStart, Result, Suspended, Resumed, Relay, RelayReply))
_MOST_TOLD = 50
"""Notifications that are kept after the model was told of them, or they were put away: the last changed."""


class _Kept(msgspec.Struct):
    version: int
    facts: Facts
    translation: Any
    display: Any
    memory: bytes


class ThreadFold:
    """Contract: that of `Fold`; what `feed` gives are the events for listeners."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.tree = RunTree()
        """Of the thread's log; whoever else folds the same events may share it."""
        self.translation = SessionTranslation(tree=self.tree)
        self.display = DisplayState()
        self.memory = RecordFold()
        self.next_seq = 0
        """Of the event that is to be fed next."""
        self._takers = {
            ThreadCreated: self._created,
            StateChanged: self._state,
            TasksChanged: self._tasks,
            FollowUpsChanged: self._follow_ups,
            GoalChanged: self._goal,
            NotificationChanged: self._notification,
            RelayReply: self._reply,
            SessionStart: self._start,
            Info: self._info,
            Result: self._result,
            Signal: self._signal,
            SteeringQueued: self._steering,
            Message: self._message,
            ModeChanged: self._mode,
        }

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        self.next_seq = event.seq + 1
        kind = type(event)
        tree = self.tree
        tree.feed(event)
        if kind is not TextDelta:  # nine of ten events are
            if tree.began or tree.ended or kind in _OF_RUNS:
                self._note_runs(tree)
            taker: Any = self._takers.get(kind)
            if taker is not None:
                taker(event)
            self.memory.feed(event)
        return self.translation.feed(event)

    def knows(self, state: Mapping[str, Any]) -> None:
        """Of a log that nobody keeps: what is true before anything was said in it."""
        self.facts.state = dict(state)
        self.translation.knows(state)

    def take(self, event: Event) -> None:
        """Feed it, and show it, without telling anybody."""
        for told in self.feed(event):
            reduce(self.display, told)

    def snapshot(self) -> bytes:
        return encode(
            {
                "version": _VERSION,
                "facts": self.facts,
                "translation": self.translation.snapshot(),
                "display": to_wire(self.display),
                "memory": self.memory.snapshot(),
            }
        )

    def restore(self, snapshot: bytes) -> bool:
        """False when it was made by another version: then everything is read again."""
        try:
            kept = msgspec.json.decode(snapshot, type=_Kept)
            if kept.version != _VERSION:
                return False
            facts, display = kept.facts, read(kept.display, DisplayState)
            self.translation.restore(kept.translation)
            self.memory.restore(kept.memory)
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError, ValueError):
            self.tree = RunTree()
            self.translation, self.memory = SessionTranslation(tree=self.tree), RecordFold()
            return False
        facts.relays = self.tree.open_relays
        self.facts, self.display = facts, display
        return True

    def _created(self, event: ThreadCreated) -> None:
        self.facts.state.update(event.state or {})
        if event.cloned_from:
            self.facts.untaken.clear()  # it is still to be said there, not here
            self.facts.is_plan_approved = False

    def _state(self, event: StateChanged) -> None:
        self.facts.state.update(event.changes)

    def _tasks(self, event: TasksChanged) -> None:
        if event.run_id in ("", self.facts.open_run) or not self.facts.open_run:
            self.facts.tasks = list(event.tasks)

    def _follow_ups(self, event: FollowUpsChanged) -> None:
        self.facts.follow_ups = event.queue(self.facts.follow_ups)

    def _goal(self, event: GoalChanged) -> None:
        self.facts.objective = event.objective

    def _notification(self, event: NotificationChanged) -> None:
        known = self.facts.notifications
        known[str(event.record.get("id", ""))] = event.record
        told = [
            (record.get("updatedAt") or 0, key)
            for key, record in known.items()
            if record.get("status") != "pending"
        ]
        if len(told) > _MOST_TOLD:
            del known[min(told)[1]]

    def _note_runs(self, tree: RunTree) -> None:
        facts, top, waiting = self.facts, tree.top, tree.unfinished_top
        facts.relays = tree.open_relays
        facts.open_run = "" if waiting is None else waiting.id
        facts.is_suspended = waiting is not None and waiting.status == "suspended"
        if top is not None:
            facts.last_run = top.id
            is_waiting = top.status == "suspended"
            facts.last_outcome = "suspended" if is_waiting else top.outcome or facts.last_outcome

    def _reply(self, event: RelayReply) -> None:
        for relay in self.tree.relays:
            is_own_plan = relay.kind == "plan" and relay.run_id == self.facts.open_run
            if is_own_plan and event.approved and is_approved(event.answer):
                self.facts.is_plan_approved = True
            # Of a run that goes on, as that of a sub-agent, nothing else says that it waits no longer.
            self.display.pending_suspensions.pop(relay.call_id or relay.id, None)
            shown = self.display.pending_approval
            is_shown = shown is not None and shown.tool_call_id == (relay.call_id or relay.id)
            if is_shown and relay.spawn_call_id:
                waiting = (one for one in self.facts.relays.values() if one.kind == "permission")
                self.display.pending_approval = next(map(pending_approval, waiting), None)

    def _start(self, event: SessionStart) -> None:
        if self.tree.run.depth:
            return
        self.facts.is_plan_approved = False
        # An agent's session in a sandbox runner is none that the same agent could go on with here.
        self.facts.last_agent = REMOTE_AGENT if event.runner else event.agent
        self._note_session(event)

    def _result(self, event: Result) -> None:
        if event.run_id == self.facts.last_run:
            self._note_session(event)

    def _info(self, event: Info) -> None:
        if event.run_id == self.facts.open_run:
            self._note_session(event)

    def _note_session(self, event: Event) -> None:
        """A program's own id of its session; where it says none, the log puts that of the run."""
        if event.session_id and event.session_id != event.run_id and self.facts.last_agent:
            self.facts.agent_sessions[self.facts.last_agent] = event.session_id

    def _signal(self, event: Signal) -> None:
        self.facts.lanes.feed(event)

    def _steering(self, event: SteeringQueued) -> None:
        if event.run_id == self.facts.open_run:
            self.facts.untaken[event.id] = event

    def _message(self, event: Message) -> None:
        self.facts.untaken.pop(event.id, None)

    def _mode(self, event: ModeChanged) -> None:
        self.facts.mode_id = event.mode_id
        self.facts.is_plan_approved = False


def rest(fold: ThreadFold, *, is_running: bool) -> None:
    """What is shown of a thread when it is opened: what holds on, and nothing of how it came about."""
    shown = fold.display
    kept = DisplayState(
        is_running=is_running,
        token_usage=shown.token_usage,
        pending_suspensions=shown.pending_suspensions,
        modified_files=shown.modified_files,
        om_progress=shown.om_progress,
        queued_follow_ups=len(fold.facts.follow_ups),
        queued_steering=shown.queued_steering,
    )
    asked = [relay for relay in fold.facts.relays.values() if relay.kind == "permission"]
    kept.pending_approval = pending_approval(asked[0]) if asked else None
    kept.tasks = shown.tasks
    kept.previous_tasks = shown.previous_tasks
    fold.display = kept
