"""A catalogue that several processes use at once, or whose file is damaged, counts everything once."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.contracts.history import Home
from harness.histories.catalogue import Catalogue, CatalogueDamaged
from harness.histories.catalogue_filter import SessionFilter
from harness.histories.catalogue_rows import CataloguedSession
from harness.histories.catalogue_search import SessionSearch
from harness.histories.registry import load_all
from stored_homes import cases

CASES = ("claude/2.1.325/resume", "claude/2.1.325/fork", "codex/0.166.0/subagent", "goose/1.52.0/resume")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = [case.unpack(tmp_path / "home") for case in cases() if str(case) in CASES]
    assert len(found) == len(CASES)
    return found[0]


def _opened(tmp_path: Path, home: Home) -> Catalogue:
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())
    catalogue.refresh(home)
    return catalogue


def _total(catalogue: Catalogue) -> int:
    return sum((row.usage.input or 0) + (row.usage.output or 0) for row in catalogue.usage.rows())


def _truth(tmp_path: Path, home: Home) -> int:
    alone = Catalogue(str(tmp_path / "alone.sqlite"), load_all())
    alone.refresh(home)
    alone.read(alone.sessions())
    assert _total(alone) > 0
    return _total(alone)


def test_what_two_processes_read_at_the_same_time_is_entered_once(tmp_path: Path, home: Home) -> None:
    first, second = _opened(tmp_path, home), _opened(tmp_path, home)

    def meanwhile() -> Iterator[CataloguedSession]:
        yield from first.sessions()
        second.read(second.sessions())  # everything that the first has read, but not entered yet

    first.read(meanwhile())
    assert _total(first) == _total(second) == _truth(tmp_path, home)
    assert all(session.is_read for session in first.sessions())


def test_a_session_that_grows_while_two_processes_read_it_is_counted_once(tmp_path: Path, home: Home) -> None:
    first, second = _opened(tmp_path, home), _opened(tmp_path, home)
    first.read(first.sessions())
    path = next(Path(home.directory).rglob("33dadd08*.jsonl"))
    lines = path.read_text().splitlines()
    last = [line for line in lines if '"usage"' in line][-1]
    path.write_text("\n".join([*lines, last.replace('"msg_', '"msg_new')]) + "\n")
    for catalogue in (first, second):
        catalogue.refresh(home)

    def meanwhile() -> Iterator[CataloguedSession]:
        yield from first.sessions()
        second.read(second.sessions())

    first.read(meanwhile())
    assert _total(first) == _truth(tmp_path, home)


def test_a_catalogue_that_is_made_by_several_at_once_is_complete(tmp_path: Path) -> None:
    for number in range(8):
        path = str(tmp_path / f"{number}.sqlite")
        barrier = threading.Barrier(4)

        def make(path: str = path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            Catalogue(path, []).close()

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = Catalogue(path, load_all())
        assert list(made.search(SessionSearch(parts=("word",)))) == []
        assert made.rows("SELECT count(*) FROM words") == [(0,)]


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data) - 50, 3000):
        data[start : start + 50] = b"\xff" * 50
    path.write_bytes(bytes(data))


def test_a_damaged_catalogue_says_so_and_can_be_rebuilt(tmp_path: Path, home: Home) -> None:
    before = _opened(tmp_path, home)
    before.read(before.sessions())
    before.close()
    _damage(tmp_path / "catalogue.sqlite")
    catalogue = Catalogue(str(tmp_path / "catalogue.sqlite"), load_all())

    def ask_everything() -> None:
        catalogue.projects()
        catalogue.refresh(home)
        catalogue.read(catalogue.sessions())
        _total(catalogue)

    with pytest.raises(CatalogueDamaged):
        ask_everything()
    catalogue.rebuild(home)
    assert _total(catalogue) == _truth(tmp_path, home)
    catalogue.close()
    again = _opened(tmp_path, home)
    assert all(session.is_read for session in again.sessions())


@pytest.mark.parametrize("seed", range(12))
def test_a_catalogue_with_any_bytes_in_it_is_read_or_rebuilt(seed: int, tmp_path: Path, home: Home) -> None:
    """What SQLite says of it may quote names that are no text."""
    path = tmp_path / "catalogue.sqlite"
    before = _opened(tmp_path, home)
    before.read(before.sessions())
    before.close()
    source, data = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(source.choice((1, 5, 60))):
        start = source.randrange(100, 8_000 if seed % 2 else len(data) - 60)
        data[start : start + 50] = source.randbytes(50)
    path.write_bytes(bytes(data))
    catalogue = Catalogue(str(path), load_all())
    for _attempt in range(3):
        try:
            catalogue.refresh(home)
            catalogue.read_each(SessionFilter(only_unread=True))
            assert len(catalogue.sessions()) >= 0
            assert catalogue.fingerprint()
            assert list(catalogue.search(SessionSearch(parts=("word",)))) is not None
            assert _total(catalogue) >= 0
        except CatalogueDamaged:
            catalogue.rebuild(home)
            assert _total(catalogue) == _truth(tmp_path, home)


def test_a_catalogue_that_another_process_writes_for_long_leaves_out_nothing(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read and cannot be entered would be missing in every sum, without a word."""
    monkeypatch.setattr("harness.histories.catalogue_writer._BUSY_TIMEOUT_S", 0.05)
    catalogue = _opened(tmp_path, home)  # all sessions are known, and none is read
    holder = sqlite3.connect(tmp_path / "catalogue.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogueDamaged, match="locked"):
        catalogue.read_each(SessionFilter(only_unread=True))
    catalogue.rebuild(home)
    assert _total(catalogue) == _truth(tmp_path, home)
    holder.execute("ROLLBACK")
    holder.close()
    again = _opened(tmp_path, home)
    again.read_each(SessionFilter(only_unread=True))  # the file was left alone
    assert _total(again) == _truth(tmp_path, home)


def test_missing_tables_are_damage(tmp_path: Path, home: Home) -> None:
    _opened(tmp_path, home).close()
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as connection:
        connection.execute("DROP TABLE words")
        connection.execute("DROP TABLE used")
    connection.close()
    catalogue = _opened(tmp_path, home)
    with pytest.raises(CatalogueDamaged):
        catalogue.read(catalogue.sessions())
    catalogue.rebuild(home)
    assert _total(catalogue) == _truth(tmp_path, home)


def test_sessions_of_a_store_that_cannot_be_read_are_not_taken_for_deleted(
    tmp_path: Path, home: Home
) -> None:
    catalogue = _opened(tmp_path, home)
    known = [one for one in catalogue.sessions() if one.agent == "goose"]
    assert known
    path = next(Path(home.directory).rglob("sessions.db"))
    path.write_bytes(b"no database at all" * 500)
    catalogue.refresh(home)
    assert [one.gone_ms for one in catalogue.sessions() if one.agent == "goose"] == [0] * len(known)
    (history,) = [one for one in load_all() if one.agent == "goose"]
    assert history.problem is not None
    assert "sessions.db" in history.problem(home)
    path.unlink()
    assert not history.problem(home)
    catalogue.refresh(home)
    assert all(one.gone_ms for one in catalogue.sessions() if one.agent == "goose")
