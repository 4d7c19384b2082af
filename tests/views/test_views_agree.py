"""All readers of a log agree: which runs are on top, how they ended, what waits, what was said and used.

Checked on every recording as it is, and on changed ones: `HARNESS_CHANGED_LOGS` says how many (`make agreement`).
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from html import unescape
from itertools import islice
from typing import Any

import pytest

import recorded_runs
import unusual_logs
from changed_logs import (
    MUTATIONS,
    TORN,
    Log,
    Mutation,
    changed,
    log_of,
    no_beginning,
    numbered,
    resumed_after_another,
    thread,
    whole,
)
from harness.contracts.conversation import HandedAnswer
from harness.contracts.model import AssistantTurn
from harness.conversation.history import history
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
    UsageDelta,
    Warning,
)
from harness.folds.changes.fold import ChangeHistory
from harness.folds.handed_conversation import conversation_of
from harness.folds.inbox.fold import InboxFold, Surroundings
from harness.folds.inbox.row import NEEDS_YOU, WORKS
from harness.folds.page_state.fold import StateFold
from harness.folds.session import events as wire
from harness.formatting.escapes import neutralised
from harness.formatting.html_text import html_of_markdown
from harness.log.log_summary import LogSummary
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.runs.audit import runs_in
from harness.session.thread_fold import ThreadFold
from harness.testing.golden import Case
from harness.usage.ledger import Account, Ledger, total
from harness.usage.prices import Prices
from harness.views.display import DisplayFold
from showing import shown

CHANGED_LOGS = int(os.environ.get("HARNESS_CHANGED_LOGS", "600"))
MOST_EVENTS = 2_000
"""Longer recordings differ from others only in size."""
SHARES = 8
"""Into so many tests the logs are divided, so that they can run in parallel."""
_METADATA = Metadata(session_id="x")
OUTCOMES = {"completed": "succeeded", "interrupted": "interrupted", "unknown": "idle"}
"""The states of the inbox; every other outcome is a failure."""
CASES = recorded_runs.CASES


class Reading:
    """What each reader makes of a log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.tree, self.state, self.display, self.facts = RunTree(), StateFold(), DisplayFold(), ThreadFold()
        self.inbox, self.changes, self.account = InboxFold(_METADATA), ChangeHistory(), Account(runs=None)
        self.emitted: list[Any] = []
        self.tops: dict[str, str] = {}
        """The top runs, with the outcome of those that have ended."""
        self.is_late = False
        """Whether a run has written something after its end, or while it was suspended."""
        self.said: list[str] = []
        """Complete messages of top runs, and answers that are only in a result."""
        self.announced: list[str] = []
        """The runs of each start of a top run. The same run may be below another one at first."""
        for event in log:
            run = self.tree.feed(event)
            if isinstance(event, SessionStart) and not run.depth:
                self.announced.append(run.id)
            if self.tree.began and not run.depth:
                self.tops[run.id] = ""
            self.is_late |= run.status != "open" and isinstance(event, Message | TextDelta)
            self.tops |= {ended.id: ended.outcome for ended in self.tree.ended if not ended.depth}
            if self.tree.said is not None and not run.depth:
                self.said.append(self.tree.said.text)
            for reader in (self.state, self.inbox, self.changes):
                reader.feed(event)
            self.facts.take(event)
            self.emitted += self.display.feed(event)
        self.account.feed(_METADATA, log)
        self.row = self.inbox.row(Surroundings(is_live=True))
        self.atif = json.loads(shown("atif", *log) or "{}")

    @property
    def last_outcome(self) -> str:
        """Of the latest top run; empty while it is open or suspended."""
        top = self.tree.top
        return "" if top is None else top.outcome

    def lines(self, view: str, kind: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in shown(view, *self.log).split("\n") if line)
        return [line for line in lines if line["type"] == kind]

    def has(self, *kinds: type[Event]) -> bool:
        return any(isinstance(event, kinds) for event in self.log)


def _agree_on_runs(read: Reading) -> None:
    assert len(read.lines("stream", "SessionStart")) == len(read.announced)
    starts = [line["runId"] for line in read.lines("events", "harness_start") if not line.get("depth")]
    assert list(dict.fromkeys(starts)) == list(dict.fromkeys(read.announced))
    assert [run["id"] for run in read.state.value["runs"] if not run["parentCallId"]] == [*read.tops]
    assert {run.id for run in runs_in(read.log)} == set(read.announced)
    assert [*read.changes.turns] == [*read.tops]
    invocations = [one.run_id for one in read.account.invocations]
    assert set(read.tops) <= set(invocations)
    assert len(set(invocations)) <= len(read.tops) + 1  # what comes before any run


def _agree_on_ends(read: Reading) -> None:
    is_open = read.tree.open_top is not None
    facts = read.facts.facts
    assert read.state.is_going_on == is_open == read.display.value.is_running
    assert bool(facts.open_run and not facts.is_suspended) == is_open
    assert read.state.value["status"] == "running" or not is_open
    ended = {run_id: outcome for run_id, outcome in read.tops.items() if outcome}
    runs = [run for run in read.state.value["runs"] if not run["parentCallId"]]
    assert {r["id"]: r["status"] for r in runs if r["status"] not in ("running", "suspended")} == ended
    invocations = {one.run_id: one.outcome for one in read.account.invocations if one.run_id in read.tops}
    assert {run_id: outcome for run_id, outcome in invocations.items() if outcome} == ended
    if read.tops:
        outcome = json.loads(shown("result", *read.log))["outcome"]
        assert outcome == (read.last_outcome or "interrupted")
    if read.last_outcome and not read.has(Suspended):
        assert facts.last_outcome == read.last_outcome
        assert read.row.state == OUTCOMES.get(read.last_outcome, "failed")
    results = {event.run_id for event in read.log if isinstance(event, Result)}
    if read.tree.latest in results and read.atif:
        assert read.atif.get("extra", {}).get("outcome", "") in (read.last_outcome, "interrupted")


def _agree_on_what_is_open(read: Reading) -> None:
    open_runs = {run.id for run in read.tree.unfinished}
    below = {run.id for run in read.tree.unfinished if run.depth}
    assert {child.run_id for child in read.row.children} == below
    for message in _messages(read.state.value["messages"]):
        is_open = message["status"] in ("streaming", "pending")
        is_open |= any(call["status"] == "running" for call in message.get("toolCalls", ()))
        assert not is_open or message["runId"] in open_runs


def _messages(messages: list[Any]) -> Iterator[Any]:
    """With those of sub-agents."""
    for message in messages:
        yield message
        for call in message.get("toolCalls", ()):
            yield from _messages(call.get("messages", []))


def _agree_on_what_waits(read: Reading) -> None:
    waiting = {relay["id"] for relay in read.state.value["relays"] if relay["status"] == "pending"}
    assert waiting == set(read.tree.open_relays) == set(read.facts.facts.relays)
    assert {ask.id for ask in read.row.asks} == waiting
    assert (read.row.state in NEEDS_YOU) == bool(waiting)
    assert (read.row.state in WORKS) == (read.tree.unfinished_top is not None and not waiting)


def _agree_on_the_pending_run(read: Reading) -> None:
    waiting = set(read.tree.open_relays)
    pending = history(read.log).pending
    if pending is not None:
        assert {relay.id for relay in pending.relays} <= waiting
    else:
        assert not any(read.tree.open_relays[id].run_id in read.tops for id in waiting)


def _agree_on_what_was_said(read: Reading) -> None:
    state = "".join(one["content"] for one in read.state.value["messages"] if one["role"] == "assistant")
    messages: dict[str, Any] = {}
    for one in read.emitted:
        if isinstance(one, wire.MessageStartEvent | wire.MessageEndEvent | wire.MessageUpdateEvent):
            messages[one.message.id] = one.message
    parts = [part for one in messages.values() if one.role == "assistant" for part in one.content]
    session = "".join(part.text for part in parts if part.type == "text")
    text = shown("text", *read.log)
    if read.is_late:  # in its order among others; session events have no place for it
        assert sorted(_bare(text)) == sorted(_bare(state))
    else:
        assert _bare(text) == _bare(state) == _bare(session)


def _agree_on_messages(read: Reading) -> None:
    """Every complete message of a top run is in each document of the log."""
    steps = [step["message"] for step in read.atif.get("steps", ()) if step["source"] == "agent"]
    texts = [one if isinstance(one, str) else "".join(p.get("text", "") for p in one) for one in steps]
    documents = {"atif": "".join(texts)}
    documents["markdown"] = shown("markdown", *read.log)
    if not read.has(TextDelta):  # pieces may have something between them
        documents |= {view: shown(view, *read.log) for view in ("transcript", "text")}
    documents["html"] = _without_tags(shown("html", *read.log))
    handed = [turn.text for turn in conversation_of(read.log).turns if isinstance(turn, HandedAnswer)]
    if not read.has(Compacted):  # a summary replaces what it sums up
        documents["handover"] = "".join(handed)
    for name, document in documents.items():
        letters = _letters(document)
        for text in read.said:
            assert _letters(_WRITTEN.get(name, neutralised)(text)) in letters, name


def _without_tags(html: str) -> str:
    return unescape(re.sub("<[^>]*>", "", html))


_WRITTEN: dict[str, Callable[[str], str]] = {
    "atif": str,
    "handover": str,
    "html": lambda text: _without_tags(html_of_markdown(text)),
}
"""How a document writes the text of a message."""


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _agree_on_turns(read: Reading) -> None:
    turns = [entry.turn for entry in history(read.log).entries]
    said = "".join(turn.text for turn in turns if isinstance(turn, AssistantTurn))
    expected = "".join(read.said)
    if read.has(Suspended) or read.is_late:  # what a run left open that still waits comes last
        assert sorted(_bare(said)) == sorted(_bare(expected))
    else:
        assert _bare(said) == _bare(expected)


def _agree_on_usage(read: Reading) -> None:
    """All count what the runs report on the way; the page and the view add what a run states only at its end."""
    charges = Ledger([read.account]).charges(Prices("", {}), lambda _at_ms: "")
    ledger, summary = total(charges), LogSummary()
    summary.feed(read.log)
    names = ("input", "output", "cache_read", "cache_write", "reasoning")
    view, state = json.loads(shown("usage", *read.log))["total"], read.state.value["usage"]
    keys = {"cache_read": "cacheRead", "cache_write": "cacheWrite"}
    assert [view[name] for name in names] == [state[keys.get(name, name)] for name in names]
    reported = [getattr(summary.usage, name) for name in names]
    ids = [event.id for event in read.log if isinstance(event, UsageDelta) and event.id]
    if not read.has(Warning) and len(ids) == len(set(ids)):  # nothing is stated twice
        assert [getattr(ledger, name) for name in names] == reported
        counts = [count for count in reported if count is not None]
        assert read.row.tokens == (sum(counts) if counts else None)
    assert read.facts.facts.usage == read.display.value.token_usage
    if not any(isinstance(event, Result) and event.usage for event in read.log):
        assert [view[name] for name in names] == reported


def _bare(text: str) -> str:
    return "".join(neutralised(text).split())


def check(log: Log, *mutations: Mutation) -> None:
    read = Reading(log)
    _agree_on_runs(read)
    _agree_on_ends(read)
    _agree_on_what_is_open(read)
    _agree_on_what_waits(read)
    _agree_on_usage(read)
    _agree_on_messages(read)
    has_pieces = read.has(TextDelta)
    is_torn = has_pieces and (read.is_late or bool({*mutations} & {no_beginning, resumed_after_another}))
    if not is_torn:
        _agree_on_the_pending_run(read)
        if not read.has(TextRetracted):  # what is printed stays
            _agree_on_what_was_said(read)
    if not read.has(Error, Compacted) and not (has_pieces and {*mutations} & {*TORN}):
        _agree_on_turns(read)


@pytest.mark.parametrize("name", unusual_logs.LOGS)
def test_all_views_agree_on_unusual_logs(name: str) -> None:
    check(unusual_logs.LOGS[name])


@pytest.mark.parametrize("share", range(SHARES))
def test_all_views_agree_on_every_recording(share: int) -> None:
    for case in CASES[share::SHARES]:
        _check(case, whole)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_views_agree_on_changed_recordings(share: int) -> None:
    for case, mutation, seed in islice(_changes(), share, CHANGED_LOGS, SHARES):
        _check(case, mutation, seed=seed)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_views_agree_on_recordings_changed_twice(share: int) -> None:
    for case, mutation, seed in islice(_changes(), share, CHANGED_LOGS // 2, SHARES):
        other = random.Random(f"{case} {mutation.__name__} {seed}").choice(MUTATIONS)
        _check(case, mutation, other, seed=seed)


def _changes() -> Any:
    """All of them, shuffled, and again with other seeds; the same ones in the same order every time."""
    short = [case for case in CASES if case.expected.read_bytes().count(b"\n") <= MOST_EVENTS]
    pairs = [(case, mutation) for case in short for mutation in MUTATIONS]
    random.Random(0).shuffle(pairs)
    seed = 0
    while True:
        yield from ((case, mutation, seed) for case, mutation in pairs)
        seed += 1


def _check(case: Case, *mutations: Mutation, seed: int = 0) -> None:
    try:
        check(changed(case, *mutations, seed=seed), *mutations)
    except Exception as error:
        error.add_note(f"{case}, {', '.join(mutation.__name__ for mutation in mutations)}, seed {seed}")
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
