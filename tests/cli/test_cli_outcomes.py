"""The outcome of a run decides the exit code, by one table."""

from __future__ import annotations

import pytest

from cli_machine import CLAUDE_LINES, CliMachine
from harness.clients import exit_codes

OUTCOMES = {
    "completed": ("", []),
    "failed": ("exit 3", []),
    "timed_out": ("sleep 60", ["--timeout", "0.2"]),
    "stalled": ("sleep 60", ["--inactivity-timeout", "0.2"]),
    "agent_not_found": (None, []),
    "spawn_failed": ("", ["--binary", "./not-executable"]),
    "interrupted": ("kill -INT $$; sleep 60", []),
    "limit_exceeded": ("sleep 60", ["--max-turns", "1"]),
}


def test_every_outcome_has_its_exit_code() -> None:
    assert {*OUTCOMES, "unknown"} == {*exit_codes.OUTCOMES}, (
        "only a session that an agent stored is `unknown`"
    )
    assert exit_codes.OUTCOMES == {
        "completed": 0,
        "failed": 1,
        "limit_exceeded": 1,
        "unknown": 1,
        "timed_out": 124,
        "stalled": 124,
        "spawn_failed": 126,
        "agent_not_found": 127,
        "interrupted": 130,
    }


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_outcome_decides_the_exit_code_though_text_appeared(cli: CliMachine, outcome: str) -> None:
    after, options = OUTCOMES[outcome]
    (cli.project / "not-executable").write_text("")
    lines = CLAUDE_LINES if outcome == "completed" else CLAUDE_LINES[:2]
    if outcome == "limit_exceeded":
        call = '{"type":"assistant","message":{"id":"m%d","role":"assistant","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"ls"}}]},"session_id":"mock-session"}'
        end = '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":"ok"}]},"session_id":"mock-session"}'
        lines = (lines[0], *(text for turn in range(5) for text in (call % (turn, turn), end % turn)))
        lines = (
            *lines,
            '{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":2,"session_id":"mock-session"}',
        )
        after = ""
    if after is not None:
        cli.install("claude", *lines, after=after)
    answer = cli.call("run", "-a", "claude", "-p", "x", *options)
    assert answer.types[-1] == "Result"
    assert cli.metadata()["outcome"] == outcome
    assert answer.code == exit_codes.OUTCOMES[outcome]
    assert answer.events[-1]["success"] is (outcome == "completed")


def test_a_missing_agent_is_reported_as_events_with_what_to_do(cli: CliMachine) -> None:
    answer = cli.call("run", "-a", "claude", "-p", "x")
    assert answer.code == 127
    assert answer.types == ["SessionStart", "Message", "Error", "Result"]
    error = answer.events[2]
    assert error["code"] == "agent_not_found"
    assert "agent binary not found: claude (is Claude Code installed?)" in error["message"]
    assert "npm install" in error["message"]


def test_an_agent_that_never_writes_stalls(cli: CliMachine) -> None:
    cli.install("claude", before="exec sleep 60")
    answer = cli.call("run", "-a", "claude", "-p", "x", "--first-output-timeout", "0.2")
    assert (answer.code, answer.types[-2:]) == (124, ["Error", "Result"])
