"""Agents that write text for people, or nearly nothing: aider, mini-SWE-agent, Continue; and any other program."""

from __future__ import annotations

import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.registry import load
from harness.contracts.request import Limits, Permissions, Request
from harness.events import (
    Error,
    Info,
    Message,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import List, Write


@pytest.mark.parametrize(
    ("agent", "permissions", "expected"),
    [
        ("aider", "full-access", ["--yes-always"]),
        ("aider", "read-only", ["--yes-always", "--chat-mode", "ask"]),
        ("aider", "agent-default", []),
        ("continue", "full-access", ["--auto"]),
        ("continue", "read-only", ["--readonly"]),
        ("continue", "agent-default", []),
    ],
)
def test_permissions_are_arguments(agent: str, permissions: Permissions, expected: list[str]) -> None:
    given = load(agent).command(Request(agent=agent, prompt="Hi", permissions=permissions), ()).args

    assert [argument for argument in given if argument in expected] == expected
    others = {"--yes-always", "--chat-mode", "--auto", "--readonly"} - set(expected)
    assert others.isdisjoint(given)


def test_every_option_of_a_request_has_its_argument() -> None:
    request = Request(
        agent="x",
        prompt="-Hi",
        model="m",
        continue_last=True,
        append_system_prompt="Be brief",
        limits=Limits(max_turns=3, max_budget_usd=0.5),
        extra_args=("--x",),
    )
    asked = {
        name: load(name).command(request, ()) for name in ("aider", "mini-swe-agent", "continue", "generic")
    }

    assert asked["aider"].args == (
        *("--no-pretty", "--no-check-update", "--no-show-release-notes", "--yes-always", "--model", "m"),
        *("--restore-chat-history", "--x", "--message-file", "/dev/stdin"),
    )
    assert asked["aider"].stdin == b"-Hi"
    assert asked["mini-swe-agent"].args == (
        *("--yolo", "--exit-immediately", "--model", "m", "--cost-limit", "0.5"),
        *("--config", "mini.yaml", "--config", "agent.step_limit=3", "--x", "--task=-Hi"),
    )
    assert asked["continue"].args == (
        *("--print", "--format", "json", "--auto", "--rule", "Be brief", "--resume", "--x", "--", "-Hi"),
    )
    assert asked["generic"].args == ("--x", "-Hi")


def test_aider_states_answers_edits_and_rounded_usage() -> None:
    events = recorded("aider", "edit")

    start = of(SessionStart, events)[0]
    assert (start.model, start.version) == ("openai/gpt-4o", "0.86.2")
    assert "\n    return a + b\n" in of(Message, events)[1].text
    assert of(ToolStart, events)[0].operations == [Write(path="/workspace/aider-edit/src/app.py")]
    usage = Usage(input=2500, output=33, cost_usd=0.0065, cost_source="stated")
    assert of(UsageDelta, events) == [UsageDelta(usage=usage)]
    assert end_of(events).success


def test_aider_fails_with_exit_code_zero() -> None:
    end = end_of(recorded("aider", "error-401"))

    assert (end.outcome, end.exit_code) == ("failed", 0)


def test_what_aider_says_after_its_answer_is_no_answer() -> None:
    model, tokens = "Main model: m with diff edit format", "Tokens: 12k sent, 3k cache hit, 1.5M received."
    events = play("aider", model, "", "  Yes.", "", tokens, "echo hello")

    assert [message.text for message in of(Message, events)] == ["do it", "  Yes."]
    assert of(Info, events) == [Info(message="echo hello", code="remark")]
    assert of(UsageDelta, events)[0].usage == Usage(input=9_000, output=1_500_000, cache_read=3_000)
    untold = play("aider", model, "Yes.")
    assert end_of(untold).text == "Yes."


def test_mini_swe_agent_states_commands_and_their_results() -> None:
    events = recorded("mini-swe-agent", "two-commands")

    first, second, last = of(ToolEnd, events)
    assert of(ToolStart, events)[0].operations == [
        Write(path="/workspace/mini-swe-agent-two-commands/a.txt"),
        List(),
    ]
    assert of(Message, events)[1].text == "I write it.\n\n```python\nprint(1)\n```\n\nNow."
    assert (first.exit_code, second.exit_code, last.exit_code) == (0, 3, None)
    assert (second.success, last.success) == (False, None)
    end = end_of(events)
    assert (end.text, end.turns, end.total_cost_usd) == ("the answer", 2, 0.01)


def test_mini_swe_agent_ends_at_its_limit_with_exit_code_zero() -> None:
    end = end_of(recorded("mini-swe-agent", "step-limit"))

    assert (end.outcome, end.exit_code) == ("limit_exceeded", 0)


def test_a_model_that_breaks_the_rules_of_mini_swe_agent_is_warned() -> None:
    section = [
        "────",
        "",
        "mini-swe-agent (step 1, $0.00):",
        "Hm.",
        "",
        "User:",
        "Tool call error:",
        "",
        "Exit:",
    ]
    events = play("mini-swe-agent", *section, "RepeatedFormatError")

    assert of(Warning, events) == [Warning(message="Tool call error:", code="format_error")]
    assert end_of(events).outcome == "failed"


def test_continue_states_one_answer() -> None:
    assert end_of(recorded("continue", "tool")).text == "Done."
    assert end_of(recorded("continue", "json")).structured == {"a": 1}
    failed = recorded("continue", "error-401")
    assert of(Error, failed) == [Error(message="401 Incorrect API key", code="http_401")]
    assert end_of(failed).outcome == "failed"
    assert end_of(play("continue", "plain", "text")).text == "plain\ntext"


def test_every_line_of_another_program_is_preserved() -> None:
    events = play("generic", "working", {"step": 1}, "[1, 2]", "12", "", '{"a"', stderr="plain\n")

    assert [event.raw for event in of(Unknown, events)] == ["working", {"step": 1}, [1, 2], 12, '{"a"']
    assert of(Warning, events) == [Warning(message="plain", code="stderr")]
    assert isinstance(events[0], SessionStart)
    assert end_of(events) == Result(success=True, outcome="completed", duration_ms=2, exit_code=0)


def test_diagnostics_of_another_program_are_recognised() -> None:
    lines = ["error: no disk", "[ERROR]: no disk", "fatal: no disk", "error[E1]: no disk", "error TS2: no"]
    events = play("generic", *lines, "Warning: low", stderr="WARN: low\nerror: late\n", exit_code=3)

    assert [error.message for error in of(Error, events)] == [*["no disk"] * 4, "late"]
    assert [warning.message for warning in of(Warning, events)] == ["low", "low"]
    assert [event.raw for event in of(Unknown, events)] == ["error TS2: no"]
    assert end_of(events).outcome == "failed"


def test_a_program_that_fails_without_a_word_is_explained() -> None:
    events = play("generic", "last words", exit_code=3)

    assert of(Error, events) == [
        Error(message="agent process failed with exit code 3: last words", code="process_error")
    ]
