"""What was read of a log once is read on, and says exactly what reading all of it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import recorded_runs
from changed_logs import MUTATIONS, Mutation, changed, numbered, thread
from harness.conversation import stored_history as stored
from harness.conversation.history import History, Rest, continued_history, history
from harness.conversation.stored_history import stored_history
from harness.events import (
    Compacted,
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    StepEnd,
    StepStart,
    Suspended,
    TextDelta,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
)
from harness.log.store import Fork, Metadata, Store, read_all
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore

CASES = recorded_runs.CASES[::25]


def _all(found: History) -> tuple[Any, ...]:
    return found.entries, found.pending, found.untaken, found.measured, found.prompt


def _check_parts(log: Sequence[Event], cuts: Sequence[int]) -> int:
    """Read it in these parts, as far as nothing is open between them; returns how often that was so."""
    kept, start, rests = b"", 0, 0
    for cut in [*cuts, len(log)]:
        known = msgspec.json.decode(kept, type=Rest) if kept else None
        found, rest = continued_history(iter(log[start:cut]), known)
        assert _all(found) == _all(history(iter(log[:cut])))
        if rest is not None:
            kept, start, rests = msgspec.json.encode(rest), cut, rests + 1
    return rests


@pytest.mark.parametrize("mutation", [None, *MUTATIONS], ids=lambda one: one.__name__ if one else "whole")
def test_a_log_read_in_parts_is_what_it_is_when_read_at_once(mutation: Mutation | None) -> None:
    rests = 0
    for case in CASES:
        log = changed(case, *((mutation, thread) if mutation else (thread,)))
        chance = random.Random(f"{case} {mutation}")
        cuts = sorted(chance.sample(range(len(log) + 1), min(6, len(log))))
        rests += _check_parts(log, cuts)
    assert rests > len(CASES) / 2


def _random_log(chance: random.Random) -> list[Event]:
    """Runs of a conversation: steps, calls, failures, questions, compactions, sub-agents; some never end."""
    log: list[Event] = []
    waiting = ""
    for number in range(chance.randint(2, 8)):
        run = f"run{number}"
        log += [SessionStart(run_id=run, agent="native", prompt=f"prompt {number % 3}")]
        log += [Message(run_id=run, role="user", text=f"question {number}", id=f"u{number}")]
        for step in range(chance.randint(0, 3)):
            log += _random_step(chance, run, f"{number}-{step}")
        ending = chance.choice(["result", "result", "result", "dies", "waits"])
        if ending == "result":
            log += [Result(run_id=run, success=True, outcome="completed", text="done")]
        elif ending == "waits":
            waiting = run
            log += [Relay(run_id=run, id=f"r{run}", kind="question", question="?"), Suspended(run_id=run)]
        elif waiting and chance.random() < 0.5:
            log += [RelayReply(run_id=waiting, id=f"r{waiting}", approved=True, answer="yes")]
            log += [Resumed(run_id=waiting), Result(run_id=waiting, success=True, outcome="completed")]
    return numbered(log)


def _random_step(chance: random.Random, run: str, name: str) -> list[Event]:
    if chance.random() < 0.15:
        kept = chance.randint(0, 3)
        return [Compacted(run_id=run, kept=kept, summary=f"summary {name}", before_tokens=1000)]
    log: list[Event] = [StepStart(run_id=run, id=name)]
    log += [TextDelta(run_id=run, id=name, text="some")] * chance.randint(0, 3)
    log += [Message(run_id=run, role="assistant", text=f"some {name}", id=name, opaque={"signed": [1, 2.5]})]
    log += [UsageDelta(run_id=run, usage=Usage(input=chance.randint(0, 900), output=7))]
    log += [StepEnd(run_id=run, id=name, stop_reason="end")]
    call = f"{run}/c{name}"
    if chance.random() < 0.6:
        log += [ToolStart(run_id=run, call_id=call, tool_name="bash", input={"command": "ls"})]
        if chance.random() < 0.3:
            child = f"child{name}"
            log += [SessionStart(run_id=child, parent_id=call, agent="native")]
            log += [Message(run_id=child, role="assistant", text="below")]
            log += [Result(run_id=child, success=True)] if chance.random() < 0.7 else []
        if chance.random() < 0.8:
            log += [ToolEnd(run_id=run, call_id=call, tool_name="bash", success=True, output="a.py")]
    return log


@pytest.mark.parametrize("seed", range(10))
def test_runs_of_every_kind_read_in_parts(seed: int) -> None:
    rests = 0
    for number in range(40):
        chance = random.Random(f"{seed} {number}")
        log = _random_log(chance)
        ends = {number for number, event in enumerate(log, 1) if isinstance(event, Result)}
        rests += _check_parts(log, sorted(ends | {*chance.sample(range(len(log)), min(8, len(log)))}))
    assert rests > 80


# With a store


class Counted:
    """A store that says how many events were read from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def reader(self, log_id: str, cursor: int = 0) -> Any:
        reader, counted = self._store.reader(log_id, cursor), self

        class Reader:
            def read(self, most: int = 1000) -> list[Event]:
                batch: list[Event] = reader.read(most)
                counted.read += len(batch)
                return batch

            def close(self) -> None:
                reader.close()

        return Reader()


@pytest.fixture(params=["memory", "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Counted:
    return Counted(MemoryStore() if request.param == "memory" else FileStore(str(tmp_path)))


def _turn(number: int) -> list[Event]:
    run = f"run{number}"
    return [
        SessionStart(run_id=run, agent="native"),
        Message(run_id=run, role="user", text=f"question {number}", id=f"u{number}"),
        StepStart(run_id=run, id=f"s{number}"),
        *(TextDelta(run_id=run, id=f"m{number}", text="word ") for _ in range(5)),
        Message(run_id=run, role="assistant", text="word " * 5, id=f"m{number}"),
        StepEnd(run_id=run, id=f"s{number}", stop_reason="end"),
        Result(run_id=run, success=True, outcome="completed", text="word " * 5),
    ]


def _grow(store: Any, log_id: str, events: Sequence[Event], at_ms: int = 0) -> None:
    """As a process does that is killed: nothing but the log is written."""
    writer = store.open(log_id)
    first = writer.next_seq
    stamped = enumerate(events, first)
    writer.append(
        [msgspec.structs.replace(event, seq=seq, timestamp_ms=at_ms + seq) for seq, event in stamped]
    )
    writer.close()


def _create(store: Any, log_id: str = "log", fork: Fork | None = None) -> None:
    store.create(Metadata(session_id=log_id, kind="thread", fork=fork)).close()


def _turns(count: int, first: int = 0) -> list[Event]:
    return [event for number in range(first, first + count) for event in _turn(number)]


def _check(store: Any, log_id: str = "log") -> int:
    """Whether it says what the whole log says; how many events were read for it."""
    expected = history(read_all(store, log_id))
    before = store.read
    assert _all(stored_history(store, log_id)) == _all(expected)
    read: int = store.read - before
    return read


def test_what_was_read_is_not_read_again(store: Counted) -> None:
    _create(store)
    _grow(store, "log", _turns(200))
    assert _check(store) == 200 * 11
    assert _check(store) == 1
    _grow(store, "log", _turns(10, 200))
    assert _check(store) == 111
    assert _check(store) == 111, "too little to be worth a snapshot"
    _grow(store, "log", _turns(100, 210))
    assert _check(store) == 1211
    assert _check(store) == 1


def test_a_short_log_has_no_snapshot(store: Counted) -> None:
    _create(store)
    _grow(store, "log", _turns(10))
    _check(store)
    assert store.snapshot("log", "history") is None


def test_a_conversation_that_waits_is_kept_as_it_was_before(store: Counted) -> None:
    _create(store)
    _grow(store, "log", _turns(100))
    _check(store)
    asked = [
        SessionStart(run_id="w", agent="native"),
        Relay(run_id="w", id="q", kind="question", question="Which?"),
        Suspended(run_id="w"),
    ]
    _grow(store, "log", [*_turns(100, 100), *asked])
    assert _check(store) == 1104
    assert stored_history(store, "log").pending is not None
    assert _check(store) == 1104, "nothing was kept while something is open"
    answered = [
        RelayReply(run_id="w", id="q", approved=True, answer="this"),
        Resumed(run_id="w"),
        Result(run_id="w", success=True, outcome="completed", text="fine"),
    ]
    _grow(store, "log", answered)
    assert _check(store) == 1107
    assert _check(store) == 1


def test_forks_have_what_was_read_before_their_place(store: Counted) -> None:
    _create(store)
    _grow(store, "log", _turns(100))
    _check(store)
    _create(store, "late", Fork("log", 1100))
    _create(store, "early", Fork("log", 500))
    _grow(store, "late", _turns(2, 300))
    _grow(store, "early", _turns(2, 400))
    assert _check(store, "late") == 23
    assert _check(store, "early") == 522
    _grow(store, "log", _turns(100, 100))
    _check(store)
    assert _check(store, "late") == 1122, "the newer snapshot of the source is not of this fork"
    assert _check(store, "late") == 1, "by now it has its own"


def _spoiled(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def spoil(data: bytes) -> bytes:
        plain = msgspec.json.decode(data)
        change(plain)
        return msgspec.json.encode(plain)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _data: b"",
        lambda data: data[: len(data) // 2],
        lambda _data: b'{"version":1}',
        _spoiled(lambda plain: plain.update(version=99)),
        _spoiled(lambda plain: plain["rest"]["last"].__setitem__(0, 7)),
        _spoiled(lambda plain: plain["rest"]["last"].__setitem__(2, "another")),
        _spoiled(lambda plain: plain["rest"].update(entries=[{"turn": 5}])),
        _spoiled(lambda plain: plain["rest"]["tree"].update(runs=7)),
    ],
)
def test_a_snapshot_that_is_damaged_or_of_another_log_does_not_count(
    spoil: Callable[[bytes], bytes], store: Counted
) -> None:
    _create(store)
    _grow(store, "log", _turns(60))
    _check(store)
    seq, data = store.snapshot("log", "history")
    store.save_snapshot("log", "history", seq, spoil(data))
    assert _check(store) >= 660


def test_a_log_that_was_exchanged_is_read_as_it_is_now(tmp_path: Path) -> None:
    store = Counted(FileStore(str(tmp_path)))
    _create(store)
    _grow(store, "log", _turns(60))
    _check(store)
    for gone in tmp_path.glob("log.*"):
        gone.unlink()
    _create(store)
    _grow(store, "log", _turns(80, 500), at_ms=1_000_000)
    assert _check(store) == 880


def test_a_store_without_snapshots_still_answers(store: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any) -> None:
        raise OSError(28, "no space left")

    _create(store)
    _grow(store, "log", _turns(60))
    monkeypatch.setattr(store, "save_snapshot", refuse, raising=False)
    assert _check(store) == 660
    assert _check(store) == 660


def test_a_snapshot_costs_no_more_than_it_saves(store: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that is opened after every turn is written a few times, not with every turn."""
    monkeypatch.setattr(stored, "_FEW", 20)
    saved: list[int] = []
    save = store.save_snapshot

    def counted(log_id: str, name: str, seq: int, data: bytes) -> None:
        saved.append(len(data))
        save(log_id, name, seq, data)

    monkeypatch.setattr(store, "save_snapshot", counted, raising=False)
    _create(store)
    for number in range(150):
        _grow(store, "log", _turn(number))
        stored_history(store, "log")
    _check(store)
    assert 10 < len(saved) < 60
