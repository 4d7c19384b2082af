"""The display of a thread is folded only for those who look, and is the same whenever they come."""

from __future__ import annotations

import random

import pytest

import recorded_runs
from changed_logs import changed, suspended_before_another, thread
from harness.events import Event
from harness.folds.page_state.fold import StateFold
from harness.folds.session.encoding import to_wire
from harness.log.hub import Hub
from harness.log.run_tree import RunTree
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.session.bus import Bus
from harness.session.thread_fold import ThreadFold, rest
from harness.testing.golden import Case

CASES = recorded_runs.CASES[::40]


def _fold(log: list[Event]) -> ThreadFold:
    fold = ThreadFold()
    fold.read_log = lambda seq: log[seq:]
    return fold


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_display_that_was_hidden_is_the_same_as_one_that_was_not(case: Case) -> None:
    log = changed(case, thread)
    chance = random.Random(str(case))
    eager, lazy = _fold(log), _fold(log)
    lazy.hide()
    for event in log:
        eager.take(event)
        lazy.take(event)
        if chance.random() < 0.1:
            assert to_wire(lazy.display) == to_wire(eager.display)
        if chance.random() < 0.1:
            lazy.hide()
        if chance.random() < 0.05:
            for fold in (eager, lazy):
                rest(fold, is_running=True)
    assert to_wire(lazy.display) == to_wire(eager.display)
    assert to_wire(lazy.facts) == to_wire(eager.facts)
    assert lazy.facts.usage == lazy.display.token_usage
    assert lazy.snapshot() == eager.snapshot()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_hidden_display_catches_up_after_a_snapshot(case: Case) -> None:
    log = changed(case, suspended_before_another)
    eager, hidden, reopened = _fold(log), _fold(log), _fold(log)
    half = len(log) // 2
    for number, event in enumerate(log):
        eager.take(event)
        if number == half // 2:
            hidden.hide()
        if number < half:
            hidden.take(event)
    assert reopened.restore(hidden.snapshot())
    assert not reopened.is_shown
    for event in log[half:]:
        reopened.take(event)
    assert to_wire(reopened.display) == to_wire(eager.display)
    assert to_wire(reopened.facts) == to_wire(eager.facts)


def test_a_log_has_one_reader() -> None:
    """Who joins the bus gets every event once, after the facts have it, and may share the tree."""
    store = MemoryStore()
    log = changed(CASES[0], thread)
    hub = Hub(store, "log", store.create(Metadata(session_id="log")))
    bus = Bus(lambda event: None)
    bus.attach(hub, 0, ThreadFold(), wakes=False)
    shared, alone, left = StateFold("log"), StateFold("log"), list[bool]()
    seen: list[int] = []

    def read(event: Event) -> None:
        assert bus.fold.next_seq == event.seq + 1
        seen.append(event.seq)
        shared.feed(event)

    tree = bus.join(hub, 0, read, lambda: left.append(True))
    assert isinstance(tree, RunTree)
    shared.share(tree)
    hub.source("run").append(log)
    bus.deliver()
    for event in (event for batch in Hub.batches(hub) for event in batch):
        alone.feed(event)
        if len(seen) == event.seq + 1:
            break

    assert seen == list(range(len(log)))
    assert shared.value == alone.value
    assert bus.join(hub, 3, read, lambda: None) is None
    bus.detach()
    assert left == [True]
    hub.close()
