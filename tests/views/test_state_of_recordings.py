"""The state of every recorded run: deltas, merged deltas and snapshots all lead to the same."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

import recorded_runs
from harness.agents.registry import names
from harness.events import Event
from harness.folds.page_state.fold import StateFold
from harness.folds.page_state.object_stream import ObjectChange, apply, diff, merge
from harness.log.hub import Hub
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.testing.golden import Case, translate

CASES = [case for case in recorded_runs.CASES if case.agent in set(names())]


def wired(operations: Sequence[ObjectChange]) -> list[dict[str, Any]]:
    """As a client gets them."""
    read: list[dict[str, Any]] = json.loads(msgspec.json.encode(operations))
    return read


def logged(events: Sequence[Event]) -> list[Event]:
    store = MemoryStore()
    hub = Hub(store, "log", store.create(Metadata(session_id="log")), clock=lambda: 1000)
    hub.source("0198-top").append(events)
    hub.close()
    return [event for batch in hub.batches() for event in batch]


@recorded_runs.each(CASES)
def test_deltas_lead_to_the_state_at_every_moment_of_every_recording(case: Case) -> None:
    events = logged(translate(case)[1])
    fold = StateFold("log", "a title")
    state, sent, moments = fold.value, [], [fold.value]
    for event in events:
        operations = fold.feed(event)
        state = apply(state, wired(operations))
        assert state == fold.value
        assert state["seq"] == event.seq + 1
        sent.append(operations)
        moments.append(state)
    source = random.Random(len(events))
    for _ in range(10):
        start, end = sorted(source.choices(range(len(moments)), k=2))
        merged = merge(operation for operations in sent[start:end] for operation in operations)
        assert apply(moments[start], wired(merged)) == moments[end]
    for before, after in list(pairwise(moments))[:20]:
        assert apply(before, wired(diff(before, after))) == after


@recorded_runs.each(CASES[::7])
def test_a_fold_continues_from_its_snapshot(case: Case) -> None:
    events = logged(translate(case)[1])
    for cut in {0, len(events) // 3, len(events) // 2, len(events) - 1}:
        fold = StateFold("log")
        for event in events[:cut]:
            fold.feed(event)
        kept = json.loads(json.dumps(fold.snapshot()))
        other = StateFold()
        other.restore(kept)
        for event in events[cut:]:
            assert wired(fold.feed(event)) == wired(other.feed(event))
        assert other.value == fold.value


@recorded_runs.each(CASES[::7])
def test_a_finished_recording_leaves_nothing_open(case: Case) -> None:
    fold = StateFold()
    for event in logged(translate(case)[1]):
        fold.feed(event)
    state = fold.value
    assert state["status"] in ("idle", "error")
    assert all(
        run["status"] not in ("running", "suspended") for run in state["runs"] if not run["parentCallId"]
    )
    for message in messages_within(state["messages"]):
        assert message["status"] in ("complete", "error")
        assert all(call["status"] != "running" for call in message.get("toolCalls", []))
        ids = [call["id"] for call in message.get("toolCalls", [])]
        assert [part["callId"] for part in message["parts"] if part["type"] == "tool"] == ids


def messages_within(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    nested = [call.get("messages", []) for one in messages for call in one.get("toolCalls", [])]
    return [*messages, *(one for inner in nested for one in messages_within(inner))]
