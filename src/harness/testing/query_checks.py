"""The part of a store's contract on finding logs, and on what a store can answer without reading them:
messages, usage, snapshots, changes.
"""

from __future__ import annotations

import threading

from harness.errors import UnknownSession
from harness.events import (
    Event,
    Message,
    Result,
    SessionStart,
    Signal,
    StepStart,
    TextDelta,
    Usage,
    UsageDelta,
)
from harness.log.store import Fork, Metadata, Query, Store
from harness.testing.small_logs import (
    conversation,
    expect,
    found,
    in_sequence,
    numbered,
    texts,
    write,
)


def logs_are_found_by_kind_resource_and_settings(store: Store) -> None:
    for log_id, kind, resource, settings in (
        ("1", "run", "", {}),
        ("2", "thread", "me", {}),
        ("3", "thread", "you", {"project": "x"}),
        ("4", "thread", "me", {"hidden": True}),
        ("5", "thread", "me", {"hidden": False, "project": "x"}),
    ):
        metadata = Metadata(
            session_id=log_id,
            kind=kind,  # type: ignore[arg-type]
            resource_id=resource,
            settings=dict(settings),
            created_ms=1,
            updated_ms=int(log_id),
        )
        store.create(metadata).close()

    assert found(store, Query()) == ["5", "4", "3", "2", "1"]
    assert found(store, Query(kind="run")) == ["1"]
    assert found(store, Query(kind="thread", resource_id="me")) == ["5", "4", "2"]
    assert found(store, Query(resource_id="")) == ["1"]
    assert found(store, Query(resource_id="me", without_settings=("hidden",))) == ["5", "2"]
    assert found(store, Query(settings={"project": "x"})) == ["5", "3"]
    assert found(store, Query(limit=2)) == ["5", "4"]
    assert found(store, Query(limit=2, offset=3)) == ["2", "1"]
    assert found(store, Query(offset=9)) == []
    assert store.resource_ids() == ["me", "you"]


def forks_are_found_and_left_out(store: Store) -> None:
    write(store, "a", range(2))
    write(store, "b", range(2, 3), Fork("a", 2))

    assert sorted(found(store, Query())) == ["a", "b"]
    assert found(store, Query(include_forks=False)) == ["a"]
    assert found(store, Query(fork_of="a")) == ["b"]
    (fork,) = store.find(Query(fork_of="a"))
    assert fork.fork == Fork("a", 2)


def the_last_changed_is_found_first(store: Store) -> None:
    for log_id in ("a", "b", "c"):
        store.create(Metadata(session_id=log_id, created_ms=10, updated_ms=10)).close()
    writer = store.open("a")
    writer.append([TextDelta(seq=0, timestamp_ms=500, run_id="r", text="x")])

    assert found(store, Query()) == ["a", "c", "b"]
    assert store.find(Query())[0].updated_ms == 500
    metadata = store.metadata("b")
    metadata.updated_ms = 900
    store.save_metadata(metadata)
    assert found(store, Query()) == ["b", "a", "c"]
    assert found(store, Query(live_first=True)) == ["a", "b", "c"]
    assert found(store, Query(live_first=True, limit=1, offset=1)) == ["b"]
    writer.close()
    assert found(store, Query(live_first=True)) == ["b", "a", "c"]


def what_waits_or_goes_on_is_found(store: Store) -> None:
    for log_id, kind, outcome, activity in (
        ("rest", "thread", "completed", ""),
        ("new", "thread", "", ""),
        ("runs", "thread", "completed", "running"),
        ("waits", "thread", "completed", "waiting"),
        ("older", "thread", "suspended", ""),
        ("live", "run", "", ""),
        ("done", "run", "failed", ""),
    ):
        store.create(
            Metadata(session_id=log_id, kind=kind, outcome=outcome, activity=activity)  # type: ignore[arg-type]
        ).close()

    assert sorted(found(store, Query(active=True))) == ["live", "older", "runs", "waits"]
    assert sorted(found(store, Query(active=True, kind="thread"))) == ["older", "runs", "waits"]
    assert found(store, Query(active=True, kind="run", limit=5)) == ["live"]


def some_are_left_out_and_all_are_counted(store: Store) -> None:
    for number, log_id in enumerate(("a", "b", "c", "d")):
        store.create(
            Metadata(
                session_id=log_id,
                kind="thread" if number % 2 else "run",
                prompt=f"needle {log_id}",
                created_ms=1,
                updated_ms=number + 1,
            )
        ).close()

    assert found(store, Query(excluding=("d", "b", "unknown"))) == ["c", "a"]
    assert found(store, Query(excluding=("d",), limit=1, offset=1)) == ["b"]
    assert found(store, Query(excluding=("c",), text="needle", kind="run")) == ["a"]
    for query, count in (
        (Query(), 4),
        (Query(limit=1, offset=2), 4),
        (Query(kind="run"), 2),
        (Query(text="needle"), 4),
        (Query(text="needle b"), 1),
        (Query(text="nothing"), 0),
        (Query(excluding=("a", "b")), 2),
        (Query(include_forks=False, kind="thread"), 2),
        (Query(live_first=True), 4),
    ):
        assert store.total(query) == count, query
    store.delete("a")
    assert store.total(Query()) == 3


def words_are_found_in_prompts_titles_and_messages(store: Store) -> None:
    store.create(Metadata(session_id="prompt", prompt="Mend the Ängström parser")).close()
    store.create(Metadata(session_id="title", name="Parser wars 100%")).close()
    writer = store.create(Metadata(session_id="message"))
    writer.append(
        [
            SessionStart(seq=0, timestamp_ms=1, run_id="r"),
            Message(seq=1, timestamp_ms=1, run_id="r", role="user", text="why does tests/foo_bar.py fail?"),
            TextDelta(seq=2, timestamp_ms=1, run_id="r", text="only streamed"),
            Message(seq=3, timestamp_ms=1, run_id="r", role="assistant", text='it says "日本語" twice'),
        ]
    )

    def ids(text: str) -> list[str]:
        return sorted(found(store, Query(text=text)))

    assert ids("parser") == ["prompt", "title"]
    assert ids("ÄNGSTRÖM") == ["prompt"]
    assert ids("mend parser") == ["prompt"]
    assert ids("mend wars") == []
    assert ids("foo_bar.py") == ["message"]
    assert ids("foo-bar.py") == []
    assert ids("fooxbar.py") == []
    assert ids("日本") == ["message"]
    assert ids("100%") == ["title"]
    assert ids("100%wars") == []
    assert ids('"') == ["message"]
    assert ids("why twice") == ["message"], "words may stand in different messages"
    assert ids("' OR 1=1 --") == []
    assert ids("  ") == ["message", "prompt", "title"]
    writer.append([Message(seq=4, timestamp_ms=1, run_id="r", role="user", text="zebra")])
    assert ids("zebra") == ["message"], "what came after the first search is found"
    writer.close()
    store.delete("message")
    assert ids("zebra") == []


def a_renamed_log_is_found_by_its_new_title(store: Store) -> None:
    store.create(Metadata(session_id="t", name="before")).close()
    assert found(store, Query(text="before")) == ["t"]
    metadata = store.metadata("t")
    metadata.name = "after"
    store.save_metadata(metadata)

    assert found(store, Query(text="before")) == []
    assert found(store, Query(text="after")) == ["t"]


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
    expect(UnknownSession, lambda: store.messages("unknown", 3))


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
    expect(UnknownSession, lambda: store.usage("unknown"))


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
    for ask in (lambda: store.snapshot("unknown", "x"), lambda: store.save_snapshot("unknown", "x", 0, b"")):
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
    woken = threading.Event()
    stop = store.watch("t", woken.set)
    writer.append(numbered("t", range(1)))
    assert woken.wait(_SOON_S), "an append was not notified"

    woken.clear()
    metadata = store.metadata("t")
    metadata.name = "new"
    store.save_metadata(metadata)
    assert woken.wait(_SOON_S), "new metadata was not notified"
    stop()
    stop()
    writer.close()
    expect(UnknownSession, lambda: store.watch("unknown", woken.set))


def one_who_fails_when_woken_does_not_stop_the_others(store: Store) -> None:
    writer = store.create(Metadata(session_id="t"))
    woken = threading.Event()

    def fail() -> None:
        raise RuntimeError("another listener")

    stops = [store.watch("t", fail), store.watch("t", woken.set)]
    writer.append(numbered("t", range(1)))
    assert woken.wait(_SOON_S)
    for stop in stops:
        stop()
    writer.close()


def a_closed_store_can_be_used_again(store: Store) -> None:
    write(store, "t", range(3))
    assert found(store, Query()) == ["t"]
    writer = store.open("t")
    woken: list[str] = []
    stop = store.watch("t", lambda: woken.append("x"))
    store.close()
    stop()
    writer.append(numbered("t", range(3, 4)))
    writer.close()

    assert found(store, Query()) == ["t"]
    assert texts(store, "t") == ["t 0", "t 1", "t 2", "t 3"]
    store.open("t").close()
    assert woken == []


CHECKS = (
    logs_are_found_by_kind_resource_and_settings,
    forks_are_found_and_left_out,
    the_last_changed_is_found_first,
    what_waits_or_goes_on_is_found,
    some_are_left_out_and_all_are_counted,
    words_are_found_in_prompts_titles_and_messages,
    a_renamed_log_is_found_by_its_new_title,
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
