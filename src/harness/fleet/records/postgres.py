"""The records of a fleet in PostgreSQL, for workers on several machines.

A claim is an advisory lock of a connection of its own: it ends with the worker, or with its machine. A database that
restarts is waited for: what was asked is asked again, and claims are taken again. A worker whose connection broke may
nevertheless find that another one has its case; then the first result counts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, LiteralString, cast

import msgspec

from harness.errors import StoreError, UsageError
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.records.contract import StopRequest
from harness.log.stores.postgres.connection import Answer, PostgresConnection, load

if TYPE_CHECKING:
    from psycopg import Connection

_TABLES: LiteralString = """
CREATE TABLE IF NOT EXISTS harness_fleets (
    name text PRIMARY KEY, plan bytea NOT NULL, stop text NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS harness_fleet_attempts (
    number bigint GENERATED ALWAYS AS IDENTITY,
    fleet text NOT NULL, case_id text NOT NULL, attempt integer NOT NULL, is_result boolean NOT NULL,
    data bytea NOT NULL, diff bytea NOT NULL,
    PRIMARY KEY (fleet, case_id, attempt)
);
CREATE UNIQUE INDEX IF NOT EXISTS harness_fleet_results
    ON harness_fleet_attempts (fleet, case_id) WHERE is_result;
CREATE INDEX IF NOT EXISTS harness_fleet_attempts_in_order ON harness_fleet_attempts (fleet, number);
CREATE TABLE IF NOT EXISTS harness_fleet_progress (
    fleet text NOT NULL, case_id text NOT NULL, data bytea NOT NULL, PRIMARY KEY (fleet, case_id)
);
"""
_ADD: LiteralString = """
INSERT INTO harness_fleet_attempts (fleet, case_id, attempt, is_result, data, diff)
SELECT %(fleet)s, %(case)s, %(attempt)s, %(is_result)s, %(data)s, %(diff)s
WHERE NOT EXISTS (
    SELECT FROM harness_fleet_attempts WHERE fleet = %(fleet)s AND case_id = %(case)s AND is_result
)
ON CONFLICT DO NOTHING
"""
_NOTES: LiteralString = """
SELECT data FROM harness_fleet_progress AS noted WHERE fleet = %s AND NOT EXISTS (
    SELECT FROM harness_fleet_attempts AS stored
    WHERE stored.fleet = noted.fleet AND stored.case_id = noted.case_id AND is_result
)
"""
"""A worker whose claim broke may note something after another one has stored the result."""
_FORGET: LiteralString = "DELETE FROM harness_fleet_progress WHERE fleet = %s AND case_id = %s"
_ONE_AT_A_TIME = 0x464C4545
_PATIENCE_S = 600.0
"""A failover, or an update of the server, takes minutes; runs that are paid for go on meanwhile."""
_ASK_AGAIN_S = 0.5
_KEEP_EVERY_S = 2.0
_TAKEN_AGAIN_S = 15.0
_LEAVE_S = 5.0
_LATE = 200
"""So many of the last attempts are read again: a number may become visible after a larger one."""


class PatientConnection(PostgresConnection):
    """Waits for a database that does not answer, and asks again: everything that is asked here may be asked twice."""

    def __init__(self, url: str, patience_s: float = 0.0) -> None:
        super().__init__(url)
        self.patience_s = patience_s
        self.returned_s = float("-inf")
        """When it answered again after it had not."""

    def ask(self, question: Callable[[Connection[Any]], Answer]) -> Answer:
        ends_s = time.monotonic() + self.patience_s
        was_away = False
        while True:
            try:
                answer = super().ask(question)
            except StoreError as error:
                if not is_away(error) or time.monotonic() >= ends_s:
                    raise
                was_away = True
                time.sleep(_ASK_AGAIN_S)
            else:
                if was_away:
                    self.returned_s = time.monotonic()
                return answer


def is_away(error: BaseException) -> bool:
    """Whether the database could not be reached, or ended the connection: it may be back soon."""
    import psycopg

    return isinstance(error.__cause__, psycopg.OperationalError)


class PostgresRecords:
    def __init__(self, url: str, fleet: str) -> None:
        """Raises MissingExtra."""
        load()
        self._url = url
        self._fleet = fleet
        self._line = PatientConnection(url)
        self._is_prepared = False
        self._known_attempts: dict[tuple[str, int], Attempt] = {}
        self._last = 0

    def save_plan(self, plan: bytes) -> bytes:
        self._prepare()
        self._do("INSERT INTO harness_fleets (name, plan) VALUES (%s, %s) ON CONFLICT DO NOTHING", plan)
        return self.plan()

    def plan(self) -> bytes:
        self._prepare()
        rows = self._rows("SELECT plan FROM harness_fleets WHERE name = %s")
        if not rows:
            raise UsageError(f"there is no fleet {self._fleet} in the database", hint="see --store")
        return bytes(rows[0][0])

    def claim(self, case: str) -> AbstractContextManager[None] | None:
        claim = _Claim(self._url, self._key(case))
        return claim if claim.take() else None

    def is_claimed(self, case: str) -> bool:
        key = self._key(case) & 0xFFFF_FFFF_FFFF_FFFF
        rows = self._line.ask(
            lambda connection: connection.execute(
                "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                " AND classid::bigint = %s AND objid::bigint = %s",
                (key >> 32, key & 0xFFFF_FFFF),
            ).fetchall()
        )
        # Who had it before the database went away takes it again, but not at the same moment.
        return bool(rows) or time.monotonic() < self._line.returned_s + _TAKEN_AGAIN_S

    def add(self, attempt: Attempt, diff: bytes = b"") -> bool:
        values = {
            "fleet": self._fleet,
            "case": attempt.case,
            "attempt": attempt.number,
            "is_result": attempt.is_result,
            "data": msgspec.json.encode(attempt),
            "diff": diff,
        }
        adding = self._key(f"{attempt.case}\0add")  # another key than the claim's, which a worker holds

        def store(connection: Connection[Any]) -> bool:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (adding,))
                is_new = connection.execute(_ADD, values).rowcount > 0
                if is_new:
                    connection.execute(_FORGET, (self._fleet, attempt.case))
            return is_new

        return self._line.ask(store)

    def results(self) -> Mapping[str, Attempt]:
        return {attempt.case: attempt for attempt in self._attempts() if attempt.is_result}

    def result(self, case: str) -> Attempt | None:
        return next((attempt for attempt in self._attempts_of(case) if attempt.is_result), None)

    def faults(self) -> Mapping[str, Sequence[Attempt]]:
        faults_by_case: dict[str, list[Attempt]] = {}
        for attempt in sorted(self._attempts(), key=lambda attempt_made: attempt_made.number):
            if not attempt.is_result:
                faults_by_case.setdefault(attempt.case, []).append(attempt)
        return faults_by_case

    def faults_of(self, case: str) -> Sequence[Attempt]:
        return [attempt for attempt in self._attempts_of(case) if not attempt.is_result]

    def diff(self, attempt: Attempt) -> bytes:
        rows = self._rows(
            "SELECT diff FROM harness_fleet_attempts WHERE fleet = %s AND case_id = %s AND attempt = %s",
            attempt.case,
            attempt.number,
        )
        return bytes(rows[0][0]) if rows else b""

    def note(self, progress: CaseProgress) -> None:
        self._do(
            "INSERT INTO harness_fleet_progress VALUES (%s, %s, %s)"
            " ON CONFLICT (fleet, case_id) DO UPDATE SET data = excluded.data",
            progress.case,
            msgspec.json.encode(progress),
        )

    def progress(self, case: str) -> CaseProgress | None:
        rows = self._rows(_NOTES + " AND case_id = %s", case)
        return msgspec.json.decode(rows[0][0], type=CaseProgress) if rows else None

    def in_progress(self) -> Mapping[str, CaseProgress]:
        rows = self._rows(_NOTES)
        progress = [msgspec.json.decode(data, type=CaseProgress) for (data,) in rows]
        return {case_progress.case: case_progress for case_progress in progress}

    def forget(self, case: str) -> None:
        self._do(_FORGET, case)

    def request_stop(self, request: StopRequest) -> None:
        statement: LiteralString = "UPDATE harness_fleets SET stop = %s WHERE name = %s"
        self._line.ask(lambda connection: connection.execute(statement, (request, self._fleet)))

    def stop_requested(self) -> StopRequest:
        rows = self._rows("SELECT stop FROM harness_fleets WHERE name = %s")
        return cast("StopRequest", rows[0][0]) if rows else ""

    def names(self) -> list[str]:
        """Of all fleets in the database."""
        self._prepare()
        rows = self._line.ask(
            lambda connection: connection.execute("SELECT name FROM harness_fleets ORDER BY name").fetchall()
        )
        return [name for (name,) in rows]

    def be_patient(self) -> None:
        self._line.patience_s = _PATIENCE_S

    def delete(self) -> None:
        with self._line.use() as connection, connection.transaction():
            connection.execute("DELETE FROM harness_fleet_progress WHERE fleet = %s", (self._fleet,))
            connection.execute("DELETE FROM harness_fleet_attempts WHERE fleet = %s", (self._fleet,))
            connection.execute("DELETE FROM harness_fleets WHERE name = %s", (self._fleet,))

    def close(self) -> None:
        self._line.close()

    def _attempts(self) -> list[Attempt]:
        rows = self._rows(
            "SELECT number, data FROM harness_fleet_attempts WHERE fleet = %s AND number > %s",
            self._last - _LATE,
        )
        for number, data in rows:
            attempt = msgspec.json.decode(data, type=Attempt)
            self._known_attempts[attempt.case, attempt.number] = attempt
            self._last = max(self._last, number)
        return list(self._known_attempts.values())

    def _attempts_of(self, case: str) -> list[Attempt]:
        rows = self._rows(
            "SELECT data FROM harness_fleet_attempts WHERE fleet = %s AND case_id = %s ORDER BY attempt", case
        )
        return [msgspec.json.decode(data, type=Attempt) for (data,) in rows]

    def _rows(self, question: LiteralString, *values: object) -> list[Any]:
        return self._line.ask(
            lambda connection: connection.execute(question, (self._fleet, *values)).fetchall()
        )

    def _prepare(self) -> None:
        if self._is_prepared:
            return

        def prepare(connection: Connection[Any]) -> None:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
                connection.execute(_TABLES)

        self._line.ask(prepare)
        self._is_prepared = True

    def _do(self, statement: LiteralString, *values: object) -> None:
        self._line.ask(lambda connection: connection.execute(statement, (self._fleet, *values)))

    def _key(self, case: str) -> int:
        """Locks are counted in the whole database, so the schema is a part of the key."""
        (schema,) = self._line.ask(
            lambda connection: connection.execute("SELECT current_schema()").fetchone() or ("",)
        )
        digest = sha256(f"{schema}\0{self._fleet}\0{case}".encode()).digest()
        return int.from_bytes(digest[:8], "big", signed=True)


def fleets_in(url: str) -> list[str]:
    """The names of the fleets in a database."""
    records = PostgresRecords(url, "")
    try:
        return records.names()
    finally:
        records.close()


class _Claim:
    """An advisory lock, taken again when the database has restarted. Released when it is left."""

    def __init__(self, url: str, key: int) -> None:
        self._line = PatientConnection(url, _PATIENCE_S)
        self._key = key
        self._generation = 0
        self._is_left = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="claim of a case", daemon=True)

    def take(self) -> bool:
        """Raises StoreError."""
        is_taken: bool = self._line.ask(self._lock)
        if not is_taken:
            self._line.close()
        return is_taken

    def __enter__(self) -> None:
        self._keeper.start()

    def __exit__(self, *_: object) -> None:
        self._is_left.set()
        self._keeper.join(_LEAVE_S)
        self._line.close()  # the lock ends with its connection

    def _lock(self, connection: Connection[Any]) -> bool:
        if self._generation == self._line.generation:
            return True  # it still has it
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self._key,)).fetchone()
        is_taken = row is not None and bool(row[0])
        if is_taken:
            self._generation = self._line.generation
        return is_taken

    def _keep(self) -> None:
        while not self._is_left.wait(_KEEP_EVERY_S):
            with suppress(StoreError):  # it is away for longer than anybody waits
                self._line.ask(lambda connection: connection.execute("SELECT 1") and self._lock(connection))
