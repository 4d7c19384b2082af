"""A text names a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import postgres_server
from harness.errors import UsageError
from harness.log.store import Query
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.log.stores.open_store import open_store
from harness.log.stores.postgres.store import PostgresStore
from harness.testing.small_logs import found, write


def test_a_path_is_a_folder(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "data"))

    assert isinstance(store, FileStore)
    assert not (tmp_path / "data").exists(), "nothing is made before it is needed"
    write(store, "t", range(1))
    assert (tmp_path / "data" / "t.ndjson").exists()


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    store = open_store("~/data")
    assert isinstance(store, FileStore)
    assert store.directory == str(tmp_path / "data")


def test_memory_is_memory() -> None:
    assert isinstance(open_store(":memory:"), MemoryStore)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL"])
def test_an_address_of_postgres_is_a_database(scheme: str) -> None:
    store = open_store(postgres_server.url().replace("postgresql", scheme))

    assert isinstance(store, PostgresStore)
    if scheme != "PostgreSQL":  # the driver wants it in small letters
        write(store, "t", range(1))
        assert found(store, Query()) == ["t"]
    store.close()


@pytest.mark.parametrize("where", ["", "  ", "mysql://x", "sqlite:///x"])
def test_anything_else_is_refused(where: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(where)
    assert "postgresql://" in caught.value.hint
