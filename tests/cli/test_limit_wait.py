"""`harness run` at a full window: it says when that opens, and continues where that was asked for, within bounds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from harness.cli.console import Console
from harness.cli.limit_wait import LimitWait
from harness.contracts.request import Request
from harness.log.stores.files import FileStore
from harness.runs.run import start
from harness.session.parking import CONTINUATION, ParkingRules

SCRIPT = """\
[[turns]]
error = "You've hit your usage limit. Try again in 20 minutes."
code = "limit_reached"
"""


class Clock:
    def __init__(self) -> None:
        self.skipped_s: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.skipped_s.append(seconds)

    def now_ms(self) -> int:
        return int(1000 * (time.time() + sum(self.skipped_s)))


@pytest.fixture
def request_at_limit(tmp_path: Path) -> Request:
    (tmp_path / "s.toml").write_text(SCRIPT)
    return Request(agent="native", model=f"scripted/{tmp_path}/s.toml", prompt="go", cwd=str(tmp_path))


def _waits(rules: ParkingRules, request: Request, tmp_path: Path) -> tuple[list[Request], Clock]:
    """What was started after the first run, until a person is to continue."""
    clock, store = Clock(), FileStore(tmp_path / "sessions")
    wait = LimitWait(rules, Console(), sleep=clock.sleep, clock_ms=clock.now_ms)
    started: list[Request] = []
    following: Request | None = request
    while following is not None:
        run = start(following, store=store)
        run.wait()
        wait.note(run)
        following = wait.follow_up(request)
        started += [following] if following is not None else []
    return started, clock


def test_a_person_continues_where_nothing_else_was_asked_for(
    request_at_limit: Request, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    started, clock = _waits(ParkingRules(), request_at_limit, tmp_path)

    assert (started, clock.skipped_s) == ([], [])
    said = capfd.readouterr().err
    assert "a limit of its provider is reached; it opens" in said
    assert "harness resume" in said
    assert "--at-limit resume" in said


def test_a_window_that_stays_full_is_waited_for_three_times_more(
    request_at_limit: Request, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    started, clock = _waits(ParkingRules(is_on=True), request_at_limit, tmp_path)

    assert len(started) == 4
    assert {one.prompt for one in started} == {CONTINUATION}
    assert all(one.resume for one in started)
    assert sum(clock.skipped_s) >= 4 * 20 * 60
    assert max(clock.skipped_s) <= 30  # never one long sleep
    assert capfd.readouterr().err.count("continues at") == 4


def test_nothing_is_said_of_a_run_that_ended_otherwise(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text('[[turns]]\ntext = "Done."\n')
    request = Request(agent="native", model=f"scripted/{tmp_path}/s.toml", prompt="go", cwd=str(tmp_path))

    assert _waits(ParkingRules(is_on=True), request, tmp_path)[0] == []
    assert "limit" not in capfd.readouterr().err
