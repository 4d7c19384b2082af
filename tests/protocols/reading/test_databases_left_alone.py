"""Reading the database of an agent leaves nothing beside it, in whatever state it was left."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from harness.protocols.reading.database import opened


def _written(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE told (what TEXT)")
    connection.execute("INSERT INTO told VALUES ('everything')")
    connection.commit()
    return connection


def _closed(path: Path) -> None:
    """As an agent that ends leaves it."""
    _written(path).close()


def _killed(path: Path) -> None:
    """With a journal, and without its shared memory."""
    origin = path.with_name("origin.db")
    connection = _written(origin)
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{origin}{suffix}", f"{path}{suffix}")
    connection.close()
    origin.unlink()


def _emptied(path: Path) -> None:
    """With an empty journal."""
    _closed(path)
    Path(f"{path}-wal").touch()


@pytest.mark.parametrize("leave", [_closed, _killed, _emptied])
def test_a_database_that_nobody_has_open(leave: object, tmp_path: Path) -> None:
    path = tmp_path / "a store.db"
    assert callable(leave)
    leave(path)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    with opened(str(path)) as database:
        assert database is not None
        assert database.rows("SELECT what FROM told") == [("everything",)]
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_a_database_that_its_agent_writes(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = _written(path)
    with opened(str(path)) as database:
        assert database is not None
        assert database.rows("SELECT what FROM told") == [("everything",)]
    connection.execute("INSERT INTO told VALUES ('more')")
    connection.commit()
    with opened(str(path)) as database:
        assert database is not None
        assert len(database.rows("SELECT what FROM told")) == 2
    connection.close()
