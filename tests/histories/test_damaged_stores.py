"""Stores that are cut, garbled, replaced or hostile: reading never fails, never follows a link, and never hangs."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contracts.history import Home
from harness.events import Message, Unknown
from harness.histories.registry import load, names
from harness.histories.stored_log import StoredLog
from harness.protocols.reading.store_files import LONGEST_LINE_BYTES, json_lines
from stored_homes import HomeCase, cases, opened, sessions

ODD_VALUES: tuple[Any, ...] = (
    None,
    5,
    -1,
    True,
    1e300,
    "",
    "x",
    "\ud800",
    [],
    [None],
    {},
    {"type": 7},
    2**70,
)
GARBAGE = (
    b"not json\n",
    b'{"type":\n',
    b"[1,2]\n",
    b"null\n",
    b"\xff\xfe\x00\n",
    b'{"type":5}\n',
    b"\n",
    b'{"a":NaN}\n',
)


def _smallest(agent: str) -> HomeCase:
    return min(cases(agent), key=lambda case: case.path.stat().st_size)


def _read_all(agent: str, home: Home) -> int:
    """Everything that can be asked of a history; returns how many events there are."""
    history = load(agent)
    assert history is not None
    found = 0
    for session in history.find(home):
        log = StoredLog(history, session)
        found += sum(1 for _ in log.events())
        assert log.lost == []
    if history.live is not None:
        history.live(home)
    if history.deleted_after_days is not None:
        history.deleted_after_days(home)
    return found


def _largest_file(home: Home) -> Path:
    files = [path for path in Path(home.directory).rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def test_a_file_of_lines_that_is_cut_after_any_byte_has_its_whole_lines(tmp_path: Path) -> None:
    lines = [b'{"a":1}', b"garbage", '{"ä":"\\n“"}'.encode(), b'{"b":{"c":[]}}', b"5"]
    whole, path = b"\n".join(lines) + b"\n", tmp_path / "lines.jsonl"
    path.write_bytes(whole)
    records = [*json_lines(str(path))]
    assert records == [{"a": 1}, "garbage", {"ä": "\n“"}, {"b": {"c": []}}, "5"]
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        complete = whole[:end].count(b"\n")
        found = [*json_lines(str(path))]
        assert found[:complete] == records[:complete]
        assert len(found) <= complete + 1
        # A last line without its newline counts only if it is a whole record.
        assert found[complete:] in ([], [records[complete]])


@pytest.mark.parametrize("agent", names())
def test_a_store_that_is_cut_anywhere_is_read_up_to_there(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    path = _largest_file(home)
    whole = path.read_bytes()
    chosen = random.Random(1)
    ends = {0, 1, len(whole) - 1, len(whole), *(chosen.randrange(len(whole)) for _ in range(20))}
    ends |= {at for at in range(len(whole)) if whole[at : at + 1] == b"\n"}.intersection(
        range(0, len(whole), 7)
    )
    counts = []
    for end in sorted(ends):
        path.write_bytes(whole[:end])
        counts.append(_read_all(agent, home))
    assert counts[-1] == max(counts)


@pytest.mark.parametrize("agent", names())
def test_garbage_between_records_loses_no_record(agent: str, tmp_path: Path) -> None:
    home = _smallest(agent).unpack(tmp_path)
    path = _largest_file(home)
    if path.suffix != ".jsonl":
        path.write_bytes(random.Random(2).randbytes(5_000))
        _read_all(agent, home)
        return
    before = _read_all(agent, home)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line + GARBAGE[number % len(GARBAGE)] for number, line in enumerate(lines)))
    assert _read_all(agent, home) >= before


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_record_with_odd_values_anywhere_never_fails(case: HomeCase, tmp_path: Path) -> None:
    history = load(case.agent)
    assert history is not None
    chosen = random.Random(str(case))
    for session in sessions(case, case.unpack(tmp_path)):
        records = [record for record in history.records(session) if isinstance(record, dict)]
        for _ in range(6):
            changed = json.loads(json.dumps(records))
            for record in chosen.sample(changed, min(len(changed), 3 + len(changed) // 4)):
                _spoil(record, chosen)
            spoiled = replace(history, records=lambda _session, changed=changed: iter(changed))
            log = StoredLog(spoiled, session)
            for _ in log.events():
                pass
            assert log.lost == []


def _spoil(value: Any, chosen: random.Random) -> None:
    """Replace something in a record, at any depth."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = chosen.choice(keys)
    inner = value[key]
    if isinstance(inner, dict | list) and inner and chosen.random() < 0.7:
        _spoil(inner, chosen)
    else:
        value[key] = chosen.choice(ODD_VALUES)


def test_a_line_of_100_megabytes_is_left_out_and_the_next_ones_are_read(tmp_path: Path) -> None:
    case = _smallest("claude")
    home = case.unpack(tmp_path)
    path = _largest_file(home)
    lines = path.read_bytes().splitlines(keepends=True)
    half = len(lines) // 2
    with path.open("wb") as file:
        file.writelines(lines[:half])
        file.seek(100 * 1024 * 1024, os.SEEK_CUR)
        file.write(b"\n")
        file.writelines(lines[half:])
    events = [event for session in sessions(case, home) for event in opened(case, session).events()]
    left_out = [event for event in events if isinstance(event, Unknown)]
    assert [event.raw for event in left_out] == ["a record of 104857601 bytes is left out"]
    assert any(isinstance(event, Message) and event.role == "assistant" for event in events)


def test_a_record_just_within_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    text = "x" * (LONGEST_LINE_BYTES - len('{"a":""}\n'))
    path.write_text(f'{{"a":"{text}"}}\n{{"b":1}}\n')
    assert [len(record) for record in json_lines(str(path))] == [1, 1]


@pytest.mark.parametrize("agent", names())
def test_no_symbolic_link_in_a_store_is_followed(agent: str, tmp_path: Path) -> None:
    case = _smallest(agent)
    home = case.unpack(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    for path in [path for path in Path(home.directory).rglob("*") if path.is_file()]:
        target = elsewhere / path.name
        elsewhere.mkdir(exist_ok=True)
        shutil.move(path, target)
        path.symlink_to(target)
    assert _read_all(agent, home) == 0


def test_the_folder_of_a_store_may_be_a_link(tmp_path: Path) -> None:
    home = _smallest("claude").unpack(tmp_path / "real")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".claude").symlink_to(tmp_path / "real" / ".claude")
    assert _read_all("claude", Home(str(tmp_path / "home"))) == _read_all("claude", home) > 0


@pytest.mark.parametrize("agent", names())
def test_a_store_that_is_not_there_has_no_sessions(agent: str, tmp_path: Path) -> None:
    assert _read_all(agent, Home(str(tmp_path), {}, (str(tmp_path),))) == 0
    assert (
        _read_all(
            agent, Home("/dev/null/nothing", {"XDG_DATA_HOME": "relative", "CODEX_HOME": "\0"}, ("\0",))
        )
        == 0
    )


def test_a_session_that_is_deleted_or_replaced_after_it_was_found_is_read_as_it_is_then(
    tmp_path: Path,
) -> None:
    case = _smallest("codex")
    home = case.unpack(tmp_path)
    session = sessions(case, home)[0]
    records = load("codex")
    assert records is not None
    reading = records.records(session)
    assert next(reading)
    Path(session.path).unlink()
    assert [*reading], "what was opened is read to its end"
    assert [*opened(case, session).events()] == []
    Path(session.path).mkdir()
    assert [*opened(case, session).events()] == []


def _in_journal(folder: Path) -> Path:
    """A database whose rows are in its journal alone, without the shared memory that belongs to it."""
    folder.mkdir()
    source = folder / "source.db"
    connection = sqlite3.connect(source)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(
        "CREATE TABLE sessions (id, name, session_type, working_dir, created_at, updated_at, model_config_json)"
    )
    connection.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, message_id, session_id, role, content_json, created_timestamp, metadata_json)"
    )
    connection.execute(
        "INSERT INTO sessions VALUES ('one', 'A name', 'user', '/w', '2026-11-15 19:25:45', '2026-11-15', '{}')"
    )
    connection.execute(
        "INSERT INTO messages VALUES (1, 'm', 'one', 'user', '[{\"type\":\"text\",\"text\":\"Hello\"}]', 1794770745, '{}')"
    )
    connection.commit()
    place = folder / ".local/share/goose/sessions"
    place.mkdir(parents=True)
    for suffix in ("", "-wal"):
        shutil.copy(f"{source}{suffix}", f"{place / 'sessions.db'}{suffix}")
    connection.close()
    source.unlink()
    return place


def test_a_database_whose_rows_are_only_in_its_journal_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    place = _in_journal(tmp_path / "home")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    os.chmod(place, 0o500)
    try:
        assert _read_all("goose", Home(str(tmp_path / "home"))) > 0
    finally:
        os.chmod(place, 0o700)
    after = {path.name: path.read_bytes() for path in place.iterdir()}
    assert {name: after[name] for name in before} == before


def test_a_database_that_is_locked_is_not_waited_for_without_end(tmp_path: Path) -> None:
    place = _in_journal(tmp_path / "home")
    writer = sqlite3.connect(place / "sessions.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        _read_all("goose", Home(str(tmp_path / "home")))
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def test_tables_with_credentials_are_never_read(tmp_path: Path) -> None:
    case = _smallest("opencode")
    home = case.unpack(tmp_path)
    path = _largest_file(home)
    connection = sqlite3.connect(path)
    for table in ("account", "account_state", "control_account", "credential", "session_share"):
        connection.execute(f"CREATE TABLE {table} (id, secret)")
        connection.execute(f"INSERT INTO {table} VALUES ('x', 'sk-very-secret-value')")
    connection.commit()
    connection.close()
    events = [event for session in sessions(case, home) for event in opened(case, session).events()]
    assert "sk-very-secret" not in repr(events)
    source = (Path(__file__).parents[2] / "src/harness/protocols/opencode/store.py").read_text()
    assert not any(f"FROM {table}" in source for table in ("account", "credential", "control_account"))
