"""Gemini CLI: how it is called, what its records mean, and how it really ended."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import agent_runs
import recorded_runs
from agent_runs import end_of, of
from harness.agents.gemini.agent import acp_command, command
from harness.contracts.agent import CommandLine, Version
from harness.contracts.request import Request
from harness.events import (
    Error,
    Message,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Fetch, Read, Search, Skill, Spawn, Tasks, Write
from harness.testing.golden import Case, translate

play = partial(agent_runs.play, "gemini", cwd="/here")
recorded = partial(agent_runs.recorded, "gemini")
CASES = {case.name: case for case in recorded_runs.CASES if case.agent == "gemini"}
INIT = {"type": "init", "session_id": "s-1", "model": "gemini-test"}
OK = {
    "type": "result",
    "status": "success",
    "stats": {"total_tokens": 12, "input_tokens": 10, "output_tokens": 2},
}
ALWAYS = ("--output-format", "stream-json")


def call(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "tool_use", "tool_name": name, "tool_id": "c1", "parameters": parameters}


def answer(status: str = "success", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_id": "c1", "status": status, **more}


def asked(name: str, **parameters: Any) -> Any:
    return of(ToolStart, play(INIT, call(name, **parameters), answer(), OK))[0].operations


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(agent="gemini"), ("--approval-mode", "yolo")),
        (Request(agent="gemini", permissions="read-only"), ("--approval-mode", "plan")),
        (Request(agent="gemini", permissions="agent-default"), ()),
        (Request(agent="gemini", model="flash", permissions="agent-default"), ("--model", "flash")),
        (Request(agent="gemini", resume="s-1", permissions="agent-default"), ("--resume", "s-1")),
        (Request(agent="gemini", continue_last=True, permissions="agent-default"), ("--resume", "latest")),
        (Request(agent="gemini", extra_args=("-d",), permissions="agent-default"), ("-d",)),
    ],
)
def test_a_request_becomes_a_command_line(request_: Request, expected: tuple[str, ...]) -> None:
    assert command(request_, ()).args == (*ALWAYS, *expected)


def test_a_session_that_is_loaded_is_the_one_that_the_program_starts_with() -> None:
    """Else it deletes the files of a session that was continued from the command line, at its start."""
    assert acp_command(Request(agent="gemini", resume="s-1"), ()).args[-2:] == ("--resume", "s-1")
    assert "--resume" not in acp_command(Request(agent="gemini"), ()).args


def test_the_prompt_goes_through_stdin() -> None:
    assert command(Request(agent="gemini", prompt="-x\ny"), ()).stdin == b"-x\ny"


@pytest.mark.parametrize("make", [command, acp_command])
def test_a_folder_is_trusted_only_where_the_user_trusts_it_and_a_mode_is_asked_for(
    make: Callable[[Request, Version], CommandLine],
) -> None:
    def told(**options: Any) -> str | None:
        return make(Request(agent="gemini", **options), ()).env.get("GEMINI_CLI_TRUST_WORKSPACE")

    assert told(folder_settings="use") == "true"
    assert told(folder_settings="use", permissions="read-only") == "true"
    assert told(folder_settings="use", permissions="agent-default") is None
    assert told() is None
    assert told(folder_settings="none") == "false"
    assert told(folder_settings="none", permissions="agent-default") == "false"


@pytest.mark.parametrize(
    ("pattern", "is_asked"),
    [
        *(
            (pattern, False)
            for pattern in ("*.txt", "**/*.{ts,tsx}", "app/[id]/*.ts", "src/.github/*", ".*", "a,b/*")
        ),
        *(
            (pattern, True)
            for pattern in ("../*", "src/../../*", "{..,x}/*", ".{.,x}/*", "{.,a}{.,b}/*", "x/.{.,y}/*")
        ),
        *(
            (pattern, True)
            for pattern in ("[.][.]/*", "[--/][.]/*", "@(..|x)/*", "+(.)/*", "?(.)./*", ".\\./*")
        ),
        *((pattern, True) for pattern in ("/etc/*", "~/*", "{/etc,x}/*", "{a,~}/*", "C:/*", "@(/etc|x)/*")),
    ],
)
def test_a_pattern_of_names_that_could_lead_out_of_the_folder_is_asked_about(
    pattern: str, is_asked: bool
) -> None:
    """Gemini looks where a folder lies, but not where a pattern leads."""
    policy = acp_command(Request(agent="gemini", permissions="read-only"), ()).args
    rules = tomllib.loads(Path(policy[policy.index("--policy") + 1]).read_text())["rule"]
    rule = next(rule for rule in rules if rule["toolName"] == "glob")
    assert (rule["decision"], set(rule["modes"])) == ("ask_user", {"default", "autoEdit", "plan"})
    stated = json.dumps({"dir_path": "/home/me/src", "pattern": pattern}, separators=(",", ":"))
    assert bool(re.search(rule["argsPattern"], stated)) is is_asked


def test_pieces_of_text_become_one_message_with_their_id_when_something_else_begins() -> None:
    events = recorded("text-tool-text")

    pieces = of(TextDelta, events)
    said = [message for message in of(Message, events) if message.role == "assistant"]
    assert [message.id for message in said] == ["text-1", "text-2"]
    for message in said:
        assert message.text == "".join(piece.text for piece in pieces if piece.id == message.id)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hello", Usage(input=1200, output=40, cache_read=0, reasoning=0)),
        ("reasoning", Usage(input=1200, output=80, cache_read=300 + 900, reasoning=12 + 7)),
        ("subagent", Usage(input=4 * 1200 + 2 * 1200, output=6 * 40, cache_read=0, reasoning=0)),
        ("error-after-tool", Usage(input=1200, output=40, cache_read=0, reasoning=0)),
        ("hello-json", Usage(input=2400, output=80, cache_read=0, reasoning=0)),
    ],
)
def test_usage_is_what_the_model_was_scripted_to_say(name: str, expected: Usage) -> None:
    events = recorded(name)

    assert end_of(events).usage == expected
    total = Usage()
    for delta in of(UsageDelta, events):
        total = total.plus(delta.usage)
    assert total == expected


def test_a_failed_run_that_says_it_used_nothing_has_not_said_what_it_used() -> None:
    assert end_of(recorded("drop-midstream")).usage is None


def test_usage_of_versions_that_state_less_leaves_open_what_they_do_not_state() -> None:
    stats = {"input_tokens": 10, "output_tokens": 2}

    stated = end_of(play(INIT, {"type": "result", "status": "success", "stats": stats})).usage

    assert stated == Usage(input=10, output=2)


@pytest.mark.parametrize(
    ("name", "outcome", "code"),
    [
        ("hello", "completed", ""),
        ("empty", "failed", "invalid_answer"),
        ("malformed-call", "failed", "invalid_answer"),
        ("loop", "failed", "loop_detected"),
        ("max-turns", "limit_exceeded", "max_turns"),
        ("error-401", "failed", "http_401"),
        ("error-429", "failed", "http_429"),
        ("error-500", "failed", "http_500"),
        ("drop-midstream", "failed", "api_error"),
        ("bad-flag", "failed", "bad_arguments"),
        ("sigint-model-group", "failed", "missing_end"),
        ("sigterm-model", "completed", ""),
        ("large-output-norelaunch", "failed", "missing_end"),
    ],
)
def test_the_outcome_is_true_whatever_exit_code_and_status_say(name: str, outcome: str, code: str) -> None:
    events = recorded(name)

    assert end_of(events).outcome == outcome
    assert end_of(events).success == (outcome == "completed")
    assert [error.code for error in of(Error, events)] == ([code] if code else [])


def test_a_command_that_wrote_something_may_have_failed_all_the_same() -> None:
    [end] = of(ToolEnd, recorded("shell-fail"))

    assert (end.success, end.exit_code, end.output) == (None, None, "out\nerr")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", (True, None)),
        ("Command exited with code: 7", (False, 7)),
        ("Command terminated by signal: SIGKILL", (False, None)),
        ("Command moved to background (PID: 7).", (True, None)),
        ("Command exited with code: 7\nmore", (None, None)),
    ],
)
def test_what_is_known_of_a_command(output: str, expected: tuple[bool | None, int | None]) -> None:
    [end] = of(ToolEnd, play(INIT, call("run_shell_command", command="make"), answer(output=output), OK))

    assert (end.success, end.exit_code) == expected


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("read_file", {"file_path": "a", "start_line": 3, "end_line": 9}, [Read(path="/here/a", start_line=3, end_line=9)]),
        ("read_file", {"absolute_path": "/a", "offset": 9, "limit": 11}, [Read(path="/a", start_line=10, end_line=20)]),
        ("read_many_files", {"paths": ["a", "*.py"]}, [Read(path="/here/a"), Search(query="*.py")]),
        ("write_file", {"file_path": "a", "content": "1\n2\n"}, [Write(path="/here/a", start_line=1, end_line=2)]),
        ("search_file_content", {"pattern": "x", "path": "src"}, [Search(query="x", path="/here/src")]),
        ("run_shell_command", {"command": "make", "dir_path": "src"}, [Command(command="make", cwd="/here/src")]),
        ("run_shell_command", {"command": "cat a", "dir_path": "src"}, [Read(path="/here/src/a")]),
        ("web_fetch", {"prompt": "sum up https://a.org/x, and https://b.org."}, [Fetch(url="https://a.org/x"), Fetch(url="https://b.org")]),
        ("google_web_search", {"query": "x"}, [Fetch(query="x")]),
        ("codebase_investigator", {"objective": "look"}, [Spawn(name="codebase_investigator", task="look")]),
        ("update_topic", {"title": "x"}, [Tasks()]),
        ("ask_user", {"questions": []}, []),
    ],
)  # fmt: skip
def test_what_a_call_means(name: str, parameters: dict[str, Any], expected: list[Any]) -> None:
    assert asked(name, **parameters) == expected


def test_a_skill_lies_where_its_result_says() -> None:
    [used, _missing] = of(ToolEnd, recorded("skill"))

    path = "/workspace/gemini-skill/.gemini/skills/greet/SKILL.md"
    assert used.operations == [Skill(path=path, name="greet")]


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    [_main, child] = of(SessionStart, recorded("subagent"))
    [ended, _result] = of(Result, recorded("subagent"))

    assert (child.parent_id, child.name) == (child.run_id, "generalist")
    assert (ended.run_id, ended.success) == (child.run_id, True)
    assert not of(Result, recorded("subagent-missing"))[0].success


def test_a_to_do_list_is_emitted_when_it_has_changed() -> None:
    [changed] = of(TasksChanged, recorded("todos"))

    assert [(task.text, task.status) for task in changed.tasks] == [
        ("first", "in_progress"),
        ("second", "pending"),
    ]


@pytest.mark.parametrize(
    ("name", "kind", "is_denied"),
    [
        ("write_file", "tool_not_registered", True),
        ("frobnicate", "tool_not_registered", False),
        ("read_file", "policy_violation", True),
    ],
)
def test_a_tool_that_may_not_be_used_is_a_denial(name: str, kind: str, is_denied: bool) -> None:
    events = play(INIT, call(name), answer("error", error={"type": kind, "message": "no"}), OK)

    assert [warning.code for warning in of(Warning, events)] == ["permission_denied"] * is_denied


def test_stderr_states_retries_and_leaves_out_traces_and_what_the_records_say() -> None:
    lines = (
        "YOLO mode is enabled. All tool calls will be automatically approved.",
        "Attempt 1 failed with status 500. Retrying with backoff... _ApiError: {}",
        "    at throwErrorIfNotOK (file:///x/chunk.js:1:2)",
        "    at async Turn.run (file:///x/chunk.js:3:4) {",
        "  status: 500",
        "}",
        "Error executing tool read_file: File not found.",
        "at least one thing is odd",
    )

    warnings = of(Warning, play(INIT, OK, stderr="\n".join(lines)))

    assert [warning.code for warning in warnings] == ["retry", "stderr"]
    assert warnings[1].message == lines[-1]


def test_plain_text_is_the_answer_and_broken_text_is_not() -> None:
    assert end_of(recorded("hello-text")).text == "I will run echo.\nDone."
    assert [unknown.raw for unknown in of(Unknown, play(b"{", b'"response": ', exit_code=1))] == [
        "{",
        '"response":',
    ]


def test_odd_records_are_unknown() -> None:
    odd = [{"type": "novelty"}, {"type": "message", "role": "assistant"}, {"x": 1}, answer()]

    events = play(INIT, *odd, OK)

    assert [unknown.raw for unknown in of(Unknown, events)] == odd
    assert end_of(events).success


@recorded_runs.each(CASES.values())
def test_no_recording_has_unknown_records_but_for_a_line_that_was_cut_off(case: Case) -> None:
    assert len(of(Unknown, translate(case)[1])) == (case.name == "large-output-norelaunch")
