"""Claude Code, where recordings do not reach: command lines, odd shapes, and rules said one by one."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runs import of
from claude_lines import (
    INIT,
    OK,
    assistant,
    call,
    message_start,
    play,
    play_with_pipeline,
    result_of,
    stream,
    text,
    text_piece,
    user,
)
from harness.agents.claude.agent import AGENT, command
from harness.agents.registry import load
from harness.contracts.agent import Version
from harness.contracts.request import Limits, Request
from harness.events import (
    Error,
    Event,
    Info,
    LimitWindow,
    Message,
    RateLimits,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolStart,
    Unknown,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Write

CURRENT: Version = (2, 1, 325)
ALWAYS = ("--print", "--output-format", "stream-json", "--verbose")


def operations(events: list[Event]) -> list[Any]:
    """What the calls meant in the end."""
    starts = {event.call_id: event.operations for event in of(ToolStart, events)}
    ends = {event.call_id: event.operations for event in of(ToolEnd, events) if event.operations is not None}
    return [operation for known in ({**starts, **ends}).values() for operation in known]


@pytest.mark.parametrize(
    ("request_", "version", "expected"),
    [
        (Request(agent="claude"), (1, 0, 60), ("--dangerously-skip-permissions",)),
        (
            Request(agent="claude"),
            (2, 0, 60),
            ("--include-partial-messages", "--dangerously-skip-permissions"),
        ),
        (
            Request(agent="claude", permissions="agent-default"),
            CURRENT,
            ("--include-partial-messages", "--forward-subagent-text"),
        ),
        (
            Request(agent="claude", permissions="read-only"),
            (1, 0, 60),
            ("--disallowedTools", "Bash", "--permission-mode", "plan"),
        ),
        (
            Request(
                agent="claude", permissions="agent-default", limits=Limits(max_budget_usd=5.0, max_turns=3)
            ),
            (2, 0, 60),
            ("--include-partial-messages", "--max-turns", "3", "--max-budget-usd", "5"),
        ),
        (
            Request(agent="claude", permissions="agent-default", limits=Limits(max_budget_usd=0.25)),
            (1, 0, 60),
            (),
        ),
        (
            Request(
                agent="claude",
                permissions="agent-default",
                model="opus",
                system_prompt="be kind",
                append_system_prompt="and short",
                resume="abc",
                continue_last=True,
                extra_args=("--bare", "--resume"),
            ),
            (1, 0, 60),
            (
                *("--model", "opus", "--system-prompt", "be kind", "--append-system-prompt", "and short"),
                *("--resume", "abc", "--bare", "--resume"),
            ),
        ),
        (
            Request(agent="claude", permissions="agent-default", continue_last=True),
            (1, 0, 60),
            ("--continue",),
        ),
    ],
)
def test_a_request_becomes_arguments(request_: Request, version: Version, expected: tuple[str, ...]) -> None:
    assert command(request_, version).args == ALWAYS + expected


def test_an_unknown_version_is_taken_for_a_current_one() -> None:
    request = Request(agent="claude", limits=Limits(max_budget_usd=0.5))
    assert command(request, ()) == command(request, CURRENT)


def test_the_prompt_goes_through_stdin_and_never_into_the_arguments() -> None:
    line = command(Request(agent="claude", prompt="--resume \ud800 é"), CURRENT)
    assert line.stdin == "--resume ? é".encode()
    assert not any("é" in argument for argument in line.args)


def test_the_agent_has_its_names() -> None:
    assert {load(name).name for name in ("claude", "Claude-Code", "claude_code")} == {"claude"}
    assert AGENT.needs_version


def test_a_plain_run_is_session_prompt_answer_result() -> None:
    events = play(INIT, assistant(text("Analysis complete.")), {**OK, "result": "Analysis complete."})
    start, prompt, answer, result = events
    assert start == SessionStart(
        session_id="mock-session", agent="claude", model="claude-test-1", cwd="/shop", version="2.1.325"
    )
    assert prompt == Message(role="user", text="do it")
    assert answer == Message(role="assistant", text="Analysis complete.", id="msg_1:0")
    assert isinstance(result, Result)
    assert (result.success, result.text, result.duration_ms) == (True, "Analysis complete.", 5)


def test_blocks_of_one_message_are_counted_over_its_lines() -> None:
    lines = [assistant({"type": "thinking", "thinking": "hm"}), assistant(text("a")), assistant(text("b"))]
    events = play(INIT, *lines, assistant(text("c"), text("d"), message_id="msg_2"), OK)
    assert [event.id for event in of(ReasoningDelta, events)] == ["msg_1:0"]
    said = [(event.id, event.text) for event in of(Message, events)[1:]]
    assert said == [("msg_1:1", "a"), ("msg_1:2", "b"), ("msg_2:0", "cd")]


def test_a_whole_block_has_the_id_of_its_pieces_even_if_earlier_blocks_had_no_line() -> None:
    start_block = stream("content_block_start", index=3, content_block={"type": "text", "text": ""})
    pieces = [message_start(), start_block, text_piece("Hel", 3), text_piece("lo", 3)]
    events = play(INIT, *pieces, assistant(text("Hello")), OK)
    assert {event.id for event in of(TextDelta, events)} == {"msg_1:3"}
    assert of(Message, events)[-1].id == "msg_1:3"


def test_reasoning_that_was_streamed_is_not_emitted_again() -> None:
    delta = {"type": "thinking_delta", "thinking": "hm"}
    lines = [message_start(), stream("content_block_delta", index=0, delta=delta)]
    events = play(INIT, *lines, assistant({"type": "thinking", "thinking": "hm"}), OK)
    assert [event.text for event in of(ReasoningDelta, events)] == ["hm"]


def test_pieces_of_an_answer_that_was_asked_again_are_taken_back_without_a_record_of_it() -> None:
    lost = [message_start("msg_1"), text_piece("This text is")]
    again = [message_start("msg_2"), text_piece("Whole."), assistant(text("Whole."), message_id="msg_2")]
    ended = [stream("message_delta", delta={}, usage={"output_tokens": 42}), stream("message_stop")]
    events = play(INIT, *lost, *again, *ended, OK)
    assert of(TextRetracted, events) == [TextRetracted(id="msg_1:0")]


def test_an_answer_that_is_confirmed_after_its_end_is_not_taken_back() -> None:
    ended = [stream("message_delta", delta={}, usage={"output_tokens": 42}), stream("message_stop")]
    events = play(INIT, message_start(), text_piece("Hi"), *ended, assistant(text("Hi")), OK)
    assert not of(TextRetracted, events)
    assert of(Message, events)[-1].id == "msg_1:0"


def test_a_killed_run_keeps_what_was_streamed_and_what_it_used() -> None:
    events = play(INIT, message_start(), text_piece("word "), exit_code=143)
    assert of(TextDelta, events)
    assert not of(TextRetracted, events)
    assert of(UsageDelta, events)[0].usage.input == events[-1].usage.input == 1200  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (call("Read", file_path="src/a.py", offset=130, limit=65), Read(path="/shop/src/a.py", start_line=130, end_line=194)),
        (call("Read", file_path="/x/../a.py", offset=7), Read(path="/a.py", start_line=7)),
        (call("NotebookRead", notebook_path="n.ipynb"), Read(path="/shop/n.ipynb")),
        (call("Write", file_path="./a.py", content=""), Write(path="/shop/a.py", change="update")),
        (call("Edit", file_path="a.py"), Write(path="/shop/a.py", change="update")),
        (call("MultiEdit", file_path="a.py", edits=[]), Write(path="/shop/a.py", change="update")),
        (call("NotebookEdit", notebook_path="n.ipynb"), Write(path="/shop/n.ipynb", change="update")),
        (call("Grep", pattern="foo", path="src"), Search(query="foo", path="/shop/src")),
        (call("Glob", pattern="**/*.py"), Search(query="**/*.py")),
        (call("LS", path="/shop/src"), List(path="/shop/src")),
        (call("Bash", command="npm test"), Command(command="npm test")),
        (call("Bash", command="cat README.md"), Read(path="/shop/README.md")),
        (call("WebFetch", url="http://localhost/"), Fetch(url="http://localhost/")),
        (call("WebSearch", query="python"), Fetch(query="python")),
        (call("Skill", skill="greet"), Skill(path="/shop/skills/greet/SKILL.md", name="greet")),
    ],
)  # fmt: skip
def test_a_tool_means_an_operation(asked: dict[str, Any], expected: Any) -> None:
    events = play(INIT, assistant(asked), result_of(), OK)
    assert operations(events) == [expected]
    assert of(ToolEnd, events)[0].success is True
    assert of(ToolStart, events)[0].raw is None


@pytest.mark.parametrize("name", ["mcp__demo__echo", "Frobnicate", "Bash", "Read", "Grep", "Task"])
def test_a_call_that_cannot_be_read_is_preserved_whole(name: str) -> None:
    events = play(INIT, assistant(call(name, x=1)), result_of(), OK)
    assert of(ToolStart, events)[0].raw == call(name, x=1)
    assert not operations(events)
    assert not of(Unknown, events)


@pytest.mark.parametrize(
    ("content", "more", "exit_code"),
    [
        ("Exit code 3\nbefore", {"is_error": True}, 3),
        ("Error: Exit code 127\nnot found", {"is_error": True}, 127),
        ("Exit code 143\nCommand timed out after 1s", {"is_error": True}, 143),
        ("before", {"is_error": True}, None),
        ("This command requires approval", {"is_error": True}, None),
        ("Exit code 3 is what it printed", {}, None),
        ("stopped", {"is_interrupted": True}, None),
    ],
)
def test_exit_codes_are_read_from_failures(content: str, more: dict[str, Any], exit_code: int | None) -> None:
    events = play(INIT, assistant(call("Bash", command="x")), result_of(content=content, **more), OK)
    end = of(ToolEnd, events)[0]
    assert (end.success, end.exit_code, end.output) == (not more, exit_code, content)


def test_a_command_in_the_background_has_no_exit_code_yet() -> None:
    lines = [assistant(call("Bash", command="sleep 9")), result_of(detail={"backgroundTaskId": "b1"})]
    assert of(ToolEnd, play(INIT, *lines, OK))[0].exit_code is None


def test_paths_follow_the_shell_of_the_main_agent() -> None:
    steps: list[dict[str, Any]] = []
    commands = ["cd src && ls", "cat a.py", 'cd "$DIR"', "cat b.py", "cd /x", "cat c.py"]
    for number, line in enumerate(commands):
        steps += [assistant(call("Bash", f"call_{number}", command=line)), result_of(f"call_{number}")]
    paths = [each.path for each in operations(play(INIT, *steps, OK)) if isinstance(each, Read)]
    assert paths == ["/shop/src/a.py", "b.py", "/x/c.py"]


def test_a_shell_that_was_put_back_is_followed_too() -> None:
    back = {"stdout": "", "stderr": "\nShell cwd was reset to /shop"}
    lines = [assistant(call("Bash", command="cd /tmp")), result_of(detail=back)]
    more = [assistant(call("Bash", "call_2", command="cat a")), result_of("call_2")]
    assert operations(play(INIT, *lines, *more, OK))[-1] == Read(path="/shop/a")


def test_a_patch_states_the_lines_that_changed_and_not_those_around_them() -> None:
    hunks = [
        {"newStart": 1, "newLines": 3, "lines": [" a", "-b", "+c", "+d"]},
        {"newStart": 20, "newLines": 2, "lines": [" x", "-gone", " y"]},
    ]
    detail = {"filePath": "/shop/a.py", "originalFile": "a\nb\n", "structuredPatch": hunks}
    events = play(INIT, assistant(call("Edit", file_path="a.py")), result_of(detail=detail), OK)
    assert operations(events) == [Write(path="/shop/a.py", start_line=2, end_line=21, change="update")]


def test_the_place_of_a_skill_is_stated_by_the_text_after_it() -> None:
    body = user(text("Base directory for this skill: /shop/.claude/skills/greet\n\nGreet."), isSynthetic=True)
    lines = [assistant(call("Skill", skill="greet")), result_of(detail={"success": True})]
    assert operations(play(INIT, *lines, body, OK)) == [
        Skill(path="/shop/.claude/skills/greet/SKILL.md", name="greet")
    ]
    ends = of(ToolEnd, play(INIT, *lines, OK))
    assert [end.tool_name for end in ends] == ["Skill"]


def test_a_to_do_list_is_emitted_whole() -> None:
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "odd"}]
    events = play(INIT, assistant(call("TodoWrite", todos=todos)), result_of(), OK)
    tasks = of(TasksChanged, events)[0].tasks
    assert [(task.text, task.status) for task in tasks] == [("one", "completed"), ("two", "pending")]


def test_single_tasks_of_a_list_that_began_elsewhere_are_no_whole_list() -> None:
    made = {"task": {"id": "7", "subject": "later"}}
    events = play(INIT, assistant(call("TaskCreate", subject="later")), result_of(detail=made), OK)
    assert not of(TasksChanged, events)


def test_a_result_without_its_call_is_unknown_but_a_read_is_recovered() -> None:
    file = {"file": {"filePath": "/shop/a.py", "startLine": 3, "numLines": 2}}
    events = play(INIT, result_of("lost"), result_of("found", detail=file), OK)
    assert [event.raw["tool_use_id"] for event in of(Unknown, events)] == ["lost"]
    assert operations(events) == [Read(path="/shop/a.py", start_line=3, end_line=4)]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ({"error": "rate_limit", "api_error_status": 429}, "rate_limit"),
        ({"error": "unknown", "api_error_status": 400}, "http_400"),
        ({}, "http_529"),
    ],
)
def test_an_api_error_is_emitted_once_and_is_no_answer(line: dict[str, Any], code: str) -> None:
    said = "API Error: 529 Overloaded"
    synthetic = assistant(text(said), **line)
    synthetic["message"]["model"] = "<synthetic>"
    ended = {**OK, "is_error": True, "result": said, "terminal_reason": "api_error"}
    events = play(INIT, synthetic, ended, exit_code=1)
    assert of(Error, events) == [Error(message=said, code=code)]
    assert [event.role for event in of(Message, events)] == ["user"]
    assert (events[-1].success, events[-1].text) == (False, "")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("ended", "outcome", "code"),
    [
        ({"subtype": "error_max_turns", "is_error": False}, "limit_exceeded", "max_turns"),
        ({"subtype": "error_max_budget_usd", "is_error": True}, "limit_exceeded", "max_budget"),
        ({"subtype": "error_during_execution", "is_error": False}, "failed", "error_during_execution"),
        ({"subtype": "success", "is_error": True, "result": "no"}, "failed", "error"),
        ({"terminal_reason": "aborted_tools", "is_error": True}, "interrupted", None),
        ({}, "completed", None),
    ],
)
def test_a_run_ended_as_its_last_result_says(ended: dict[str, Any], outcome: str, code: str | None) -> None:
    events = play(INIT, {"type": "result", **ended})
    assert events[-1].outcome == outcome  # type: ignore[attr-defined]
    assert [error.code for error in of(Error, events)] == ([code] if code else [])


def test_an_interruption_that_the_result_does_not_repeat_is_one_all_the_same() -> None:
    note = user(text("[Request interrupted by user]"))
    events = play(INIT, note, {"type": "result", "subtype": "error_during_execution", "is_error": False})
    assert events[-1].outcome == "interrupted"  # type: ignore[attr-defined]


def test_of_several_results_the_last_counts_and_turns_add_up() -> None:
    first = {**OK, "is_error": True, "subtype": "error_during_execution", "num_turns": 2}
    result = play(INIT, first, INIT, assistant(text("Better.")), {**OK, "result": "Better."})[-1]
    assert isinstance(result, Result)
    assert (result.success, result.text, result.turns, result.duration_ms) == (True, "Better.", 3, 2000)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ({"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}, []),
        ({"type": "rate_limit_event"}, []),
        (
            {
                "type": "rate_limit_event",
                "rate_limit_info": {
                    "status": "allowed",
                    "rateLimitType": "five_hour",
                    "utilization": 0.5,
                    "resetsAt": 1900000000,
                    "unifiedWindows": {"seven_day": {"utilization": 1.2, "resetsAt": "soon", "status": "rejected"}, "odd": 1},
                },
            },
            [
                RateLimits(
                    windows=[
                        LimitWindow(name="seven_day", status="reached", used_percent=120.0),
                        LimitWindow(name="five_hour", status="ok", used_percent=50.0, resets_at_ms=1_900_000_000_000),
                    ]
                )
            ],
        ),
        (
            {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "utilization": 0.93}},
            [Warning(message="rate limit status: allowed_warning (93% used)", code="rate_limit_allowed_warning")],
        ),
        ({"type": "system", "subtype": "status", "status": None}, []),
        (
            {"type": "system", "subtype": "hook_response", "hook_name": "Stop", "exit_code": 2, "stderr": "no\n"},
            [Warning(message="hook failed: Stop: no", code="hook_failed")],
        ),
        (user(text("<local-command-stdout>hi</local-command-stdout>")), [Info(message="hi", code="local_command")]),
        (user(text("what was typed"), isReplay=True), []),
        ({"type": "novelty", "x": 1}, [Unknown(raw={"type": "novelty", "x": 1})]),
        ({"type": "system", "subtype": "novelty"}, [Unknown(raw={"type": "system", "subtype": "novelty"})]),
        (assistant({"type": "novelty"}), [Unknown(raw={"type": "novelty"})]),
        (user({"type": "image"}), [Unknown(raw={"type": "image"})]),
        (stream("novelty", x=1), [Unknown(raw={"type": "novelty", "x": 1})]),
        (assistant(), []),
        (assistant(text("")), []),
        ("not json", [Unknown(raw="not json")]),
    ],
)  # fmt: skip
def test_a_line_gives_events_or_is_taken_by_a_named_rule(line: Any, expected: list[Event]) -> None:
    events, pipeline = play_with_pipeline(INIT, line, OK)
    assert events[2:-1] == expected
    assert not pipeline.lost
