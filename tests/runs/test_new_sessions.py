"""A session of Gemini CLI is not loaded in the minute of its beginning, when the program would write over it."""

from __future__ import annotations

import calendar
import time
from pathlib import Path

import pytest

from harness.agents.registry import load
from harness.contracts.request import Request
from harness.errors import UsageError
from harness.runs import new_sessions
from harness.runs.new_sessions import require_no_new_session

SESSION = "0fe08855-61f0-4bea-8c73-2cf71275831a"
NOW = "2026-11-19T18-05"
AGENT = load("gemini")


def _require(home: Path, *, session: str = SESSION, variable: str = "") -> None:
    assert AGENT.two_way is not None
    environ = {"HOME": str(home), **({"GEMINI_CLI_HOME": variable} if variable else {})}
    require_no_new_session(AGENT, AGENT.two_way, Request(agent="gemini", resume=session), environ)


def _file(home: Path, minute: str, session: str = SESSION) -> None:
    path = home / ".gemini/tmp/project/chats" / f"session-{minute}-{session[:8]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}\n")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    at_s = float(calendar.timegm(time.strptime(f"{NOW}-30", "%Y-%m-%dT%H-%M-%S")))
    monkeypatch.setattr(new_sessions.time, "time", lambda: at_s)


def test_a_session_of_this_minute_is_refused_with_the_time_to_wait(tmp_path: Path) -> None:
    _file(tmp_path, NOW)
    with pytest.raises(UsageError, match="would write over this session") as refusal:
        _require(tmp_path)
    assert refusal.value.hint == "try again in 30 seconds"


def test_a_session_of_an_earlier_minute_is_loaded_also_where_it_was_continued_in_this_one(
    tmp_path: Path,
) -> None:
    _file(tmp_path, "2026-11-19T18-04")
    _require(tmp_path)
    _file(tmp_path, NOW)
    _require(tmp_path)


def test_other_sessions_and_other_homes_are_not_looked_at(tmp_path: Path) -> None:
    _file(tmp_path, NOW, "ffffffff-61f0-4bea-8c73-2cf71275831a")
    _require(tmp_path)
    _file(tmp_path, NOW)
    _require(tmp_path, session="")
    (tmp_path / "other/.gemini").mkdir(parents=True)
    _require(tmp_path, variable=str(tmp_path / "other"))
    with pytest.raises(UsageError):
        _require(tmp_path, variable=str(tmp_path))
