"""The index beside the log files: it may be lost, broken, old or shared, and the answers stay the same."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import child_process
from harness.events import Message, TextDelta, ToolStart
from harness.events.operation import Command, Operation, Read, Write
from harness.log.index import schema
from harness.log.index.schema import LISTS_AND_STARTS, OPERATIONS, SHORT_WAYS, VERSION
from harness.log.store import Fork, Metadata, Query, read_all
from harness.log.stores.files import FileStore
from harness.testing import query_checks
from harness.testing.small_logs import conversation, found, numbered, write
from harness.testing.stores import Check, name_of

LOGS = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Some threads, one of them a fork, no index has been needed so far."""
    store = FileStore(str(tmp_path))
    for number in range(LOGS):
        fork = Fork("t0", 7) if number == LOGS - 1 else None
        metadata = Metadata(
            session_id=f"t{number}",
            kind="thread",
            resource_id=f"r{number % 3}",
            name=f"Title {number}",
            created_ms=5,
            updated_ms=number,
            fork=fork,
        )
        writer = store.create(metadata)
        writer.append(conversation(writer.next_seq, turns=2 + number % 3))
        writer.close()
    return tmp_path


def answers(folder: Path) -> dict[str, Any]:
    """Everything that an index is asked."""
    store = FileStore(str(folder))
    try:
        return {
            "all": store.find(Query()),
            "text": found(store, Query(text="answer 3")),
            "short text": found(store, Query(text="3")),
            "resource": found(store, Query(resource_id="r1", limit=2, offset=1)),
            "resources": store.resource_ids(),
            "messages": [
                store.messages(f"t{number}", limit) for number in range(LOGS) for limit in (1, 3, 5)
            ],
            "usage": [store.usage(f"t{number}") for number in range(LOGS)],
        }
    finally:
        store.close()


def test_an_index_costs_nothing_until_it_is_needed(tmp_path: Path) -> None:
    program = f"""
import sys
import harness
from harness.log.store import Metadata, read_all
store = harness.FileStore({str(tmp_path)!r})
writer = store.create(Metadata(session_id="t"))
writer.append([])
writer.close()
list(read_all(store, "t", 5)), list(store.list()), store.is_live("t"), store.save_metadata(store.metadata("t"))
print("sqlite3" in sys.modules, "harness.log.index.database" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False False\n"
    assert sorted(os.listdir(tmp_path)) == ["t.meta.json", "t.ndjson"]


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database at all, but long enough to look at" * 100)


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def holes(path: Path) -> None:
    with path.open("r+b") as file:
        for offset in range(4096, path.stat().st_size, 4096):
            file.seek(offset)
            file.write(b"\xff" * 512)


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def other_tables(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE logs")
    connection.close()


@pytest.mark.parametrize("damage", [os.unlink, garbage, half, holes, newer, other_tables, Path.touch])
def test_a_lost_or_broken_index_is_made_again(folder: Path, damage: Callable[[Path], None]) -> None:
    before = answers(folder)
    path = folder / "index.sqlite3"
    assert path.exists()
    damage(path)

    assert answers(folder) == before
    assert answers(folder) == before
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert connection.execute("SELECT count(*) FROM logs").fetchone() == (LOGS,)
    connection.close()


def test_an_index_that_breaks_while_it_is_open_is_left_to_the_others(folder: Path) -> None:
    before = answers(folder)
    one, other = FileStore(str(folder)), FileStore(str(folder))
    assert one.resource_ids() == other.resource_ids() == before["resources"]
    with sqlite3.connect(folder / "index.sqlite3") as connection:
        connection.execute("DROP TABLE logs")
    connection.close()

    assert one.find(Query()) == before["all"]
    assert other.find(Query()) == before["all"]
    one.close()
    other.close()
    assert answers(folder) == before


def test_an_index_deleted_while_it_is_open_is_made_again(folder: Path) -> None:
    store = FileStore(str(folder))
    before = store.find(Query())
    for name in os.listdir(folder):
        if name.startswith("index.sqlite3"):
            (folder / name).unlink()

    assert store.find(Query()) == before
    assert (folder / "index.sqlite3").exists()
    store.close()
    assert answers(folder)["all"] == before


def test_an_index_of_the_first_version_becomes_a_current_one(folder: Path) -> None:
    before = answers(folder)
    path = folder / "index.sqlite3"
    rows = {}
    with sqlite3.connect(path) as connection:
        for table in ("logs", "starts", "places", "texts"):
            rows[table] = connection.execute(f"SELECT * FROM {table}").fetchall()
    # The first version had none of the last columns, and no headings among the texts.
    rows["logs"] = [row[:-2] for row in rows["logs"]]
    rows["texts"] = [row[:-1] for row in rows["texts"] if not row[-1]]
    connection.close()
    for name in os.listdir(folder):
        if name.startswith("index.sqlite3"):
            (folder / name).unlink()
    with sqlite3.connect(path) as connection:
        connection.executescript(LISTS_AND_STARTS)
        for table, values in rows.items():
            for row in values:
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        connection.execute("INSERT INTO snapshots SELECT number, 'kept', 3, x'aa' FROM logs")
        connection.execute("PRAGMA user_version = 1")
    connection.close()

    store = FileStore(str(folder))
    assert store.snapshot("t1", "kept") == (3, b"\xaa"), "it was migrated, not thrown away"
    assert len(store.logs_with("anything")) == LOGS, "what they did was not read by that version"
    store.close()
    assert answers(folder) == before


def test_rebuilding_gives_the_same_answers_without_snapshots(folder: Path) -> None:
    before = answers(folder)
    store = FileStore(str(folder))
    store.save_snapshot("t1", "display", 3, b"data")
    store.rebuild()

    assert store.snapshot("t1", "display") is None
    store.close()
    assert answers(folder) == before


def test_where_no_index_can_be_kept_the_answers_are_the_same(folder: Path) -> None:
    before = answers(folder)
    for name in os.listdir(folder):
        if name.startswith("index.sqlite3"):
            (folder / name).unlink()
    (folder / "index.sqlite3").mkdir()

    assert answers(folder) == before
    store = FileStore(str(folder))
    store.save_snapshot("t1", "display", 3, b"data")
    assert store.snapshot("t1", "display") == (3, b"data"), "for as long as this store is open"
    store.close()


def test_a_full_disk_costs_the_index_and_nothing_else(folder: Path) -> None:
    store = FileStore(str(folder))
    before = store.find(Query())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    write(store, "new", range(3))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        store.save_snapshot("new", "display", 3, b"x" * 100_000)
        assert len(store.find(Query())) == len(before) + 1
        assert store.snapshot("new", "display") == (3, b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    store.close()
    assert len(answers(folder)["all"]) == len(before) + 1


def test_only_what_is_new_is_read(folder: Path) -> None:
    """The beginning of a log, overwritten in its place, is not missed: it was read before."""
    store = FileStore(str(folder))
    assert "t1" in found(store, Query(text="question 0"))
    with open(store.path("t1"), "r+b") as file:
        file.write(b" " * 100)
    writer = store.open("t1")
    writer.append([Message(seq=writer.next_seq, timestamp_ms=99, run_id="r", role="user", text="a new word")])

    assert found(store, Query(text="a new word")) == ["t1"]
    assert "t1" in found(store, Query(text="question 0"))
    writer.close()
    store.close()


def test_a_log_that_was_rewritten_is_read_again(folder: Path) -> None:
    store = FileStore(str(folder))
    assert store.messages("t1", 1) == 16
    path = Path(store.path("t1"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join(lines[:7]) + b"\n")
    assert store.messages("t1", 1) == 2

    path.write_bytes(b"\n".join(lines[:2]) + b"\n" + b"x" * 5000 + b"\n")
    assert store.messages("t1", 1) == 0
    store.close()


def test_reading_from_the_middle_of_a_long_log_begins_near_it(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    writer = store.create(Metadata(session_id="t"))
    text = "x" * 1000
    for first in range(0, 5000, 100):
        writer.append(
            [TextDelta(seq=seq, timestamp_ms=1, run_id="r", text=text) for seq in range(first, first + 100)]
        )
    store.usage("t")
    index = store._index
    assert index is not None
    place = index.place("t", 4000)
    assert place is not None
    assert place.seq > 2000

    for cursor in (1, place.seq - 1, place.seq, place.seq + 1, 4000, 4999):
        assert [event.seq for event in read_all(store, "t", cursor)][:1] == [cursor]
    assert list(read_all(store, "t", 5000)) == []
    with open(store.path("t"), "r+b") as file:  # the place is wrong now
        file.seek(place.offset - 10)
        file.write(b" " * 20)
    assert [event.seq for event in read_all(store, "t", 4000)] == list(range(4000, 5000))
    writer.close()
    store.close()


def test_processes_fill_one_index_together(folder: Path) -> None:
    before = answers(folder)
    for name in os.listdir(folder):
        if name.startswith("index.sqlite3"):
            (folder / name).unlink()
    store = FileStore(str(folder))
    children = [
        child_process.begin(lambda number=number: _ask_and_write(folder, number)) for number in range(4)
    ]
    for _ in range(20):
        store.find(Query(text="child"))
    codes = [child_process.end(child) for child in children]

    assert codes == [0, 0, 0, 0]
    names = sorted(f"child-{number}-{count}" for number in range(4) for count in range(10))
    assert sorted(found(store, Query(text="child"))) == names
    for name in names:
        assert store.messages(name, 1) == 9
        store.delete(name)
    assert found(store, Query(text="child")) == []
    store.close()
    assert answers(folder) == before
    with sqlite3.connect(folder / "index.sqlite3") as connection:
        assert connection.execute("SELECT count(*) FROM logs").fetchone() == (LOGS,)
        assert connection.execute("SELECT count(*) FROM texts").fetchone()[0] > 0
        connection.execute("INSERT INTO search (search) VALUES ('integrity-check')")
    connection.close()


def test_a_child_process_does_not_disturb_its_parents_index(folder: Path) -> None:
    store = FileStore(str(folder))
    before = store.find(Query())

    def ask() -> None:
        assert store.find(Query()) == before
        store.close()

    child = child_process.begin(ask)
    assert child_process.end(child) == 0

    assert store.find(Query()) == before
    store.close()


def test_the_index_is_private_whatever_the_umask(folder: Path) -> None:
    mask = os.umask(0)
    try:
        store = FileStore(str(folder))
        store.save_snapshot("t1", "display", 3, b"data")
    finally:
        os.umask(mask)

    names = [name for name in os.listdir(folder) if name.startswith("index.sqlite3")]
    assert len(names) >= 3
    for name in names:
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name
    store.close()


def test_a_log_may_be_called_index(folder: Path) -> None:
    store = FileStore(str(folder))
    write(store, "index", range(2))
    assert "index" in found(store, Query())
    store.delete("index")

    assert (folder / "index.sqlite3").exists()
    assert "index" not in found(store, Query())
    store.close()


@pytest.mark.parametrize("check", query_checks.CHECKS, ids=name_of)
def test_without_a_search_table_the_same_is_found(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "CREATE VIRTUAL TABLE search USING a_module_that_is_not_there (text)"
    monkeypatch.setattr(schema, "MIGRATIONS", (LISTS_AND_STARTS, absent, SHORT_WAYS, OPERATIONS))
    monkeypatch.setattr(schema, "OPTIONAL", (absent,))
    store = FileStore(str(tmp_path))
    check(store)
    store.close()

    with sqlite3.connect(tmp_path / "index.sqlite3") as connection:
        assert not schema.has_search(connection)
    connection.close()


def _call(seq: int, *operations: Operation) -> ToolStart:
    return ToolStart(seq=seq, call_id=f"c{seq}", tool_name="x", operations=[*operations])


def test_logs_are_found_by_the_commands_and_files_of_their_calls(folder: Path) -> None:
    store = FileStore(str(folder))
    assert store.logs_with("cart") == set()
    writer = store.create(Metadata(session_id="did"))
    writer.append(
        [_call(0, Command(command="pytest tests/test_cart.py")), _call(1, Read(path="src/cart.py"))]
    )
    assert store.logs_with("cart") == store.logs_with("src/cart") == {"did"}
    assert store.logs_with("README.md") == set()
    writer.append([_call(2, Write(path="README.md"))])
    assert store.logs_with("README.md") == {"did"}
    assert store.logs_with("pytest tests/") == {"did"}
    writer.close()
    store.delete("did")
    assert store.logs_with("cart") == set()
    store.close()


def _ask_and_write(folder: Path, number: int) -> None:
    store = FileStore(str(folder))
    for count in range(10):
        writer = store.create(Metadata(session_id=f"child-{number}-{count}", name=f"child {number}"))
        writer.append(conversation(0, turns=1))
        store.find(Query(text="child"))
        writer.append(conversation(7, turns=1))
        writer.close()
    assert len(found(store, Query(text=f"child {number}"))) >= 10
    store.close()


def test_a_watcher_hears_what_another_process_writes(tmp_path: Path) -> None:
    store = FileStore(str(tmp_path))
    writer = store.create(Metadata(session_id="t"))
    writer.close()
    woken = threading.Event()
    stop = store.watch("t", woken.set)

    def work() -> None:
        writer = FileStore(str(tmp_path)).open("t")
        writer.append(numbered("t", range(2)))
        writer.close()

    assert child_process.end(child_process.begin(work)) == 0
    assert woken.wait(60)
    assert [event.seq for event in read_all(store, "t")] == [0, 1]
    stop()
