"""A stored session is followed while it is written: every event once, in the order of the whole log."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.contracts.history import Home, StoredSession
from harness.events import Event
from harness.histories import stored_follow
from harness.histories.registry import load
from harness.histories.stored_follow import StoredFollower
from stored_homes import HomeCase, cases, opened, sessions

LINES = ("claude", "codex", "pi", "qwen", "copilot", "kimi", "droid")
GROWING = [case for agent in LINES for case in cases(agent) if str(case).endswith(("/tools", "/resume"))]


class Writer:
    """Another process, which does one thing whenever the reader waits. Then nothing happens any more."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        self._steps = [*steps]
        self._now_s = 0.0

    def wait(self, seconds: float) -> None:
        self._now_s += max(seconds, 0.01)
        if self._steps:
            self._steps.pop(0)()
        else:
            self._now_s += stored_follow.QUIET_S

    def clock(self) -> float:
        return self._now_s


def _followed(case: HomeCase, session: StoredSession, home: Home, writer: Writer) -> list[Event]:
    history = load(case.agent)
    assert history is not None
    follower = StoredFollower(history, session, home, wait=writer.wait, clock=writer.clock)
    return [event for batch in follower.batches() for event in batch]


@pytest.mark.parametrize("case", GROWING, ids=str)
def test_a_file_that_grows_in_random_pieces_gives_the_whole_log(case: HomeCase, tmp_path: Path) -> None:
    home = case.unpack(tmp_path)
    chosen = random.Random(str(case))
    for session in sessions(case, home):
        expected = [*opened(case, session).events()]
        path = Path(session.path)
        whole = path.read_bytes()
        cuts = sorted(chosen.randrange(len(whole)) for _ in range(6))
        path.write_bytes(whole[: cuts[0]])

        def grow(start: int, end: int, path: Path = path, whole: bytes = whole) -> None:
            with path.open("ab") as file:
                file.write(whole[start:end])

        steps = [
            lambda start=start, end=end: grow(start, end)
            for start, end in zip(cuts, [*cuts[1:], len(whole)], strict=True)
        ]
        found = _followed(case, session, home, Writer(*steps))
        assert [event.seq for event in found] == [*range(len(found))]
        assert found == expected


def _case(name: str) -> HomeCase:
    return next(case for case in cases() if str(case) == name)


@pytest.mark.parametrize("change", ["deleted", "cut", "replaced"])
def test_a_file_that_is_taken_away_under_the_reader_does_no_harm(change: str, tmp_path: Path) -> None:
    case = _case("codex/0.166.0/tools")
    home = case.unpack(tmp_path)
    (session,) = sessions(case, home)
    path = Path(session.path)
    expected = [*opened(case, session).events()]

    def replace() -> None:
        beside = path.with_suffix(".new")
        beside.write_bytes(b"{}\n")
        beside.rename(path)

    steps = {
        "deleted": path.unlink,
        "cut": lambda: path.write_bytes(path.read_bytes()[:999]),
        "replaced": replace,
    }
    found = _followed(case, session, home, Writer(steps[change]))
    assert found == expected[: len(found)]
    assert len(found) > 3


def test_a_database_is_followed(tmp_path: Path) -> None:
    case = _case("goose/1.52.0/resume")
    home = case.unpack(tmp_path)
    session = sessions(case, home)[0]
    expected = [*opened(case, session).events()]
    database = sqlite3.connect(session.path)
    rows = database.execute("SELECT * FROM messages ORDER BY id").fetchall()
    database.execute("DELETE FROM messages WHERE id > ?", (rows[0][0],))
    database.commit()
    places = ", ".join("?" * len(rows[0]))

    def insert(row: tuple[object, ...]) -> None:
        database.execute(f"INSERT INTO messages VALUES ({places})", row)
        database.commit()

    found = _followed(case, session, home, Writer(*(lambda row=row: insert(row) for row in rows[1:])))
    database.close()
    assert found == expected


def test_reading_again_takes_a_part_of_the_time(tmp_path: Path) -> None:
    """A session whose reading takes long is read less often."""
    case = _case("pi/1.5.0/tools")
    home = case.unpack(tmp_path)
    (session,) = sessions(case, home)
    history = load("pi")
    assert history is not None
    waits: list[float] = []
    now = [0.0]

    def clock() -> float:
        now[0] += 2.0
        return now[0]

    def wait(seconds: float) -> None:
        waits.append(seconds)
        now[0] += stored_follow.QUIET_S

    for _batch in StoredFollower(history, session, home, wait=wait, clock=clock).batches():
        pass
    assert waits[0] >= 6.0
