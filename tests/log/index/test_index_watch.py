"""An index that is notified of changes in its folder looks at nothing else, and finds the same as one that looks at everything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.events import Message
from harness.log.index import access, database
from harness.log.store import Metadata, Query
from harness.log.stores.files import FileStore
from harness.system import posix
from harness.system.linux import FolderNotices

needs_notices = pytest.mark.needs_linux_calls("only Linux reports what changes in a folder")

_OTHER = """
import sys
from harness.events import Message
from harness.log.store import Metadata
from harness.log.stores.files import FileStore
store = FileStore(sys.argv[1])
writer = store.create(Metadata(session_id="other", prompt="by another process"))
writer.append([Message(seq=0, timestamp_ms=5, role="user", text="a needle in the hay")])
store.delete("gone")
metadata = store.metadata("first")
metadata.name = "renamed"
store.save_metadata(metadata)
"""


def entered(store: FileStore, *log_ids: str, words: str = "") -> None:
    for log_id in log_ids:
        writer = store.create(Metadata(session_id=log_id, prompt=f"{words} {log_id}"))
        writer.append([Message(seq=0, timestamp_ms=5, role="user", text=words)])
        writer.close()


def found(store: FileStore, **query: object) -> list[str]:
    return sorted(one.session_id for one in store.find(Query(**query)))  # type: ignore[arg-type]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every look at the whole folder."""
    seen: list[str] = []
    scan = database.scan

    def counted(directory: str) -> object:
        seen.append(directory)
        return scan(directory)

    monkeypatch.setattr(database, "scan", counted)
    return seen


@needs_notices
def test_what_another_process_does_is_found_without_looking_at_everything(
    tmp_path: Path, looks: list[str]
) -> None:
    store = FileStore(str(tmp_path))
    entered(store, "first", "gone")
    assert found(store) == found(store) == ["first", "gone"]
    before = len(looks)
    assert before == 2  # who asks only once does not watch
    for _ in range(5):
        found(store)
    version = store.version()
    subprocess.run([sys.executable, "-c", _OTHER, str(tmp_path)], check=True)
    assert store.version() != version
    assert found(store) == ["first", "other"]
    assert found(store, text="needle") == ["other"]
    assert found(store, text="renamed") == ["first"]
    version = store.version()
    assert found(store) == ["first", "other"]
    assert store.version() == version
    assert len(looks) == before
    store.close()
    assert found(store) == ["first", "other"]
    store.close()


@needs_notices
def test_more_changes_than_are_notified_are_found_by_looking_at_everything(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(str(tmp_path))
    entered(store, "a")
    found(store)
    found(store)
    lost = [True]

    def changed(self: FolderNotices) -> set[str] | None:
        return None if lost.pop() else set()

    entered(store, "b")
    before = len(looks)
    monkeypatch.setattr(FolderNotices, "changed", changed)
    assert found(store) == ["a", "b"]
    assert len(looks) == before + 1
    store.close()


def test_without_notifications_everything_is_looked_at(
    tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "system", posix)
    store = FileStore(str(tmp_path))
    for number in range(4):
        entered(store, f"s{number}")
        assert len(found(store)) == number + 1
    assert len(looks) == 4
    assert store.version() is None
    store.catch_up()
    assert len(found(store)) == 4
    store.close()


@needs_notices
def test_a_child_process_takes_no_notification_of_its_parent(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    entered(store, "a")
    found(store)
    found(store)
    entered(store, "b")
    child = os.fork()
    if child == 0:
        os._exit(0 if found(store) == ["a", "b"] and store.version() is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert found(store) == ["a", "b"]
    store.close()


def test_a_log_that_grows_is_read_on_and_what_is_said_in_it_is_found(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    writer = store.create(Metadata(session_id="grows"))
    found(store)
    found(store)
    for number in range(5):
        writer.append([Message(seq=number, timestamp_ms=number, role="user", text=f"word{number}")])
        assert found(store, text=f"word{number}") == ["grows"]
    writer.close()
    store.close()


@needs_notices
def test_lists_are_answered_while_much_is_still_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(str(tmp_path))
    entered(store, *(f"s{number:02}" for number in range(12)), words="needle")
    for number in range(12):
        os.utime(tmp_path / f"s{number:02}.ndjson", (1000 + number, 1000 + number))
    monkeypatch.setattr(database, "_LOGS_IN_A_BATCH", 3)
    seen: list[tuple[int, int]] = []

    def asked(_pause_s: float) -> None:
        if len(seen) == 1:
            entered(store, "new")
        seen.append((len(found(store)), store.total(Query(text="needle"))))

    monkeypatch.setattr(access.time, "sleep", asked)
    store.catch_up()
    assert seen[:2] == [(3, 3), (7, 6)]
    assert found(store)[:2] == ["new", "s00"]
    assert len(found(store)) == 13
    store.close()


def test_catching_up_with_an_index_that_is_closed_or_broken_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(str(tmp_path))
    entered(store, *(f"s{number}" for number in range(6)))
    monkeypatch.setattr(database, "_LOGS_IN_A_BATCH", 2)
    monkeypatch.setattr(access.time, "sleep", lambda _: store.close())
    store.catch_up()
    assert len(found(store)) == 6
    store.close()


def test_words_that_very_many_logs_say_are_found_in_order_and_about_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.log.index import database

    monkeypatch.setattr(database, "_MANY", 10)
    monkeypatch.setattr(database, "_SAMPLED", 8)
    monkeypatch.setattr(database, "_FEW", 4)
    store = FileStore(str(tmp_path))
    for number in range(40):
        words = f"needle {'thread' if number % 2 else 'needless'} {'rare' if number in (3, 5) else ''}"
        store.create(
            Metadata(session_id=f"s{number:02}", prompt=words, created_ms=1, updated_ms=number + 1)
        ).close()
    for text in ("needle", "ne", "needle thread", "e"):
        every = [f"s{number:02}" for number in range(39, -1, -1) if "thread" not in text or number % 2]
        page = [one.session_id for one in store.find(Query(text=text, limit=5, offset=3))]
        assert page == every[3:8], text
        assert [one.session_id for one in store.find(Query(text=text))] == every
        assert store.total(Query(text=text)) == len(every)
    for text in ("needle rare", "rare", "are need"):
        assert [one.session_id for one in store.find(Query(text=text))] == ["s05", "s03"]
        assert store.total(Query(text=text)) == 2
    for text in ('quote"d', "a\0b", "%", "_", "nee%e", "*", "AND"):
        assert store.find(Query(text=text)) == []
        assert store.total(Query(text=text)) == 0
    store.close()
