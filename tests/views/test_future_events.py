"""A new event is one class: every reader of a log ignores what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import product
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest

import harness.views
from changed_logs import FromTheFuture, numbered
from harness.conversation.history import history
from harness.events import (
    Event,
    Message,
    Relay,
    Result,
    SessionStart,
    Suspended,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unrecognized,
    Usage,
    UsageDelta,
)
from harness.folds.changes.fold import ChangeHistory
from harness.folds.handed_conversation import conversation_of
from harness.folds.inbox.fold import InboxFold, Surroundings
from harness.folds.page_state.fold import StateFold
from harness.folds.run_events.runner_events import RunnerTranslation
from harness.log.log_summary import LogSummary
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.runs.audit import runs_in
from harness.session.thread_fold import ThreadFold
from harness.stage import ViewOptions, run_through
from harness.tui.transcript_lines import TranscriptLines
from harness.usage.ledger import Account
from harness.views.display import DisplayFold
from showing import shown_bytes

VIEWS = [
    module.name
    for module in iter_modules(harness.views.__path__)
    if not module.ispkg and module.name != "log"
]
RUN: list[Event] = [
    SessionStart(run_id="top", agent="claude", session_id="s"),
    Message(run_id="top", role="user", text="Hi"),
    TextDelta(run_id="top", id="m", text="Hel"),
    TextDelta(run_id="top", id="m", text="lo"),
    Message(run_id="top", id="m", role="assistant", text="Hello"),
    ToolStart(run_id="top", call_id="c", tool_name="agent", input={}),
    SessionStart(run_id="kid", parent_id="c", agent="claude"),
    Message(run_id="kid", role="assistant", text="below"),
    Result(run_id="kid", success=True),
    ToolEnd(run_id="top", call_id="c", tool_name="agent", success=True, output="done"),
    UsageDelta(run_id="top", usage=Usage(input=1, output=2)),
    Relay(run_id="top", id="q", kind="question", question="Which?"),
    Suspended(run_id="top"),
    Result(run_id="top", success=True, text="Hello"),
]
PLACES = {"before the start": 0, "between two pieces": 3, "within the child": 8, "at the end": len(RUN)}
RUN_IDS = ("top", "kid", "unheard of", "")
COUNTING = ("state", "delta", "transcript")
"""Views that count events, or say that there is one of a newer version."""


def _with(event: Event, place: int) -> list[Event]:
    """Numbered as the log without it is, so that nothing else differs."""
    log = numbered(RUN)
    near = log[min(place, len(log) - 1)]
    at = {"seq": near.seq, "timestamp_ms": near.timestamp_ms}
    return [*log[:place], msgspec.structs.replace(event, **at), *log[place:]]


def _fed(reader: Any, log: Iterable[Event]) -> Any:
    for event in log:
        reader.feed(event)
    return reader


def _account(log: list[Event]) -> Any:
    account = Account(runs=None)
    account.feed(Metadata(session_id="x"), log)
    return msgspec.to_builtins(account)


def _facts(log: list[Event]) -> Any:
    fold = ThreadFold()
    for event in log:
        fold.take(event)
    return msgspec.to_builtins(fold.facts.open_run), fold.facts.last_outcome, fold.display.token_usage


def _runner_events(log: list[Event]) -> list[str]:
    """Each event of the log is one of a runner; what is none of its kinds is called `log`."""
    translation = RunnerTranslation()
    known = [one for event in log if type(event) is not FromTheFuture for one in translation.feed(event)]
    future = [one for event in log if type(event) is FromTheFuture for one in translation.feed(event)]
    assert {one.name for one in future} <= {"log"}
    return [one.name for one in known]


def _terminal_lines(log: list[Event]) -> list[str]:
    lines = TranscriptLines(80)
    lines.feed(log)
    return lines.lines


READERS: dict[str, Callable[[list[Event]], Any]] = {
    "run tree": lambda log: _fed(RunTree(), log).snapshot(),
    "display": lambda log: _fed(DisplayFold(), log).value.token_usage,
    "state": lambda log: {**_fed(StateFold("s"), log).value, "seq": 0},
    "facts": _facts,
    "ledger": _account,
    "history": lambda log: history(log).turns,
    "log summary": lambda log: LogSummary().feed(log),
    "audit": lambda log: [(run.id, run.has_ended) for run in runs_in(log)],
    "inbox": lambda log: _fed(InboxFold(Metadata(session_id="x")), log).row(Surroundings(is_live=True)),
    "changes": lambda log: _fed(ChangeHistory(), log).turns.keys(),
    "handover": lambda log: conversation_of(log).turns,
    "lines of the terminal interface": _terminal_lines,
    "runner events": _runner_events,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_reader_ignores_an_event_from_the_future(reader: str) -> None:
    read = READERS[reader]
    for place, run_id in product(PLACES, RUN_IDS):
        log = _with(FromTheFuture(run_id=run_id), PLACES[place])
        assert read(log) == read(numbered(RUN)), (place, run_id)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_ignores_an_event_from_the_future(view: str) -> None:
    for place, run_id in product(PLACES, RUN_IDS):
        log = _with(FromTheFuture(run_id=run_id), PLACES[place])
        if view in COUNTING:
            options = ViewOptions(usage=True, reasoning=True)
            assert b"".join(run_through(import_module(f"harness.views.{view}").open(options), log))
        else:
            shown = shown_bytes(view, log, usage=True)
            assert shown == shown_bytes(view, numbered(RUN), usage=True), (place, run_id)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_shows_a_log_of_events_from_the_future(view: str) -> None:
    log = [FromTheFuture(run_id="top"), Unrecognized(run_id="top", unread={"type": "Later"})]
    assert isinstance(shown_bytes(view, log), bytes)
