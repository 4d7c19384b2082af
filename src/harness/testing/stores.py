"""The contract of a store as checks that any store must pass, ours and those of plugins.

    @pytest.mark.parametrize("check", CHECKS, ids=name_of)
    def test_my_store(check): check(MyStore())

Each check takes an empty store and raises AssertionError when the contract is broken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from harness.errors import LogLocked, StoreError, UnknownSession
from harness.events import Event, Message, Result, SessionStart, TextDelta, ToolStart
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata, Store, read_all
from harness.testing import finding_checks, fork_checks, knowledge_checks
from harness.testing.small_logs import expect

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
        expect(UnknownSession, lambda ask=ask: ask(nothing))  # type: ignore[misc]


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
    """While one thread writes, many follow, each from its own cursor."""
    log_id = new_run_id(1)
    hub = Hub(store, log_id, store.create(Metadata(session_id=log_id)))
    total = 3000
    seen: dict[int, list[int]] = {}

    def follow(cursor: int) -> None:
        seen[cursor] = [event.seq for batch in hub.batches(cursor) for event in batch]

    threads = [threading.Thread(target=follow, args=(cursor,)) for cursor in (0, 1, 500, 2999)]
    for thread in threads:
        thread.start()
    source = hub.source(log_id)
    for number in range(0, total, 10):
        source.append([TextDelta(text=f"{number}-{extra}") for extra in range(10)])
    hub.close()
    for thread in threads:
        thread.join(20)
    assert seen == {cursor: list(range(cursor, total)) for cursor in (0, 1, 500, 2999)}


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
    *fork_checks.CHECKS,
    *finding_checks.CHECKS,
    *knowledge_checks.CHECKS,
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
