"""The runs in one log: which events belong to which of them, and what ends one whose process died."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from harness.events import (
    Event,
    Message,
    RelayReply,
    Result,
    SessionStart,
    StepEnd,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.events.steering import Steering
from harness.log.ids import is_run_id
from harness.log.raw import RawExit, RawStart, RawWriter
from harness.log.run_tree import RunTree
from harness.log.stores.files import FileStore
from harness.sources.translation.run_lifecycle import RunLifecycle

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
        run.has_ended = run.has_ended or (type(event) is Result and event.run_id == top_id)
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
