"""Folds a log into its row of the inbox.

Which runs there are, and what they ask, is decided by the run tree alone; this fold adds what a row says besides.

Rules
1. What waits for an answer comes first, whichever run of the session asks; then what works, also below a run that
   has ended its turn; then how the last top run ended.
2. Whether the process runs is not in the log: the reader gives it. An open run without a process is `lost`; a
   suspended run needs no process to wait.
3. Cost follows the rules of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from harness.events import (
    Compacted,
    Error,
    Event,
    FollowUpsChanged,
    Info,
    Message,
    ModelCall,
    ModelChanged,
    Relay,
    RelayReply,
    ReplInput,
    Result,
    SessionStart,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command as CommandOperation
from harness.events.usage import CLASSES, Usage
from harness.folds import limits
from harness.folds.changes.fold import ChangedFiles, FileTotals
from harness.folds.inbox.asks import ask_of
from harness.folds.inbox.failures import LOST, PROGRAM_CLOSED, failure_text, login_hint
from harness.folds.inbox.previews import TextReader
from harness.folds.inbox.reading_commands import may_change_files
from harness.folds.inbox.row import (
    NEEDS_YOU,
    InboxRow,
    InboxState,
    RowAsk,
    RowCan,
    RowChanges,
    RowChild,
    RowContext,
    RowFailure,
    RowOperation,
    RowProject,
    row_limit,
)
from harness.folds.limits import LimitFacts
from harness.formatting.calls import words
from harness.formatting.escapes import single_line
from harness.log.run_tree import RunNode, RunTree
from harness.log.store import Metadata
from harness.usage.ledger import Account, Ledger, total
from harness.usage.prices import Prices

_LONGEST_WORDS = 400
_LONGEST_OPERATION = 160
_LONGEST_ERROR = 1_200
_LONGEST_TITLE = 80
_BACKGROUND_FLAGS = ("run_in_background", "is_background", "background", "isBackground")
"""Arguments with which agents start a command that outlives its call."""
_ENDS: Mapping[str, InboxState] = {
    "completed": "succeeded",
    "interrupted": "interrupted",
    "unknown": "idle",
    "": "idle",
}
"""Every other outcome is a failure."""
_REFUSED = "permission_denied"
"""The code of the `Warning` for a call that the agent itself was not allowed."""


class _RunFacts(msgspec.Struct, omit_defaults=True):
    """What is known of a run that has not ended, besides the tree."""

    began_ms: int = 0
    operation: RowOperation | None = None
    """The last one; None while it writes text, or before it did anything."""
    text_id: str = ""
    words: str = ""
    """The end of its last text."""
    is_resting: bool = False
    """The last it did was to end a message."""
    jobs: int = 0
    """Commands in the background that have not ended, as far as the agent says."""
    used: Usage = Usage()
    context: int | None = None
    error: str = ""
    error_code: str = ""


class _InboxFacts(msgspec.Struct, omit_defaults=True):
    next_seq: int = 0
    runs: dict[str, _RunFacts] = {}
    agent: str = ""
    model: str = ""
    cwd: str = ""
    prompt: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    since_ms: int = 0
    """When a run began or ended last, or the last open question was answered."""
    outcome: str = ""
    failure: RowFailure | None = None
    is_lost: bool = False
    """The log was completed because its process died."""
    last_operation: RowOperation | None = None
    context: int | None = None
    queued: int = 0
    session_id: str = ""
    changed_ms: int = 0
    """When a file was changed last."""
    has_commands: bool = False
    """Whether a command ran that may have changed files: what it changed is not in the log."""
    limits: LimitFacts = msgspec.field(default_factory=LimitFacts)
    refused: int = 0
    """Calls of the last top run, and below it, that were not allowed."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says that is not in the log: given by the reader."""

    is_live: bool = False
    """A process runs it."""
    is_working: bool = False
    """A message was given to it: a run begins, also before the agent has said anything."""
    can: RowCan = RowCan()
    project: RowProject = RowProject()
    branch: str = ""
    worktree: str = ""
    seen_ms: int = 0
    """When a person opened it last."""
    reviewed_ms: int = 0
    """When a person committed its changes, or called them reviewed."""
    text_of: TextReader = lambda _path: None
    """The files as they are now, for what a question shows around a change."""


class InboxFold:
    """Contract: that of `Fold`; its value is the row as of a log without a process."""

    def __init__(
        self,
        metadata: Metadata,
        *,
        prices: Prices | None = None,
        limit_of: Callable[[str], int | None] = lambda _model: None,
        login_of: Callable[[str], str] = lambda _agent: "",
    ) -> None:
        """`limit_of`: the size of a model's context window, where it is known. `login_of`: how one logs in to an
        agent, by its name.
        """
        self.metadata = metadata
        self._prices = prices or Prices("", {})
        self._limit_of = limit_of
        self._login_of = login_of
        self._runs = RunTree()
        self._facts = _InboxFacts()
        self._account = Account(runs=None)
        self._changes = ChangedFiles(tree=self._runs)
        self._own_from = 0 if metadata.fork is None else metadata.fork.seq
        self._cost: tuple[float | None, bool, int | None] | None = None

    @property
    def next_seq(self) -> int:
        return self._facts.next_seq

    @property
    def is_open(self) -> bool:
        """Whether a run has neither ended nor been suspended."""
        return self._runs.open_top is not None

    @property
    def changed_paths(self) -> list[str]:
        """The files that its edits changed, as the agent named them."""
        return list(self._changes.state)

    @property
    def urgent(self) -> object:
        """Changes with what a person must see at once: what is asked, and which run is open."""
        top = self._runs.top
        return tuple(self._runs.open_relays), None if top is None else (top.id, top.status)

    @property
    def value(self) -> InboxRow:
        return self.row(Surroundings())

    def finish(self) -> Sequence[Event]:
        return ()

    def feed(self, event: Event, /) -> Sequence[Event]:
        facts, tree = self._facts, self._runs
        run = tree.feed(event)
        facts.next_seq = event.seq + 1 if event.seq >= 0 else facts.next_seq + 1
        facts.updated_ms = max(facts.updated_ms, event.timestamp_ms)
        if type(event) is TextDelta and not tree.began:
            self._on_text(event, run)
            return ()
        if tree.began:
            self._begin(run, event)
        if type(event) in limits.TAKEN:
            limits.take(facts.limits, event, run)
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, run)
        if event.seq >= self._own_from or event.seq < 0:
            self._note_usage(event)
            if self._changes.feed(event):
                facts.changed_ms = event.timestamp_ms
        if tree.relays and not tree.open_relays:
            facts.since_ms = event.timestamp_ms
        for run_below in tree.ended:
            self._end(run_below, event)
        return ()

    def snapshot(self) -> Any:
        self._account.runs = None
        return {
            "facts": msgspec.to_builtins(self._facts),
            "runs": self._runs.snapshot(),
            "account": msgspec.to_builtins(self._account),
            "changes": msgspec.to_builtins(self._changes.state),
        }

    def restore(self, snapshot: Any, /) -> None:
        """Raises msgspec.ValidationError."""
        self._facts = msgspec.convert(snapshot["facts"], _InboxFacts)
        self._account = msgspec.convert(snapshot["account"], Account)
        self._runs.restore(snapshot["runs"])
        changed = msgspec.convert(snapshot["changes"], dict[str, FileTotals])
        self._changes = ChangedFiles(changed, self._runs)
        self._cost = None

    def row(self, around: Surroundings) -> InboxRow:
        facts, metadata = self._facts, self.metadata
        state, since_ms = self._state(around)
        asks = self._asks(around) if state in NEEDS_YOU else ()
        cost_usd, is_complete, tokens = self._costs()
        failure = self._failure(state)
        is_over = state in ("succeeded", "failed", "lost") or failure is not None
        model = facts.model or metadata.model
        return InboxRow(
            id=metadata.session_id,
            title=metadata.name or _first_line(metadata.prompt or facts.prompt),
            agent=metadata.agent or facts.agent,
            agent_name=metadata.agent_name or facts.agent,
            model=model,
            cwd=metadata.cwd or facts.cwd,
            project=around.project,
            branch=around.branch,
            worktree=around.worktree,
            tags=tuple(metadata.tags),
            state=state,
            state_since_ms=since_ms,
            is_live=around.is_live,
            failure=failure,
            limit=row_limit(facts.limits),
            last_operation=self._last_operation(),
            asks=asks,
            children=self._children(),
            context=self._context(model),
            changes=self._changed_files(around.reviewed_ms),
            cost_usd=cost_usd,
            is_cost_complete=is_complete,
            tokens=tokens,
            queued=facts.queued,
            refused=facts.refused,
            started_ms=facts.started_ms or metadata.created_ms,
            updated_ms=max(facts.updated_ms, metadata.updated_ms),
            is_unseen=is_over and since_ms > around.seen_ms,
            can=around.can,
        )

    # What the state is.

    def _state(self, around: Surroundings) -> tuple[InboxState, int]:
        facts, tree = self._facts, self._runs
        top = tree.unfinished_top
        can_wait = around.is_live or (top is not None and top.status == "suspended")
        if tree.open_relays and can_wait:
            relays = tree.open_relays.values()
            state: InboxState = "asks"
            if any(relay.kind == "permission" for relay in relays):
                state = "needs-approval"
            return state, min(relay.timestamp_ms for relay in relays)
        if top is None and around.is_working:
            return "running", max(self.metadata.updated_ms, facts.since_ms)
        if top is None and facts.limits.parked is not None:
            return "parked", facts.since_ms
        if top is None:
            end_state: InboxState = "lost" if facts.is_lost else _ENDS.get(facts.outcome, "failed")
            is_resting = end_state == "succeeded" and around.is_live and self.metadata.kind == "thread"
            return ("idle" if is_resting else end_state), facts.since_ms or self.metadata.created_ms
        if not around.is_live:
            return "lost", facts.updated_ms
        return ("background" if self._waits_for_job(top) else "running"), facts.since_ms

    def _waits_for_job(self, top: RunNode) -> bool:
        facts = self._facts.runs.get(top.id)
        has_children = any(run.depth for run in self._runs.unfinished)
        return (
            facts is not None and bool(facts.jobs) and facts.is_resting and not top.calls and not has_children
        )

    def _failure(self, state: InboxState) -> RowFailure | None:
        if state in ("failed", "interrupted"):
            return self._facts.failure
        if state == "lost":
            return RowFailure(code=LOST, text="its process ended without a result")
        return None

    def _last_operation(self) -> RowOperation | None:
        top = self._runs.unfinished_top
        return self._facts.last_operation if top is None else self._operation_of(top.id)

    def _operation_of(self, run_id: str) -> RowOperation | None:
        facts = self._facts.runs.get(run_id)
        if facts is None:
            return None
        if facts.operation is None and facts.words:
            return RowOperation(kind="text", text=_shortened(_last_line(facts.words)))
        return facts.operation

    # What it asks, and what works below it.

    def _asks(self, around: Surroundings) -> tuple[RowAsk, ...]:
        relays = sorted(self._runs.open_relays.values(), key=lambda relay: relay.timestamp_ms)
        return tuple(self._ask(relay, around) for relay in relays)

    def whole_ask(self, ask_id: str, around: Surroundings) -> RowAsk | None:
        """An open question with all that it is about; None: it is not open."""
        relay = self._runs.open_relays.get(ask_id)
        return None if relay is None else self._ask(relay, around, is_whole=True)

    def _ask(self, relay: Relay, around: Surroundings, *, is_whole: bool = False) -> RowAsk:
        run = self._runs.get(relay.run_id)
        facts = self._facts.runs.get(relay.run_id)
        return ask_of(
            relay,
            run.calls.get(relay.call_id) if run is not None else None,
            cwd=self.metadata.cwd or self._facts.cwd,
            project=around.project.root,
            run_name=self._name_of(run) if run is not None and run.depth else "",
            why="" if facts is None else single_line(facts.words.strip()),
            text_of=around.text_of,
            is_whole=is_whole,
        )

    def _children(self) -> tuple[RowChild, ...]:
        asking = {relay.run_id: relay.kind for relay in self._runs.open_relays.values()}
        children: list[RowChild] = []
        for run in self._runs.unfinished:
            facts = self._facts.runs.get(run.id)
            if not run.depth or facts is None:
                continue
            state: InboxState = "running"
            if run.id in asking:
                state = "needs-approval" if asking[run.id] == "permission" else "asks"
            children.append(
                RowChild(
                    run_id=run.id,
                    name=self._name_of(run),
                    state=state,
                    started_ms=facts.began_ms,
                    tokens=_tokens(facts.used),
                    last_operation=self._operation_of(run.id),
                )
            )
        return tuple(children)

    def _name_of(self, run: RunNode) -> str:
        return run.start.name if run.start is not None and run.start.name else "sub-agent"

    # What it costs.

    def _note_usage(self, event: Event) -> None:
        tree, facts = self._runs, self._facts
        is_other = bool(event.session_id) and event.session_id != facts.session_id
        if type(event) in _OF_USAGE or is_other or tree.began or tree.ended:
            facts.session_id = event.session_id or facts.session_id
            self._account.take(self.metadata, event, tree)
            self._cost = None

    def _costs(self) -> tuple[float | None, bool, int | None]:
        if self._cost is None:
            amount = total(Ledger([self._account]).charges(self._prices, lambda _at_ms: ""))
            counts = [count for name in CLASSES if (count := getattr(amount, name)) is not None]
            self._cost = amount.cost_usd, amount.is_cost_complete, sum(counts) if counts else None
        return self._cost

    def _changed_files(self, reviewed_ms: int) -> RowChanges | None:
        changed = self._changes
        if not changed.files:
            return None
        at_ms = self._facts.changed_ms
        return RowChanges(
            files=changed.files,
            added=changed.added,
            removed=changed.removed,
            changed_ms=at_ms,
            is_complete=not self._facts.has_commands,
            is_reviewed=at_ms <= reviewed_ms,
        )

    def _context(self, model: str) -> RowContext | None:
        token_count, limit = self._facts.context, self._limit_of(model)
        if token_count is None:
            return None
        return RowContext(
            used=token_count, limit=limit if limit is not None and token_count <= limit else None
        )

    # Handlers.

    def _begin(self, run: RunNode, event: Event) -> None:
        facts = self._facts
        facts.runs[run.id] = _RunFacts(began_ms=event.timestamp_ms)
        if not run.depth:
            facts.since_ms = event.timestamp_ms
            facts.started_ms = facts.started_ms or event.timestamp_ms
            facts.outcome, facts.failure, facts.is_lost, facts.refused = "", None, False, 0

    def _end(self, run: RunNode, event: Event) -> None:
        facts = self._facts
        run_facts = facts.runs.pop(run.id, None) or _RunFacts()
        if run.depth:
            return
        facts.last_operation = run_facts.operation or facts.last_operation
        if run.id != self._runs.latest:
            return  # another run has followed it
        facts.since_ms = event.timestamp_ms
        facts.outcome = run.outcome
        facts.is_lost = run.outcome == "interrupted" and run_facts.error_code == LOST
        if run.outcome not in _ENDS:
            duration_ms = event.duration_ms if isinstance(event, Result) else None
            login = self._login_of(self.metadata.agent_name or facts.agent)
            text = failure_text(run.outcome, run_facts.error, duration_ms)
            facts.failure = RowFailure(code=run.outcome, text=text, hint=login_hint(run_facts.error, login))
        elif run.outcome == "interrupted" and run_facts.error_code == PROGRAM_CLOSED:
            facts.failure = RowFailure(code=PROGRAM_CLOSED, text=run_facts.error)

    def _run_facts(self, run: RunNode) -> _RunFacts:
        run_facts = self._facts.runs.get(run.id)
        return _RunFacts() if run_facts is None else run_facts

    def _on_start(self, event: SessionStart, run: RunNode) -> None:
        facts = self._facts
        if not run.depth:
            facts.agent = event.agent or facts.agent
            facts.model = event.model or facts.model
            facts.cwd = event.cwd or facts.cwd

    def _on_model(self, event: ModelChanged, _run: RunNode) -> None:
        self._facts.model = event.model_id or self._facts.model

    def _on_text(self, event: TextDelta, run: RunNode) -> None:
        facts = self._run_facts(run)
        if event.id != facts.text_id:
            facts.text_id, facts.words = event.id, ""
        facts.words = (facts.words + event.text)[-_LONGEST_WORDS:]
        facts.operation, facts.is_resting = None, False

    def _on_message(self, event: Message, run: RunNode) -> None:
        if event.role == "user" and not run.depth and not self._facts.prompt:
            self._facts.prompt = event.text[:2000]
        if event.role != "assistant" or not event.text.strip():
            return
        facts = self._run_facts(run)
        facts.text_id, facts.words = event.id, event.text[-_LONGEST_WORDS:]
        facts.operation, facts.is_resting = None, True

    def _on_call(self, event: ToolStart, run: RunNode) -> None:
        facts = self._run_facts(run)
        facts.is_resting = False
        first = event.operations[0] if event.operations else None
        if first is None:
            facts.operation = RowOperation(kind="tool", text=_shortened(f"Use {event.tool_name}"))
            return
        summary = words(first, self._facts.cwd)
        text = " ".join(filter(None, (summary.verb or "run", summary.subject)))
        facts.operation = RowOperation(
            kind=type(first).__name__.lower(), text=_shortened(text[:1].upper() + text[1:])
        )

    def _on_repl(self, _event: ReplInput, run: RunNode) -> None:
        facts = self._run_facts(run)
        facts.operation, facts.is_resting = RowOperation(kind="command", text="Run a program"), False

    def _on_call_end(self, event: ToolEnd, run: RunNode) -> None:
        start = self._runs.call
        arguments = start.input if start is not None else None
        if isinstance(arguments, dict) and any(arguments.get(name) is True for name in _BACKGROUND_FLAGS):
            self._run_facts(run).jobs += event.success is not False
        operations = event.operations or (start.operations if start is not None else None) or ()
        commands = [operation.command for operation in operations if isinstance(operation, CommandOperation)]
        if commands and not self._facts.has_commands and (event.output is not None or event.success):
            self._facts.has_commands = any(map(may_change_files, commands))

    def _on_activity(self, _event: Event, run: RunNode) -> None:
        self._run_facts(run).is_resting = False

    def _on_usage(self, event: UsageDelta, run: RunNode) -> None:
        if event.counted is not None:
            return
        facts = self._run_facts(run)
        facts.used = facts.used.plus(event.usage)
        if event.id and not run.depth:  # of one model call, whose context this was
            self._facts.context = _tokens(event.usage)

    def _on_compacted(self, event: Compacted, run: RunNode) -> None:
        if not run.depth:
            self._facts.context = event.after_tokens

    def _on_error(self, event: Error, run: RunNode) -> None:
        facts = self._run_facts(run)
        if facts.error_code != PROGRAM_CLOSED:  # what follows that is its effect
            facts.error, facts.error_code = event.message[:_LONGEST_ERROR], event.code

    def _on_notice(self, event: Info | Warning, run: RunNode) -> None:
        facts = self._run_facts(run)
        if event.code == "background_task" and facts.jobs:
            facts.jobs -= 1
        elif event.code == _REFUSED:
            self._facts.refused += 1
        elif event.code == PROGRAM_CLOSED:
            facts.error, facts.error_code = event.message[:_LONGEST_ERROR], event.code

    def _on_reply(self, event: RelayReply, _run: RunNode) -> None:
        # A policy refuses without a question: the reply then has the id of the call.
        is_of_call = any(relay.kind == "permission" for relay in self._runs.relays) or event.by == "policy"
        self._facts.refused += is_of_call and not event.approved

    def _on_queue(self, event: FollowUpsChanged, _run: RunNode) -> None:
        self._facts.queued = len(event.pending)

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[InboxFold, Any, RunNode], None]]] = {
        SessionStart: _on_start,
        ModelChanged: _on_model,
        TextDelta: _on_text,
        Message: _on_message,
        ToolStart: _on_call,
        ReplInput: _on_repl,
        ToolEnd: _on_call_end,
        ToolInputDelta: _on_activity,
        ToolProgress: _on_activity,
        StepStart: _on_activity,
        UsageDelta: _on_usage,
        Compacted: _on_compacted,
        Error: _on_error,
        Info: _on_notice,
        Warning: _on_notice,
        RelayReply: _on_reply,
        FollowUpsChanged: _on_queue,
    }


def _tokens(usage: Usage) -> int | None:
    counts = [count for name in CLASSES if (count := getattr(usage, name)) is not None]
    return sum(counts) if counts else None


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return _shortened(line, _LONGEST_TITLE)


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")


def _shortened(text: str, most: int = _LONGEST_OPERATION) -> str:
    line = single_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


_OF_USAGE = frozenset((UsageDelta, ModelCall, SessionStart, Result, Warning, Info))
