"""What a log says of the conversation in it: the turns a model would be sent, and what still waits.

One pass over the events, from whatever agent they are: a program's run gives the same entries as one of our
own, as far as its events say. Sub-agents are left out: their caller got their answer as a result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from harness.contracts.model import AssistantTurn, Call, ToolTurn, Turn, UserTurn
from harness.conversation.compaction import Measured, compacted, measured
from harness.conversation.inbox import InboxMessage, message_of
from harness.conversation.left_behind import LeftBehind
from harness.conversation.suspended_run import SuspendedRun
from harness.conversation.turns import (
    CUT_OFF,
    NOT_BEGUN,
    TranscriptEntry,
    TurnOrder,
    calls_of,
    message_id,
    tool_turn,
    turn_of,
)
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    Signal,
    SteeringQueued,
    StepEnd,
    StepStart,
    Suspended,
    TextDelta,
    ThreadCreated,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.log.run_tree import RunTree, RunTreeState
from harness.questions.open_questions import is_limit_question


class History(msgspec.Struct, kw_only=True):
    entries: list[TranscriptEntry]
    pending: SuspendedRun | None = None
    """The last run, when it waits for answers: suspended, or its process died while a question was open."""
    untaken: list[InboxMessage] = msgspec.field(default_factory=list)
    """Messages to a run that died before it could take them: they are still to be delivered."""
    measured: Measured = Measured()
    """How long the provider last said that it is."""
    prompt: str = ""
    """The lasting part of the system prompt that it began with; empty: none is known."""
    left_behind: LeftBehind = msgspec.field(default_factory=LeftBehind)
    """What its calls have left in the process that carried them out."""

    @property
    def turns(self) -> list[Turn]:
        """For a model that continues with something else: what waits counts as given up."""
        turns = [entry.turn for entry in self.entries]
        pending = self.pending
        if pending is not None:
            for call in pending.calls:
                entry = pending.results.get(call.id)
                turns.append(entry.turn if entry is not None else _never_ended(call.id, pending.started))
            turns += [entry.turn for entry in pending.additions]
        return turns + [UserTurn(message.text, message.attachments) for message in self.untaken]


class EventMark(NamedTuple):
    """By which an event of a log is known again."""

    seq: int = -1
    timestamp_ms: int = 0
    run_id: str = ""

    @classmethod
    def of(cls, event: Event | None) -> EventMark:
        return cls() if event is None else cls(event.seq, event.timestamp_ms, event.run_id)


class Rest(msgspec.Struct, kw_only=True):
    """A conversation in which nothing is open: all that must be known of its events to read those after them."""

    last: EventMark
    """The last of them."""
    entries: list[TranscriptEntry]
    measured: Measured
    prompt: str
    asked_with: int
    left_behind: LeftBehind
    tree: RunTreeState


def history(
    events: Iterable[Event],
    before: Sequence[Turn] = (),
    measured_before: Measured | None = None,
    left_before: LeftBehind | None = None,
) -> History:
    """Read a log from its beginning, or from where a run begins. `before`: the entries of the logs before this one."""
    return _Replay(before, measured_before or Measured(), left_before).read(events)


def continued_history(events: Iterable[Event], rest: Rest | None) -> tuple[History, Rest | None]:
    """Read the events after those that `rest` stands for. Returns the rest after them, too; None: something is open then.

    The given rest is used up: it is changed.
    """
    replay = _Replay((), Measured())
    if rest is not None:
        replay.restore(rest)
    result = replay.read(events)
    return result, replay.rest


def _never_ended(call_id: str, begun_calls: Collection[str]) -> ToolTurn:
    return ToolTurn(call_id, CUT_OFF if call_id in begun_calls else NOT_BEGUN, is_error=True)


class _Answer:
    """One answer of the model: its text and the calls it asked for. It may grow until its results have a place."""

    __slots__ = ("calls", "first", "message", "opaque", "started", "text")

    def __init__(self, first: Event) -> None:
        self.first = first
        self.message: Message | None = None
        self.text = ""
        self.opaque: Any = None
        self.calls: dict[str, Call] = {}
        self.started: set[str] = set()

    def say(self, message: Message) -> list[Call]:
        """Returns the calls that come with the message."""
        self.message = self.message or message
        self.text = f"{self.text}\n\n{message.text}" if self.text else message.text
        self.opaque = message.opaque
        calls = calls_of(message)
        for call in calls:
            self.calls[call.id] = call
        return calls

    @property
    def message_id(self) -> str:
        return (
            message_id(self.message) if self.message is not None else f"{self.first.run_id}/{self.first.seq}"
        )

    def entry(self) -> TranscriptEntry:
        turn = AssistantTurn(self.text, tuple(self.calls.values()), self.opaque)
        event = self.message or self.first
        return TranscriptEntry(turn, self.message_id, event.timestamp_ms, event.seq)

    def never_ended(self, call_id: str, closing: Event) -> TranscriptEntry:
        """The result of a call that has none; `closing` is the event that ends the wait for it."""
        turn = _never_ended(call_id, self.started)
        return TranscriptEntry(turn, self.message_id, closing.timestamp_ms, closing.seq)


_Placed: TypeAlias = TranscriptEntry | _Answer


def _entry(turn: _Placed) -> TranscriptEntry:
    return turn.entry() if isinstance(turn, _Answer) else turn


class _Run:
    """A top-level run that has not ended."""

    def __init__(self, id: str, started_ms: int, placed: list[_Placed]) -> None:
        self.id = id
        self.started_ms = started_ms
        self.order: TurnOrder[_Placed] = TurnOrder(placed.append)
        self.has_answered = False
        self.steps = 0
        self.is_suspended = False
        self.has_failed = False
        """Whether the model's answer of this step does not count."""
        self.answers: dict[str, tuple[RelayReply, ...]] = {}
        self.usages: list[Usage] = []
        self.text = ""
        """Of the last answer with text."""
        self.placed = placed
        """Where its turns go: the conversation, or a list of its own when another run is the current one."""
        self._answer: _Answer | None = None
        self._text_before = ""

    @property
    def answer(self) -> _Answer | None:
        """The last one, as long as its results have no place."""
        return self._answer if self.order.has_answer else None

    def begin_answer(self, first: Event) -> _Answer:
        self.close_calls(first)
        answer = self._answer = _Answer(first)
        self._text_before = self.text
        self.order.answer(answer)
        return answer

    def retract_answer(self) -> None:
        """It is the last turn with a place: what follows it is still in `order`."""
        if self.order.has_answer:
            self.placed.pop()
            self.text = self._text_before
            self.order.has_answer = False
            self.order.results = {}

    def close_calls(self, closing: Event) -> None:
        """Open calls will have no other result than this."""
        results, answer = self.order.results, self._answer
        if not results:
            return
        for call_id in [call_id for call_id, result in results.items() if result is None]:
            assert answer is not None, "calls are those of an answer"
            results[call_id] = answer.never_ended(call_id, closing)

    def close(self, closing: Event) -> None:
        self.close_calls(closing)
        self.order.is_in_step = False
        self.order.settle()

    def set_aside(self) -> None:
        """Another run begins while this one waits: what it left open comes after that, what was added before it."""
        order, before, self.placed = self.order, self.placed, []
        if order.has_answer:
            self.placed.append(before.pop())
        before += order.additions
        order.additions, order.place = [], self.placed.append

    def continue_in(self, placed: list[_Placed]) -> None:
        """The counterpart of `set_aside`."""
        placed += self.placed
        self.placed, self.order.place = placed, placed.append

    def own_id(self, call_id: str) -> str:
        """The model's id of a call."""
        return call_id.removeprefix(f"{self.id}/")


_PIECES = frozenset((TextDelta, ReasoningDelta, ToolInputDelta, ToolProgress))
"""Most events of a log are these, and what they hold comes again, whole: even the run tree is fed only those that
may begin a run."""


class _Replay:
    def __init__(
        self, before: Sequence[Turn], measured: Measured, left_behind: LeftBehind | None = None
    ) -> None:
        self._measured = measured
        self._left_behind = LeftBehind() if left_behind is None else left_behind.copy()
        self._prompt = ""
        self._asked_with = 0
        """How many turns the model was last sent."""
        self._placed: list[_Placed] = [TranscriptEntry(turn, "", -1, -1) for turn in before]
        self._runs: dict[str, _Run] = {}
        self._current = ""
        """The latest top-level run; the others in `_runs` wait for answers."""
        self._untaken: dict[str, SteeringQueued] = {}
        self.rest: Rest | None = None
        """What it continues; after `read` what it ends in."""
        self._tree = RunTree()
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            SessionStart: self._on_start,
            Message: self._on_message,
            Signal: self._on_addition,
            SteeringQueued: self._on_steering,
            ThreadCreated: self._on_thread,
            StepStart: self._on_step,
            StepEnd: self._on_step_end,
            ToolStart: self._on_tool_start,
            ToolEnd: self._on_tool_end,
            Relay: self._on_relay,
            RelayReply: self._on_reply,
            UsageDelta: self._on_usage,
            Error: self._on_error,
            Compacted: self._on_compacted,
            Result: self._on_result,
            Suspended: self._on_suspended,
            Resumed: self._on_resumed,
        }

    def restore(self, rest: Rest) -> None:
        """Continue from there."""
        self._placed, self._measured, self._prompt = list(rest.entries), rest.measured, rest.prompt
        self._asked_with, self._tree = rest.asked_with, RunTree(rest.tree)
        self._left_behind = rest.left_behind.copy()
        self._current, self.rest = self._tree.latest, rest

    def read(self, events: Iterable[Event]) -> History:
        last, knows = None, self.knows
        for last in events:
            if type(last) not in _PIECES or not knows(last.run_id):
                self.feed(last)
        is_at_rest = not (self._runs or self._untaken or self._tree.unfinished or self._tree.open_relays)
        result = self.finish(last)
        if last is not None:
            self.rest = self._rest(last, result.entries) if is_at_rest else None
        return result

    def _rest(self, last: Event, entries: list[TranscriptEntry]) -> Rest:
        return Rest(
            last=EventMark.of(last),
            entries=entries,
            measured=self._measured,
            prompt=self._prompt,
            asked_with=self._asked_with,
            left_behind=self._left_behind.copy(),
            tree=self._tree.state(),
        )

    def knows(self, run_id: str) -> bool:
        return self._tree.get(run_id) is not None

    def feed(self, event: Event) -> None:
        tree = self._tree
        is_below = tree.feed(event).depth > 0
        for run_at_end in tree.ended:
            cut_off = self._runs.get(run_at_end.id)
            if cut_off is not None and (type(event) is not Result or run_at_end is not tree.run):
                self._close(cut_off, event)  # its process died, or this log is a fork from the middle of it
        if tree.latest != self._current:
            self._switch_to(tree.latest)
        handler = self._handlers.get(type(event))
        if handler is not None and not is_below:
            handler(event)

    def finish(self, last: Event | None) -> History:
        """`last`: the event with which the log ends."""
        asking_runs = {relay.run_id for relay in self._tree.open_relays.values() if not relay.spawn_call_id}
        waiting = next((run for run in reversed(self._runs.values()) if run.id in asking_runs), None)
        for run in [run for run in self._runs.values() if run is not waiting]:
            assert last is not None, "there are runs, so there are events"
            self._close(run, last)
        pending = None if waiting is None else self._pending(waiting)
        untaken = [message_of(event) for event in self._untaken.values()]
        return History(
            entries=self._entries(),
            pending=pending,
            untaken=untaken,
            measured=self._measured,
            prompt=self._prompt,
            left_behind=self._left_behind,
        )

    def _entries(self) -> list[TranscriptEntry]:
        return [turn if type(turn) is TranscriptEntry else _entry(turn) for turn in self._placed]

    def _pending(self, run: _Run) -> SuspendedRun:
        if run.id != self._current:
            self._switch_to(run.id)
        open_relays = self._tree.open_relays.values()
        relays = tuple(relay for relay in open_relays if relay.run_id == run.id and not relay.spawn_call_id)
        if run.answer is None and is_limit_question(relays[0]):
            answer = _Answer(relays[0])  # before a model call: no answer waits for its results
        else:
            answer = run.answer or run.begin_answer(relays[0])
        results = {call_id: _entry(turn) for call_id, turn in run.order.results.items() if turn is not None}
        usage_so_far = Usage()
        for usage in run.usages:
            usage_so_far = usage_so_far.plus(usage)
        begun_calls = frozenset(answer.started - results.keys())
        return SuspendedRun(
            run_id=run.id,
            relays=relays,
            calls=tuple(answer.calls.values()),
            message_id=answer.message_id,
            results=results,
            started=begun_calls,
            answers={call_id: replies for call_id, replies in run.answers.items() if call_id in begun_calls},
            additions=tuple(map(_entry, run.order.additions)),
            steps=run.steps,
            used=usage_so_far,
            text=run.text,
            started_ms=run.started_ms,
            is_suspended=run.is_suspended,
        )

    def _run(self, event: Event) -> _Run:
        run = self._runs.get(event.run_id)
        if run is None:
            placed = self._placed if event.run_id == self._current else []
            run = self._runs[event.run_id] = _Run(event.run_id, event.timestamp_ms, placed)
        return run

    def _switch_to(self, run_id: str) -> None:
        before, after = self._runs.get(self._current), self._runs.get(run_id)
        if before is not None:
            before.set_aside()
        if after is not None:
            after.continue_in(self._placed)
        self._current = run_id

    def _on_start(self, event: SessionStart) -> None:
        self._run(event).is_suspended = False
        self._prompt = event.prompt or self._prompt

    def _on_message(self, message: Message) -> None:
        if message.role != "assistant":
            self._left_behind.see_message(message)
            self._on_addition(message)
            return
        run = self._run(message)
        answer = run.answer
        if answer is None or not run.order.has_open_calls:
            answer = run.begin_answer(message)
        for call in answer.say(message):
            run.order.results.setdefault(call.id)
        run.has_answered = True
        run.text = message.text or run.text

    def _on_steering(self, event: SteeringQueued) -> None:
        self._untaken[event.id] = event

    def _on_thread(self, event: ThreadCreated) -> None:
        if event.cloned_from:
            self._untaken.clear()  # it is still to be taken there, not here

    def _on_addition(self, event: Message | Signal) -> None:
        self._untaken.pop(event.id, None)
        self._add(TranscriptEntry(turn_of(event), message_id(event), event.timestamp_ms, event.seq))

    def _add(self, turn: _Placed) -> None:
        current = self._runs.get(self._current)
        if current is None:
            self._placed.append(turn)
        else:
            current.order.add(turn)

    def _on_step(self, event: StepStart) -> None:
        run = self._run(event)
        run.close_calls(event)
        run.order.begin_step()
        self._asked_with = len(self._placed)
        run.steps += 1
        run.has_failed = False

    def _on_compacted(self, event: Compacted) -> None:
        if event.kept is None:
            return  # an agent program does not say what remains
        run = self._run(event)
        run.close_calls(event)
        run.order.settle()
        self._placed[:] = compacted(self._entries(), event)
        self._measured = Measured()

    def _on_step_end(self, event: StepEnd) -> None:
        run = self._run(event)
        if run.has_failed:
            run.retract_answer()
        run.order.end_step()

    def _on_tool_start(self, event: ToolStart) -> None:
        run = self._run(event)
        answer = run.answer or run.begin_answer(event)
        call_id = run.own_id(event.call_id)
        if call_id not in answer.calls:
            answer.calls[call_id] = Call(call_id, event.tool_name, event.input)
            run.order.results[call_id] = None
        answer.started.add(call_id)

    def _on_tool_end(self, event: ToolEnd) -> None:
        run = self._run(event)
        answer, call_id = run.answer, run.own_id(event.call_id)
        if answer is None or call_id not in answer.calls or run.order.results[call_id] is not None:
            return
        self._left_behind.see_end(answer.calls[call_id].input, event)
        turn = tool_turn(call_id, event)
        run.order.result(call_id, TranscriptEntry(turn, answer.message_id, event.timestamp_ms, event.seq))

    def _on_relay(self, relay: Relay) -> None:
        self._run(relay)

    def _on_reply(self, reply: RelayReply) -> None:
        run = self._runs.get(reply.run_id)
        relay = next(iter(self._tree.relays), None)
        if run is None or relay is None or relay.kind == "permission" or relay.spawn_call_id:
            return
        call_id = run.own_id(relay.call_id)
        run.answers[call_id] = (*run.answers.get(call_id, ()), reply)

    def _on_suspended(self, event: Suspended) -> None:
        run = self._runs.get(event.run_id)
        if run is not None:
            run.is_suspended = True

    def _on_resumed(self, event: Resumed) -> None:
        self._run(event).is_suspended = False

    def _on_usage(self, event: UsageDelta) -> None:
        run = self._runs.get(event.run_id)
        if run is None:
            return
        run.usages.append(event.usage)
        if run.order.is_in_step:  # else it is that of a summary
            self._measured = measured(event.usage, self._asked_with) or self._measured

    def _on_error(self, event: Error) -> None:
        run = self._runs.get(event.run_id)
        if run is not None and run.order.is_in_step:
            run.has_failed = True

    def _on_result(self, event: Result) -> None:
        run = self._run(event)
        self._close(run, event)
        is_heard = run.has_answered or run.steps or not self._tree.ended
        if event.success and event.text and not is_heard:
            name = f"{event.run_id}/{event.seq}"
            self._add(TranscriptEntry(AssistantTurn(event.text), name, event.timestamp_ms, event.seq))

    def _close(self, run: _Run, closing: Event) -> None:
        run.close(closing)
        del self._runs[run.id]
        if run.id != self._current:
            for turn in run.placed:
                self._add(turn)
