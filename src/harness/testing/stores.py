"""The contract of a store as checks that any store must pass, ours and those of plugins.

    @pytest.mark.parametrize("check", CHECKS, ids=name_of)
    def test_my_store(check): check(MyStore())

Each check takes an empty store and raises AssertionError when the contract is broken. This module covers
writing, reading, metadata and forks; `query_checks` covers finding logs, and what a store can answer without
reading them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, Message, Result, SessionStart, TextDelta, ToolStart
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Fork, Metadata, Query, Store, read_all
from harness.testing import query_checks
from harness.testing.small_logs import expect, numbered, texts, write

Check: TypeAlias = Callable[[Store], None]
"""Takes an empty store; raises AssertionError when the contract is broken."""


def a_new_log_is_empty_and_listed(store: Store) -> None:
    log_id = _create(store)

    assert list(read_all(store, log_id)) == []
    assert [metadata.session_id for metadata in store.list()] == [log_id]


def what_was_appended_is_read_in_order(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    events = _numbered(25)
    writer.append(events[:10])
    writer.append(events[10:])
    writer.close()

    assert list(read_all(store, log_id)) == events
    for cursor in (0, 1, 9, 10, 24, 25, 99):
        assert list(read_all(store, log_id, cursor)) == events[cursor:]


def all_fields_survive(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    event = ToolStart(
        seq=0, timestamp_ms=5, run_id="r", call_id="c", tool_name="t", input={"a": [1, None, "é\u2028"]}
    )
    writer.append([event])
    writer.close()

    assert list(read_all(store, log_id)) == [event]


def a_reader_sees_what_comes_later(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    reader = store.reader(log_id)
    assert reader.read() == []

    writer.append(_numbered(3))
    assert [event.seq for event in reader.read(2)] == [0, 1]
    assert [event.seq for event in reader.read()] == [2]
    assert reader.read() == []
    reader.close()
    writer.close()


def only_one_may_write(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    assert store.is_live(log_id)
    expect(LogLocked, lambda: store.open(log_id))

    writer.close()
    assert not store.is_live(log_id)
    store.open(log_id).close()


def a_log_goes_on_where_it_ended(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    writer.append(_numbered(4))
    writer.close()

    again = store.open(log_id)
    assert again.next_seq == 4
    again.append(_numbered(6)[4:])
    again.close()
    assert [event.seq for event in read_all(store, log_id)] == [0, 1, 2, 3, 4, 5]


def an_id_is_used_once(store: Store) -> None:
    log_id = _create(store)

    expect(StoreError, lambda: store.create(Metadata(session_id=log_id)))


def what_is_not_there_is_said_so(store: Store) -> None:
    nothing = new_run_id(7)
    for ask in (store.open, store.reader, store.is_live, store.metadata, store.delete):
        expect(UnknownSession, partial(ask, nothing))


def metadata_is_replaced_as_a_whole(store: Store) -> None:
    log_id = _create(store)
    metadata = store.metadata(log_id)
    metadata.outcome = "completed"
    metadata.tags = ["a", "b"]
    store.save_metadata(metadata)

    again = store.metadata(log_id)
    assert (again.outcome, again.tags) == ("completed", ["a", "b"])


def the_newest_is_listed_first(store: Store) -> None:
    ids = [new_run_id(moment) for moment in (1000, 2000, 3000)]
    for log_id in ids:
        store.create(Metadata(session_id=log_id)).close()

    assert [metadata.session_id for metadata in store.list()] == ids[::-1]


def a_deleted_log_is_gone_but_a_live_one_stays(store: Store) -> None:
    log_id = new_run_id(1)
    writer = store.create(Metadata(session_id=log_id))
    expect(LogLocked, lambda: store.delete(log_id))
    writer.close()

    store.delete(log_id)
    assert list(store.list()) == []
    expect(UnknownSession, lambda: store.reader(log_id))


def a_hub_stamps_without_gaps_and_maps_child_runs(store: Store) -> None:
    log_id = new_run_id(1)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    source = hub.source(log_id)
    source.append([SessionStart(agent="a"), Message(role="user", text="hi")])
    source.append(
        [SessionStart(agent="a", run_id="child", parent_id="call-1"), TextDelta(text="x", run_id="child")]
    )
    source.append([Result(success=True, run_id="child"), Result(success=True)])
    hub.close()

    events = list(read_all(store, log_id))
    assert [event.seq for event in events] == list(range(6))
    assert [event.run_id == log_id for event in events] == [True, True, False, False, False, True]
    assert len({event.run_id for event in events}) == 2
    assert events[0].session_id == log_id
    assert [event.timestamp_ms for event in events] == sorted(event.timestamp_ms for event in events)


def followers_from_any_cursor_miss_and_repeat_nothing(store: Store) -> None:
    """While one thread writes, many readers follow, each from its own cursor."""
    log_id = new_run_id(1)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    total = 3000
    seqs: dict[int, list[int]] = {}

    def follow(cursor: int) -> None:
        seqs[cursor] = [event.seq for batch in hub.batches(cursor) for event in batch]

    threads = [threading.Thread(target=follow, args=(cursor,)) for cursor in (0, 1, 500, 2999)]
    for thread in threads:
        thread.start()
    source = hub.source(log_id)
    for number in range(0, total, 10):
        source.append([TextDelta(text=f"{number}-{extra}") for extra in range(10)])
    hub.close()
    for thread in threads:
        thread.join(20)
    assert seqs == {cursor: list(range(cursor, total)) for cursor in (0, 1, 500, 2999)}


def any_id_of_letters_digits_and_dashes_names_a_log(store: Store) -> None:
    for log_id in ("a", "Thread_1-b", "x" * 128, "0"):
        store.create(Metadata(session_id=log_id)).close()
        assert list(read_all(store, log_id)) == []
    for hostile in ("", "a b", "a/b", "..", "é", "x" * 129, "a\n", "a.b"):
        expect(UnknownSession, partial(store.create, Metadata(session_id=hostile)))
        expect(UnknownSession, partial(store.reader, hostile))


def all_metadata_survives(store: Store) -> None:
    metadata = Metadata(
        session_id="t",
        kind="thread",
        resource_id="r",
        name="title",
        created_ms=5,
        updated_ms=6,
        settings={"currentModeId": "plan", "tokenUsage": {"totalTokens": 3}, "é\u2028": [1, None]},
        tags=["x"],
    )
    store.create(metadata).close()

    again = store.metadata("t")
    again.writer = None
    assert again == metadata
    (only_metadata,) = store.list()
    assert only_metadata.settings == metadata.settings


def times_that_nobody_gave_are_set(store: Store) -> None:
    metadata = Metadata(session_id="t")
    store.create(metadata).close()

    assert metadata.created_ms > 0
    assert store.metadata("t").created_ms == metadata.created_ms
    assert store.metadata("t").updated_ms >= metadata.created_ms


def a_fork_begins_with_the_events_of_the_other_log(store: Store) -> None:
    write(store, "parent", range(10))
    writer = store.create(Metadata(session_id="child", fork=Fork("parent", 4)))
    assert writer.next_seq == 4
    assert texts(store, "child") == ["parent 0", "parent 1", "parent 2", "parent 3"]

    writer.append(numbered("child", range(4, 7)))
    writer.close()
    whole = [f"parent {number}" for number in range(4)] + [f"child {number}" for number in range(4, 7)]
    assert texts(store, "child") == whole
    for cursor in range(9):
        assert texts(store, "child", cursor) == whole[cursor:], cursor
    assert texts(store, "parent") == [f"parent {number}" for number in range(10)]
    again = store.open("child")
    assert again.next_seq == 7
    again.close()


def a_fork_that_wrote_nothing_goes_on_where_it_left(store: Store) -> None:
    write(store, "parent", range(3))
    store.create(Metadata(session_id="child", fork=Fork("parent", 2))).close()

    writer = store.open("child")
    assert writer.next_seq == 2
    writer.close()


def forks_of_forks_are_read_through(store: Store) -> None:
    write(store, "a", range(6))
    write(store, "b", range(4, 8), Fork("a", 4))
    write(store, "c", range(6, 8), Fork("b", 6))
    write(store, "d", range(2, 4), Fork("b", 2))
    write(store, "e", (), Fork("c", 8))

    assert texts(store, "c") == ["a 0", "a 1", "a 2", "a 3", "b 4", "b 5", "c 6", "c 7"]
    assert texts(store, "d") == ["a 0", "a 1", "d 2", "d 3"]
    assert texts(store, "e", 5) == ["b 5", "c 6", "c 7"]
    reader = store.reader("c")
    seqs: list[int] = []
    while batch := reader.read(3):
        assert len(batch) <= 3
        seqs += [event.seq for event in batch]
    reader.close()
    assert seqs == list(range(8))


def a_log_that_is_being_written_can_be_forked(store: Store) -> None:
    writer = store.create(Metadata(session_id="parent"))
    writer.append(numbered("parent", range(3)))
    write(store, "child", range(3, 4), Fork("parent", 3))
    writer.append(numbered("parent", range(3, 6)))
    writer.close()

    assert texts(store, "child") == ["parent 0", "parent 1", "parent 2", "child 3"]


def a_fork_of_what_is_not_there_is_refused(store: Store) -> None:
    write(store, "parent", range(3))
    for seq in (-1, 4):
        expect(StoreError, partial(store.create, Metadata(session_id="child", fork=Fork("parent", seq))))
    expect(UnknownSession, lambda: store.create(Metadata(session_id="child", fork=Fork("unknown", 0))))
    assert [metadata.session_id for metadata in store.list()] == ["parent"]
    store.create(Metadata(session_id="child")).close()


def a_deleted_log_stays_as_long_as_it_has_forks(store: Store) -> None:
    write(store, "parent", range(3))
    for name in ("one", "two"):
        write(store, name, range(2, 3), Fork("parent", 2))
    store.delete("parent")

    assert {metadata.session_id for metadata in store.list()} == {"one", "two"}
    assert {metadata.session_id for metadata in store.find(Query())} == {"one", "two"}
    for ask in (store.open, store.reader, store.metadata, store.is_live, store.delete):
        expect(UnknownSession, partial(ask, "parent"))
    expect(StoreError, lambda: store.create(Metadata(session_id="parent")))
    assert texts(store, "one") == ["parent 0", "parent 1", "one 2"]
    store.delete("one")
    assert texts(store, "two") == ["parent 0", "parent 1", "two 2"]
    store.delete("two")

    store.create(Metadata(session_id="parent")).close()
    assert texts(store, "parent") == []


def hidden_logs_go_with_the_last_of_their_forks(store: Store) -> None:
    write(store, "a", range(2))
    write(store, "b", range(2, 4), Fork("a", 2))
    write(store, "c", range(4, 5), Fork("b", 4))
    store.delete("a")
    store.delete("b")
    assert texts(store, "c") == ["a 0", "a 1", "b 2", "b 3", "c 4"]

    store.delete("c")
    for log_id in "abc":
        store.create(Metadata(session_id=log_id)).close()
        assert texts(store, log_id) == []


def a_hub_goes_on_in_a_fork(store: Store) -> None:
    write(store, "a", range(4))
    hub = Hub(store, "b", store.create(Metadata(session_id="b", fork=Fork("a", 2))))
    hub.source("run").append([TextDelta(text="mine")])
    follower = hub.follower(0)
    seqs: list[int] = []
    while batch := follower.poll():
        seqs += [event.seq for event in batch]
    assert seqs == [0, 1, 2]
    hub.close()
    expect(UnknownSession, lambda: store.reader("unknown"))
    expect(LogLocked, lambda: _twice(store, "a"))


def _twice(store: Store, log_id: str) -> None:
    writer = store.open(log_id)
    try:
        store.open(log_id)
    finally:
        writer.close()


CHECKS: tuple[Check, ...] = (
    a_new_log_is_empty_and_listed,
    what_was_appended_is_read_in_order,
    all_fields_survive,
    a_reader_sees_what_comes_later,
    only_one_may_write,
    a_log_goes_on_where_it_ended,
    an_id_is_used_once,
    what_is_not_there_is_said_so,
    metadata_is_replaced_as_a_whole,
    the_newest_is_listed_first,
    a_deleted_log_is_gone_but_a_live_one_stays,
    a_hub_stamps_without_gaps_and_maps_child_runs,
    followers_from_any_cursor_miss_and_repeat_nothing,
    any_id_of_letters_digits_and_dashes_names_a_log,
    all_metadata_survives,
    times_that_nobody_gave_are_set,
    a_fork_begins_with_the_events_of_the_other_log,
    a_fork_that_wrote_nothing_goes_on_where_it_left,
    forks_of_forks_are_read_through,
    a_log_that_is_being_written_can_be_forked,
    a_fork_of_what_is_not_there_is_refused,
    a_deleted_log_stays_as_long_as_it_has_forks,
    hidden_logs_go_with_the_last_of_their_forks,
    a_hub_goes_on_in_a_fork,
    *query_checks.CHECKS,
)


def name_of(check: Check) -> str:
    """The id of a check in the output of pytest."""
    return check.__name__


def _create(store: Store) -> str:
    log_id = new_run_id(1)
    store.create(Metadata(session_id=log_id)).close()
    return log_id


def _numbered(count: int) -> list[Event]:
    return [
        TextDelta(seq=number, timestamp_ms=1, run_id="r", text=f"text {number}") for number in range(count)
    ]
