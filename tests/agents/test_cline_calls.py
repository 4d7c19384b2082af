"""Cline: what its tools mean, how calls end, and whose they are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from agent_runs import of
from cline_lines import CASES, DONE, begin, end, event, hook, play, text_end, used
from harness.events import (
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    ToolEnd,
    ToolStart,
    UsageDelta,
)
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.testing.golden import translate


@pytest.mark.parametrize(
    ("name", "input", "expected"),
    [
        ("run_commands", {"commands": ["npm test", "cat a"]}, [Command(command="npm test"), Read(path="/here/a")]),
        ("run_commands", {"commands": "npm test"}, [Command(command="npm test")]),
        ("execute_command", {"command": "npm test"}, [Command(command="npm test")]),
        ("read_files", {"files": ["a", {"path": "/b", "start_line": 2}]}, [Read(path="/here/a"), Read(path="/b", start_line=2)]),
        ("read_file", {"path": "a"}, [Read(path="/here/a")]),
        ("editor", {"path": "a", "new_text": "x"}, [Write(path="/here/a")]),
        ("apply_patch", {"input": "*** Add File: a\n+x"}, [Write(path="/here/a", change="create")]),
        ("search_codebase", {"queries": ["x", "y"]}, [Search(query="x"), Search(query="y")]),
        ("search_files", {"regex": "x", "path": "src"}, [Search(query="x", path="/here/src")]),
        ("list_files", {"path": "src"}, [List(path="/here/src")]),
        ("fetch_web_content", {"requests": [{"url": "http://x"}]}, [Fetch(url="http://x")]),
        ("skills", {"skill": "x"}, [Skill(path="/here/skills/x/SKILL.md", name="x")]),
        ("spawn_agent", {"task": "look"}, [Spawn(task="look")]),
        ("team_task", {"action": "create"}, [Tasks()]),
        ("ask_question", {"question": "?"}, []),
    ],
)  # fmt: skip
def test_a_tool_means_operations(name: str, input: dict[str, Any], expected: list[Any]) -> None:
    [start] = of(ToolStart, play(begin(name, **input)))

    assert start.operations == expected
    assert start.raw is None


@pytest.mark.parametrize(("name", "input"), [("lab__echo", {"text": "hi"}), ("read_files", {"wrong": 1})])
def test_a_call_that_is_unknown_is_preserved_as_it_came(name: str, input: dict[str, Any]) -> None:
    record = begin(name, **input)

    assert of(ToolStart, play(record))[0].raw == record["event"]


def test_each_command_of_a_call_has_its_own_success_and_exit_code() -> None:
    result = [
        {"success": True, "result": "one"},
        {"success": False, "error": "Command exited with code 3"},
        {"success": True, "result": "a\nb"},
    ]
    [ended] = of(ToolEnd, play(begin("run_commands", commands=["make", "false", "ls"]), end(result)))

    assert (ended.success, ended.exit_code) == (False, None)
    assert ended.operations == [
        Command(command="make", success=True),
        Command(command="false", success=False, exit_code=3),
        List(success=True),
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ([{"success": True}], True),
        ([{"success": True}, {"success": False}], False),
        ([], None),
        ({"success": False}, False),
        ({"content": [], "isError": True}, False),
        ({"error": "no"}, False),
        ({"text": "x", "finishReason": "error"}, False),
        ({"status": "spawned"}, None),
        ('Skill "x" not found. Available skills: y', False),
        ("a", None),
    ],
)
def test_success_is_emitted_in_many_ways(output: Any, expected: bool | None) -> None:
    assert of(ToolEnd, play(begin("x"), end(output)))[0].success is expected


def test_real_ranges_and_changes_come_with_the_result() -> None:
    read = end([{"success": True, "result": " 9 | a\n10 | b"}])
    edited = end({"success": True, "result": "Edited /b\n```diff\n-2: x\n+2: y\n+3: z\n```"}, "c2")
    created = end({"success": True, "result": "File created successfully at: /c"}, "c3")

    events = play(
        *(begin("read_files", files=["/a"]), read),
        *(begin("editor", "c2", path="/b"), edited),
        *(begin("editor", "c3", path="/c"), created),
    )

    assert [ended.operations for ended in of(ToolEnd, events)] == [
        [Read(path="/a", start_line=9, end_line=10)],
        [Write(path="/b", start_line=2, end_line=3, change="update")],
        [Write(path="/c", change="create")],
    ]


def test_what_sub_agents_say_and_do_is_theirs_also_when_they_run_at_once() -> None:
    _, events = translate(CASES["subagent_parallel"])

    def by_run(kind: type[Event], what: str) -> list[tuple[str, Any]]:
        return [(each.run_id, getattr(each, what)) for each in of(kind, events)]

    assert [(each.run_id, each.parent_id) for each in of(SessionStart, events)][1:] == [
        ("call_01_0", "call_01_0"),
        ("call_01_1", "call_01_1"),
    ]
    assert ("call_01_0", "Alpha result.") in by_run(Message, "text")
    assert ("call_01_1", "Beta result.") in by_run(Message, "text")
    assert ("call_01_0", {"commands": ["echo from-alpha"]}) in by_run(ToolStart, "input")
    assert ("call_01_1", {"commands": ["echo from-beta"]}) in by_run(ToolStart, "input")
    assert by_run(Result, "text")[:2] == [("call_01_0", "Alpha result."), ("call_01_1", "Beta result.")]
    assert Counter(run for run, _ in by_run(UsageDelta, "usage")) == {"": 2, "call_01_0": 2, "call_01_1": 2}


def test_usage_belongs_to_the_agent_whose_sums_it_continues() -> None:
    events = play(
        *(hook("agent_start"), used(100, 20), hook("tool_call"), hook("tool_call")),
        *(begin("spawn_agent", "a", task="A"), begin("spawn_agent", "b", task="B")),
        *(hook("agent_start", "sub-a", "main"), used(100, 20), hook("tool_call", "sub-a", "main")),
        *(begin("run_commands", "x", commands="true"), end([{"success": True}], "x")),
        *(hook("agent_start", "sub-b", "main"), used(100, 20), used(200, 40)),
    )

    assert [delta.run_id for delta in of(UsageDelta, events)] == ["", "a", "b", "a"]


def test_members_of_a_team_are_runs_of_their_own_and_billed_once() -> None:
    _, events = translate(CASES["tools"])

    [start] = [each for each in of(SessionStart, events) if each.name]
    assert (start.name, start.parent_id) == ("mate1", "call_32_0")
    theirs = [each for each in events if each.run_id == start.run_id]
    assert len(of(UsageDelta, theirs)) == 1
    assert of(Result, theirs)[0].text == "Hi from mate1."
    assert of(TasksChanged, events) == [TasksChanged(tasks=[Task(text="T1", id="task_0001")])]


def test_a_failed_sub_agent_has_its_own_error() -> None:
    events = play(
        *(hook("agent_start"), hook("tool_call"), begin("spawn_agent", task="look")),
        *(hook("agent_start", "sub", "main"), hook("agent_error", "sub", "main")),
        event("error", error={"message": "no model"}, errorClass="auth", recoverable=False),
        *(end({"error": "no model"}), text_end("It failed."), DONE),
    )

    assert [(error.run_id, error.code) for error in of(Error, events)] == [("c1", "auth")]
    child, main = of(Result, events)
    assert (child.run_id, child.outcome, main.outcome) == ("c1", "failed", "completed")


def test_results_in_an_object_belong_to_the_commands_one_by_one() -> None:
    failed = {"success": False, "error": "Command exited with code 3"}
    asked = begin("run_commands", commands=["make", "npm test"])
    ended = of(ToolEnd, play(asked, end({"results": [{"success": True}, failed]}), DONE))[0]

    assert ended.operations == [
        Command(command="make", success=True),
        Command(command="npm test", success=False, exit_code=3),
    ]


def test_one_command_may_have_its_result_without_a_list() -> None:
    ended = of(ToolEnd, play(begin("execute_command", command="make"), end({"success": True}), DONE))[0]

    assert (ended.success, ended.exit_code) == (True, None)
