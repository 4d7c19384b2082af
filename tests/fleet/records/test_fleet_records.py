"""What every kind of records promises."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_server
from harness.errors import UsageError
from harness.fleet.records.attempt import Attempt, CaseProgress
from harness.fleet.records.contract import FleetRecords
from harness.fleet.records.files import FileRecords
from real_processes import wait_until


class Place:
    """Where the records are, so that another process can open them too."""

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def open(self) -> FleetRecords:
        names: dict[str, object] = {}
        exec(
            f"from harness.fleet.records.files import FileRecords\n{self._imports()}found = {self.expression}",
            names,
        )
        return names["found"]  # type: ignore[return-value]

    def program(self, body: str) -> list[str]:
        head = f"from harness.fleet.records.files import FileRecords\n{self._imports()}records = {self.expression}\n"
        return [sys.executable, "-c", head + body]

    def _imports(self) -> str:
        if "Postgres" not in self.expression:
            return ""
        return "from harness.fleet.records.postgres import PostgresRecords\n"


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "files":
        return Place(f"FileRecords({str(tmp_path / 'fleet')!r})")
    return Place(f"PostgresRecords({postgres_server.url()!r}, 'x')")


@pytest.fixture
def records(place: Place, tmp_path: Path) -> Iterator[FleetRecords]:
    (tmp_path / "fleet").mkdir()
    found = place.open()
    found.save_plan(b"the plan")
    yield found
    found.close()


def test_the_first_plan_stays(place: Place, records: FleetRecords) -> None:
    assert records.save_plan(b"another") == b"the plan"
    assert place.open().plan() == b"the plan"


def test_where_there_is_no_plan_there_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no fleet"):
        FileRecords(str(tmp_path / "nothing")).plan()


def test_a_claim_excludes_others_until_it_ends(place: Place, records: FleetRecords) -> None:
    other = place.open()
    claim = records.claim("c")
    assert claim is not None
    with claim:
        assert other.claim("c") is None
        assert other.is_claimed("c")
        assert not other.is_claimed("d")
    wait_until(lambda: not other.is_claimed("c"))  # a database notices the end of a connection a moment later
    again = other.claim("c")
    assert again is not None
    with again:
        assert records.is_claimed("c")


def test_a_claim_ends_with_its_process(place: Place, records: FleetRecords) -> None:
    body = "claim = records.claim('c'); claim.__enter__(); print('claimed', flush=True); input()"
    process = subprocess.Popen(place.program(body), stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"claimed\n"
    assert records.is_claimed("c")
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while records.is_claimed("c"):  # a server needs a moment to learn of it
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_case_has_one_result(place: Place, records: FleetRecords) -> None:
    other = place.open()
    first = Attempt(case="c", number=1, passed=True)
    assert records.result("c") is None
    assert records.add(first, b"the diff")
    assert not other.add(Attempt(case="c", number=1, passed=False))
    assert not other.add(Attempt(case="c", number=2, passed=False))
    assert (other.result("c"), dict(other.results())) == (first, {"c": first})
    assert other.diff(first) == b"the diff"


def test_every_attempt_stays(place: Place, records: FleetRecords) -> None:
    lost = [Attempt(case="c", number=number, fault="lost", detail=f"{number}") for number in (1, 2)]
    for attempt in lost:
        assert records.add(attempt)
        assert not records.add(Attempt(case="c", number=attempt.number, fault="interrupted"))
    result = Attempt(case="c", number=3, passed=False)
    assert records.add(result)
    other = place.open()
    assert list(other.faults_of("c")) == lost
    assert {case: list(found) for case, found in other.faults().items()} == {"c": lost}
    assert other.results()["c"] == result


def test_what_is_added_later_is_seen(place: Place, records: FleetRecords) -> None:
    other = place.open()
    assert not other.results()
    for number in range(3):
        records.add(Attempt(case=f"c{number}", number=1))
        assert len(other.results()) == number + 1


def test_progress_is_noted_replaced_and_forgotten(place: Place, records: FleetRecords) -> None:
    other = place.open()
    assert other.progress("c") is None
    records.note(CaseProgress(case="c", number=1))
    latest = CaseProgress(case="c", number=1, log_id="session")
    records.note(latest)
    assert (other.progress("c"), dict(other.in_progress())) == (latest, {"c": latest})
    records.forget("c")
    records.forget("c")
    assert not other.in_progress()


def test_an_attempt_that_is_stored_is_no_longer_in_progress(place: Place, records: FleetRecords) -> None:
    other = place.open()
    for attempt in (Attempt(case="c", number=1, fault="lost"), Attempt(case="c", number=2, passed=True)):
        records.note(CaseProgress(case="c", number=attempt.number))
        assert records.add(attempt)
        assert (other.progress("c"), dict(other.in_progress())) == (None, {})


def test_a_case_with_a_result_is_neither_running_nor_lost(place: Place, records: FleetRecords) -> None:
    """A worker whose claim broke may note and store something after another one has stored the result."""
    late = place.open()
    result = Attempt(case="c", number=1, passed=True)
    assert records.add(result)
    late.note(CaseProgress(case="c", number=1, log_id="late"))
    assert not late.add(Attempt(case="c", number=2, fault="lost"))
    for found in (records, late, place.open()):
        assert (found.progress("c"), dict(found.in_progress())) == (None, {})
        assert (found.result("c"), list(found.faults_of("c")), dict(found.faults())) == (result, [], {})


def test_a_stop_is_requested_and_withdrawn(place: Place, records: FleetRecords) -> None:
    other = place.open()
    for request in ("after", "now", ""):
        records.request_stop(request)  # type: ignore[arg-type]
        assert other.stop_requested() == request
