"""What a session must know about a thread, as a fold of its log. With a snapshot a long log opens at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from harness.contracts.request import REMOTE_AGENT
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
    UsageDelta,
)
from harness.folds import limits
from harness.folds.limits import LimitFacts
from harness.folds.session.display import DisplayState, reduce
from harness.folds.session.encoding import encode, read, to_wire
from harness.folds.session.events import HarnessEvent
from harness.folds.session.lifecycle import pending_approval
from harness.folds.session.translation import SessionTranslation
from harness.folds.session.usage import NOTHING_USED, TokenUsage, read_usage, token_usage
from harness.log.run_tree import RunTree
from harness.session.builtin.submit_plan import is_approved
from harness.session.memory.record import RecordFold
from harness.session.state import StateLanes


class Facts(msgspec.Struct, kw_only=True):
    """The current facts of a thread, apart from its display."""

    state: dict[str, Any] = msgspec.field(default_factory=dict)
    tasks: list[Task] = msgspec.field(default_factory=list)
    follow_ups: list[Any] = msgspec.field(default_factory=list)
    objective: dict[str, Any] | None = None
    notifications: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    relays: Mapping[str, Relay] = msgspec.field(default_factory=dict)
    """The approvals and questions that wait for an answer, by relay id."""
    open_run: str = ""
    """The top-level run that has not ended."""
    is_suspended: bool = False
    agent_sessions: dict[str, str] = msgspec.field(default_factory=dict)
    """By agent: the agent's own id for its latest session in this thread."""
    usage: TokenUsage = NOTHING_USED
    """Of all runs, or since the count was last set."""
    last_agent: str = ""
    last_run: str = ""
    last_outcome: str = ""
    """Of the last run that has ended; `suspended` while one is."""
    untaken: dict[str, SteeringQueued] = msgspec.field(default_factory=dict)
    """Messages sent to a run that it has not read yet, by message id."""
    mode_id: str = ""
    """The mode that was last entered; empty when none was since the thread was created."""
    is_plan_approved: bool = False
    """Whether a plan was approved, and since then no mode was entered and no run started."""
    lanes: StateLanes = msgspec.field(default_factory=StateLanes)
    """The states that the model was sent."""
    limits: LimitFacts = msgspec.field(default_factory=LimitFacts)
    """Which limit of its provider ended the last run."""

    @property
    def activity(self) -> Literal["", "running", "waiting"]:
        """Whether a run is active, or waits for the user."""
        if not self.open_run:
            return ""
        return "waiting" if self.relays or self.is_suspended else "running"


_VERSION = 6
_OF_RUNS = frozenset((SessionStart, Result, Suspended, Resumed, Relay, RelayReply))
_MOST_TOLD = 50
"""How many notifications that are no longer pending are stored: the most recently changed."""


class _Stored(msgspec.Struct):
    version: int
    facts: Facts
    tree: Any
    """None when the display is current: then the translation has the same tree."""
    translation: Any
    display: Any
    shown_seq: int
    memory: bytes


class ThreadFold:
    """Contract: that of `Fold`; `feed` returns the events for listeners.

    `facts` and `tree` are always current. The translation for listeners and the display state need not be:
    while hidden, they skip events, and they catch up from the log when the display is read or a listener
    subscribes again. A fold whose log cannot be read again (`read_log` is None) always has them current.
    """

    def __init__(self) -> None:
        self.facts: Facts = Facts()
        self.tree: RunTree = RunTree()
        """The runs in the thread's log; other folds of the same events may share it."""
        self.translation: SessionTranslation = SessionTranslation(tree=self.tree)
        self.memory: RecordFold = RecordFold()
        self.next_seq: int = 0
        """Of the next event to be fed."""
        self.has_news: bool = False
        """Whether the last event was about the runs: their activity, or what agents call their sessions."""
        self.read_log: Callable[[int], Iterable[Event]] | None = None
        """Reads the log again from that event on."""
        self.is_shown: bool = True
        self.shown_display: DisplayState = DisplayState()
        """`display` as it was when it was last brought up to date: current while `is_shown`."""
        self._shown_seq = 0
        """While hidden: of the next event for the translation."""
        self._deferred: list[tuple[int, Callable[[], None]]] = []
        """While hidden: display changes that are not logged, each with the event that it comes before."""
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
            UsageDelta: self._usage,
        }

    @property
    def display(self) -> DisplayState:
        """The display state of the thread, brought up to date."""
        if not self.is_shown:
            self.show()
        return self.shown_display

    def feed(self, event: Event, /) -> Sequence[HarnessEvent]:
        """Take the next event of the log; returns what listeners get for it."""
        self.next_seq = event.seq + 1
        self.has_news = False
        kind = type(event)
        tree = self.tree
        run = tree.feed(event)
        if kind is not TextDelta or tree.began:  # nine of ten events are such deltas
            if tree.began or tree.ended or kind in _OF_RUNS:
                self._note_runs(tree)
            if kind in limits.TAKEN:
                limits.take(self.facts.limits, event, run)
            taker: Any = self._takers.get(kind)
            if taker is not None:
                taker(event)
            self.memory.feed(event)
        if not self.is_shown:
            return ()
        return self.translation.feed(event) if kind is TextDelta else self._translated(event)

    def knows(self, state: Mapping[str, Any]) -> None:
        """Set the initial state, for a log that is not stored."""
        self.facts.state = dict(state)
        self.translation.knows(state)

    def take(self, event: Event) -> None:
        """Feed an event and update the display, without notifying listeners."""
        for shown in self.feed(event):
            self.reduce(shown)

    def hide(self) -> None:
        """Stop updating translation and display until they are needed; called when no listener is left."""
        if self.is_shown and self.read_log is not None:
            self.is_shown = False
            self._shown_seq = self.next_seq
            own = RunTree()
            own.restore(self.tree.snapshot())
            self.translation.share(own)

    def show(self) -> None:
        """Bring translation and display up to date, from now on."""
        if self.is_shown:
            return
        assert self.read_log is not None, "it was hidden"
        self.is_shown = True
        for event in self.read_log(self._shown_seq):
            if event.seq >= self.next_seq:
                break
            self._change_before(event.seq)
            for shown in self._translated(event):
                self.reduce(shown)
        self._change_before(self.next_seq)
        self.translation.share(self.tree)

    def reduce(self, event: HarnessEvent) -> None:
        """Fold an event for listeners into the display, which is current."""
        reduce(self.shown_display, event)

    def change_display(self, change: Callable[[], None]) -> None:
        """Make a change that is not logged: at once, or, while hidden, when the display catches up."""
        if self.is_shown:
            change()
        else:
            self._deferred.append((self.next_seq, change))

    def _change_before(self, seq: int) -> None:
        while self._deferred and self._deferred[0][0] <= seq:
            self._deferred.pop(0)[1]()

    def reset_display(self, *, is_running: bool, queued: int, asked: Relay | None) -> None:
        """Show an idle thread, or one that runs, with what waits in it."""
        shown = self.shown_display
        self.shown_display = DisplayState(
            is_running=is_running,
            token_usage=shown.token_usage,
            pending_suspensions=shown.pending_suspensions,
            pending_approval=None if asked is None else pending_approval(asked),
            modified_files=shown.modified_files,
            om_progress=shown.om_progress,
            queued_follow_ups=queued,
            queued_steering=shown.queued_steering,
            tasks=shown.tasks,
            previous_tasks=shown.previous_tasks,
        )

    def _translated(self, event: Event) -> Sequence[HarnessEvent]:
        if type(event) is RelayReply:
            tree = self.translation.tree
            tree.feed(event)
            self._show_answers(tree)
        return self.translation.feed(event)

    def snapshot(self) -> bytes:
        """Everything that is needed to continue from here."""
        return encode(
            {
                "version": _VERSION,
                "facts": self.facts,
                "tree": None if self.is_shown else self.tree.snapshot(),
                "translation": self.translation.snapshot(),
                "display": to_wire(self.shown_display),
                "shown_seq": self.next_seq if self.is_shown else self._shown_seq,
                "memory": self.memory.snapshot(),
            }
        )

    def restore(self, snapshot: bytes) -> bool:
        """False when it is of another version or damaged: then the whole log is read."""
        try:
            stored = msgspec.json.decode(snapshot, type=_Stored)
            if stored.version != _VERSION:
                return False
            display = read(stored.display, DisplayState)
            if stored.tree is not None:
                self.translation = SessionTranslation()
                self.tree.restore(stored.tree)
            self.translation.restore(stored.translation)
            self.memory.restore(stored.memory)
        except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError, ValueError):
            self.tree = RunTree()
            self.translation, self.memory = SessionTranslation(tree=self.tree), RecordFold()
            return False
        self.facts, self.shown_display = stored.facts, display
        self.facts.relays = self.tree.open_relays
        self.is_shown, self._shown_seq = stored.tree is None, stored.shown_seq
        return True

    def _created(self, event: ThreadCreated) -> None:
        self.facts.state.update(event.state or {})
        self.facts.usage = NOTHING_USED
        if event.cloned_from:
            self.facts.untaken.clear()  # the source thread still has them to send
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
        settled = [
            (record.get("updatedAt") or 0, key)
            for key, record in known.items()
            if record.get("status") != "pending"
        ]
        if len(settled) > _MOST_TOLD:
            del known[min(settled)[1]]

    def _note_runs(self, tree: RunTree) -> None:
        self.has_news = True
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

    def _show_answers(self, tree: RunTree) -> None:
        """Remove answered approvals and questions from the display.

        For a run that continues, such as a sub-agent's, no other event says that it no longer waits.
        """
        display = self.shown_display
        for relay in tree.relays:
            display.pending_suspensions.pop(relay.call_id or relay.id, None)
            shown = display.pending_approval
            is_shown = shown is not None and shown.tool_call_id == (relay.call_id or relay.id)
            if is_shown and relay.spawn_call_id:
                waiting = (relay for relay in tree.open_relays.values() if relay.kind == "permission")
                display.pending_approval = next(map(pending_approval, waiting), None)

    def _usage(self, event: UsageDelta) -> None:
        if event.counted is None:
            self.facts.usage = self.facts.usage.plus(token_usage(event.usage))
        else:
            self.facts.usage = read_usage(event.counted)

    def _start(self, event: SessionStart) -> None:
        if self.tree.run.depth:
            return
        self.facts.is_plan_approved = False
        # The same agent cannot continue here a session that it had in a sandbox runner.
        self.facts.last_agent = REMOTE_AGENT if event.runner else event.agent
        self._note_session(event)

    def _result(self, event: Result) -> None:
        if event.run_id == self.facts.last_run:
            self._note_session(event)

    def _info(self, event: Info) -> None:
        if event.run_id == self.facts.open_run:
            self._note_session(event)

    def _note_session(self, event: Event) -> None:
        """Store the agent program's own session id. Without one, the log has the run id in its place."""
        if event.session_id and event.session_id != event.run_id and self.facts.last_agent:
            self.has_news = True
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
    """Reset the display of a thread that is opened: what still holds stays, finished work is not shown."""
    queued = len(fold.facts.follow_ups)
    asked = next((relay for relay in fold.facts.relays.values() if relay.kind == "permission"), None)

    def change() -> None:
        fold.reset_display(is_running=is_running, queued=queued, asked=asked)

    fold.change_display(change)
