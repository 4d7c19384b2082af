"""Factory Droid: command lines, what its recordings must come to, and rules said one by one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.droid.agent import AGENT, command
from harness.contracts.request import Permissions, Request
from harness.events import (
    Error,
    Message,
    ReasoningDelta,
    Result,
    Task,
    TasksChanged,
    ToolEnd,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Read, Search, Write

ALWAYS = ("exec", "--output-format", "stream-json")


def call(name: str, **asked: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": "c-1", "toolName": name, "parameters": asked}


def answer(value: str, *, is_error: bool = False) -> dict[str, Any]:
    stated = {"error": {"message": value}} if is_error else {"value": value}
    return {"type": "tool_result", "id": "c-1", "isError": is_error, **stated}


def test_every_option_of_a_request_has_its_argument() -> None:
    request = Request(agent="droid", prompt="-Hi", model="m", resume="s-1", append_system_prompt="Be brief")
    asked = command(request, ())

    assert asked.args == (
        *ALWAYS,
        *("--skip-permissions-unsafe", "--model", "m", "--append-system-prompt", "Be brief"),
        *("--session-id", "s-1"),
    )
    assert asked.stdin == b"-Hi"
    assert command(Request(agent="droid", prompt="Look", permissions="read-only"), ()).args == ALWAYS
    assert "continue_last" not in AGENT.supports


def test_usage_is_emitted_once_and_in_total() -> None:
    events = recorded("droid", "reasoning")

    # Scripted: twice 1200 in, of which 300 from the cache, and twice 40 out.
    usage = Usage(input=2100, output=80, cache_read=300, cache_write=0)
    assert of(UsageDelta, events) == [UsageDelta(usage=usage, model="custom:Lab-0")]
    assert end_of(events).usage == usage


def test_reasoning_that_comes_twice_is_emitted_once() -> None:
    texts = [delta.text for delta in of(ReasoningDelta, recorded("droid", "reasoning"))]

    assert texts == ["First I think about the question. Then I decide.", "Sure now."]


def test_what_changed_is_emitted_with_its_lines() -> None:
    edits = {end.tool_name: end.operations for end in of(ToolEnd, recorded("droid", "edits"))}
    patch = of(ToolEnd, recorded("droid", "patch"))[0].operations

    at = "/workspace/droid-edits"
    assert edits["Edit"] == [Write(path=f"{at}/src/app.py", start_line=2, end_line=2, change="update")]
    assert edits["Create"] == [Write(path=f"{at}/new.txt", start_line=1, end_line=2, change="create")]
    at = "/workspace/droid-patch"
    assert patch == [
        Write(path=f"{at}/src/app.py", start_line=2, end_line=2, change="update"),
        Write(path=f"{at}/new.txt", start_line=1, end_line=2, change="create"),
        Write(path=f"{at}/README.md", change="delete"),
    ]


def test_a_patch_that_is_wrapped_once_more_is_found() -> None:
    start = of(ToolStart, recorded("droid", "patch-fail"))[0]

    assert start.operations == [Write(path="/workspace/droid-patch-fail/src/app.py", change="update")]


def test_a_long_file_is_read_as_far_as_it_says() -> None:
    stated = "text\n<system-reminder>[Showing lines 1-1000 of 4000 total lines]</system-reminder>"
    events = play("droid", call("Read", file_path="a.py"), answer(stated))

    assert of(ToolEnd, events)[0].operations == [Read(path="/repo/a.py", start_line=1, end_line=1000)]


def test_patterns_may_come_as_a_list() -> None:
    start = of(ToolStart, play("droid", call("Glob", patterns=["*.py", "*.md"], folder="src")))[0]

    assert start.operations == [Search(query="*.py *.md", path="/repo/src")]


def test_exit_codes_are_stated_as_text() -> None:
    assert of(ToolEnd, recorded("droid", "shell-fail"))[0].exit_code == 3
    assert of(ToolEnd, recorded("droid", "text-tool-text"))[0].exit_code == 0


def test_an_error_is_emitted_once() -> None:
    events = recorded("droid", "error-after-tool")

    assert of(Error, events) == [Error(message="401 Key revoked", code="http_401")]
    assert end_of(events).outcome == "failed"
    lonely = play("droid", {"type": "error", "source": "cli", "message": "Exec failed"}, exit_code=1)
    assert of(Error, lonely) == [Error(message="Exec failed", code="cli")]


def test_a_refused_permission_ends_the_run() -> None:
    events = recorded("droid", "readonly-default")

    assert [warning.code for warning in of(Warning, events)] == ["permission_denied"]
    assert [error.code for error in of(Error, events)] == ["permission_denied"]
    assert end_of(events).outcome == "failed"


def test_a_run_without_its_last_record_has_failed_though_it_exits_with_zero() -> None:
    end = end_of(recorded("droid", "sigint-model"))

    assert (end.outcome, end.exit_code) == ("failed", 0)


def test_a_run_that_lost_only_its_command_has_completed() -> None:
    events = recorded("droid", "sigint-tool")

    assert of(ToolEnd, events)[0].success is False
    assert end_of(events).success


def test_a_sub_agent_ends_as_its_call_does() -> None:
    assert of(Result, recorded("droid", "subagent"), "call_0002")[0].outcome == "failed"
    fine = play(
        "droid", call("Task", subagent_type="worker", prompt="x"), answer("42"), {"type": "completion"}
    )
    assert of(Result, fine, "c-1")[0].text == "42"


def test_a_to_do_list_may_be_text() -> None:
    todos = "1. [completed] first\n2. [in_progress] second"
    events = play("droid", call("TodoWrite", todos=todos), answer("ok"))

    tasks = [Task(text="first", status="completed"), Task(text="second", status="in_progress")]
    assert of(TasksChanged, events) == [TasksChanged(tasks=tasks)]


def test_the_one_object_of_its_json_format_is_read() -> None:
    events = recorded("droid", "hello-json")

    assert [message.text for message in of(Message, events)] == ["Say hello.", "Hello there."]
    assert end_of(events).usage == Usage(input=1200, output=40, cache_read=0, cache_write=0)
    failed = play("droid", {"type": "result", "subtype": "failure", "is_error": True, "result": "No."})
    assert of(Error, failed)[0].message == "No."
    assert end_of(failed).outcome == "failed"


def test_no_skill_is_loaded_where_everything_is_to_be_asked_about() -> None:
    """It loads one without a question: a hook of ours refuses the call."""
    two_way = AGENT.two_way
    assert two_way is not None
    asking: tuple[Permissions, ...] = ("ask", "read-only")
    for permissions in asking:
        args = two_way.command(Request(agent="droid", prompt="x", permissions=permissions), (0, 225, 2)).args
        settings = json.loads(Path(args[args.index("--settings") + 1]).read_text())
        [rule, _] = settings["hooks"]["PreToolUse"]
        done = subprocess.run(
            ["/bin/sh", "-c", rule["hooks"][0]["command"]], capture_output=True, check=False
        )
        assert (rule["matcher"], done.returncode) == ("Skill", 2)
    args = two_way.command(Request(agent="droid", prompt="x"), (0, 225, 2)).args
    assert "--settings" not in args


@pytest.mark.parametrize(
    ("tool", "arguments", "is_read"),
    [
        ("Read", {"file_path": "a.txt"}, True),
        ("Grep", {"pattern": "x"}, True),
        ("Glob", {"patterns": ["*.py"]}, True),
        ("LS", {}, True),
        ("Read", {"file_path": "../outside.txt"}, False),
        ("Read", {"file_path": "link"}, False),
        ("Read", {"file_path": "/etc/passwd"}, False),
        ("Read", {"file_path": ["a.txt", "~/.ssh/id_rsa"]}, False),
        ("LS", {"directory_path": "/"}, False),
        ("Grep", {"pattern": "x", "path": ".."}, False),
        ("Glob", {"patterns": ["../*"]}, False),
        ("Glob", {"patterns": ["*"], "folder": "/etc"}, False),
        ("Read", "no object", False),
    ],
)
def test_nothing_elsewhere_is_read_where_everything_is_to_be_asked_about(
    tool: str, arguments: Any, is_read: bool, tmp_path: Path
) -> None:
    """It reads any file without a question: a hook of ours refuses what is not below the folder."""
    folder = tmp_path / "with blank"
    folder.mkdir()
    (folder / "a.txt").write_text("x")
    (folder / "link").symlink_to(tmp_path)
    assert AGENT.two_way is not None
    request = Request(agent="droid", prompt="x", permissions="read-only", cwd=str(folder))
    command = AGENT.two_way.command(request, (0, 225, 2))
    settings = json.loads(Path(command.args[command.args.index("--settings") + 1]).read_text())
    [_, rule] = settings["hooks"]["PreToolUse"]
    assert tool in rule["matcher"].split("|")
    words = json.dumps({"tool_name": tool, "tool_input": arguments}).encode()
    argv = ["/bin/sh", "-c", rule["hooks"][0]["command"]]
    env = {**os.environ, **command.env}
    assert subprocess.run(argv, input=words, env=env, capture_output=True, check=False).returncode == (
        0 if is_read else 2
    )
    alone = {"PATH": os.environ["PATH"]}  # without what it needs, it refuses
    assert subprocess.run(argv, input=words, env=alone, capture_output=True, check=False).returncode == 2
