"""Commands to the process that has a log open, sent through PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import postgres_server
from harness.errors import UnknownSession
from harness.log.store import Metadata
from harness.log.stores.postgres.store import PostgresStore

psycopg = pytest.importorskip("psycopg", reason="no PostgreSQL: psycopg is not installed")


@pytest.fixture
def url() -> str:
    return postgres_server.url()


@pytest.fixture
def holder(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


@pytest.fixture
def asker(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url)
    yield store
    store.close()


def test_only_the_process_that_has_a_log_takes_its_commands_in_their_order(
    holder: PostgresStore, asker: PostgresStore
) -> None:
    writers = [holder.create(Metadata(session_id=name)) for name in ("one", "two")]
    free = asker.create(Metadata(session_id="free"))
    free.close()
    for key, log_id in (("c", "one"), ("a", "two"), ("b", "one"), ("d", "free")):
        asker.commands.leave(log_id, key, key.encode(), within_s=60)
    assert asker.commands.take() == []
    assert [(asked.log_id, asked.command) for asked in holder.commands.take()] == [
        ("one", b"c"),
        ("two", b"a"),
        ("one", b"b"),
    ]
    assert holder.commands.take() == []
    for writer in writers:
        writer.close()


def test_a_result_is_fetched_once_and_nothing_is_left_of_the_command(
    holder: PostgresStore, asker: PostgresStore, url: str
) -> None:
    writer = holder.create(Metadata(session_id="one"))
    woken = threading.Event()
    stop = asker.commands.listen_for_result("key", woken.set)
    asker.commands.leave("one", "key", b"a secret", within_s=60)
    found = asker.commands.look("key")
    assert found is not None
    assert (found.taken_by, found.has_result, found.is_held) == ("", False, True)
    holder.commands.take()
    assert not asker.commands.withdraw("key")
    asker.commands.answer("key", b"from a process that never took it")
    assert asker.commands.fetch("key") is None
    holder.commands.answer("key", b"done")
    assert woken.wait(60)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT command FROM harness_commands").fetchall() == [(b"",)]
    assert asker.commands.fetch("key") == b"done"
    assert asker.commands.fetch("key") is None
    assert asker.commands.look("key") is None
    stop()
    writer.close()


def test_what_has_expired_is_never_taken_and_is_removed_in_the_end(
    holder: PostgresStore, asker: PostgresStore, url: str
) -> None:
    writer = holder.create(Metadata(session_id="one"))
    asker.commands.leave("one", "late", b"x", within_s=0)
    assert holder.commands.take() == []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE harness_commands SET expires_at = expires_at - interval '1 hour'")
    asker.commands.leave("one", "new", b"x", within_s=60)
    assert asker.commands.look("late") is None
    writer.close()


def test_a_command_is_taken_back_only_from_one_who_has_lost_the_log(
    holder: PostgresStore, asker: PostgresStore
) -> None:
    writer = holder.create(Metadata(session_id="one"))
    asker.commands.leave("one", "key", b"x", within_s=60)
    holder.commands.take()
    found = asker.commands.look("key")
    assert found is not None
    assert found.is_being_done
    writer.close()
    other = asker.open("one")  # it is open, but not in the process that took the command
    found = asker.commands.look("key")
    assert found is not None
    assert (found.is_being_done, found.is_held) == (False, True)
    assert asker.commands.take_back("key", found.taken_by) == 0
    holder.commands.answer("key", b"too late")
    assert asker.commands.look("key") is None
    other.close()


def test_what_is_given_back_is_taken_by_the_next(holder: PostgresStore, asker: PostgresStore) -> None:
    writer = holder.create(Metadata(session_id="one"))
    asker.commands.leave("one", "key", b"x", within_s=60, seen_seq=7)
    assert holder.commands.take()[0].seen_seq == 7
    holder.commands.give_back("key")
    assert [asked.key for asked in holder.commands.take()] == ["key"]
    writer.close()


def test_commands_go_with_their_log(holder: PostgresStore, asker: PostgresStore) -> None:
    holder.create(Metadata(session_id="one")).close()
    asker.commands.leave("one", "key", b"x", within_s=60)
    holder.delete("one")
    assert asker.commands.look("key") is None
    with pytest.raises(UnknownSession):
        asker.commands.leave("one", "again", b"x", within_s=60)
