"""The one fold of a log into runs: which runs there are, which run started which, what is open, what was shown.

The states of a run:

            start, or first output               Result; a new top run; the end of the top run above it
    (unknown) ──────────────────► open ──────────────────────────────────────────────────────► ended
                                  │  ▲                                                           ▲ │
                        Suspended │  │ Resumed, or its start once more             Result, alone │ │ start
                                  ▼  │                                                           │ ▼
                                suspended ───────────────────────────────────────────────────────┘ open

Rules
1. A start with a parent begins a child of the run that made that call; of the latest top run, if the call is unknown.
2. A start without a parent begins a top run. Only if it names no agent while a top run is open, it begins a child
   that was not announced: the start of a top run always names its agent.
3. A run whose start is missing begins with its first output (text, message, call, step, question, result): below the
   open top run, or as a top run if none is open. Notices, usage and messages of users begin no run.
4. A top run that begins or resumes while another is open ends the other as `interrupted`. When a top run ends, all
   runs end that are not below another one that is open or suspended. A suspended run ends only by its own result,
   which is also written when it is abandoned.
5. When a run ends, its calls, text streams and questions end. When a run is suspended, the questions of sub-agents
   with logs of their own end: they end with their process.
6. The parent of a run is decided once; a later start only adds its data.
7. Ended runs are dropped, except the last few: memory does not grow with the log.
8. Events of unknown classes change nothing.

Feeding the same event object again is free, so any number of folds can share one tree: the first one feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal
from zlib import crc32

import msgspec

from harness.events import (
    Event,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    Resumed,
    SessionStart,
    Steering,
    StepEnd,
    StepStart,
    Suspended,
    TextDelta,
    TextRetracted,
    ThreadCreated,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)

REPL_TOOL = "repl"
"""The tool name under which a program of a model is shown as a call."""
_MOST_ENDED = 32
_MOST_CALLERS = 256


class Shown(msgspec.Struct, gc=False):
    """What was shown of one stream. A length and a checksum instead of the text itself, so that an
    endless stream costs no memory.
    """

    length: int = 0
    checksum: int = 0

    def add(self, text: str) -> None:
        self.length += len(text)
        self.checksum = crc32(text.encode("utf-8", "surrogatepass"), self.checksum)

    def rest(self, stream_id: str, message: str) -> str | None:
        """The part of a complete message that is not shown yet; None if none of it was shown."""
        length = self.length
        if length and crc32(message[:length].encode("utf-8", "surrogatepass")) == self.checksum:
            return message[length:]
        # The same message by its id, with its end trimmed or redacted differently.
        return "" if stream_id and length and length >= len(message) else None


class RunNode(msgspec.Struct, omit_defaults=True, gc=False):
    """Contract: views read it and never change it. Plain data."""

    id: str
    parent: str = ""
    """The run above it; empty for a top run."""
    call_id: str = ""
    """The call that started it, if known."""
    top: str = ""
    depth: int = 0
    """0 for a top run, 1 for its children, and so on."""
    number: int = 0
    """Of a top run: the first is 1."""
    start: SessionStart | None = None
    status: Literal["open", "suspended", "ended"] = "open"
    outcome: str = ""
    has_spoken: bool = False
    step: str = ""
    texts: dict[str, Shown] = {}
    """Text streams that are not complete."""
    calls: dict[str, ToolStart] = {}
    """Calls that have not ended."""


class RunTreeState(msgspec.Struct, omit_defaults=True):
    """The state of a tree between two events. Plain data."""

    runs: dict[str, RunNode] = {}
    latest: str = ""
    """The last top run."""
    tops: int = 0
    """How many top runs there were."""
    conversation: str | None = None
    """The id of the thread: events with it belong to no run."""
    log_id: str = ""
    callers: dict[str, str] = {}
    """The run of each call of a child run. A call that is not in here was made by a top run."""
    relays: dict[str, Relay] = {}
    ended: list[str] = []
    """The last runs that ended, oldest first."""


class RunTree:
    """`feed` returns the run that an event belongs to. The attributes say what this event changed."""

    def __init__(self, state: RunTreeState | None = None, *, remembered: int = _MOST_ENDED) -> None:
        """`state`: continue from another tree's state. `remembered`: how many ended runs to store."""
        self._state = state if state is not None else RunTreeState()
        self._remembered = remembered
        self.event: Event | None = None
        """The one that was fed last."""
        self._runs = self._state.runs
        self._is_clear = True
        self.run: RunNode = RunNode("")
        self.began: bool = False
        """Whether the run begins with this event."""
        self.restarted: bool = False
        """Whether a run that had started, and has not ended, starts once more: texts that it left open stay as they are."""
        self.ended: Sequence[RunNode] = ()
        """Runs that end with this event, inner ones first. They still contain what they left open."""
        self.shown: Shown | None = None
        """What was shown of the text that this event completes or withdraws."""
        self.said: Message | None = None
        """What an agent has said with this event: its message, or its answer, if only the result has it."""
        self.withdrawn: str | None = None
        """The id of the text that this event withdraws: it counts as never said."""
        self.call: ToolStart | None = None
        """The call that this event continues, ends or repeats."""
        self.relays: Sequence[Relay] = ()
        """Approvals and questions that this event answered, or that ended with their run."""

    @property
    def top(self) -> RunNode | None:
        """The latest top run."""
        return self._runs.get(self._state.latest)

    @property
    def latest(self) -> str:
        """The id of the latest top run; empty before the first."""
        return self._state.latest

    @property
    def log_id(self) -> str:
        """Of the thread, or of the first top run with a start; empty before either."""
        return self._state.log_id

    @property
    def open_top(self) -> RunNode | None:
        """The latest top run, as long as it is neither suspended nor ended."""
        top = self._runs.get(self._state.latest)
        return top if top is not None and top.status == "open" else None

    @property
    def unfinished_top(self) -> RunNode | None:
        """The open top run; if there is none, the last of those that are suspended."""
        top = self.open_top
        if top is None:
            suspended = (run for run in self._runs.values() if run.status == "suspended" and not run.depth)
            top = max(suspended, key=lambda run: run.number, default=None)
        return top

    @property
    def unfinished(self) -> Sequence[RunNode]:
        """All runs that have not ended, in the order in which they began."""
        return [run for run in self._runs.values() if run.status != "ended"]

    @property
    def open_relays(self) -> Mapping[str, Relay]:
        return self._state.relays

    def get(self, run_id: str) -> RunNode | None:
        return self._runs.get(run_id)

    def depth(self, run_id: str) -> int:
        run = self._runs.get(run_id)
        return run.depth if run is not None else int(self.open_top is not None)

    def ancestors(self, run_id: str) -> list[str]:
        """The runs above one, nearest first, up to a top run."""
        above: list[str] = []
        run = self._runs.get(run_id)
        while run is not None and run.parent and run.parent not in above:
            above.append(run.parent)
            run = self._runs.get(run.parent)
        return above

    def feed(self, event: Event, /) -> RunNode:
        if event is self.event:
            return self.run
        self.event = event
        run = self._runs.get(event.run_id)
        if type(event) is TextDelta and run is not None and self._is_clear:
            stream = run.texts.get(event.id)
            if stream is not None:
                stream.add(event.text)
                self.run = run
                return run
        return self._feed(event, run)

    def snapshot(self) -> dict[str, Any]:
        """`state` as plain data."""
        plain: dict[str, Any] = msgspec.to_builtins(self.state())
        return plain

    def state(self) -> RunTreeState:
        """The state itself, not a copy. Clears the attributes of the last event."""
        self._clear()
        return self._state

    def restore(self, snapshot: Any, /) -> None:
        """Raises msgspec.ValidationError."""
        self._state = msgspec.convert(snapshot, RunTreeState)
        self._runs = self._state.runs
        self.event = None

    def abandon(self) -> Sequence[RunNode]:
        """The log has no writer any more: end the open top run as interrupted."""
        self._clear()
        top = self.open_top
        if top is not None:
            self._end(top, "interrupted")
        return self.ended

    def _feed(self, event: Event, run: RunNode | None) -> RunNode:
        if not self._is_clear:
            self._clear()
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            self._is_clear = type(event) is TextDelta
            run = handler(self, event, run)
        if run is None:
            is_below = not isinstance(event, Steering) and event.run_id != self._state.conversation
            run = RunNode(event.run_id, depth=int(is_below and self.open_top is not None))
        self.run = run
        return run

    def _clear(self) -> None:
        self._is_clear = True
        self.began, self.restarted, self.shown, self.said, self.withdrawn = False, False, None, None, None
        self.call, self.relays = None, ()
        if not self.ended:
            return
        ended_ids = self._state.ended
        for run in self.ended:
            run.texts, run.calls, run.start = {}, {}, None
            if not run.depth:
                self._state.callers.clear()
            ended_ids.append(run.id)
        self.ended = ()
        while len(ended_ids) > self._remembered:
            old = self._runs.get(run_id := ended_ids.pop(0))
            if old is not None and old.status == "ended" and run_id not in ended_ids:
                del self._runs[run_id]

    def _begin(
        self, run_id: str, start: SessionStart | None, parent: RunNode | None, call_id: str = ""
    ) -> RunNode:
        self.began = True
        run = self._runs[run_id] = RunNode(run_id, top=run_id, call_id=call_id, start=start)
        if parent is not None:
            run.parent, run.top, run.depth = parent.id, parent.top, parent.depth + 1
        else:
            run.number = self._state.tops = self._state.tops + 1
            self._take_over(run)
        return run

    def _take_over(self, run: RunNode) -> None:
        before = self.open_top
        if before is not None and before is not run:
            self._end(before, "interrupted")
        self._state.latest = run.id

    def _end(self, run: RunNode, outcome: str) -> None:
        below: list[RunNode] = []
        if not run.depth:
            unfinished = self.unfinished
            others = {node.id for node in unfinished if not node.depth and node is not run}
            below = [node for node in unfinished if node.depth and node.top not in others]
            below.sort(key=lambda node: -node.depth)
        for node in below:
            node.status, node.outcome = "ended", "interrupted"
        run.status, run.outcome = "ended", outcome
        self.ended = [*self.ended, *below, run]
        ended_ids = {node.id for node in (*below, run)}
        self._void([relay for relay in self._state.relays.values() if relay.run_id in ended_ids])

    def _void(self, relays: Sequence[Relay]) -> None:
        for relay in relays:
            del self._state.relays[relay.id]
        self.relays = [*self.relays, *relays]

    def _on_start(self, event: SessionStart, run: RunNode | None) -> RunNode:
        if run is not None and run.status != "ended":
            self.restarted = run.start is not None
            if self.restarted:
                run.texts = {}
            run.start = run.start or event  # its output may have come before; its parent was decided then
            run = self._on_resumed(event, run)
        elif event.parent_id or (self.open_top is not None and not event.agent):
            return self._begin_child(event)
        else:
            run = self._begin(event.run_id, event, None)
        if not run.depth:
            self._state.log_id = self._state.log_id or run.id
        return run

    def _begin_child(self, event: SessionStart) -> RunNode:
        caller = self._runs.get(self._state.callers.get(event.parent_id, self._state.latest))
        if caller is None or caller.id == event.run_id:
            run = self._begin(event.run_id, event, RunNode("", depth=0), event.parent_id)
            run.top = ""
            return run
        return self._begin(event.run_id, event, caller, event.parent_id)

    def _on_result(self, event: Result, run: RunNode | None) -> RunNode:
        run = run if run is not None else self._begin(event.run_id, None, self.open_top)
        if run.status != "ended":
            if event.success and event.text and not run.has_spoken:
                seq, at_ms, text = event.seq, event.timestamp_ms, event.text
                self.said = Message(role="assistant", text=text, seq=seq, timestamp_ms=at_ms, run_id=run.id)
            self._end(run, event.outcome)
        return run

    def _on_suspended(self, _event: Suspended, run: RunNode | None) -> RunNode | None:
        if run is not None and run.status == "open":
            run.status = "suspended"
            relays = self._state.relays.values()
            self._void([relay for relay in relays if relay.run_id == run.id and relay.spawn_call_id])
        return run

    def _on_resumed(self, event: Event, run: RunNode | None) -> RunNode:
        if run is None:
            return self._begin(event.run_id, None, None)
        if run.status == "suspended":
            run.status = "open"
            if not run.depth:
                self._take_over(run)
        return run

    def _of_output(self, event: Event, run: RunNode | None) -> RunNode:
        return run if run is not None else self._begin(event.run_id, None, self.open_top)

    def _on_text(self, event: TextDelta, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self._is_clear = not self.began
        if event.text:
            run.has_spoken = True
            run.texts.setdefault(event.id, Shown()).add(event.text)
        return run

    def _on_retraction(self, event: TextRetracted, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.shown, self.withdrawn = run.texts.pop(event.id, None), event.id
        return run

    def _on_message(self, event: Message, run: RunNode | None) -> RunNode | None:
        if event.role != "assistant":
            return run
        run = self._of_output(event, run)
        self.said = event
        self.shown = run.texts.pop(event.id, None)
        run.has_spoken = run.has_spoken or bool(event.text)
        return run

    def rest(self, event: Message) -> str | None:
        """The part of a complete message that is not shown yet; None if none of it was shown."""
        return None if self.shown is None else self.shown.rest(event.id, event.text)

    def _on_tool_start(self, event: ToolStart, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.call = run.calls.get(event.call_id)
        run.calls[event.call_id] = event
        if run.depth:
            callers = self._state.callers
            callers[event.call_id] = run.id
            if len(callers) > _MOST_CALLERS:
                del callers[next(iter(callers))]
        return run

    def _on_progress(self, event: ToolProgress, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.call = run.calls.get(event.call_id)
        return run

    def _on_tool_end(self, event: ToolEnd, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.call = run.calls.pop(event.call_id, None)
        return run

    def _on_repl_input(self, event: ReplInput, run: RunNode | None) -> RunNode:
        code = {"code": event.code}
        start = ToolStart(call_id=event.id, tool_name=REPL_TOOL, input=code, timestamp_ms=event.timestamp_ms)
        return self._on_tool_start(start, self._of_output(event, run))

    def _on_repl_progress(self, event: ReplProgress, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.call = run.calls.get(event.id)
        return run

    def _on_repl_output(self, event: ReplOutput, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        self.call = run.calls.pop(event.id, None)
        return run

    def _on_step(self, event: StepStart, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        run.step, run.texts = event.id, {}
        return run

    def _on_step_end(self, event: StepEnd, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        run.step = ""
        return run

    def _on_relay(self, event: Relay, run: RunNode | None) -> RunNode:
        run = self._of_output(event, run)
        if run.status != "ended":
            self._state.relays[event.id] = event
        return run

    def _on_reply(self, event: RelayReply, run: RunNode | None) -> RunNode | None:
        relay = self._state.relays.pop(event.id, None)
        self.relays = () if relay is None else (relay,)
        return run

    def _on_thread(self, event: ThreadCreated, run: RunNode | None) -> RunNode | None:
        self._state.conversation = self._state.log_id = event.run_id
        return run

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[RunTree, Any, RunNode | None], RunNode | None]]] = {
        SessionStart: _on_start,
        Result: _on_result,
        Suspended: _on_suspended,
        Resumed: _on_resumed,
        TextDelta: _on_text,
        ReasoningDelta: _of_output,
        TextRetracted: _on_retraction,
        Message: _on_message,
        ToolInputDelta: _of_output,
        ToolStart: _on_tool_start,
        ToolProgress: _on_progress,
        ToolEnd: _on_tool_end,
        ReplInput: _on_repl_input,
        ReplProgress: _on_repl_progress,
        ReplOutput: _on_repl_output,
        StepStart: _on_step,
        StepEnd: _on_step_end,
        Relay: _on_relay,
        RelayReply: _on_reply,
        ThreadCreated: _on_thread,
    }
