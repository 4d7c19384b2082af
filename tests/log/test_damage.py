"""Files that were damaged: a flipped bit costs one line or one field, never a session."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

import child_process
from harness.errors import LogLocked
from harness.events import Event, Message, Result, TextDelta, ToolStart, Unknown, Warning
from harness.log.hub import Hub
from harness.log.store import Fork, Metadata, Query, Store, read_all
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.testing.faulty_store import FaultyStore

LOOKS_LIKE_AN_EVENT = {"type": "TextDelta", "seq": 3, "timestamp_ms": 5, "run_id": "x", "text": "inner"}
METADATA = Metadata(
    session_id="a",
    agent="Claude Code",
    prompt="mend the café",
    kind="thread",
    tags=["x", "y"],
    settings={"mode": "plan", "models": {"plan": "m"}},
    fork=Fork("parent", 7),
    outcome="completed",
    created_ms=1,
    updated_ms=1,
)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(str(tmp_path / "sessions"))


def written(store: Store) -> list[Event]:
    hub = Hub(store, "a", store.create(Metadata(session_id="a")))
    source = hub.source("run")
    events: list[Event] = []
    for number in range(12):
        events += source.append(
            [
                TextDelta(id="m", text=f"piece {number}"),
                ToolStart(call_id=f"c{number}", tool_name="x", input={"type": "y"}),
                Unknown(raw=LOOKS_LIKE_AN_EVENT, reason="an agent that runs a harness of its own"),
            ]
        )
    hub.close()
    return events


def test_behind_a_flipped_bit_every_event_keeps_its_place(store: FileStore) -> None:
    events = written(store)
    path = Path(store.path("a"))
    whole = path.read_bytes()
    chance = random.Random(7)
    for _ in range(1500):
        place = chance.randrange(len(whole) - 1)
        hit = {whole.count(b"\n", 0, place)}
        if whole[place : place + 1] == b"\n":
            hit.add(max(hit) + 1)
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)

        cursor = chance.randrange(len(events))
        read = {event.seq: event for event in read_all(store, "a", cursor)}
        assert [
            event.seq for event in events[cursor:] if read.get(event.seq) != event and event.seq not in hit
        ] == []
        assert len(events) - max(hit) < 2 or sorted(read) == list(range(cursor, len(events)))

        writer = store.open("a")
        assert writer.next_seq >= len(events), "what comes next overwrites nothing"
        writer.close()


def test_a_log_with_a_gap_is_read_as_it_was_written(store: FileStore) -> None:
    writer = store.create(Metadata(session_id="a"))
    numbers = [0, 1, 2, 50, 51, 52]
    writer.append([TextDelta(seq=number, timestamp_ms=1, run_id="r", text="x") for number in numbers])
    writer.close()

    assert [event.seq for event in read_all(store, "a")] == numbers
    assert [event.seq for event in read_all(store, "a", 30)] == [50, 51, 52]
    assert store.open("a").next_seq == 53


def test_a_flipped_bit_in_the_metadata_costs_one_field(store: FileStore) -> None:
    writer = store.create(Metadata(session_id="a"))
    store.save_metadata(METADATA)
    writer.close()
    path = Path(store.path("a", ".meta.json"))
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)

        read = store.metadata("a")
        same = [name for name in Metadata.__struct_fields__ if getattr(read, name) == getattr(METADATA, name)]
        assert len(Metadata.__struct_fields__) - len(same) <= 3, (
            "the writer is another one, and two may be joined"
        )
        assert [one.session_id for one in store.list()] == ["a"]
        assert [one.session_id for one in store.find(Query())] == ["a"]


@pytest.mark.parametrize(
    "sidecar",
    [
        b"",
        b"null",
        b"\xff\xfe",
        b"{" * 100_000,
        b'{"session_id":"../../x"}',
        b'{"session_id":"a","start_time":"' + b"9" * 5000 + b'"}',
        b'{"session_id":"a","updated_ms":18446744073709551615}',
    ],
)
def test_metadata_of_any_kind_are_no_obstacle(store: FileStore, sidecar: bytes) -> None:
    store.create(Metadata(session_id="a")).close()
    Path(store.path("a", ".meta.json")).write_bytes(sidecar)

    assert store.metadata("a").session_id == "a"
    assert [one.session_id for one in store.list()] == ["a"]
    assert [one.session_id for one in store.find(Query())] == ["a"]
    store.open("a").close()


@pytest.mark.parametrize("nonsense", [b"{", b'{"next_seq":"x"}', b'{"next_seq":\xff}', 5])
def test_an_index_that_holds_nonsense_is_made_again(store: FileStore, nonsense: bytes | int) -> None:
    writer = store.create(Metadata(session_id="a"))
    writer.append([Message(seq=0, timestamp_ms=1, run_id="r", role="user", text="zebra")])
    assert store.messages("a", 1) == 0
    store.close()
    with sqlite3.connect(Path(store.directory) / "index.sqlite3") as connection:
        connection.execute("UPDATE logs SET digest = ?, metadata = ?", (nonsense, nonsense))
    connection.close()
    writer.append([Message(seq=1, timestamp_ms=1, run_id="r", role="assistant", text="giraffe")])
    writer.close()

    assert [one.session_id for one in store.find(Query(text="giraffe zebra"))] == ["a"]
    assert store.messages("a", 1) == 1


def test_asking_whether_a_log_is_written_does_not_stop_a_writer(store: FileStore) -> None:
    store.create(Metadata(session_id="a")).close()

    def ask() -> None:
        for _ in range(20_000):
            store.is_live("a")

    asking = child_process.begin(ask)
    try:
        for _ in range(1000):
            store.open("a").close()
    finally:
        child_process.end(asking)
    holder = store.open("a")
    with pytest.raises(LogLocked, match="is being written by process"):
        store.open("a")
    holder.close()


def test_a_result_is_the_last_word_also_when_the_disk_refuses_it() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, fails_at=3)
    hub = Hub(store, "t", store.create(Metadata(session_id="t")))
    source = hub.source("r")
    source.append([TextDelta(text="words")])
    source.append([TextDelta(text="more"), Result(success=True)])
    hub.close()

    shown = [event for batch in hub.batches() for event in batch]
    assert [type(event) for event in shown] == [TextDelta, TextDelta, Warning, Result]
    assert [event.seq for event in shown] == [0, 1, 2, 3]
    assert list(read_all(inner, "t")) == shown


def test_a_log_that_lost_events_says_so_itself() -> None:
    inner = MemoryStore()
    store = FaultyStore(inner, fails_at=3, failures=1500)
    hub = Hub(store, "t", store.create(Metadata(session_id="t")))
    source = hub.source("r")
    for number in range(2000):
        source.append([TextDelta(text=f"{number}")])
    hub.close()

    kept = list(read_all(inner, "t"))
    warnings = [event for event in kept if isinstance(event, Warning)]
    assert [event.code for event in warnings] == ["log_incomplete"]
    assert "from seq 1 on" in warnings[0].message
    assert len(kept) < 2001
    assert [event.seq for event in kept] == sorted({event.seq for event in kept})


def test_a_reader_far_behind_outlives_the_deletion_of_the_log(store: FileStore) -> None:
    hub = Hub(store, "a", store.create(Metadata(session_id="a")))
    late = hub.follower(0)
    for number in range(60):
        hub.source("r").append([TextDelta(text=f"{number} " + "x" * 100_000)])
    Path(store.path("a")).unlink()
    hub.close()

    seen: list[int] = []
    while batch := late.poll():
        seen += [event.seq for event in batch]
    assert seen[-1] == 59


def test_a_reader_that_fails_does_not_stop_a_writer(store: FileStore) -> None:
    hub = Hub(store, "a", store.create(Metadata(session_id="a")))
    woken: list[int] = []

    def fail() -> None:
        raise RuntimeError("Event loop is closed")

    hub.add_waker(fail)
    hub.add_waker(lambda: woken.append(hub.next_seq))
    hub.source("r").append([TextDelta(text="x")])
    hub.close()

    assert woken == [1, 1]
