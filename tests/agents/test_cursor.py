"""Cursor's CLI, as far as it is documented: its command line and its records."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import agent_runs
import recorded_runs
from agent_runs import end_of, of
from harness.agents.cursor import AGENT, command
from harness.contracts.request import Request
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    Warning,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Write
from harness.testing.golden import Case, translate

play = partial(agent_runs.play, "cursor", cwd="")
CASES = {case.name: case for case in recorded_runs.CASES if case.agent == "cursor"}
INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "/here", "model": "Auto"}
OK = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "duration_ms": 5}
ALWAYS = ("--print", "--output-format", "stream-json", "--stream-partial-output")


def assistant_texts(events: list[Event]) -> list[str]:
    return [message.text for message in of(Message, events) if message.role == "assistant"]


def says(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, **more}


def call(subtype: str, key: str, call_id: str = "c1", **content: Any) -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "call_id": call_id, "tool_call": {key: content}}


def done(key: str, result: Any, **args: Any) -> list[Event]:
    return play(INIT, call("started", key, args=args), call("completed", key, result=result), OK)


TRUSTED = Request(agent="cursor", permissions="read-only", folder_settings="use")


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (Request(agent="cursor"), (), ("--force",)),
        (TRUSTED, (), ("--mode", "plan", "--trust")),
        (TRUSTED, (2026, 2, 13), ("--mode", "plan", "--trust")),
        (TRUSTED, (2025, 10, 28), ("--mode", "plan")),
        (Request(agent="cursor", permissions="read-only"), (), ("--mode", "plan")),
        (Request(agent="cursor", permissions="agent-default"), (), ()),
        (Request(agent="cursor", model="gpt-5"), (), ("--force", "--model", "gpt-5")),
        (Request(agent="cursor", resume="s-1"), (), ("--force", "--resume", "s-1")),
        (Request(agent="cursor", continue_last=True), (), ("--force", "--continue")),
        (Request(agent="cursor", extra_args=("--approve-mcps",)), (), ("--force", "--approve-mcps")),
    ],
)
def test_a_request_becomes_a_command_line(
    request_: Request, version: tuple[int, ...], expected: tuple[str, ...]
) -> None:
    assert command(request_, version).args == (*ALWAYS, *expected)


def test_the_prompt_goes_through_stdin() -> None:
    assert command(Request(agent="cursor", prompt="-x\ny"), ()).stdin == b"-x\ny"


def test_it_is_marked_as_never_seen_running() -> None:
    assert AGENT.derived
    assert {case.version for case in CASES.values()} == {"derived"}


def test_a_run_as_the_first_documentation_shows_it() -> None:
    events = play(
        INIT,
        says("Reading."),
        call("started", "readToolCall", args={"path": "a"}),
        call("completed", "readToolCall", args={"path": "a"}, result={"success": {"content": "x"}}),
        OK,
    )

    kinds = [SessionStart, Message, Message, ToolStart, ToolEnd, Result]
    assert [type(event) for event in events] == kinds
    assert of(ToolStart, events)[0].tool_name == "read"
    assert (end_of(events).success, end_of(events).text) == (True, "Done.")


def test_text_comes_in_pieces_and_once_more_as_a_whole() -> None:
    events = play(
        INIT,
        says("Loo", timestamp_ms=1),
        says("king.", timestamp_ms=2),
        says("Looking.", timestamp_ms=3, model_call_id="m-0"),
        call("started", "lsToolCall", args={"path": "."}),
        call("completed", "lsToolCall", result={"success": {}}),
        says("Found.", timestamp_ms=4),
        says("Looking.Found."),
        says("Looking.Found."),
        {**OK, "result": "Looking.Found."},
    )

    assert [(piece.id, piece.text) for piece in of(TextDelta, events)] == [
        ("text-1", "Loo"),
        ("text-1", "king."),
        ("text-2", "Found."),
    ]
    assert assistant_texts(events) == ["Looking.", "Found."]
    assert [message.id for message in of(Message, events)][1:] == ["text-1", "text-2"]
    assert end_of(events).text == "Found."


def test_pieces_that_are_not_repeated_are_a_message_all_the_same() -> None:
    assert assistant_texts(play(INIT, says("Half a", timestamp_ms=1), exit_code=1)) == ["Half a"]


def test_reasoning_ends_where_it_is_said_to_end() -> None:
    def think(text: str) -> dict[str, Any]:
        return {"type": "thinking", "subtype": "delta", "text": text}

    events = play(INIT, think("a"), think("b"), {"type": "thinking", "subtype": "completed"}, think("c"), OK)

    assert [delta.id for delta in of(ReasoningDelta, events)] == ["thinking-1", "thinking-1", "thinking-2"]


@pytest.mark.parametrize(
    ("key", "result", "success", "exit_code"),
    [
        ("readToolCall", {"success": {"content": "x"}}, True, None),
        ("readToolCall", {"error": {"errorMessage": "x"}}, False, None),
        ("shellToolCall", {"success": {"exitCode": 0, "stdout": "x"}}, True, 0),
        ("shellToolCall", {"success": {"exitCode": 2, "stdout": "x"}}, False, 2),
        ("shellToolCall", {"failure": {"exitCode": 127, "stderr": "x"}}, False, 127),
        ("shellToolCall", {"rejected": {"reason": "x"}}, False, None),
        ("mcpToolCall", {"success": {"content": "x", "isError": True}}, False, None),
        ("webFetchToolCall", {"content": "x"}, None, None),
    ],
)
def test_only_success_is_one(key: str, result: Any, success: bool | None, exit_code: int | None) -> None:
    [end] = of(ToolEnd, done(key, result))

    assert (end.success, end.exit_code, end.output) == (success, exit_code, "x")


def test_a_refused_call_is_a_denial() -> None:
    [warning] = of(Warning, done("shellToolCall", {"rejected": {"reason": "no"}}, command="git push"))

    assert (warning.code, warning.message) == ("permission_denied", "permission denied: shell: no")


@pytest.mark.parametrize(
    ("key", "args", "expected"),
    [
        ("readToolCall", {"path": "a", "offset": 3, "limit": 2}, Read(path="/here/a", start_line=3, end_line=4)),
        ("writeToolCall", {"path": "a", "fileText": "1\n2"}, Write(path="/here/a", start_line=1, end_line=2)),
        ("deleteToolCall", {"path": "a"}, Write(path="/here/a", change="delete")),
        ("grepToolCall", {"pattern": "x", "path": "src"}, Search(query="x", path="/here/src")),
        ("globToolCall", {"globPattern": "*.py", "targetDirectory": "/a"}, Search(query="*.py", path="/a")),
        ("semSearchToolCall", {"query": "x", "targetDirectories": ["src"]}, Search(query="x", path="/here/src")),
        ("lsToolCall", {"path": "src"}, List(path="/here/src")),
        ("listToolCall", {"path": "src"}, List(path="/here/src")),
        ("bashToolCall", {"command": "make"}, Command(command="make")),
        ("shellToolCall", {"command": "make", "workingDirectory": "/a"}, Command(command="make", cwd="/a")),
        ("shell_tool_call", {"command": "cat a"}, Read(path="/here/a")),
        ("searchToolCall", {"query": "x"}, Search(query="x")),
        ("webFetchToolCall", {"url": "https://a.org"}, Fetch(url="https://a.org")),
    ],
)  # fmt: skip
def test_what_a_call_means(key: str, args: dict[str, Any], expected: Any) -> None:
    [start] = of(ToolStart, done(key, {"success": {}}, **args))

    assert start.operations == [expected]


def test_a_call_may_be_a_function_with_arguments_as_text() -> None:
    function = {"name": "Shell", "arguments": '{"command": "make"}'}

    [start] = of(ToolStart, play(INIT, call("started", "function", **function), OK))

    assert (start.tool_name, start.operations) == ("shell", [Command(command="make")])


def test_a_result_alone_shows_its_call_and_a_repeated_one_states_nothing() -> None:
    completed = call("completed", "readToolCall", args={"path": "a"}, result={"success": {"content": "x"}})

    events = play(INIT, completed, completed, OK)

    assert [start.operations for start in of(ToolStart, events)] == [[Read(path="/here/a")]]
    assert len(of(ToolEnd, events)) == 1


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    events = translate(CASES["subagent"])[1]

    [_main, child] = of(SessionStart, events)
    [ended, _result] = of(Result, events)
    assert (child.parent_id, child.name) == ("call-1", "counter")
    assert (ended.run_id, ended.success, ended.text) == ("call-1", True, "It is 42.")
    assert [warning.code for warning in of(Warning, events)] == ["retry", "retry"]


def test_a_changed_to_do_list_is_emitted_whole() -> None:
    todos = [{"id": "1", "content": "x", "status": "TODO_STATUS_IN_PROGRESS"}]

    [changed] = of(TasksChanged, done("updateTodosToolCall", {"success": {"todos": todos}}, merge=True))

    assert [(task.text, task.status) for task in changed.tasks] == [("x", "in_progress")]
    assert not of(TasksChanged, done("updateTodosToolCall", {"success": {}}, merge=True, todos=todos))


def test_in_plan_mode_the_plan_is_the_answer() -> None:
    asked = {"createPlanRequestQuery": {"args": {"plan": "# Plan"}}}
    query = {"type": "interaction_query", "subtype": "request", "query": asked}

    assert assistant_texts(play(INIT, query, OK)) == ["# Plan"]


def test_usage_keeps_the_cache_apart() -> None:
    used = {"inputTokens": 4, "outputTokens": 117, "cacheReadTokens": 28154, "cacheWriteTokens": 1197}

    stated = end_of(play(INIT, {**OK, "usage": used})).usage

    assert stated == Usage(input=4, output=117, cache_read=28154, cache_write=1197)
    assert end_of(play(INIT, OK)).usage is None


def test_a_failed_turn_and_a_run_that_could_not_begin() -> None:
    failed = play(INIT, {**OK, "subtype": "error", "is_error": True, "result": "No credits."}, exit_code=1)
    untrusted = translate(CASES["untrusted"])[1]

    assert [error.message for error in of(Error, failed)] == ["No credits."]
    assert (end_of(failed).outcome, end_of(untrusted).outcome) == ("failed", "failed")
    assert "Workspace Trust Required" in of(Error, untrusted)[0].message


def test_records_on_stderr_are_those_of_stdout() -> None:
    assert not of(Warning, play(INIT, OK, stderr='{"type":"system","subtype":"init"}'))


def test_odd_records_are_unknown() -> None:
    odd: list[Any] = [
        {"no": "type"},
        {"type": "tool_call", "call_id": "c1", "tool_call": {"readToolCall": {"args": {}}}},
        {"type": "thinking", "subtype": "novelty"},
    ]

    events = play(INIT, *odd, OK)

    assert [unknown.raw for unknown in of(Unknown, events)] == odd
    assert not of(ToolStart, events)


@pytest.mark.parametrize("case", CASES.values(), ids=str)
def test_no_recording_has_unknown_records(case: Case) -> None:
    assert not of(Unknown, translate(case)[1])
