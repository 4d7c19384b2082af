"""The part of a store's contract that speaks of what it knows without reading: messages, usage, snapshots, changes."""

from __future__ import annotations

import threading

from harness.errors import UnknownSession
from harness.events import Event, Message, Result, SessionStart, Signal, StepStart, Usage, UsageDelta
from harness.log.store import Fork, Metadata, Query, Store
from harness.testing.small_logs import conversation, expect, found, in_sequence, numbered, texts, write

_SOON_S = 5.0


def the_last_messages_can_be_read_without_the_others(store: Store) -> None:
    writer = store.create(Metadata(session_id="t"))
    writer.append(conversation(0, turns=3))

    # Each turn is 7 events: start, user, step, delta, message, step end, result.
    assert store.messages("t", 1) == 16, "the agent's last words begin after the user's"
    assert store.messages("t", 2) == 14, "the user's last words, and the start of the run they are in"
    assert store.messages("t", 3) == 9
    assert store.messages("t", 6) == 0
    assert store.messages("t", 99) == 0
    assert store.messages("t", 0) == 21
    writer.append(conversation(21, turns=1))
    assert store.messages("t", 2) == 21
    writer.close()
    expect(UnknownSession, lambda: store.messages("nobody", 3))


def messages_of_sub_agents_are_not_counted(store: Store) -> None:
    writer = store.create(Metadata(session_id="t"))
    events: list[Event] = [
        SessionStart(run_id="outer"),
        Message(run_id="outer", role="user", text="go"),
        StepStart(run_id="outer", id="s"),
        SessionStart(run_id="inner", parent_id="call"),
        Message(run_id="inner", role="user", text="task"),
        Message(run_id="inner", role="assistant", text="done"),
        Result(run_id="inner", success=True),
        Message(run_id="outer", role="assistant", text="ok"),
        Signal(run_id="outer", id="x", category="user", tag_name="user", contents="more"),
        Message(run_id="outer", role="assistant", text="fine"),
    ]
    writer.append(in_sequence(events))
    writer.close()

    assert [store.messages("t", limit) for limit in (1, 2, 3, 4)] == [9, 8, 2, 0]


def messages_of_a_fork_reach_into_the_other_log(store: Store) -> None:
    writer = store.create(Metadata(session_id="a"))
    writer.append(conversation(0, turns=2))
    fork = store.create(Metadata(session_id="b", fork=Fork("a", 7)))
    fork.append(conversation(7, turns=1))
    writer.close()
    fork.close()

    assert [store.messages("b", limit) for limit in (1, 2, 3, 4, 5)] == [9, 7, 2, 0, 0]
    assert [store.messages("a", limit) for limit in (1, 2, 3)] == [9, 7, 2]
    store.delete("a")
    assert store.messages("b", 3) == 2


def usage_adds_up_and_a_fork_begins_anew(store: Store) -> None:
    writer = store.create(Metadata(session_id="a"))
    for seq in range(3):
        usage = Usage(input=10, output=seq, cost_usd=0.5)
        writer.append([UsageDelta(seq=seq, timestamp_ms=1, run_id="r", usage=usage)])
        assert store.usage("a").input == 10 * (seq + 1)
    writer.close()
    store.create(Metadata(session_id="b", fork=Fork("a", 3))).close()

    assert store.usage("a") == Usage(input=30, output=3, cost_usd=1.5)
    assert store.usage("b") == Usage()
    expect(UnknownSession, lambda: store.usage("nobody"))


def the_newest_snapshot_is_kept(store: Store) -> None:
    write(store, "a", range(10))
    assert store.snapshot("a", "display") is None
    store.save_snapshot("a", "display", 4, b"four")
    store.save_snapshot("a", "display", 8, b"\x00\xff")
    store.save_snapshot("a", "display", 6, b"late")
    store.save_snapshot("a", "other", 2, b"two")

    assert store.snapshot("a", "display") == (8, b"\x00\xff")
    assert store.snapshot("a", "other") == (2, b"two")
    store.save_snapshot("a", "display", 11, b"of what is not stored")
    assert store.snapshot("a", "display") == (8, b"\x00\xff")
    for ask in (lambda: store.snapshot("nobody", "x"), lambda: store.save_snapshot("nobody", "x", 0, b"")):
        expect(UnknownSession, ask)


def a_fork_has_the_snapshots_made_before_it(store: Store) -> None:
    write(store, "a", range(10))
    store.save_snapshot("a", "display", 4, b"four")
    store.save_snapshot("a", "late", 8, b"eight")
    write(store, "b", range(5, 8), Fork("a", 5))

    assert store.snapshot("b", "display") == (4, b"four")
    assert store.snapshot("b", "late") is None
    store.save_snapshot("b", "display", 7, b"seven")
    assert store.snapshot("b", "display") == (7, b"seven")
    assert store.snapshot("a", "display") == (4, b"four")


def a_new_log_has_nothing_of_an_old_one_of_its_name(store: Store) -> None:
    writer = store.create(Metadata(session_id="a", name="old"))
    writer.append(conversation(0, turns=2))
    writer.close()
    store.save_snapshot("a", "display", 3, b"old")
    assert store.messages("a", 1) == 9
    store.delete("a")
    metadata = Metadata(session_id="a", created_ms=1)
    writer = store.create(metadata)
    writer.append(conversation(0, turns=3))
    writer.close()

    assert store.snapshot("a", "display") is None
    assert found(store, Query(text="old")) == []
    assert store.messages("a", 1) == 16


def whoever_watches_hears_of_changes(store: Store) -> None:
    writer = store.create(Metadata(session_id="t"))
    heard = threading.Event()
    stop = store.watch("t", heard.set)
    writer.append(numbered("t", range(1)))
    assert heard.wait(_SOON_S), "an append was not heard"

    heard.clear()
    metadata = store.metadata("t")
    metadata.name = "new"
    store.save_metadata(metadata)
    assert heard.wait(_SOON_S), "new metadata was not heard"
    stop()
    stop()
    writer.close()
    expect(UnknownSession, lambda: store.watch("nobody", heard.set))


def one_who_fails_when_woken_does_not_stop_the_others(store: Store) -> None:
    writer = store.create(Metadata(session_id="t"))
    heard = threading.Event()

    def fail() -> None:
        raise RuntimeError("a listener of somebody else's")

    stops = [store.watch("t", fail), store.watch("t", heard.set)]
    writer.append(numbered("t", range(1)))
    assert heard.wait(_SOON_S)
    for stop in stops:
        stop()
    writer.close()


def a_closed_store_can_be_used_again(store: Store) -> None:
    write(store, "t", range(3))
    assert found(store, Query()) == ["t"]
    writer = store.open("t")
    heard: list[str] = []
    stop = store.watch("t", lambda: heard.append("x"))
    store.close()
    stop()
    writer.append(numbered("t", range(3, 4)))
    writer.close()

    assert found(store, Query()) == ["t"]
    assert texts(store, "t") == ["t 0", "t 1", "t 2", "t 3"]
    store.open("t").close()
    assert heard == []


CHECKS = (
    the_last_messages_can_be_read_without_the_others,
    messages_of_sub_agents_are_not_counted,
    messages_of_a_fork_reach_into_the_other_log,
    usage_adds_up_and_a_fork_begins_anew,
    the_newest_snapshot_is_kept,
    a_fork_has_the_snapshots_made_before_it,
    a_new_log_has_nothing_of_an_old_one_of_its_name,
    whoever_watches_hears_of_changes,
    one_who_fails_when_woken_does_not_stop_the_others,
    a_closed_store_can_be_used_again,
)
