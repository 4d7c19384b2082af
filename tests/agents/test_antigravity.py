"""Antigravity, of which there are no recordings: command lines, and rules said one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import agent_runs
import recorded_runs
from agent_runs import of
from harness.agents.antigravity import command
from harness.contracts.request import Request
from harness.events import (
    Error,
    Message,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Write
from harness.testing.golden import Case, translate

play = partial(agent_runs.play, "antigravity", cwd="/w")
CASES = [case for case in recorded_runs.CASES if case.agent == "antigravity"]
CURRENT = (1, 2, 17)
TIMEOUT = ("--print-timeout", "24h")
USED = {"input_tokens": 100, "output_tokens": 20, "thinking_tokens": 12, "cache_read_tokens": 7}
NOTHING = dict.fromkeys(USED, 0)


def step(index: int, kind: str, state: str = "DONE", **more: Any) -> dict[str, Any]:
    stated = {"conversation_id": "c", "step_index": index, "state": state, "step_type": kind, **more}
    return {"event": "step_update", "step_update": stated}


def tool(
    name: str, state: str = "DONE", index: int = 2, /, error: str = "", **parameters: Any
) -> dict[str, Any]:
    info: dict[str, Any] = {"name": name, "parameters": parameters}
    if error:
        info["error"] = {"type": "TOOL_ERROR", "message": error}
    return step(index, "tool", state, tool_name=name, tool_info=info)


def result(status: str = "SUCCESS", response: str = "Done.", **more: Any) -> dict[str, Any]:
    stated = {"status": status, "response": response, "duration_seconds": 2.5, "usage": USED, **more}
    return {"event": "result", "result": stated}


@pytest.mark.parametrize(
    ("request_", "version", "args"),
    [
        (
            Request(agent="antigravity", prompt="--do it"),
            CURRENT,
            ("--output-format", "stream-json", "--dangerously-skip-permissions", *TIMEOUT, "--print=--do it"),
        ),
        (
            Request(agent="antigravity", prompt="x", permissions="agent-default"),
            (1, 1, 7),
            (*TIMEOUT, "--print=x"),
        ),
        (
            Request(
                agent="antigravity",
                prompt="x",
                permissions="agent-default",
                model="gemini",
                resume="c-1",
                extra_args=("--effort", "low"),
            ),
            (),
            (
                *("--output-format", "stream-json", "--model", "gemini", "--conversation", "c-1"),
                *(*TIMEOUT, "--effort", "low", "--print=x"),
            ),
        ),
        (
            Request(agent="antigravity", prompt="x", permissions="agent-default", continue_last=True),
            (1, 0, 0),
            ("--continue", *TIMEOUT, "--print=x"),
        ),
    ],
)
def test_a_request_becomes_a_command_line(
    request_: Request, version: tuple[int, ...], args: tuple[str, ...]
) -> None:
    assert command(request_, version).args == args


@pytest.mark.parametrize("case", CASES, ids=str)
def test_nothing_in_a_sample_is_unknown(case: Case) -> None:
    _, events = translate(case)

    assert not of(Unknown, events)


def test_text_may_ride_on_the_end_of_its_step() -> None:
    events = play(
        step(1, "agent_response", "ACTIVE", text_delta="All "),
        step(1, "agent_response", "ACTIVE", text_delta="do"),
        step(1, "agent_response", text_delta="ne.", usage=USED),
        result(response="All done."),
    )

    assert [delta.text for delta in of(TextDelta, events)] == ["All ", "do", "ne."]
    assert of(Message, events)[-1] == Message(role="assistant", text="All done.", id="step-1")
    assert of(Result, events)[-1].turns == 1


def test_thinking_is_taken_out_of_the_output_and_the_cache_is_not_in_the_input() -> None:
    events = play(step(1, "agent_response", usage=USED), result())
    usage = Usage(input=100, output=8, cache_read=7, reasoning=12)

    assert of(UsageDelta, events) == [UsageDelta(usage=usage, id="step-1")]
    assert of(Result, events)[-1].usage == usage


def test_a_resumed_conversation_is_billed_for_this_run_only() -> None:
    whole = {name: 10 * count for name, count in USED.items()}
    lines = (step(1, "agent_response", usage=USED), result(usage=whole))

    for argv, tokens in (
        (("agy",), 1000),
        (("agy", "--conversation", "c"), 100),
        (("agy", "--continue"), 100),
    ):
        events = play(*lines, argv=argv)
        assert of(Result, events)[-1].usage.input == tokens
        assert sum(delta.usage.input for delta in of(UsageDelta, events)) == tokens


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        (
            "view_file",
            {"AbsolutePath": "/a", "StartLine": 3, "EndLine": 9},
            Read(path="/a", start_line=3, end_line=9),
        ),
        (
            "write_to_file",
            {"TargetFile": "a", "CodeContent": "1\n2\n"},
            Write(path="/w/a", start_line=1, end_line=2),
        ),
        (
            "replace_file_content",
            {"TargetFile": "/a", "StartLine": 4, "EndLine": 5},
            Write(path="/a", start_line=4, end_line=5, change="update"),
        ),
        (
            "multi_replace_file_content",
            {
                "TargetFile": "/a",
                "ReplacementChunks": [{"StartLine": 9, "EndLine": 9}, {"StartLine": 2, "EndLine": 3}],
            },
            Write(path="/a", start_line=2, end_line=9, change="update"),
        ),
        ("run_command", {"CommandLine": "make", "Cwd": "/w/sub"}, Command(command="make", cwd="/w/sub")),
        ("run_command", {"CommandLine": "cat a", "Cwd": "sub"}, Read(path="/w/sub/a")),
        ("grep_search", {"Query": "x", "SearchPath": "/s"}, Search(query="x", path="/s")),
        ("find_by_name", {"Pattern": "*.py", "SearchDirectory": "/s"}, Search(query="*.py", path="/s")),
        ("list_dir", {"DirectoryPath": "/s"}, List(path="/s")),
        ("read_url_content", {"Url": "https://x"}, Fetch(url="https://x")),
    ],
)
def test_a_tool_means_an_operation(name: str, parameters: dict[str, Any], expected: Any) -> None:
    started = tool(name, "ACTIVE", **parameters)
    events = play(started, tool(name, **parameters), result())

    assert of(ToolStart, events)[0].operations == [expected]
    assert [(end.call_id, end.success) for end in of(ToolEnd, events)] == [("step-2", True)]


def test_a_step_that_is_seen_only_when_it_has_ended_is_a_whole_call() -> None:
    failed = tool("run_command", "ERROR", CommandLine="exit 3", error="exit status 3")
    events = play(failed, failed, result())

    assert [start.tool_name for start in of(ToolStart, events)] == ["run_command"]
    assert [(end.success, end.exit_code) for end in of(ToolEnd, events)] == [(False, 3)]


def test_a_tool_that_is_unknown_is_preserved_raw() -> None:
    called = tool("mystery", x=1)

    assert of(ToolStart, play(called, result()))[0].raw == called["step_update"]


def test_a_turn_that_was_denied_its_tools_and_says_nothing_has_failed() -> None:
    denied = [{"action": "command", "display_name": "RunCommand"}]
    events = play(result(response="", denied_actions=denied))
    assert [warning.message for warning in of(Warning, events)] == ["permission denied: RunCommand"]
    assert of(Result, events)[-1].outcome == "failed"

    events = play(result(response="I could not.", denied_actions=denied))
    assert of(Result, events)[-1].outcome == "completed"


def test_a_turn_that_ends_in_the_middle_of_an_answer_is_no_success() -> None:
    partial = step(1, "agent_response", "ACTIVE", text_delta="Part")
    events = play(partial, result(response="Part", usage=NOTHING))

    assert [error.code for error in of(Error, events)] == ["missing_end"]
    assert of(Result, events)[-1].outcome == "failed"


def test_its_own_time_limit_is_an_error_that_only_stderr_states() -> None:
    partial = step(1, "agent_response", "ACTIVE", text_delta="Part")
    notice = "[agy] print timeout after 5m0s with turn in progress; returning partial output"
    events = play(partial, result(response="Part", usage=NOTHING), stderr=f"{notice}\n")

    assert [(error.message, error.code) for error in of(Error, events)] == [(notice, "print_timeout")]
    assert of(Result, events)[-1].outcome == "timed_out"


def test_an_error_is_emitted_once_with_the_code_that_stderr_has_for_it() -> None:
    events = play(
        step(1, "agent_response", "ERROR", error={"message": "Quota reached."}),
        result("ERROR", "", error="Quota reached. Resets soon."),
        stderr='error: Quota reached. Resets soon.\nAGY_ERROR: {"short_error":"RESOURCE_EXHAUSTED (429)"}\n',
        exit_code=3,
    )

    assert [(error.message, error.code) for error in of(Error, events)] == [
        ("Quota reached. Resets soon.", "resource_exhausted")
    ]
    assert not of(Warning, events)
    assert of(Result, events)[-1].outcome == "failed"


def test_an_answer_that_failed_and_was_asked_for_again_is_a_retry() -> None:
    events = play(
        step(1, "agent_response", "ERROR", error={"message": "overloaded"}),
        step(2, "agent_response", text_delta="Here."),
        result(response="Here."),
    )

    assert [(warning.message, warning.code) for warning in of(Warning, events)] == [("overloaded", "retry")]
    assert of(Result, events)[-1].outcome == "completed"


def test_every_sub_agent_of_a_step_is_a_run() -> None:
    agents = [{"role": role, "initial_prompt": "go", "conversation_id": role.lower()} for role in ("A", "B")]
    opening = step(1, "subagent", tool_name="invoke_subagent", subagent_info={"subagents": agents})
    events = play(opening, result())

    children = [start for start in of(SessionStart, events) if start.parent_id]
    assert [(child.name, child.session_id, child.parent_id) for child in children] == [
        ("A", "a", "step-1"),
        ("B", "b", "step-1"),
    ]
    assert [end.run_id for end in of(Result, events)] == ["a", "b", ""]


def test_plain_text_is_the_answer_of_versions_that_write_nothing_else() -> None:
    final = of(Result, play("Hello.", "Bye."))[-1]

    assert (final.success, final.text) == (True, "Hello.\nBye.")


def test_an_old_version_that_writes_nothing_has_failed() -> None:
    events = play()

    assert [error.code for error in of(Error, events)] == ["no_output"]
    assert of(Result, events)[-1].outcome == "failed"


def test_a_stream_that_breaks_off_has_failed() -> None:
    assert of(Result, play(tool("run_command", "ACTIVE", CommandLine="x")))[-1].outcome == "failed"


@pytest.mark.parametrize(
    "line",
    [
        {"event": "surprise"},
        step(1, "unknown"),
        {"event": "step_update"},
        {"event": "step_update", "step_update": {"step_type": "agent_response"}},
        {"event": "step_update", "step_update": {"step_type": "tool", "step_index": 1}},
    ],
)
def test_what_no_rule_knows_is_unknown(line: Any) -> None:
    assert len(of(Unknown, play(line, result()))) == 1
