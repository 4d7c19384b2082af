"""All readers of a log agree: which runs are on top, how they ended, what waits, what was said and used.

Checked on every recording as it is, and on changed ones: `HARNESS_CHANGED_LOGS` says how many (`make agreement`).
"""

from __future__ import annotations

import json
import os
import random
from itertools import islice
from typing import Any

import pytest

import recorded_runs
from changed_logs import (
    MUTATIONS,
    TORN,
    Log,
    Mutation,
    changed,
    log_of,
    no_beginning,
    numbered,
    thread,
    whole,
)
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    Suspended,
    TextDelta,
    TextRetracted,
)
from harness.ledger import Ledger
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.session.thread_fold import ThreadFold
from harness.sources.loop.history import history
from harness.sources.model import AssistantTurn
from harness.sources.translation.audit import runs_in
from harness.testing.golden import Case
from harness.views.display import DisplayFold
from harness.views.formatting.escapes import neutralised
from harness.views.inbox.fold import InboxFold, Surroundings
from harness.views.inbox.row import NEEDS_YOU, WORKS
from harness.views.page_state.fold import StateFold
from harness.views.session import events as wire
from showing import shown

CHANGED_LOGS = int(os.environ.get("HARNESS_CHANGED_LOGS", "600"))
MOST_EVENTS = 2_000
"""Longer recordings differ from others only in size."""
SHARES = 8
"""Into so many tests the logs are divided, so that they can run in parallel."""
CASES = recorded_runs.CASES


class Reading:
    """What each reader makes of a log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.tree, self.state, self.display, self.facts = RunTree(), StateFold(), DisplayFold(), ThreadFold()
        self.inbox = InboxFold(Metadata(session_id="x"))
        self.emitted: list[Any] = []
        self.tops: list[str] = []
        self.outcomes: dict[str, str] = {}
        self.said: list[str] = []
        """Whole messages of top runs, and answers that are only in a result."""
        for event in log:
            run = self.tree.feed(event)
            if self.tree.began and not run.depth:
                self.tops.append(run.id)
            for ended in self.tree.ended:
                if not ended.depth:
                    self.outcomes[ended.id] = ended.outcome
            if isinstance(event, Message) and event.role == "assistant" and not run.depth:
                self.said.append(event.text)
            elif self.tree.unheard and not run.depth:
                self.said.append(self.tree.unheard)
            self.state.feed(event)
            self.inbox.feed(event)
            self.facts.take(event)
            self.emitted += self.display.feed(event)

    def lines(self, view: str, kind: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in shown(view, *self.log).split("\n") if line)
        return [line for line in lines if line["type"] == kind]

    def has(self, *kinds: type[Event]) -> bool:
        return any(isinstance(event, kinds) for event in self.log)


def _agree_on_runs(read: Reading) -> None:
    announced = [e.run_id for e in read.log if isinstance(e, SessionStart) and e.run_id in read.tops]
    assert len(read.lines("stream", "SessionStart")) == len(announced)
    starts = read.lines("events", "harness_start")
    assert [line["runId"] for line in starts if not line.get("depth")] == announced
    assert [run["id"] for run in read.state.value["runs"] if not run["parentCallId"]] == read.tops
    assert sum(type(one) is wire.AgentStart for one in read.emitted) == len(read.tops)
    assert sorted(run.id for run in runs_in(read.log)) == sorted(announced)
    ledger = Ledger()
    ledger.add(Metadata(session_id="x"), read.log)
    assert len(ledger._invocations) in (len(read.tops), len(read.tops) + 1)  # what comes before any run


def _agree_on_ends(read: Reading) -> None:
    is_open = read.tree.open_top is not None
    facts = read.facts.facts
    assert read.state.is_going_on == is_open == read.display.value.is_running
    assert bool(facts.open_run and not facts.is_suspended) == is_open
    statuses = {run["id"]: run["status"] for run in read.state.value["runs"] if not run["parentCallId"]}
    ended = {run_id: status for run_id, status in statuses.items() if status not in ("running", "suspended")}
    assert ended == read.outcomes
    results = [event for event in read.log if isinstance(event, Result) and event.run_id in read.tops]
    if results:
        assert read.lines("stream", "Result")[-1]["success"] == results[-1].success
    if read.tops:
        last = read.outcomes.get(read.tops[-1], "interrupted")
        assert json.loads(shown("result", *read.log))["outcome"] == last


def _agree_on_what_waits(read: Reading) -> None:
    waiting = {relay["id"] for relay in read.state.value["relays"] if relay["status"] == "pending"}
    assert waiting == set(read.tree.open_relays) == set(read.facts.facts.relays)
    row = read.inbox.row(Surroundings(is_live=True))
    assert {ask.id for ask in row.asks} == waiting
    assert (row.state in NEEDS_YOU) == bool(waiting)
    assert (row.state in WORKS) == (read.tree.unfinished_top is not None and not waiting)
    pending = history(read.log).pending
    assert {relay.id for relay in pending.relays} <= waiting if pending is not None else not waiting


def _agree_on_what_was_said(read: Reading) -> None:
    state = "".join(one["content"] for one in read.state.value["messages"] if one["role"] == "assistant")
    messages: dict[str, Any] = {}
    for one in read.emitted:
        if isinstance(one, wire.MessageStart | wire.MessageEnd | wire.MessageUpdate):
            messages[one.message.id] = one.message
    parts = [part for one in messages.values() if one.role == "assistant" for part in one.content]
    session = "".join(part.text for part in parts if part.type == "text")
    assert _bare(shown("text", *read.log)) == _bare(state) == _bare(session)


def _agree_on_turns(read: Reading) -> None:
    turns = [entry.turn for entry in history(read.log).entries]
    said = "".join(turn.text for turn in turns if isinstance(turn, AssistantTurn))
    expected = "".join(read.said)
    if read.has(Suspended):  # what a run left open that still waits comes last
        assert sorted(_bare(said)) == sorted(_bare(expected))
    else:
        assert _bare(said) == _bare(expected)


def _bare(text: str) -> str:
    return "".join(neutralised(text).split())


def check(log: Log, mutation: Mutation) -> None:
    read = Reading(log)
    _agree_on_runs(read)
    _agree_on_ends(read)
    _agree_on_what_waits(read)
    has_pieces = read.has(TextDelta)
    if not read.has(TextRetracted) and not (has_pieces and mutation is no_beginning):  # what is printed stays
        _agree_on_what_was_said(read)
    if not read.has(Error, Compacted) and not (has_pieces and mutation in TORN):
        _agree_on_turns(read)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_views_agree_on_every_recording(share: int) -> None:
    for case in CASES[share::SHARES]:
        _check(case, whole)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_views_agree_on_changed_recordings(share: int) -> None:
    for case, mutation, seed in islice(_changes(), share, CHANGED_LOGS, SHARES):
        _check(case, mutation, seed)


def _changes() -> Any:
    """All of them, shuffled, and again with other seeds; the same ones in the same order every time."""
    short = [case for case in CASES if case.expected.read_bytes().count(b"\n") <= MOST_EVENTS]
    pairs = [(case, mutation) for case in short for mutation in MUTATIONS]
    random.Random(0).shuffle(pairs)
    seed = 0
    while True:
        yield from ((case, mutation, seed) for case, mutation in pairs)
        seed += 1


def _check(case: Case, mutation: Mutation, seed: int = 0) -> None:
    try:
        check(changed(case, mutation, seed), mutation)
    except Exception as error:
        error.add_note(f"{case}, {mutation.__name__}, seed {seed}")
        raise


@recorded_runs.each(CASES[::20])
def test_a_tree_continues_from_any_snapshot(case: Case) -> None:
    log = numbered(thread(list(log_of(case)), random.Random(str(case))))
    whole_tree = RunTree()
    depths = [whole_tree.feed(event).depth for event in log]
    for split in range(0, len(log), max(1, len(log) // 8)):
        tree, other = RunTree(), RunTree()
        found = [tree.feed(event).depth for event in log[:split]]
        other.restore(json.loads(json.dumps(tree.snapshot())))
        assert found + [other.feed(event).depth for event in log[split:]] == depths
        assert other.snapshot() == whole_tree.snapshot()
