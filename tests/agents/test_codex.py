"""Codex: how it is asked, and what it says and does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_runs import end_of
from codex_stream import completed, item, run, turn
from harness.agents.codex.agent import AGENT
from harness.agents.registry import load
from harness.contracts.request import Request
from harness.events import (
    Compacted,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Write
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.launch import refusal_to_read_only
from harness.runs.pipeline import Pipeline

ASK = ("exec", "--json", "--skip-git-repo-check")
FULL = (*ASK, "--dangerously-bypass-approvals-and-sandbox")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, (*FULL, "-")),
        ({"permissions": "read-only"}, (*ASK, "--sandbox", "read-only", "-")),
        ({"permissions": "agent-default"}, (*ASK, "-")),
        ({"model": "gpt-5.5"}, (*FULL, "--model", "gpt-5.5", "-")),
        ({"extra_args": ("-c", "a=1")}, (*FULL, "-c", "a=1", "-")),
        ({"resume": "th-1"}, (*FULL, "resume", "th-1", "-")),
        ({"continue_last": True}, (*FULL, "resume", "--last")),
        (
            {"resume": "th-1", "model": "m", "extra_args": ("--oss",)},
            (*FULL, "--model", "m", "--oss", "resume", "th-1", "-"),
        ),
    ],
)
def test_a_request_becomes_arguments_and_the_prompt_goes_through_stdin(
    asked: dict[str, Any], expected: tuple[str, ...]
) -> None:
    line = AGENT.command(Request(agent="codex", prompt="fix ☃", **asked), ())

    assert line.args == expected
    assert line.stdin == "fix ☃".encode()


def test_it_claims_only_what_it_can_do() -> None:
    assert AGENT.supports == {"agent-default", "continue_last", "effort", "model", "read-only", "resume"}


@pytest.mark.parametrize("name", ["codex", "CODEX", "openai-codex", "openai_codex"])
def test_it_is_known_by_its_aliases(name: str) -> None:
    assert load(name) is AGENT


def test_a_whole_run_gives_start_prompt_words_tool_usage_and_result() -> None:
    pipeline = Pipeline(AGENT.translator())
    lines = [
        {"type": "thread.started", "thread_id": "th-mock"},
        {"type": "turn.started"},
        completed(type="agent_message", text="Working on it."),
        item("started", type="command_execution", command="ls", aggregated_output="", status="in_progress"),
        completed(
            type="command_execution", command="ls", aggregated_output="a\n", exit_code=0, status="completed"
        ),
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 5},
        },
    ]
    events = list(pipeline.feed(RawStart(at_ms=0, agent="codex", prompt="list files", model="m", cwd="/w")))
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    events += pipeline.feed(RawOutput(at_ms=5, stream="stdout", data=data))
    events += pipeline.feed(RawExit(at_ms=9, code=0))

    usage = Usage(input=6, output=5, cache_read=4)
    assert events == [
        SessionStart(session_id="th-mock", agent="codex", model="m", cwd="/w"),
        Message(role="user", text="list files"),
        Message(role="assistant", text="Working on it."),
        ToolStart(call_id="item_0", tool_name="shell", input={"command": "ls"}, operations=[List()]),
        ToolEnd(call_id="item_0", tool_name="shell", success=True, output="a\n", exit_code=0),
        UsageDelta(usage=usage),
        Result(success=True, text="Working on it.", duration_ms=9, usage=usage, exit_code=0),
    ]


def test_the_thread_is_the_session() -> None:
    assert run({"type": "thread.started", "thread_id": "th-1"})[0] == SessionStart(
        session_id="th-1", agent="codex"
    )
    assert run({"type": "thread.started"})[0] == SessionStart(agent="codex")


def test_empty_words_and_blank_lines_say_nothing() -> None:
    assert (
        turn(completed(type="agent_message", text=""), completed(type="reasoning", text=""), "", "  ") == []
    )


def test_reasoning_is_distinguished_from_words() -> None:
    events = turn(completed(type="reasoning", text="**Plan**"), completed(type="agent_message", text="Done."))

    assert events == [ReasoningDelta(id="item_0", text="**Plan**"), Message(role="assistant", text="Done.")]


def test_forms_of_earlier_versions_are_understood() -> None:
    events = run(
        {"type": "thread.started", "thread_id": "t"},
        {
            "type": "item.created",
            "item": {"type": "message", "role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
        },
        completed(type="message", role="user", content="c"),
        completed(id="x", type="shell", command="npm test", output="ok", exit_code=0),
        completed(id="y", type="file_change", path="a.py"),
        {"type": "thread.completed", "summary": "all of it"},
    )

    assert events[1:3] == [Message(role="assistant", text="ab"), Message(role="user", text="c")]
    assert [event.tool_name for event in events if isinstance(event, ToolStart)] == ["shell", "file_change"]
    assert [event.success for event in events if isinstance(event, ToolEnd)] == [True, True]
    assert end_of(events).text == "all of it"
    assert end_of(events).success


@pytest.mark.parametrize(
    ("command", "operation"),
    [
        ("npm test", Command(command="npm test")),
        ('/bin/bash -lc "cat README.md"', Read(path="README.md")),
        (
            "/bin/bash -lc \"sed -n '10,20p' src/main.ts\"",
            Read(path="src/main.ts", start_line=10, end_line=20),
        ),
        ("bash -lc 'rg -n needle src'", Search(query="needle", path="src")),
        ("bash -lc 'ls src'", List(path="src")),
        ("sed -i 's/a/b/' x", Command(command="sed -i 's/a/b/' x")),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_a_command_is_what_it_does(command: str, operation: Any, code: int) -> None:
    started, ended = turn(completed(type="command_execution", command=command, exit_code=code))

    assert isinstance(started, ToolStart)
    assert started.operations == [operation]
    assert isinstance(ended, ToolEnd)
    assert (ended.exit_code, ended.success) == (code, code == 0)


@pytest.mark.parametrize(
    ("status", "success"),
    [("completed", True), ("failed", False), ("declined", False), ("?", None), (None, None)],
)
def test_without_an_exit_code_the_status_counts(status: str | None, success: bool | None) -> None:
    ended = turn(completed(type="command_execution", command="x", exit_code=None, status=status))[-1]

    assert isinstance(ended, ToolEnd)
    assert ended.success is success


def test_each_changed_file_is_a_write() -> None:
    changes = [
        {"path": "/w/a", "kind": "add"},
        {"path": "/w/b", "kind": "update"},
        {"path": "/w/c", "kind": "delete"},
    ]
    started, ended = turn(completed(type="file_change", changes=changes, status="completed"))

    assert isinstance(started, ToolStart)
    assert started.operations == [
        Write(path="/w/a", change="create"),
        Write(path="/w/b", change="update"),
        Write(path="/w/c", change="delete"),
    ]
    assert ended == ToolEnd(call_id="item_0", tool_name="file_change", success=True)


def test_the_model_is_emitted_with_the_thread_where_codex_states_it() -> None:
    start = run({"type": "thread.started", "thread_id": "th", "model": "o3"})[0]

    assert start == SessionStart(session_id="th", agent="codex", model="o3")


def test_a_tool_of_an_mcp_server_keeps_its_record_once_it_has_ended() -> None:
    fields = {"type": "mcp_tool_call", "server": "demo", "tool": "echo", "arguments": {"text": "hi"}}
    result = {"content": [{"text": "echo: hi", "type": "text"}], "structured_content": {"echo": "hi"}}
    opening = item("started", **fields, result=None, error=None, status="in_progress")
    done = completed(**fields, result=result, error=None, status="completed")

    assert turn(opening, done) == [
        ToolStart(call_id="item_0", tool_name="mcp__demo__echo", input={"text": "hi"}),
        ToolEnd(
            call_id="item_0", tool_name="mcp__demo__echo", success=True, output="echo: hi", raw=done["item"]
        ),
    ]


def test_the_short_mcp_records_of_0_50_and_errors_are_understood() -> None:
    short = turn(completed(type="mcp_tool_call", server="demo", tool="boom", status="failed"))[-1]
    wrong = turn(
        completed(type="mcp_tool_call", server="d", tool="t", error={"message": "no"}, status="failed")
    )[-1]

    assert isinstance(short, ToolEnd)
    assert isinstance(wrong, ToolEnd)
    assert (short.success, short.output) == (False, None)
    assert (wrong.success, wrong.output) == (False, "no")


@pytest.mark.parametrize(
    ("fields", "fetches"),
    [
        ({"query": "python"}, [Fetch(query="python")]),
        ({"query": "a", "action": {"type": "search", "query": "a", "queries": ["a", "b"]}}, [Fetch(query="a"), Fetch(query="b")]),
        ({"query": "http://x/", "action": {"type": "open_page", "url": "http://x/"}}, [Fetch(url="http://x/")]),
        ({"query": "http://x/", "action": {"type": "other"}}, [Fetch(url="http://x/")]),
        (
            {"query": "'foo' in http://x/", "action": {"type": "find_in_page", "url": "http://x/", "pattern": "foo"}},
            [Fetch(url="http://x/", query="foo")],
        ),
    ],
)  # fmt: skip
def test_a_web_search_is_emitted_when_its_query_is_known(
    fields: dict[str, Any], fetches: list[Fetch]
) -> None:
    opening = item("started", type="web_search", query="", action={"type": "other"})
    started, ended = turn(opening, completed(type="web_search", **fields))

    assert isinstance(started, ToolStart)
    assert started.operations == fetches
    assert isinstance(ended, ToolEnd)


def test_a_record_with_a_key_twice_is_read() -> None:
    started, _ = turn(
        '{"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws_1","query":"q"}}'
    )

    assert isinstance(started, ToolStart)
    assert started.call_id == "ws_1"


def test_a_to_do_list_is_emitted_when_it_changes() -> None:
    before = [{"text": "Look", "completed": False}, {"text": "Fix", "completed": False}]
    after = [{"text": "Look", "completed": True}, {"text": "Fix", "completed": False}]
    steps = [("started", before), ("updated", before), ("updated", after), ("completed", after)]

    assert turn(*(item(step, type="todo_list", items=items) for step, items in steps)) == [
        TasksChanged(tasks=[Task(text="Look"), Task(text="Fix")]),
        TasksChanged(tasks=[Task(text="Look", status="completed"), Task(text="Fix")]),
    ]


def test_compaction_is_stated_by_the_notices_of_older_versions() -> None:
    notice = "Heads up: Long threads and multiple compactions can cause the model to be less accurate."

    assert turn(completed(type="agent_message", text="Compact task completed"))[0] == Compacted()
    assert turn(completed(type="error", message=notice)) == [
        Compacted(),
        Warning(message=notice, code="notice"),
    ]


def test_a_version_that_runs_what_it_takes_for_reading_is_held_to_nothing() -> None:
    """0.147 runs `./tools/cat` unasked; before that, its tool for images cannot be taken away."""
    assert refusal_to_read_only(AGENT, "0.166.0") is None
    refusal = refusal_to_read_only(AGENT, "0.147.0")
    assert refusal is not None
    assert "Codex 0.147.0 has no read-only mode that holds: it needs 0.166" in refusal.message
