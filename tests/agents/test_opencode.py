"""OpenCode: how it is called, what its records mean, and how it really ended."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import agent_runs
import recorded_runs
from agent_runs import end_of
from harness.agents.opencode.agent import AGENT
from harness.approvals.call import ASK, READ_ONLY, AccessMode
from harness.approvals.decide import decide
from harness.approvals.work_folder import WorkFolder
from harness.contracts.request import Request
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, List, Read, Search, Spawn, Write
from harness.protocols.opencode.tools import OPENCODE
from harness.testing.golden import Case, translate

events_of = partial(agent_runs.play, "opencode", prompt="")
CASES = [case for case in recorded_runs.CASES if case.agent in ("opencode", "kilo")]


def record(type: str, **part: Any) -> dict[str, Any]:
    return {"type": type, "sessionID": "ses_1", "part": part}


def tool(name: str, input: Any, *, status: str = "completed", **state: Any) -> dict[str, Any]:
    return record("tool_use", tool=name, callID="call_1", state={"status": status, "input": input, **state})


def finished(reason: str = "stop", **part: Any) -> dict[str, Any]:
    return record("step_finish", reason=reason, **part)


def only(events: list[Event], kind: type[Any]) -> Any:
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, found
    return found[0]


def args_of(*, version: tuple[int, ...] = (), **options: Any) -> tuple[str, ...]:
    return AGENT.command(Request(agent="opencode", prompt="Say hello", **options), version).args


def test_the_prompt_goes_through_stdin_where_no_quotation_marks_are_put_around_it() -> None:
    command = AGENT.command(Request(agent="opencode", prompt="- say\nhello"), ())

    assert command.args == ("run", "--format", "json", "--thinking", "--auto")
    assert command.stdin == b"- say\nhello"
    assert command.env == {}


def test_every_option_of_a_request_has_its_argument() -> None:
    base = ("run", "--format", "json", "--thinking")

    assert args_of(permissions="agent-default") == base
    assert args_of(model="lab/m") == (*base, "--auto", "--model", "lab/m")
    assert args_of(resume="ses_1", continue_last=True) == (*base, "--auto", "--session", "ses_1")
    assert args_of(continue_last=True) == (*base, "--auto", "--continue")
    assert args_of(extra_args=("--variant", "high")) == (*base, "--auto", "--variant", "high")


def test_read_only_forbids_edits_and_commands_to_every_agent() -> None:
    command = AGENT.command(Request(agent="opencode", prompt="Look", permissions="read-only"), ())

    assert command.args == ("run", "--format", "json", "--thinking", "--agent", "plan")
    assert msgspec.json.decode(command.env["OPENCODE_PERMISSION"]) == {"edit": "deny", "bash": "deny"}


def test_older_versions_get_the_flags_that_they_know() -> None:
    assert args_of(version=(1, 17, 11))[3:] == ("--thinking", "--dangerously-skip-permissions")
    assert args_of(version=(1, 17, 12))[3:] == ("--thinking", "--auto")
    assert args_of(version=(1, 1, 48))[3:] == ()


def scripted_usage(case: Case) -> list[dict[str, int]]:
    return [turn.get("usage", {}) for turn in case.meta.script["main"]]


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name in ("reasoning", "hello_anthropic") and "main" in c.meta.script],
    ids=str,
)
def test_the_tokens_are_those_of_the_script_class_by_class(case: Case) -> None:
    _, events = translate(case)

    stated = [event.usage for event in events if isinstance(event, UsageDelta)]
    expected = [
        (usage["input"], usage["output"] - usage.get("reasoning", 0), usage.get("reasoning", 0))
        for usage in scripted_usage(case)
    ]
    assert [(usage.input, usage.output, usage.reasoning) for usage in stated] == expected
    cached = [(usage.get("cache_read", 0), usage.get("cache_write", 0)) for usage in scripted_usage(case)]
    assert [(usage.cache_read, usage.cache_write) for usage in stated] == cached
    total = end_of(events).usage
    assert total is not None
    assert total.input == sum(usage["input"] for usage in scripted_usage(case))
    assert total.cost_usd == pytest.approx(sum(usage.cost_usd or 0 for usage in stated))


def test_steps_add_up_and_one_that_is_emitted_twice_counts_once() -> None:
    tokens = {"input": 50, "output": 10, "reasoning": 0, "cache": {"read": 600, "write": 0}}
    events = events_of(
        record("text", id="p0", text="Hi"),
        finished("tool-calls", id="p1", tokens=tokens, cost=0.5),
        finished("tool-calls", id="p1", tokens=tokens, cost=0.5),
        finished("stop", id="p2", tokens={**tokens, "input": 30, "output": 20}, cost=0.25),
    )

    expected = Usage(input=80, output=30, cache_read=1200, cache_write=0, reasoning=0)
    assert end_of(events).usage == msgspec.structs.replace(expected, cost_usd=0.75, cost_source="stated")


def test_reasoning_that_a_total_shows_to_be_part_of_the_output_is_taken_out_of_it() -> None:
    tokens = {"total": 160, "input": 100, "output": 60, "reasoning": 40, "cache": {"read": 0, "write": 0}}

    assert only(events_of(finished(tokens=tokens)), UsageDelta).usage.output == 20


def test_a_cost_of_zero_is_a_price_that_the_agent_does_not_know() -> None:
    usage = only(events_of(finished(tokens={"input": 100, "output": 20}, cost=0)), UsageDelta).usage

    assert usage == Usage(input=100, output=20)


def test_a_text_is_the_agents_message() -> None:
    events = events_of(record("text", id="prt_1", text="Hello"), finished())

    assert only(events, SessionStart).session_id == "ses_1"
    assert only(events, Message) == Message(role="assistant", text="Hello", id="prt_1")
    assert end_of(events).success


def test_a_read_without_a_shown_range_has_the_range_that_was_asked_for() -> None:
    start = only(events_of(tool("read", {"filePath": "src/a.py", "offset": 5, "limit": 10})), ToolStart)

    assert start.operations == [Read(path="/repo/src/a.py", start_line=5, end_line=14)]


def test_reading_a_directory_is_listing_it() -> None:
    shown = {"display": {"type": "directory", "path": "/repo/src"}}

    assert only(events_of(tool("read", {"filePath": "src"}, metadata=shown)), ToolStart).operations == [
        List(path="/repo/src")
    ]


def test_flat_records_of_earlier_versions_are_read_likewise() -> None:
    events = events_of(
        {
            "type": "tool_use",
            "session_id": "s",
            "tool": "bash",
            "input": {"command": "npm test"},
            "status": "error",
        },
        {"type": "tool_use", "tool": "Grep", "id": "g", "arguments": {"pattern": "foo", "path": "src"}},
        {"type": "message", "content": "Done."},
        {"type": "result", "result": "All done.", "success": True},
    )

    starts = [event for event in events if isinstance(event, ToolStart)]
    ends = [event for event in events if isinstance(event, ToolEnd)]
    assert starts[0].operations == [Command(command="npm test")]
    assert starts[1].operations == [Search(query="foo", path="/repo/src")]
    assert [(end.success, end.has_failed) for end in ends] == [(False, True), (None, False)]
    assert only(events, SessionStart).session_id == "s"
    assert end_of(events).text == "All done."


def test_a_command_that_failed_has_failed_though_its_status_is_completed() -> None:
    for code, expected in ((0, True), (3, False), (None, False)):
        end = only(events_of(tool("bash", {"command": "x"}, metadata={"exit": code})), ToolEnd)
        assert (end.success, end.exit_code) == (expected, code)


def test_a_call_that_is_emitted_while_it_runs_begins_once_and_ends_once() -> None:
    input = {"filePath": "a"}
    running = tool("read", input, status="running")
    shown = {"display": {"type": "file", "path": "/repo/a", "lineStart": 1, "lineEnd": 3}}
    events = events_of(running, running, tool("read", input, metadata=shown))

    assert only(events, ToolStart).operations == [Read(path="/repo/a")]
    assert only(events, ToolEnd).operations == [Read(path="/repo/a", start_line=1, end_line=3)]


def test_calls_that_models_number_again_in_each_answer_stay_apart() -> None:
    first, second = tool("list", {}), tool("list", {})
    first["part"]["id"], second["part"]["id"] = "p1", "p2"
    events = events_of(first, second, second)

    assert [event.call_id for event in events if isinstance(event, ToolEnd)] == ["call_1", "p2"]


def test_a_failed_patch_states_what_it_should_have_changed() -> None:
    patch = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"
    start = only(events_of(tool("apply_patch", {"patchText": patch}, status="error", error="no")), ToolStart)

    assert start.operations == [Write(path="/repo/a", change="update")]


def test_a_tool_that_is_unknown_is_preserved_whole() -> None:
    call = tool("server_tool", {"a": 1})

    assert only(events_of(call), ToolStart).raw == call["part"]


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    output = '<task id="ses_2" state="completed">\n<task_result>\nTwo files.\n</task_result>\n</task>'
    asked = {"description": "Count", "prompt": "Count the files", "subagent_type": "explore"}
    metadata = {"sessionId": "ses_2", "model": {"providerID": "lab", "modelID": "m"}}
    events = events_of(tool("task", asked, output=output, metadata=metadata))

    child = [event for event in events if event.run_id == "call_1"]
    assert [type(event) for event in child] == [SessionStart, Message, Result]
    assert (child[0].parent_id, child[0].session_id, child[0].name, child[0].model) == (
        "call_1",
        "ses_2",
        "explore",
        "lab/m",
    )
    assert child[1].text == "Count the files"
    assert (child[2].success, child[2].text) == (True, "Two files.")
    assert only(events, ToolStart).operations == [Spawn(agent_id="ses_2", name="explore", task="Count")]


def test_the_whole_to_do_list_is_emitted_without_what_was_cancelled() -> None:
    todos = [{"content": "A", "status": "completed"}, {"content": "B", "status": "cancelled"}]

    tasks = only(events_of(tool("todowrite", {"todos": todos})), TasksChanged).tasks
    assert [(task.text, task.status) for task in tasks] == [("A", "completed")]


def test_what_the_agent_asks_itself_after_a_compaction_is_nobodys_message() -> None:
    text = record("text", text="Continue", synthetic=True, metadata={"compaction_continue": True})
    events = events_of(finished(), text)

    assert only(events, Compacted).trigger == "auto"
    assert not any(isinstance(event, Message) for event in events)
    assert end_of(events).outcome == "failed"


def test_an_error_has_the_status_of_the_server_as_its_code() -> None:
    data = {"message": "Incorrect API key", "statusCode": 401}
    events = events_of({"type": "error", "error": {"name": "APIError", "data": data}}, exit_code=1)

    assert only(events, Error) == Error(message="Incorrect API key", code="http_401")
    assert end_of(events).outcome == "failed"


def test_an_error_that_is_a_mere_string_is_its_own_message() -> None:
    assert only(events_of({"type": "error", "error": "boom"}), Error) == Error(message="boom", code="error")


def test_an_error_after_which_the_work_continues_does_not_fail_the_run() -> None:
    error = {"type": "error", "error": {"name": "ContextOverflowError", "data": {"message": "too long"}}}
    events = events_of(error, record("step_start"), record("text", text="Done."), finished())

    assert only(events, Error).code == "ContextOverflowError"
    assert end_of(events).success


REFUSED = tool("bash", {"command": "x"}, status="error", error="The user rejected permission to use it.")
NOTICE = "\x1b[93m\x1b[1m! \x1b[0mpermission requested: bash (x); auto-rejecting\n"


def test_a_refused_permission_is_emitted_once_and_fails_the_run_though_the_exit_code_is_zero() -> None:
    events = events_of(record("step_start"), REFUSED, finished("tool-calls"), stderr=NOTICE)

    assert only(events, Warning).code == "permission_denied"
    assert only(events, Error).code == "permission_denied"
    assert not end_of(events).success


def test_a_refusal_that_only_stderr_states_is_emitted_without_colours() -> None:
    events = events_of(record("text", text="Done."), finished(), stderr=NOTICE)

    assert only(events, Warning).message == "permission requested: bash (x); auto-rejecting"
    assert end_of(events).success


@pytest.mark.parametrize(
    ("records", "code"),
    [
        ([record("text", text="This is cut"), finished("length")], "length"),
        ([record("step_start"), finished()], "no_output"),
        ([record("text", text="Now I run it"), finished("tool-calls")], "missing_end"),
        ([record("text", text="Now")], "missing_end"),
    ],
)
def test_the_exit_code_alone_does_not_make_a_success(records: list[Any], code: str) -> None:
    events = events_of(*records)

    assert only(events, Error).code == code
    assert not end_of(events).success


def test_newer_versions_say_that_they_rest() -> None:
    done = {"type": "done", "sessionID": "ses_1", "reason": "idle", "rejected": []}
    events = events_of(record("text", text="Hi"), finished(), done)

    assert end_of(events).success
    assert not any(isinstance(event, Unknown) for event in events)


def test_calls_of_one_answer_are_one_turn() -> None:
    case = next(case for case in CASES if str(case).startswith("opencode") and case.name == "parallel")

    assert end_of(translate(case)[1]).turns == 2


@recorded_runs.each(CASES)
def test_every_line_of_a_recording_is_understood(case: Case) -> None:
    _, events = translate(case)

    assert [event for event in events if isinstance(event, Unknown)] == []


@pytest.mark.parametrize(
    ("input", "expected"),
    [
        ({"path": "a", "start_line": 3, "end_line": 9}, Read(path="/repo/a", start_line=3, end_line=9)),
        ({"abs_path": "/a", "line": 3, "num_lines": 2}, Read(path="/a", start_line=3, end_line=4)),
        ({"filePath": "a", "limit": 5}, Read(path="/repo/a", start_line=1, end_line=5)),
        ({"filePath": "a", "offset": 0}, Read(path="/repo/a")),
    ],
)
def test_a_range_is_found_under_any_of_its_names(input: dict[str, Any], expected: Read) -> None:
    assert only(events_of(tool("read", input)), ToolStart).operations == [expected]


def test_a_command_that_a_signal_ended_has_the_code_that_it_was_given() -> None:
    end = only(events_of(tool("bash", {"command": "x"}, metadata={"exit": -15})), ToolEnd)

    assert (end.success, end.exit_code) == (False, -15)


@pytest.mark.parametrize("mode", [ASK, READ_ONLY])
@pytest.mark.parametrize("tool", sorted(name for name in OPENCODE.tools if "_" in name))
def test_no_tool_of_a_server_is_taken_for_one_of_its_own(tool: str, mode: AccessMode, tmp_path: Path) -> None:
    """`delete` of a server `cron` is called `cron_delete`, as a tool of Kilo is, and a question does not say which it is."""
    folder = WorkFolder(root=os.path.realpath(tmp_path))
    call = OPENCODE.call(tool, {"path": ".", "command": "ls"}, str(tmp_path))
    if tool != "kilo_local_recall":
        assert decide([call], mode, (), folder).answer == ("deny" if mode is READ_ONLY else "ask")
