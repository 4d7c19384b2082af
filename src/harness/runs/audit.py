"""The proof of a log: its raw entries, translated again, give its events again.

`check` compares the two; `recover` completes a log whose writer was killed, from the same entries. In a thread
that goes for each of its runs: one whose process died is completed, unless it may still be answered.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from harness.agents.registry import load
from harness.contracts.translator import Translator
from harness.errors import HarnessError, LogLocked, UnknownAgent
from harness.events import (
    Event,
    Info,
    Message,
    RelayReply,
    Result,
    SessionStart,
    StepEnd,
    Suspended,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    UsageDelta,
    Warning,
)
from harness.events.steering import Steering
from harness.log import codec
from harness.log.hub import Hub
from harness.log.ids import is_run_id
from harness.log.private_files import open_private
from harness.log.raw import (
    RawEntry,
    RawExit,
    RawOutput,
    RawStart,
    RawWriter,
    entries_with_ends,
    read_raw,
)
from harness.log.run_tree import RunTree
from harness.log.store import Store, read_all
from harness.log.stores.files import FileStore
from harness.runs.pipeline import Pipeline
from harness.runs.run_lifecycle import RunLifecycle
from harness.version import __version__

# The runs in one log: which events belong to which of them, and what ends one whose process died.


DIED = "The process ended while the call was running; it is not known how far it came."
_SAID = (Message, TextDelta, ToolStart)


class LoggedRun:
    """A top-level run with everything below it, as far as the log has it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.events: list[Event] = []
        self.has_ended = False

    @property
    def start(self) -> SessionStart | None:
        return next((e for e in self.events if isinstance(e, SessionStart) and e.run_id == self.id), None)

    @property
    def is_written_by_us(self) -> bool:
        """Whether it is the work of a loop in this program, which no raw record proves."""
        return any(type(event).__name__ in ("StepStart", "ReplInput") for event in self.events)

    @property
    def says_something(self) -> bool:
        return says_something(self.events)


def says_something(events: Iterable[Event]) -> bool:
    """Whether an agent was heard: a run that could not begin has nothing to prove."""
    return any(
        isinstance(event, _SAID) and not (isinstance(event, Message) and event.role != "assistant")
        for event in events
    )


def runs_in(events: Iterable[Event], recorded: Collection[str] = ()) -> list[LoggedRun]:
    """The top runs in the order in which they began, each with all that is below it."""
    tree = RunTree()
    runs: dict[str, LoggedRun] = {}
    for event in events:
        node = tree.feed(event)
        if isinstance(event, Steering):
            continue  # said of the run, not by it
        top_id = node.top or (event.run_id if not node.depth else tree.latest)
        if not top_id:
            continue  # the run above it is not in this part of the log
        run = runs.get(top_id)
        if run is None:
            run = runs[top_id] = LoggedRun(top_id)
        run.events.append(event)
        if event.run_id == top_id:
            run.has_ended = type(event) is Result or (run.has_ended and not tree.began)
    return [run for run in runs.values() if run.start is not None or run.id in recorded]


def raw_paths(store: FileStore, log_id: str) -> dict[str, str]:
    """The raw records of a log's runs by run id, those of the logs that it is a fork of among them."""
    paths: dict[str, str] = {}
    next_id: str | None = log_id
    while next_id is not None:
        paths = own_raw_paths(store, next_id) | paths
        fork = store.metadata(next_id).fork
        next_id = fork.log_id if fork is not None else None
    return paths


def own_raw_paths(store: FileStore, log_id: str) -> dict[str, str]:
    suffix = RawWriter.suffix
    found: dict[str, str] = {}
    for name in sorted(os.listdir(store.directory)):
        run_id = name.removeprefix(f"{log_id}.").removesuffix(suffix)
        if name == f"{log_id}.{run_id}{suffix}" and is_run_id(run_id):
            found[run_id] = os.path.join(store.directory, name)
    return found


def closing_events(logged: Sequence[Event], top: str) -> tuple[list[Event], dict[str, str]]:
    """What ends a run that is not continued, from its events alone: close what they show as open."""
    lifecycle, ignored, out = RunLifecycle(), list[Event](), list[Event]()
    lifecycle.begin(RawStart(at_ms=logged[0].timestamp_ms if logged else 0, agent=""))
    lifecycle.accept(
        (replace(event, run_id="" if event.run_id == top else event.run_id) for event in logged), ignored
    )
    lifecycle.end(RawExit(at_ms=logged[-1].timestamp_ms if logged else 0, lost=True), out, announces_end=True)
    return out, {"": top} | {event.run_id: event.run_id for event in logged if event.run_id != top}


def closing_of_loop(logged: Sequence[Event], top: str) -> tuple[list[Event], dict[str, str]]:
    """The same for a loop of ours, which also has steps and questions to be ended."""
    tree = RunTree()
    for event in logged:
        tree.feed(event)
    reason = "the process that asked has ended"
    out: list[Event] = [
        *(
            RelayReply(
                id=relay.id, approved=False, by="policy", reason=reason, run_id=_key(relay.run_id, top)
            )
            for relay in tree.open_relays.values()
        ),
        *(
            StepEnd(id=run.step, stop_reason="cancelled", run_id=_key(run.id, top))
            for run in reversed(tree.unfinished)
            if run.step
        ),
    ]
    closing, run_ids = closing_events(logged, top)
    out += [
        replace(event, output=DIED) if isinstance(event, ToolEnd) and event.output is None else event
        for event in closing
    ]
    return out, run_ids


def _key(run_id: str, top: str) -> str:
    return "" if run_id == top else run_id


RAW = RawWriter.suffix
_SETTLED = "settled"
"""The snapshot that says up to where nothing is left open in a thread."""
_MOST_DIFFERENCES = 20
_OF_THE_DISK = ("log_incomplete", "raw_incomplete")
"""Warnings of ours that no raw record gives: the disk refused for a while. Whether anything is missing follows from the rest."""


class Audit(msgspec.Struct):
    """What `check` found. `problems` is empty when the log is proved."""

    log_id: str
    lines: int = 0
    raw_bytes: int = 0
    events: int = 0
    unknown: int = 0
    rules: dict[str, int] = msgspec.field(default_factory=dict)
    is_original: bool = False
    """The run was made in this process: its log is no translation, and there is nothing to compare it with."""
    problems: list[str] = msgspec.field(default_factory=list)
    recorded_by: str = ""
    """Another version of Harness that recorded it, whose events may say other things of the same records."""
    differences: list[str] = msgspec.field(default_factory=list)
    """What such a version said otherwise, with the same messages and calls."""


def translate(entries: Iterable[RawEntry]) -> tuple[Pipeline, list[Event]]:
    """The events of recorded entries, without stamps, and the pipeline that made them."""
    pipeline: Pipeline | None = None
    events: list[Event] = []
    for entry in entries:
        if pipeline is None:
            if not isinstance(entry, RawStart):
                raise HarnessError("the raw record does not begin with the start of a run")
            pipeline = Pipeline(_translator_of(entry))
        events.extend(pipeline.feed(entry))
    if pipeline is None:
        raise HarnessError("the raw record is empty")
    events.extend(pipeline.finish())
    return pipeline, events


def _translator_of(start: RawStart) -> Translator:
    agent = load(start.native or start.agent)
    is_two_way = start.two_way and agent.two_way is not None
    return agent.two_way.translator() if is_two_way and agent.two_way is not None else agent.translator()


def check(store: FileStore, log_id: str) -> Audit:
    """Prove a log from its files. Raises UnknownSession."""
    audit = Audit(log_id)
    logged = list(read_all(store, log_id))
    audit.events = len(logged)
    audit.unknown = sum(isinstance(event, Unknown) for event in logged)
    _check_order(logged, audit)
    if store.metadata(log_id).kind == "thread":
        return _check_runs(store, logged, audit)
    path = store.path(log_id, RAW)
    if not os.path.exists(path):
        if _runs_in_process(store.metadata(log_id).agent_name):
            audit.is_original = True
        else:
            audit.problems.append("there is no raw record beside this log, so it cannot be proved")
        return audit
    _prove(path, logged, audit, is_live=store.is_live(log_id))
    return audit


def _prove(path: str, logged: list[Event], audit: Audit, *, is_live: bool) -> None:
    """Compare the events of one run with its raw record."""
    entries = list(read_raw(path))
    if not entries and not says_something(logged):
        return  # its process died before it began
    for entry in entries:
        if isinstance(entry, RawOutput):
            audit.raw_bytes += len(entry.data)
            audit.lines += len([line for line in entry.data.split(b"\n") if line])
    try:
        pipeline, expected = translate(entries)
    except HarnessError as error:
        audit.problems.append(error.message)
        return
    rules = Counter(audit.rules)
    rules.update(pipeline.rules)
    audit.rules = dict(sorted(rules.items()))
    audit.problems += [f"lost line: {line[:200]!r}" for line in pipeline.lost[:_MOST_DIFFERENCES]]
    if not is_live:
        differences = list(_differences(expected, _translated(logged)))
        if recorder := _other_recorder(entries):
            audit.recorded_by = recorder
        is_reworded = recorder and _kinds(expected) == _kinds(_translated(logged))
        (audit.differences if is_reworded else audit.problems).extend(differences)


def _other_recorder(entries: Sequence[RawEntry]) -> str:
    """The version that recorded a run, if it is not this one."""
    start = next((entry for entry in entries if isinstance(entry, RawStart)), None)
    if start is None or start.recorder == __version__:
        return ""
    return f"harness {start.recorder}" if start.recorder else "an earlier version of harness"


_BESIDE = (Info, UsageDelta, Warning)
"""What is said beside a conversation: versions differ in when, and how often."""


def _kinds(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events if not isinstance(event, _BESIDE)]


def _check_runs(store: FileStore, logged: list[Event], audit: Audit) -> Audit:
    """The same for each run of a thread."""
    paths = raw_paths(store, audit.log_id)
    is_live = store.is_live(audit.log_id)
    runs = runs_in(logged, paths)
    for run in runs:
        if run.id in paths:
            _prove(paths[run.id], run.events, audit, is_live=is_live)
        elif run.says_something and not run.is_written_by_us and not _is_in_process(run):
            audit.problems.append(f"run {run.id}: there is no raw record, so it cannot be proved")
    audit.is_original = not any(run.id in paths for run in runs)
    return audit


def recover(store: FileStore, log_id: str) -> bool:
    """Complete a log whose writer died: repaired end, missing events, a `Result`. False if there was no need."""
    metadata = store.metadata(log_id)
    if metadata.kind == "thread":
        return recover_thread(store, log_id)
    if metadata.outcome:
        return False
    try:
        writer = store.open(log_id)
    except LogLocked:
        return False
    hub = Hub(store, log_id, writer)
    try:
        logged = list(read_all(store, log_id))
        missing, run_ids = _missing_events(store, log_id, logged)
        hub.append(missing, run_ids)
    finally:
        hub.close()
    result = next((event for event in reversed([*logged, *missing]) if isinstance(event, Result)), None)
    if result is not None:
        metadata.outcome, metadata.success = result.outcome, result.success
        metadata.duration_ms = result.duration_ms
        metadata.total_cost_usd = result.total_cost_usd
    store.save_metadata(metadata)
    return True


def recover_thread(store: Store, log_id: str) -> bool:
    """Complete the runs of a thread whose process died. False if there was no need, or another process writes it.

    A run that waits for an answer is left as it is, and called suspended.
    """
    try:
        writer = store.open(log_id)
    except LogLocked:
        return False
    hub = Hub(store, log_id, writer)
    try:
        if (seen := store.snapshot(log_id, _SETTLED)) is not None and seen[0] == hub.next_seq:
            return False
        before = hub.next_seq
        _settle_runs(store, hub)
        has_changed = hub.next_seq > before
        store.save_snapshot(log_id, _SETTLED, hub.next_seq, b"")
    finally:
        hub.close()
    return has_changed


def _settle_runs(store: Store, hub: Hub) -> None:
    from harness.conversation.history import history

    logged = list(read_all(store, hub.log_id))
    paths = own_raw_paths(store, hub.log_id) if isinstance(store, FileStore) else {}
    pending = history(logged).pending
    runs = runs_in(logged, paths)
    unheard = [LoggedRun(run_id) for run_id in paths.keys() - {run.id for run in runs}]
    for run in [*(run for run in runs if not run.has_ended), *unheard]:
        if run.id in paths:
            events, run_ids = _missing_of(paths[run.id], run.events, run.id)
        elif pending is None or run.id != pending.run_id:
            events, run_ids = closing_of_loop(run.events, run.id)
        else:
            events, run_ids = [] if pending.is_suspended else [Suspended()], {"": run.id}
        hub.append(events, run_ids)


def _missing_events(store: FileStore, log_id: str, logged: list[Event]) -> tuple[list[Event], dict[str, str]]:
    top = logged[0].run_id if logged else log_id
    if logged and isinstance(logged[-1], Result) and logged[-1].run_id == top:
        return [], {"": top}
    path = store.path(log_id, RAW)
    return _missing_of(path, logged, top) if os.path.exists(path) else closing_events(logged, top)


def _missing_of(path: str, logged: list[Event], top: str) -> tuple[list[Event], dict[str, str]]:
    """What the raw record of a run says that its log does not; without a usable one, what ends the run."""
    try:
        _, expected = translate(_completed(path))
    except HarnessError:
        expected = []
    translated = _translated(logged)
    known = _matching(expected, translated)
    if known is not None and len(expected) > len(translated):
        return expected[len(translated) :], {"": top} | known
    return closing_events(logged, top)


def _completed(path: str) -> Iterator[RawEntry]:
    """The entries of a raw file whose writer died, with the exit that was not recorded; the file gets it too.

    One that died before it recorded the start of its run has recorded nothing.
    """
    end = last_ms = 0
    for entry, end in entries_with_ends(path):  # noqa: B007
        last_ms = entry.at_ms
        yield entry
        if isinstance(entry, RawExit):
            return
    if not end:
        return
    fd = open_private(path, os.O_RDWR)
    os.ftruncate(fd, end)
    os.close(fd)
    lost = RawExit(at_ms=last_ms, lost=True)
    writer = RawWriter(path)
    writer.write(lost)
    writer.close()
    yield lost


def _translated(logged: list[Event]) -> list[Event]:
    """What the agent gave: without what is said of the run, and what the disk did."""
    return [
        event
        for event in logged
        if not isinstance(event, Steering) and not (isinstance(event, Warning) and event.code in _OF_THE_DISK)
    ]


def _matching(expected: list[Event], logged: list[Event]) -> dict[str, str] | None:
    """Which key is which run, if the log is a beginning of what is expected; else None."""
    run_ids: dict[str, str] = {}
    for ours, theirs in zip(expected, logged, strict=False):
        if run_ids.setdefault(ours.run_id, theirs.run_id) != theirs.run_id or not _is_same(ours, theirs):
            return None
    return run_ids


def _is_in_process(run: LoggedRun) -> bool:
    return run.start is not None and _runs_in_process(run.start.agent)


def _runs_in_process(agent_name: str) -> bool:
    try:
        return load(agent_name).work is not None
    except UnknownAgent:
        return False


def _check_order(logged: list[Event], audit: Audit) -> None:
    for position, event in enumerate(logged):
        if event.seq != position:
            audit.problems.append(f"seq {event.seq} stands where {position} was expected")
            return


def _differences(expected: list[Event], logged: list[Event]) -> Iterator[str]:
    if len(expected) != len(logged):
        yield f"the raw record gives {len(expected)} events, the log has {len(logged)}"
    run_ids: dict[str, str] = {}
    found = 0
    for ours, theirs in zip(expected, logged, strict=False):
        same_run = run_ids.setdefault(ours.run_id, theirs.run_id) == theirs.run_id
        if same_run and _is_same(ours, theirs):
            continue
        found += 1
        if found > _MOST_DIFFERENCES:
            yield "…"
            return
        yield f"event {theirs.seq} differs: raw gives {_short(ours)}, the log has {_short(theirs)}"


def _is_same(translated: Event, logged: Event) -> bool:
    """Where an agent reported no session, the log has the id of the run in its place."""
    has_none = isinstance(logged, SessionStart) and logged.session_id == logged.run_id
    reported = replace(logged, session_id="") if has_none else logged
    return _bare(translated) == _bare(reported)


def _bare(event: Event) -> bytes:
    """An event without what the hub stamps."""
    if isinstance(event, Result):
        event = replace(event, log_id="")
        if event.usage is not None and event.usage.cost_source == "computed":
            usage = replace(event.usage, cost_usd=None, cost_source="")
            event = replace(event, total_cost_usd=None, usage=usage)
    return codec.encode(replace(event, seq=-1, timestamp_ms=-1, run_id=""))


def _short(event: Event) -> str:
    return _bare(event)[:200].decode("utf-8", "replace")
