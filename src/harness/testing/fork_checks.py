"""The part of a store's contract that speaks of ids, metadata and forks."""

from __future__ import annotations

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import TextDelta
from harness.log.hub import Hub
from harness.log.store import Fork, Metadata, Query, Store, read_all
from harness.testing.small_logs import expect, numbered, texts, write


def any_id_of_letters_digits_and_dashes_names_a_log(store: Store) -> None:
    for log_id in ("a", "Thread_1-b", "x" * 128, "0"):
        store.create(Metadata(session_id=log_id)).close()
        assert list(read_all(store, log_id)) == []
    for hostile in ("", "a b", "a/b", "..", "é", "x" * 129, "a\n", "a.b"):
        expect(UnknownSession, lambda hostile=hostile: store.create(Metadata(session_id=hostile)))  # type: ignore[misc]
        expect(UnknownSession, lambda hostile=hostile: store.reader(hostile))  # type: ignore[misc]


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
    (listed,) = store.list()
    assert listed.settings == metadata.settings


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
    seen: list[int] = []
    while batch := reader.read(3):
        assert len(batch) <= 3
        seen += [event.seq for event in batch]
    reader.close()
    assert seen == list(range(8))


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
        expect(
            StoreError,
            lambda seq=seq: store.create(Metadata(session_id="child", fork=Fork("parent", seq))),  # type: ignore[misc]
        )
    expect(UnknownSession, lambda: store.create(Metadata(session_id="child", fork=Fork("nobody", 0))))
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
        expect(UnknownSession, lambda ask=ask: ask("parent"))  # type: ignore[misc]
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
    seen: list[int] = []
    while batch := follower.poll():
        seen += [event.seq for event in batch]
    assert seen == [0, 1, 2]
    hub.close()
    expect(UnknownSession, lambda: store.reader("nobody"))
    expect(LogLocked, lambda: _twice(store, "a"))


def _twice(store: Store, log_id: str) -> None:
    writer = store.open(log_id)
    try:
        store.open(log_id)
    finally:
        writer.close()


CHECKS = (
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
)
