"""Whatever is done to a store, what is read of it stays sound: one suite over the stores of all agents.

Each test asks everything that can be asked of a history, through the catalogue and through the log of each session:
nothing may raise, hang, follow a link, or write into the store.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.events import Message
from harness.histories.catalogue import Catalogue
from harness.histories.catalogue_search import SessionSearch
from harness.histories.catalogue_usage import UsageChoice
from harness.histories.registry import load, names
from harness.histories.session_copy import keep
from harness.histories.stored_log import StoredLog
from harness.log.stores.files import FileStore
from stored_homes import HomeCase, cases, sessions

SECRET = "ghp_" + "".join(random.Random(7).choices("abcdefghijkABCDEFGHIJK0123456789", k=36))
FIELDS = (
    "title",
    "prompt",
    "model",
    "outcome",
    "runs",
    "cwd",
    "started_ms",
    "ended_ms",
    "is_child",
    "parent_id",
)
PLAIN_TEXT = ("aider", "continue")
"""Their streams are text: what no rule knows is a part of the answer."""
HOSTILE_NAMES = (
    "a\nb",
    "\x1b]0;owned\x07\x1b[2J",
    os.fsdecode(b"\xff\xfe\x80"),
    "x" * 240,
    "-rf",
    "..\u202e",
    " ",
    "%00?mode=rwc#",
)


def _smallest(agent: str) -> HomeCase:
    return min(cases(agent), key=lambda case: case.path.stat().st_size)


def _history(agent: str) -> AgentHistory:
    history = load(agent)
    assert history is not None
    return history


def _files(home: Home) -> list[Path]:
    """The largest first."""
    files = [path for path in Path(home.directory).rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: (-path.stat().st_size, path))


def _ask(catalogue: Catalogue, home: Home) -> None:
    """Everything that the commands ask of the catalogue."""
    catalogue.refresh(home)
    catalogue.read(catalogue.sessions())
    for asked in (
        SessionSearch(parts=("the", '"say')),
        SessionSearch(file="a"),
        SessionSearch(command="ls", commit="abcdef0"),
    ):
        for found in catalogue.search(asked):
            assert "\n" not in found.passage.text
    for by in ("agent", "day", "session"):
        catalogue.usage.sums((by,), UsageChoice(0))


def _ask_all(agent: str, home: Home, path: str = "") -> Catalogue:
    history = _history(agent)
    catalogue = Catalogue(path, [history])
    _ask(catalogue, home)
    for session in history.find(home):
        log = StoredLog(history, session)
        for _ in log.events():
            pass
        assert log.lost == []
    if history.live is not None:
        history.live(home)
    if history.deleted_after_days is not None:
        history.deleted_after_days(home)
    return catalogue


def _known(catalogue: Catalogue) -> Any:
    """What it says of the sessions that are there."""
    rows = {
        one.session_id: [getattr(one, name) for name in FIELDS]
        for one in catalogue.sessions()
        if not one.gone_ms
    }
    sums = catalogue.usage.sums(("session",), UsageChoice(0))
    return rows, sorted(
        (*one.keys, one.model, one.usage.input, one.usage.output) for one in sums if one.keys[0] in rows
    )


def _damages(whole: bytes) -> Iterator[Callable[[Path], object]]:
    chosen = random.Random(3)
    ends = {0, 1, 2, len(whole) - 1, whole.find(b"\n") + 1, *(chosen.randrange(len(whole)) for _ in range(8))}
    for end in sorted(ends):
        yield lambda path, end=end: path.write_bytes(whole[:end])
    yield lambda path: path.write_bytes(whole)  # it has grown again
    yield lambda path: path.write_bytes(whole + whole)
    yield lambda path: path.write_bytes(chosen.randbytes(len(whole)))
    yield lambda path: path.write_bytes(
        whole[: len(whole) // 2] + chosen.randbytes(300) + whole[len(whole) // 2 :]
    )
    yield Path.unlink
    yield Path.mkdir
    yield Path.rmdir
    yield lambda path: path.write_bytes(b"\0" * len(whole))
    yield lambda path: path.write_bytes(whole)


@pytest.mark.parametrize("agent", names())
def test_a_catalogue_that_has_seen_any_damage_ends_up_as_a_new_one(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    path = _files(home)[0]
    catalogue = Catalogue("", [_history(agent)])
    for number, damage in enumerate(_damages(path.read_bytes()), 1):
        damage(path)
        if path.exists():
            os.utime(path, (number, number))
        _ask(catalogue, home)
    new = Catalogue("", [_history(agent)])
    _ask(new, home)
    assert _known(catalogue) == _known(new)
    assert _known(new)[0]


def _snapshot(home: Home) -> dict[str, tuple[int, int, bytes]]:
    found = {}
    for path in Path(home.directory).rglob("*"):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, content)
    return found


@pytest.mark.parametrize("agent", names())
def test_nothing_is_written_into_a_store(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path / "home")
    folders = [path for path in Path(home.directory).rglob("*") if path.is_dir()]
    for folder in folders:
        os.chmod(folder, 0o500)
    before = _snapshot(home)
    try:
        catalogue = _ask_all(agent, home, str(tmp_path / "cache" / "histories.sqlite"))
        store = FileStore(str(tmp_path / "sessions"))
        for session in catalogue.read(catalogue.sessions()):
            keep(_history(agent), session, store)
        assert _snapshot(home) == before
    finally:
        for folder in folders:
            os.chmod(folder, 0o700)


@pytest.mark.parametrize("agent", names())
def test_a_store_that_is_rewritten_while_it_is_read_never_fails(agent: str, tmp_path: Path) -> None:
    history = _history(agent)
    home = _smallest(agent).unpack(tmp_path)
    path = _files(home)[0]
    whole = path.read_bytes()
    rewritten = (b"", whole[: len(whole) // 3], b"\xff" * len(whole), whole[len(whole) // 2 :])
    for count, content in enumerate(rewritten):
        path.write_bytes(whole)
        for session in history.find(home):

            def passing(
                session: StoredSession, count: int = count, content: bytes = content
            ) -> Iterator[Any]:
                for number, record in enumerate(history.records(session)):
                    if number == count:
                        path.write_bytes(content)
                    yield record

            log = StoredLog(replace(history, records=passing), session)
            for _ in log.events():
                pass
            assert log.lost == []


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        listening.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
        listening.close()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop_of_folders(path: Path) -> None:
    path.symlink_to(path.parent, target_is_directory=True)


@pytest.mark.parametrize("make", [_fifo, _socket, _loop, _device, _loop_of_folders, Path.mkdir])
@pytest.mark.parametrize("agent", names())
def test_what_is_no_file_is_not_read(agent: str, make: Callable[[Path], object], tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    for path in _files(home)[:4]:
        path.unlink()
        make(path)
    _ask_all(agent, home)


@pytest.mark.parametrize("agent", names())
def test_hostile_names_of_files_and_folders_change_nothing(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    expected = _known(_ask_all(agent, home))
    path = _files(home)[0]
    content = path.read_bytes()
    for name in HOSTILE_NAMES:
        (path.parent / f"{name[:200]}{path.suffix}").write_bytes(content)
        folder = path.parent.parent / name
        folder.mkdir(exist_ok=True)
        (folder / path.name).write_bytes(content)
    rows, _sums = _known(_ask_all(agent, home))
    assert {name: row for name, row in rows.items() if name in expected[0]}.keys() == expected[0].keys()
    assert all(name.isprintable() and name.isascii() for name in rows)


def _of_the_future(value: Any) -> Any:
    """The same with higher versions and more fields, at any depth."""
    if isinstance(value, list):
        return [_of_the_future(one) for one in value]
    if not isinstance(value, dict):
        return value
    changed = {
        key: "99.0.0" if "version" in key.lower() and isinstance(inner, str) else _of_the_future(inner)
        for key, inner in value.items()
    }
    return {**changed, "fieldOfTheFuture": {"version": 99}}


@pytest.mark.parametrize("agent", names())
def test_versions_fields_and_records_of_the_future_lose_nothing(agent: str, tmp_path: Path) -> None:
    history = _history(agent)
    case = _smallest(agent)
    new = {"type": "record-of-the-future", "kind": "record-of-the-future", "role": "future", "version": 99}
    for session in sessions(case, case.unpack(tmp_path)):
        records = [*history.records(session)]
        before = [event for event in StoredLog(history, session).events() if isinstance(event, Message)]

        def changed(_session: StoredSession, records: list[Any] = records) -> Iterator[Any]:
            for record in records:
                yield _of_the_future(record)
                if agent not in PLAIN_TEXT:
                    yield new

        log = StoredLog(replace(history, records=changed), session)
        after = [event for event in log.events() if isinstance(event, Message)]
        assert [(one.role, one.text) for one in after] == [(one.role, one.text) for one in before]
        assert log.lost == []


def _plant(home: Home, text: str) -> None:
    """Put a secret behind a text, wherever a store says it."""
    planted = f"{text} {SECRET}"
    pairs = {(json.dumps(text)[1:-1], json.dumps(planted)[1:-1]), (text, planted)}
    for path in _files(home):
        content = path.read_bytes()
        if content.startswith(b"SQLite format 3"):
            _plant_into_tables(path, pairs)
            continue
        for old, new in pairs:
            content = content.replace(old.encode(), new.encode())
        path.write_bytes(content)


def _plant_into_tables(path: Path, pairs: set[tuple[str, str]]) -> None:
    connection = sqlite3.connect(path)
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        for (column,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall():
            for old, new in pairs:
                connection.execute(
                    f'UPDATE OR IGNORE "{table}" SET "{column}" = replace("{column}", ?, ?)'
                    f' WHERE typeof("{column}") = \'text\' AND instr("{column}", ?)',
                    (old, new, old),
                )
    connection.commit()
    connection.close()


@pytest.mark.parametrize("agent", names())
def test_secrets_of_a_store_are_in_no_index_log_or_copy(agent: str, tmp_path: Path) -> None:
    history, case = _history(agent), _smallest(agent)
    home = case.unpack(tmp_path / "home")
    events = [event for one in sessions(case, home) for event in StoredLog(history, one).events()]
    prompt = next(event.text for event in events if isinstance(event, Message) and event.role == "user")
    _plant(home, prompt)
    catalogue = _ask_all(agent, home, str(tmp_path / "cache" / "histories.sqlite"))
    store = FileStore(str(tmp_path / "sessions"))
    plain, masked = "", ""
    for session in catalogue.read(catalogue.sessions()):
        plain += repr([*StoredLog(history, session.stored, redact=False).events()])
        masked += repr([*StoredLog(history, session.stored).events()])
        keep(history, session, store)
    catalogue.close()
    assert SECRET in plain
    assert SECRET not in masked
    for path in [*(tmp_path / "cache").iterdir(), *(tmp_path / "sessions").rglob("*")]:
        if path.is_file():
            assert SECRET.lower()[4:] not in path.read_bytes().decode("latin-1").lower(), path.name


@pytest.mark.parametrize("agent", [agent for agent in names() if _history(agent).scanner is not None])
def test_the_short_way_leaves_out_a_line_of_100_megabytes(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    expected = _known(_ask_all(agent, home))
    path = _files(home)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines(lines[:-1])
        file.seek(100 * 1024 * 1024, os.SEEK_CUR)
        file.write(b"\n" + lines[-1])
    catalogue = Catalogue("", [_history(agent)])
    _ask(catalogue, home)
    assert _known(catalogue) == expected


WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
for number in range(3):
    connection.execute(f"CREATE TABLE of_the_future_{number} (x)")
    print("written", flush=True)
    sys.stdin.readline()
"""
DATABASES = ("goose", "kilo", "opencode")


@pytest.mark.parametrize("agent", DATABASES)
def test_a_journal_without_its_shared_memory_is_read(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path / "home")
    path = _files(home)[0]
    expected = _known(_ask_all(agent, home))
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE of_the_future (x)")
    connection.commit()
    copies = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", "-wal")}
    connection.close()
    for suffix, content in copies.items():
        Path(f"{path}{suffix}").write_bytes(content)
    assert _known(_ask_all(agent, home)) == expected
    assert {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in copies} == copies


@pytest.mark.parametrize("agent", DATABASES)
def test_a_database_that_its_agent_has_open_is_read_without_a_trace(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path / "home")
    path = _files(home)[0]
    expected = _known(_ask_all(agent, home))
    # In another process: connections of one process share what they map.
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in range(3):
            assert writer.stdout.readline()
            before = _snapshot(home)
            assert any(name.endswith("-shm") for name in before)
            assert _known(_ask_all(agent, home)) == expected
            assert _snapshot(home) == before
            writer.stdin.write(b"\n")
            writer.stdin.flush()


@pytest.mark.parametrize("agent", DATABASES)
def test_a_database_of_another_shape_has_what_can_be_read(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    path = _files(home)[0]
    connection = sqlite3.connect(path)
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        )
    ]
    for table in tables:
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "of the future"')
    connection.commit()
    assert _known(_ask_all(agent, home))[0]
    for table in tables:
        connection.execute(f'ALTER TABLE "{table}" RENAME TO "{table} of the future"')
        connection.commit()
        _ask_all(agent, home)
        connection.execute(f'ALTER TABLE "{table} of the future" RENAME TO "{table}"')
        connection.commit()
    connection.close()
