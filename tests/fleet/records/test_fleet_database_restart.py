"""A database that restarts under a fleet: it is waited for, and claims are taken again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import postgres_server
from harness.errors import StoreError
from harness.fleet.records import postgres
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.records.postgres import PostgresRecords

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")


def _end_all_connections(url: str) -> None:
    """As a restart does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def _until(is_so: Callable[[], object]) -> None:
    ends_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < ends_s
        time.sleep(0.05)


def _locks(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        question = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return int(connection.execute(question).fetchone()[0])


def test_a_claim_is_taken_again_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_KEEP_EVERY_S", 0.05)
    monkeypatch.setattr(postgres, "_TAKEN_AGAIN_S", 0.0)
    url = postgres_server.url()
    records, others = PostgresRecords(url, "x"), PostgresRecords(url, "x")
    records.save_plan(b"the plan")
    claim = records.claim("c")
    assert claim is not None
    with claim:
        assert others.claim("c") is None
        _end_all_connections(url)
        _until(lambda: _locks(url))
        assert others.claim("c") is None
        assert others.is_claimed("c")
    _until(lambda: not _locks(url))
    again = others.claim("c")
    assert again is not None
    with again:
        pass
    records.close()
    others.close()


def test_what_is_stored_during_an_outage_is_stored_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.log.stores.postgres import connection

    url = postgres_server.url()
    records = PostgresRecords(url, "x")
    records.be_patient()
    records.save_plan(b"the plan")
    answers_s = time.monotonic() + 1.0
    really = connection.connect

    def connect(wanted: str) -> Any:
        if time.monotonic() < answers_s:
            raise psycopg.OperationalError("the database system is shutting down")
        return really(wanted)

    monkeypatch.setattr(connection, "connect", connect)
    _end_all_connections(url)
    records.note(CaseProgress(case="c", number=1))
    assert records.add(Attempt(case="c", number=1, passed=True))
    assert time.monotonic() >= answers_s
    assert records.is_claimed("another")  # its worker may be taking its claim again just now
    assert set(records.results()) == {"c"}
    records.close()


def test_who_only_looks_does_not_wait() -> None:
    records = PostgresRecords("postgresql://127.0.0.1:1/nothing", "x")
    began_s = time.monotonic()
    with pytest.raises(StoreError):
        records.plan()
    assert time.monotonic() - began_s < 5
    records.close()
