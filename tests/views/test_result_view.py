"""One object says how it ended, whatever happened."""

from __future__ import annotations

import json
from typing import Any

from harness.events import Error, Event, Message, Result, SessionStart, Usage
from showing import shown


def result(*events: Event) -> Any:
    return json.loads(shown("result", *events))


def test_a_run_that_succeeded_is_reported_with_all_that_is_known() -> None:
    text = shown(
        "result",
        SessionStart(session_id="s-1", agent="claude"),
        Error(message="a retry helped"),
        Result(
            success=True,
            text="Done.",
            duration_ms=1200,
            total_cost_usd=0.5,
            usage=Usage(input=1, output=0),
            turns=2,
            exit_code=0,
            structured={"n": 3},
        ),
    )

    assert text == (
        "{\n"
        '  "type": "result",\n'
        '  "success": true,\n'
        '  "result": "Done.",\n'
        '  "session_id": "s-1",\n'
        '  "outcome": "completed",\n'
        '  "agent_session_id": "s-1",\n'
        '  "duration_ms": 1200,\n'
        '  "total_cost_usd": 0.5,\n'
        '  "usage": {\n'
        '    "input_tokens": 1,\n'
        '    "output_tokens": 0\n'
        "  },\n"
        '  "turns": 2,\n'
        '  "exit_code": 0,\n'
        '  "structured": {\n'
        '    "n": 3\n'
        "  }\n"
        "}\n"
    )


def test_a_run_that_failed_is_reported_with_its_error() -> None:
    found = result(
        SessionStart(session_id="s-1", agent="codex"),
        Error(message="timed out after 5s", code="timeout"),
        Result(success=False, outcome="timed_out", signal=15),
    )

    assert found == {
        "type": "result",
        "success": False,
        "result": "",
        "session_id": "s-1",
        "agent_session_id": "s-1",
        "outcome": "timed_out",
        "error": {"message": "timed out after 5s", "code": "timeout"},
        "signal": 15,
    }


def test_a_log_that_breaks_off_counts_as_interrupted_and_keeps_what_was_said() -> None:
    found = result(SessionStart(session_id="s", agent="a"), Message(role="assistant", text="so far"))

    assert found == {
        "type": "result",
        "success": False,
        "result": "so far",
        "session_id": "s",
        "agent_session_id": "s",
        "outcome": "interrupted",
    }


def test_an_empty_log_gives_a_result_too() -> None:
    assert result()["success"] is False


def test_the_result_of_a_child_is_not_the_result() -> None:
    found = result(
        SessionStart(session_id="s", agent="a", run_id="top"),
        SessionStart(run_id="kid", parent_id="c"),
        Message(role="assistant", text="child", run_id="kid"),
        Error(message="child", run_id="kid"),
        Result(success=True, text="child", run_id="kid"),
    )

    assert (found["success"], found["result"], found.get("error")) == (False, "", None)


def test_a_logged_run_names_its_log_and_the_session_of_the_agent() -> None:
    found = result(
        SessionStart(session_id="s", agent="a", run_id="log"),
        Result(success=True, run_id="log", log_id="log"),
    )
    unnamed = result(
        SessionStart(session_id="log", agent="a", run_id="log"), Result(success=True, run_id="log")
    )

    assert (found["log_id"], found["session_id"], found["agent_session_id"]) == ("log", "s", "s")
    assert (unnamed["log_id"], unnamed["session_id"], unnamed.get("agent_session_id")) == ("log", "log", None)
