"""Folds a log into the state of its conversation, and each event into the operations that change this state.

Rules
1. A run without a parent writes into the conversation itself; a run that a call started writes into that call.
2. A run writes one assistant message, and another one after each user message within it.
3. What the log does not say (whether it is being written, what a client can do now) is set by the caller with
   `note`.
4. The cost of a change depends on its size, never on the size of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from harness import events as vocabulary
from harness.events import (
    Briefed,
    Compacted,
    Event,
    FollowUpsChanged,
    Info,
    Message,
    ModeChanged,
    ModelChanged,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    Signal,
    SteeringQueued,
    TasksChanged,
    ThreadCreated,
    ThreadRenamed,
    Unknown,
    Usage,
    Warning,
)
from harness.folds.page_state import shapes
from harness.folds.page_state.calls import Calls
from harness.folds.page_state.messages import MessageWriter, ShownRun
from harness.folds.page_state.object_stream import ObjectChange, Path
from harness.folds.page_state.tree import Tree
from harness.formatting.amounts import settled, top_of
from harness.formatting.approval import briefing_words
from harness.log.run_tree import RunNode, RunTree

# Approvals and questions, and their answers.


class Relays:
    """`positions` belongs to the fold and is part of its snapshot."""

    def __init__(self, tree: Tree, calls: Calls, positions: dict[str, int], runs: RunTree) -> None:
        self._tree = tree
        self._calls = calls
        self._positions = positions
        self._runs = runs

    def use(self, runs: RunTree) -> None:
        self._runs = runs

    def asked(self, shown_run: ShownRun, event: Relay) -> None:
        earlier = self._positions.get(event.id)
        is_open = earlier is not None and self._tree.at(("relays", str(earlier), "status")) == "pending"
        if is_open or event.id not in self._runs.open_relays:
            return
        place = self._tree.push(("relays",), shapes.relay(event))
        self._positions[event.id] = int(place[-1])
        if shown_run.is_hidden:
            return
        if event.spawn_call_id and shown_run.parent_call != event.spawn_call_id:
            # A sub-agent with a log of its own: here, the call that started it waits.
            self._calls.asks(shown_run, event.spawn_call_id, event.id, event.timestamp_ms)
        elif event.call_id:
            self._calls.waiting(
                shown_run, event.call_id, event.tool_name, event.input, event.id, event.timestamp_ms
            )

    def answered(self, shown_run: ShownRun, event: RelayReply) -> None:
        if not self._runs.relays:
            # A policy refuses without an approval request: the reply then has the id of the call.
            if event.id not in self._positions and not event.approved:
                self._calls.refused(shown_run, event.id, event.reason)
            return
        self._settle(event.id, "approved" if event.approved else "denied", event.reason)
        place = ("relays", str(self._positions[event.id]))
        self._tree.change((*place, "by"), event.by)
        self._tree.change((*place, "choice"), event.choice or ("always" if event.always else ""))
        if event.answer is not None:
            self._tree.set((*place, "answer"), event.answer)
        if not event.approved:
            call_id = self._tree.at((*place, "callId"))
            self._calls.refused(shown_run, call_id, event.reason or "denied")

    def close(self) -> None:
        """Runs have ended: their approvals and questions are closed."""
        for relay in self._runs.relays:
            self._settle(relay.id, "denied", "the run has ended")

    def _settle(self, relay_id: str, status: str, reason: str) -> None:
        place = ("relays", str(self._positions[relay_id]))
        self._tree.set((*place, "status"), status)
        self._tree.change((*place, "reason"), reason)


# The conversation as a whole: its name, mode, model, tasks, queue, and notices.

_LONGEST_UNKNOWN = 2_000


class Conversation:
    """`queued` belongs to the fold and is part of its snapshot."""

    def __init__(self, tree: Tree, messages: MessageWriter, queued: dict[str, str]) -> None:
        self._tree = tree
        self._messages = messages
        self._queued = queued
        self.handlers: dict[type[Event], Callable[[ShownRun, Any], None]] = {
            ThreadCreated: self._created,
            ThreadRenamed: self._renamed,
            ModeChanged: self._mode,
            ModelChanged: self._model,
            TasksChanged: self._tasks,
            FollowUpsChanged: self._follow_ups,
            SteeringQueued: self._steering,
            Briefed: self._briefed,
            Signal: self._signal,
            Compacted: self._compacted,
            Warning: self._warning,
            Info: self._info,
            Unknown: self._unknown,
        }

    def was_queued(self, shown_run: ShownRun, event: Message) -> bool:
        """Whether a user's message was queued; if so, it moves out of the queue."""
        follow_up_id = event.id if event.id in self._queued else ""
        if not follow_up_id:
            waiting = (key for key, at in self._queued.items() if self._text_at(at) == event.text)
            follow_up_id = next(waiting, "")
        if not follow_up_id or shown_run.parent_call:
            return False
        place = ("messages", self._queued.pop(follow_up_id))
        steering = self._tree.at(("steering",))
        if any(message["id"] == follow_up_id for message in steering):
            self._tree.set(("steering",), [message for message in steering if message["id"] != follow_up_id])
        self._messages.close(shown_run, "complete")
        self._tree.change((*place, "runId"), event.run_id)
        self._tree.set((*place, "status"), "complete")
        for file in shapes.files_of(event.parts):
            self._tree.push((*place, "parts"), file)
        if not shown_run.is_ended and shown_run.position >= 0:
            self._messages.current(shown_run, event.timestamp_ms)
        return True

    def _text_at(self, position: str) -> str:
        return self._tree.text(("messages", position, "content"))

    def _created(self, _shown_run: ShownRun, event: ThreadCreated) -> None:
        self._tree.change(("sessionId",), event.id)
        if event.title:
            self._tree.change(("title",), event.title)

    def _renamed(self, _shown_run: ShownRun, event: ThreadRenamed) -> None:
        self._tree.change(("title",), event.title)

    def _mode(self, _shown_run: ShownRun, event: ModeChanged) -> None:
        self._tree.change(("mode",), event.mode_id)

    def _model(self, _shown_run: ShownRun, event: ModelChanged) -> None:
        if not event.mode_id or event.mode_id == self._tree.at(("mode",)):
            self._tree.change(("model",), event.model_id)

    def _tasks(self, shown_run: ShownRun, event: TasksChanged) -> None:
        if not shown_run.parent_call:
            self._tree.set(("tasks",), [shapes.task(task) for task in event.tasks])

    def _follow_ups(self, _shown_run: ShownRun, event: FollowUpsChanged) -> None:
        queue = event.queue(self._tree.at(("followUps",)))
        waiting = [shapes.follow_up(pending, number) for number, pending in enumerate(queue)]
        self._tree.set(("followUps",), waiting)
        still = {message["id"] for message in (*waiting, *self._tree.at(("steering",)))}
        for follow_up_id in [key for key in self._queued if key not in still]:
            if not event.taken_by:
                self._tree.set(("messages", self._queued.pop(follow_up_id), "status"), "error")
        for message in waiting:
            if message["id"] not in self._queued:
                queued = _waiting(message["id"], message["text"], event)
                self._queued[message["id"]] = self._tree.push(("messages",), queued)[-1]

    def _steering(self, shown_run: ShownRun, event: SteeringQueued) -> None:
        """Insert it before the messages that wait for another run."""
        if shown_run.parent_call or event.id in self._queued:
            return
        self._tree.push(("steering",), {"id": event.id, "text": event.text})
        follow_ups = {message["id"] for message in self._tree.at(("followUps",))}
        later = [key for key in self._queued if key in follow_ups]
        place = self._messages.add_before(_waiting(event.id, event.text, event), later)
        self._queued[event.id] = place[-1]

    def _briefed(self, shown_run: ShownRun, event: Briefed) -> None:
        self._messages.notice(shown_run, "info", briefing_words(event), "briefing", event.timestamp_ms)

    def _signal(self, shown_run: ShownRun, event: Signal) -> None:
        text = shapes.text_of(event.contents)
        if event.category == "user":
            self._messages.add_user_message(
                shown_run, text, event.contents, message_id=event.id, at_ms=event.timestamp_ms
            )
        elif text and event.category != "state":  # the state itself is shown elsewhere
            self._messages.notice(shown_run, "info", text, event.tag_name, event.timestamp_ms)

    def _compacted(self, shown_run: ShownRun, event: Compacted) -> None:
        sizes = [str(size) for size in (event.before_tokens, event.after_tokens) if size is not None]
        change = f" ({' → '.join(sizes)} tokens)" if sizes else ""
        self._messages.notice(
            shown_run, "info", f"the context was shortened{change}", "compacted", event.timestamp_ms
        )

    def _warning(self, shown_run: ShownRun, event: Warning) -> None:
        self._messages.notice(shown_run, "warning", event.message, event.code, event.timestamp_ms)

    def _info(self, shown_run: ShownRun, event: Info) -> None:
        if event.message:
            self._messages.notice(shown_run, "info", event.message, event.code, event.timestamp_ms)

    def _unknown(self, shown_run: ShownRun, event: Unknown) -> None:
        text = event.raw if isinstance(event.raw, str) else event.reason
        if text:
            self._messages.notice(shown_run, "info", text[:_LONGEST_UNKNOWN], "unknown", event.timestamp_ms)


def _waiting(message_id: str, text: str, event: Event) -> shapes.Data:
    """A user's message that is still queued."""
    message = shapes.message(message_id, "user", status="pending", created_ms=event.timestamp_ms, run_id="")
    message["content"] = text
    message["parts"] = [{"type": "text", "text": text}]
    return message


_CALM = ("completed", "interrupted")
"""Outcomes that are not errors: the run completed, or the user stopped it."""
_OF_HIDDEN_RUNS = frozenset((vocabulary.UsageDelta, Relay, RelayReply))
"""What a run uses and asks is shown also when there is no place for its output."""


class _Index(msgspec.Struct):
    """What the fold stores besides the state itself."""

    runs: dict[str, ShownRun] = {}
    before: Usage = Usage()
    """The usage of the top runs that have ended, and of runs that have no place in the state."""
    messages: int = 0
    relays: dict[str, int] = {}
    queued: dict[str, str] = {}
    """Positions of queued messages, by the id of the follow-up."""


class StateFold:
    """`feed` returns the operations of one event. Its snapshot is plain data."""

    def __init__(self, session_id: str = "", title: str = "", runs: RunTree | None = None) -> None:
        """`runs`: the run tree of the same log, if another reader shares it."""
        self._runs = runs or RunTree()
        self._set_up(shapes.new_state(session_id, title), _Index())

    @property
    def value(self) -> dict[str, Any]:
        return self._tree.value

    def share(self, runs: RunTree | None) -> None:
        """Continue with another tree of the same log, at the same event; None: with a private copy."""
        if runs is None:
            runs = RunTree()
            runs.restore(self._runs.snapshot())
        self._runs = runs
        self._relays.use(runs)

    @property
    def seq(self) -> int:
        seq: int = self._tree.at(("seq",))
        return seq

    def encoded(self) -> bytes:
        """The state as JSON."""
        return self._tree.encoded()

    def feed(self, event: Event, /) -> list[ObjectChange]:
        runs = self._runs
        run = runs.feed(event)
        if runs.began or runs.ended:
            self._note_runs(event, run)
        handler = self._handlers.get(type(event)) if runs.withdrawn is None else self._withdraw
        if handler is not None:
            shown_run = self._shown_run(event.run_id)
            if not shown_run.is_hidden or type(event) in _OF_HIDDEN_RUNS:
                handler(shown_run, event)
            if shown_run.is_ended:
                self._close_late(shown_run)
        self._tree.set(("seq",), event.seq + 1 if event.seq >= 0 else self.seq + 1)
        return self._tree.take_operations()

    def _withdraw(self, shown_run: ShownRun, _event: Event) -> None:
        if self._runs.withdrawn is not None:
            self._messages.withdraw(shown_run, self._runs.withdrawn)

    def note(self, name: str, value: Any) -> list[ObjectChange]:
        """Set something that the log does not say: the state shows `value` under `name`."""
        self._tree.change((name,), value)
        return self._tree.take_operations()

    @property
    def is_going_on(self) -> bool:
        """Whether the latest run has neither ended nor been suspended."""
        return self._runs.open_top is not None

    def abandon(self) -> list[ObjectChange]:
        """The log has no writer any more: what is open in it was interrupted."""
        self._end_all(self._runs.abandon())
        return self._tree.take_operations()

    def snapshot(self) -> dict[str, Any]:
        index = msgspec.to_builtins(self._index)
        return {"state": self._tree.value, "index": index, "runs": self._runs.snapshot()}

    def restore(self, snapshot: Mapping[str, Any], /) -> None:
        self._runs.restore(snapshot["runs"])
        self._set_up(
            msgspec.json.decode(msgspec.json.encode(snapshot["state"])),
            msgspec.convert(snapshot["index"], _Index),
        )

    def _set_up(self, state: dict[str, Any], index: _Index) -> None:
        self._index = index
        self._tree = Tree(state)
        self._messages = MessageWriter(self._tree, self._new_id, index.queued)
        self._calls = Calls(self._tree, self._messages)
        self._relays = Relays(self._tree, self._calls, index.relays, self._runs)
        self._conversation = Conversation(self._tree, self._messages, index.queued)
        self._handlers = self._all_handlers()

    def _all_handlers(self) -> dict[type[Event], Callable[[ShownRun, Any], None]]:
        messages, calls = self._messages, self._calls
        return {
            SessionStart: self._begin,
            Result: self._end,
            vocabulary.TextDelta: messages.text,
            vocabulary.ReasoningDelta: messages.reasoning,
            vocabulary.Message: self._message,
            vocabulary.ToolInputDelta: calls.writing,
            vocabulary.ToolStart: calls.start,
            vocabulary.ToolProgress: calls.progress,
            vocabulary.ToolEnd: calls.end,
            vocabulary.ReplInput: calls.repl_input,
            vocabulary.ReplProgress: calls.repl_progress,
            vocabulary.ReplOutput: calls.repl_output,
            vocabulary.Forked: calls.forked,
            vocabulary.Relay: self._relays.asked,
            vocabulary.RelayReply: self._relays.answered,
            vocabulary.UsageDelta: self._usage,
            vocabulary.Error: self._error,
            vocabulary.Suspended: self._suspended,
            vocabulary.Resumed: self._resumed,
            **self._conversation.handlers,
        }

    def _shown_run(self, run_id: str) -> ShownRun:
        shown_run = self._index.runs.get(run_id)
        if shown_run is None:
            shown_run = self._index.runs[run_id] = ShownRun(run_id)
        return shown_run

    def _note_runs(self, event: Event, run: RunNode) -> None:
        """Handle runs that ended without a `Result`, and a run that begins without a start."""
        self._end_all(ended_run for ended_run in self._runs.ended if ended_run is not run)
        shown_run = self._shown_run(event.run_id)
        if shown_run.is_hidden:
            self._relays.close()
        if self._runs.began:
            shown_run.is_hidden = bool(run.depth) and not self._has_place(run)
            if not shown_run.is_hidden and type(event) is not SessionStart:
                self._begin(shown_run, SessionStart(run_id=run.id, timestamp_ms=event.timestamp_ms))

    def _has_place(self, run: RunNode) -> bool:
        """Whether the call that started a sub-agent is known, and shown."""
        is_known = bool(run.call_id) and self._runs.get(run.parent) is not None
        return is_known and not self._shown_run(run.parent).is_hidden

    def _end_all(self, runs: Iterable[RunNode]) -> None:
        for run in runs:
            result = Result(success=False, outcome="interrupted", run_id=run.id)
            self._end(self._shown_run(run.id), result)

    def _new_id(self) -> str:
        self._index.messages += 1
        return f"message-{self._index.messages}"

    def _begin(self, shown_run: ShownRun, event: SessionStart) -> None:
        if shown_run.position >= 0:
            self._continue(shown_run, event)
            return
        shown_run.is_ended = False
        shown_run.position = len(self._tree.at(("runs",)))
        self._tree.push(("runs",), shapes.run(event))
        run = self._runs.run
        if run.depth:
            shown_run.parent_call = run.call_id
            caller = self._shown_run(run.parent)
            shown_run.home = self._calls.home_below(caller, run.call_id, event.timestamp_ms)
            if caller.is_ended:
                self._close_late(caller)
            return
        if shown_run.used:
            self._index.before = self._index.before.minus(shown_run.used)
        if not self._tree.at(("sessionId",)):
            self._tree.set(("sessionId",), event.run_id)
        self._describe((), agent=event.agent, model=event.model, cwd=event.cwd)
        self._show_running()

    def _continue(self, shown_run: ShownRun, event: Event) -> None:
        """A run that is shown already has its start now, or is open again after it was suspended or had ended."""
        run = ("runs", str(shown_run.position))
        if self._runs.restarted:
            self._messages.leave_open_texts(shown_run)
        if isinstance(event, SessionStart):
            self._describe(run, agent=event.agent, model=event.model, name=event.name)
        self._tree.change((*run, "status"), "running")
        if not shown_run.parent_call:
            if shown_run.is_ended:
                if isinstance(event, SessionStart):
                    shown_run.used_earlier = shown_run.used_earlier.plus(shown_run.used)
                    shown_run.used = shown_run.reported = Usage()
                    shown_run.stated = shown_run.stated_usd = None
                else:
                    self._index.before = self._index.before.minus(shown_run.used)
                # The run that this one has ended was shown first, with what this one had used counted twice.
                self._tree.change(("usage",), shapes.usage(self._used()))
            if self._messages.is_followed(shown_run):
                self._messages.close(shown_run, "complete")
            if isinstance(event, SessionStart):
                self._describe((), agent=event.agent, model=event.model, cwd=event.cwd)
            self._show_running()
        shown_run.is_ended = False

    def _describe(self, place: Path, **values: str) -> None:
        for name, value in values.items():
            if value:
                self._tree.change((*place, name), value)

    def _show_running(self) -> None:
        self._tree.change(("status",), "running")
        if self._tree.at(()).get("error") is not None:
            self._tree.set(("error",), None)

    def _end(self, shown_run: ShownRun, event: Result) -> None:
        if shown_run.is_ended:
            return
        is_error = not event.success and event.outcome not in _CALM
        answer = self._runs.said
        if (
            answer is not None
            and not shown_run.is_hidden
            and shown_run.run_id == answer.run_id == event.run_id
        ):
            self._messages.message(shown_run, answer)
        self._calls.close_all(shown_run)
        if shown_run.message is None and shown_run.early_notices:
            self._messages.current(shown_run, event.timestamp_ms)
        self._messages.close(shown_run, "error" if is_error else "complete")
        shown_run.streams.clear()
        if shown_run.position >= 0:
            run = ("runs", str(shown_run.position))
            self._tree.set((*run, "status"), event.outcome)
            self._tree.change((*run, "durationMs"), event.duration_ms)
        self._relays.close()
        if not shown_run.parent_call and not shown_run.is_hidden:
            shown_run.stated, shown_run.stated_usd = event.usage, event.total_cost_usd
            shown_run.used = settled(shown_run.reported, shown_run.stated, shown_run.stated_usd)
            self._index.before = self._index.before.plus(shown_run.used)
            self._show_usage(shown_run)
            if is_error:
                self._tree.set(("error",), shown_run.error or event.outcome.replace("_", " "))
            if self._runs.open_top is None:
                self._tree.change(("status",), "error" if is_error else "idle")
        shown_run.is_ended = True

    def _close_late(self, shown_run: ShownRun) -> None:
        """What comes after the end of its run is shown, but never as open."""
        self._calls.close_all(shown_run)
        if shown_run.message is not None:
            self._tree.change((*shown_run.message, "status"), "complete")

    def _message(self, shown_run: ShownRun, event: vocabulary.Message) -> None:
        if event.role != "user" or not self._conversation.was_queued(shown_run, event):
            self._messages.message(shown_run, event)

    def _usage(self, shown_run: ShownRun, event: vocabulary.UsageDelta) -> None:
        """Add it to the run and to the top run above it; if the run is unknown, only to the latest top run."""
        top = self._shown_run(top_of(self._runs, event))
        is_known = self._runs.get(event.run_id) is not None
        for counted_run in (shown_run, top) if is_known and top is not shown_run else (top,):
            before, counted_run.reported = counted_run.used, counted_run.reported.plus(event.usage)
            counted_run.used = settled(
                counted_run.reported, counted_run.stated, counted_run.stated_usd
            )  # a late report may be a part of the total
            if counted_run is top and (counted_run.is_ended or counted_run.position < 0):
                self._index.before = self._index.before.minus(before).plus(counted_run.used)
            self._show_usage(counted_run)

    def _show_usage(self, shown_run: ShownRun) -> None:
        if shown_run.position >= 0:
            total = shown_run.used_earlier.plus(shown_run.used)
            self._tree.set(("runs", str(shown_run.position), "usage"), shapes.usage(total))
        if not shown_run.parent_call:
            self._tree.set(("usage",), shapes.usage(self._used()))

    def _used(self) -> Usage:
        """Of all top runs together."""
        total = self._index.before
        for run in self._runs.unfinished:
            if not run.depth:
                total = total.plus(self._shown_run(run.id).used)
        return total

    def _error(self, shown_run: ShownRun, event: vocabulary.Error) -> None:
        shown_run.error = event.message
        self._messages.notice(shown_run, "error", event.message, event.code, event.timestamp_ms)

    def _suspended(self, shown_run: ShownRun, _event: vocabulary.Suspended) -> None:
        if shown_run.position >= 0 and not shown_run.is_ended:
            self._tree.change(("runs", str(shown_run.position), "status"), "suspended")

    def _resumed(self, shown_run: ShownRun, event: vocabulary.Resumed) -> None:
        if shown_run.position >= 0 and not shown_run.is_ended:
            self._continue(shown_run, event)
