"""Every store keeps the same contract."""

from __future__ import annotations

from pathlib import Path

import pytest

import postgres_server
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.log.stores.postgres.store import PostgresStore
from harness.testing.stores import CHECKS, Check, name_of


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_the_memory_store_keeps_the_contract(check: Check) -> None:
    check(MemoryStore())


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_the_file_store_keeps_the_contract(check: Check, tmp_path: Path) -> None:
    store = FileStore(str(tmp_path / "sessions"))
    check(store)
    store.close()


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_the_postgres_store_keeps_the_contract(check: Check) -> None:
    store = PostgresStore(postgres_server.url())
    check(store)
    store.close()
