"""PostgreSQL as a store: other processes, lost connections, other versions, damaged rows."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

import child_process
import postgres_server
from harness.errors import LogLocked, MissingExtra, StoreError, UnknownSession, how_to_install
from harness.events import TextDelta, Unknown, Warning
from harness.log.hub import Hub
from harness.log.store import Metadata, Query, read_all
from harness.log.stores.postgres.schema import LOGS, VERSION
from harness.log.stores.postgres.store import PostgresStore
from harness.testing.small_logs import conversation, found, numbered, texts, write

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")

_DEADLINE_S = 20.0


@pytest.fixture
def url() -> str:
    return postgres_server.url()


@pytest.fixture
def store(url: str) -> PostgresStore:  # type: ignore[misc]
    store = PostgresStore(url)
    yield store
    store.close()


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def run_sql(url: str, statement: str, *values: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement, values)


def cut_all_connections(url: str) -> None:
    run_sql(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'harness' AND pid <> pg_backend_pid()",
    )


def test_two_processes_see_each_others_events(store: PostgresStore, url: str) -> None:
    mine = store.create(Metadata(session_id="mine"))
    store.create(Metadata(session_id="theirs")).close()
    woken = threading.Event()
    stop = store.watch("theirs", woken.set)

    def work() -> None:
        other = PostgresStore(url)
        seen = threading.Event()
        other.watch("mine", seen.set)
        writer = other.open("theirs")
        writer.append(numbered("theirs", range(3)))
        reader = other.reader("mine")
        read: list[int] = []
        while len(read) < 3:
            seen.wait(_DEADLINE_S)
            seen.clear()
            read += [event.seq for event in reader.read()]
        writer.append(numbered("theirs", range(3, 4)))
        writer.close()
        other.close()

    child = child_process.begin(work)
    reader = store.reader("theirs")
    read: list[int] = []
    while len(read) < 4:
        assert woken.wait(_DEADLINE_S)
        woken.clear()
        read += [event.seq for event in reader.read()]
        if len(read) == 3:
            mine.append(numbered("mine", range(3)))
    stop()
    mine.close()
    assert child_process.end(child) == 0
    assert read == [0, 1, 2, 3]


def test_a_lock_is_free_at_once_when_its_holder_is_killed(store: PostgresStore, url: str) -> None:
    ready, signal_end = os.pipe()

    def hold() -> None:
        writer = PostgresStore(url).create(Metadata(session_id="t"))
        writer.append(numbered("t", range(3)))
        os.write(signal_end, b"x")
        signal.pause()

    child = child_process.begin(hold)
    os.read(ready, 1)
    assert store.is_live("t")
    with pytest.raises(LogLocked) as caught:
        store.open("t")
    assert caught.value.holder == f"{child} on {os.uname().nodename}"
    with pytest.raises(LogLocked):
        store.delete("t")

    os.kill(child, signal.SIGKILL)
    child_process.end(child)
    until(lambda: not store.is_live("t"))

    writer = store.open("t")
    assert writer.next_seq == 3
    writer.close()
    assert texts(store, "t") == ["t 0", "t 1", "t 2"]


def test_a_connection_that_is_cut_costs_no_event(store: PostgresStore, url: str) -> None:
    hub = Hub(store, "t", store.create(Metadata(session_id="t")))
    source = hub.source("r")
    for number in range(40):
        source.append([TextDelta(text=f"{number}")])
        if number % 10 == 5:
            cut_all_connections(url)
    hub.close()

    shown = [event for batch in hub.batches() for event in batch]
    said = [event.text for event in shown if isinstance(event, TextDelta)]
    assert said == [f"{number}" for number in range(40)]
    assert list(read_all(store, "t")) == shown
    assert [event.seq for event in shown] == list(range(len(shown)))
    assert {type(event) for event in shown} <= {TextDelta, Warning}


def test_a_batch_that_was_stored_before_the_connection_broke_is_not_stored_twice(
    store: PostgresStore, url: str
) -> None:
    writer = store.create(Metadata(session_id="t"))
    writer.append(numbered("t", range(3)))
    cut_all_connections(url)
    with pytest.raises(OSError, match="PostgreSQL"):
        writer.append(numbered("t", range(3, 4)))

    writer.append(numbered("t", range(1, 6)))  # as a hub does that does not know how far it came

    assert texts(store, "t") == [f"t {number}" for number in range(6)]
    writer.close()


def test_a_writer_that_lost_its_log_to_another_writes_no_more(store: PostgresStore, url: str) -> None:
    writer = store.create(Metadata(session_id="t"))
    writer.append(numbered("t", range(2)))
    cut_all_connections(url)
    other = PostgresStore(url)
    until(lambda: not other.is_live("t"))
    theirs = other.open("t")
    theirs.append(numbered("other", range(2, 3)))

    for _ in range(3):
        with pytest.raises(OSError, match=r"written by process|PostgreSQL"):
            writer.append(numbered("t", range(2, 4)))
    theirs.close()
    with pytest.raises(OSError, match="written by process"):
        writer.append(numbered("t", range(2, 4)))
    assert texts(store, "t") == ["t 0", "t 1", "other 2"]
    writer.close()
    other.close()


def test_questions_are_answered_after_the_connection_broke(store: PostgresStore, url: str) -> None:
    write(store, "t", range(3))
    for ask in (
        lambda: found(store, Query()),
        lambda: texts(store, "t"),
        lambda: store.metadata("t").session_id,
        lambda: store.messages("t", 3),
    ):
        before = ask()
        cut_all_connections(url)
        assert ask() == before


def test_a_watcher_hears_again_after_the_connection_broke(store: PostgresStore, url: str) -> None:
    writer = store.create(Metadata(session_id="t"))
    woken = threading.Event()
    stop = store.watch("t", woken.set)
    cut_all_connections(url)
    assert woken.wait(_DEADLINE_S), "a watcher that may have missed something is woken"

    until(lambda: _appended(writer))
    woken.clear()
    until(lambda: bool(_appended(writer) and woken.wait(0.2)))
    stop()
    writer.close()


def _appended(writer: object) -> bool:
    try:
        writer.append(numbered("t", [_appended.seq]))  # type: ignore[attr-defined]
    except OSError:
        return False
    _appended.seq += 1  # type: ignore[attr-defined]
    return True


_appended.seq = 0  # type: ignore[attr-defined]


def test_a_server_that_is_not_there_is_said_so(tmp_path: object) -> None:
    store = PostgresStore(f"postgresql://nobody@/nothing?host={tmp_path}")
    for ask in (lambda: store.find(Query()), lambda: store.create(Metadata(session_id="t"))):
        with pytest.raises(StoreError, match="PostgreSQL") as caught:
            ask()
        assert caught.value.hint
    store.close()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtra, match="psycopg") as caught:
        PostgresStore("postgresql://")
    assert caught.value.hint == how_to_install("postgres")


def test_the_driver_is_not_imported_before_it_is_needed() -> None:
    import subprocess

    program = "import sys, harness.log.stores.postgres.store, harness.log.stores.open_store; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_database_of_the_first_version_becomes_a_current_one(url: str) -> None:
    run_sql(url, LOGS)
    run_sql(url, "CREATE TABLE harness_schema (version integer NOT NULL)")
    run_sql(url, "INSERT INTO harness_schema VALUES (1)")
    run_sql(
        url,
        "INSERT INTO harness_logs (log_id, kind, resource_id, heading, metadata, saved_ms, next_seq, digest, writer)"
        " VALUES ('old', 'run', '', '', '{\"session_id\":\"old\"}', 1, 1, '{\"next_seq\":1}', '1 on here')",
    )
    run_sql(url, 'INSERT INTO harness_events VALUES (1, 0, \'{"type":"TextDelta","seq":0,"text":"kept"}\')')

    store = PostgresStore(url)
    assert texts(store, "old") == ["kept"]
    writer = store.open("old")
    writer.append(conversation(1, turns=1))
    writer.close()
    assert store.messages("old", 1) == 3
    store.close()


def test_a_database_of_a_newer_version_is_left_alone(store: PostgresStore, url: str) -> None:
    write(store, "t", range(1))
    run_sql(url, "UPDATE harness_schema SET version = %s", VERSION + 1)
    newer = PostgresStore(url)

    with pytest.raises(StoreError, match="newer Harness"):
        newer.find(Query())
    newer.close()


def test_many_open_an_empty_database_at_once(url: str) -> None:
    children = [
        child_process.begin(lambda n=n: write(PostgresStore(url), f"t{n}", range(2))) for n in range(4)
    ]
    assert [child_process.end(child) for child in children] == [0] * 4

    store = PostgresStore(url)
    assert len(found(store, Query())) == 4
    store.close()


def test_a_database_that_knows_no_encoding_holds_text(url: str) -> None:
    """So is one of a server that was set up without a locale."""
    name = f"ascii_{os.getpid()}"
    run_sql(
        url, f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    store = PostgresStore(psycopg.conninfo.make_conninfo(url, dbname=name, options=""))
    writer = store.create(Metadata(session_id="a"))
    writer.append([TextDelta(seq=0, timestamp_ms=1, run_id="r", text="Grüße")])
    writer.close()
    assert (texts(store, "a"), found(store, Query())) == (["Grüße"], ["a"])
    store.close()


def test_a_damaged_row_costs_itself_alone(store: PostgresStore, url: str) -> None:
    write(store, "t", range(3))
    run_sql(url, "UPDATE harness_events SET line = 'rubbish' WHERE seq = 1")
    run_sql(url, "UPDATE harness_logs SET metadata = 'rubbish'")

    events = list(read_all(store, "t"))
    assert [event.seq for event in events] == [0, 1, 2]
    assert isinstance(events[1], Unknown)
    assert store.metadata("t") == Metadata(session_id="t")
    assert found(store, Query()) == ["t"]


def test_text_that_postgres_cannot_hold_is_no_reason_to_fail(store: PostgresStore) -> None:
    writer = store.create(Metadata(session_id="t", name="a\0b \ud800 title", settings={"x": "\ud800"}))
    writer.append(conversation(0, turns=1))
    writer.append([TextDelta(seq=7, timestamp_ms=7, run_id="r", text="nul \0 and half \ud800")])
    writer.close()

    assert len(list(read_all(store, "t"))) == 8
    assert found(store, Query(text="title \0")) == ["t"]


def test_a_child_process_does_not_take_its_parents_connection(store: PostgresStore) -> None:
    writer = store.create(Metadata(session_id="t"))

    def ask() -> None:
        assert store.is_live("t")
        store.close()

    assert child_process.end(child_process.begin(ask)) == 0
    writer.append(numbered("t", range(2)))
    assert store.is_live("t")
    writer.close()
    with pytest.raises(UnknownSession):
        store.reader("nobody")
