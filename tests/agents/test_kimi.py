"""Kimi Code: command lines, what its recordings must come to, and rules said one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.kimi.agent import AGENT, command
from harness.contracts.request import Request
from harness.events import (
    Error,
    Info,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Warning,
)
from harness.events.operation import Read, Spawn


def call(name: str, call_id: str = "c-1", **asked: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": msgspec.json.encode(asked).decode()}
    return {"role": "assistant", "tool_calls": [{"type": "function", "id": call_id, "function": function}]}


def answer(content: Any, call_id: str = "c-1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def test_every_option_of_a_request_has_its_argument() -> None:
    asked = command(Request(agent="kimi", prompt="-Hi", model="k2", resume="s-1"), ())

    assert asked.args == (
        *("--output-format", "stream-json", "--model", "k2", "--session", "s-1", "--prompt=-Hi"),
    )
    assert asked.stdin is None
    latest = command(
        Request(agent="kimi", prompt="Hi", continue_last=True, extra_args=("--add-dir", "x")), ()
    )
    assert latest.args[2:] == ("--continue", "--add-dir", "x", "--prompt=Hi")
    assert "read-only" not in AGENT.supports


@pytest.mark.parametrize(
    ("tool", "output", "success"),
    [
        ("Bash", "fine\n", None),
        ("Bash", "out\nCommand failed with exit code: 3.", False),
        ("Bash", "Command killed by timeout (60s)", False),
        ("Bash", "task_id: bash-1\npid: 1\nstatus: running\n", None),
        ("Read", "1\tx", True),
        ("Read", '"a" does not exist.', False),
        ("Read", '"a" is not a file.', False),
        ("Edit", "Replaced 2 occurrences in a", True),
        ("Edit", "old_string not found in a", False),
        ("Write", "Appended 3 bytes to a", True),
        ("Write", "Failed to write a: no", False),
        ("Glob", "a\nb", None),
        ("Grep", "ripgrep (rg) is not available and the automatic bootstrap failed.", False),
        ("Frobnicate", 'Tool "Frobnicate" not found', False),
        ("mcp__x__y", "whatever", None),
    ],
)
def test_only_the_words_of_a_result_state_whether_a_call_succeeded(
    tool: str, output: str, success: bool | None
) -> None:
    end = of(ToolEnd, play("kimi", call(tool, command="x", path="a", pattern="p"), answer(output)))[0]

    assert end.success is success


def test_exit_codes_are_stated_as_text_and_not_for_what_continues() -> None:
    ends = of(ToolEnd, recorded("kimi", "background"))

    assert {end.call_id: end.exit_code for end in ends if end.tool_name == "Bash"} == {
        "call_0003": None,
        "call_0005": 2,
    }


def test_the_lines_that_were_read_stand_in_the_result() -> None:
    ends = of(ToolEnd, recorded("kimi", "background"))

    read = next(end for end in ends if end.tool_name == "Read").operations
    assert read == [Read(path="/workspace/kimi-background/README.md", start_line=3, end_line=3)]


def test_a_sub_agent_begins_with_its_call_and_ends_with_its_result() -> None:
    events = recorded("kimi", "subagent")
    child = [event for event in events if event.run_id == "call_0002"]

    assert isinstance(child[0], SessionStart)
    assert isinstance(child[-1], Result)
    assert child[-1].success
    assert child[-1].text.startswith("Child result: 42.")
    assert "resume_hint" not in child[-1].text
    spawned = of(ToolEnd, events)[0].operations
    assert spawned == [Spawn(agent_id="agent-0", name="coder", task="count it")]


def test_a_swarm_is_as_many_sub_agents_as_it_has_items() -> None:
    events = recorded("kimi", "swarm")

    starts = [start for start in of(SessionStart, events) if start.run_id]
    assert [(start.session_id, start.parent_id) for start in starts] == [
        ("agent-0", "call_0002"),
        ("agent-1", "call_0002"),
    ]
    assert [message.text for message in of(Message, events) if message.run_id] == [
        "CHILDTASK a",
        "CHILDTASK b",
    ]
    operations = of(ToolEnd, events)[0].operations or []
    assert [operation.success for operation in operations] == [True, True]


def test_a_sub_agent_in_the_background_ends_with_the_run_that_waits_for_it() -> None:
    whole = [result for result in of(Result, recorded("kimi", "background")) if result.run_id]
    cut = play(
        "kimi",
        call("Agent", prompt="x", description="y"),
        answer("status: running\nagent_id: agent-0"),
        exit_code=1,
    )

    assert [result.success for result in whole] == [True]
    assert of(Result, cut, "c-1")[0].success is False


def test_a_call_that_was_refused_leaves_no_working_sub_agent() -> None:
    events = play(
        "kimi", call("Agent", prompt="x"), answer("AgentSwarm must be the only tool call in a model")
    )

    assert of(Result, events, "c-1")[0].outcome == "failed"
    assert of(ToolEnd, events)[0].success is False


def test_errors_stand_on_stderr_alone() -> None:
    events = recorded("kimi", "error-401")

    assert of(Error, events) == [Error(message="401 Incorrect API key provided: dummy-key.", code="http_401")]
    assert [info.code for info in of(Info, events)] == ["log_file"]
    early = play("kimi", stderr="error: unknown option\n", exit_code=1)
    assert of(Error, early) == [Error(message="unknown option", code="error")]
    assert end_of(early).outcome == "failed"


def test_what_commands_write_to_stderr_is_no_warning() -> None:
    live = play("kimi", call("Bash", command="make"), stderr="error: it is only the compiler\n")
    late = recorded("kimi", "large-output")

    assert of(ToolProgress, live) == [ToolProgress(call_id="c-1", text="error: it is only the compiler\n")]
    assert not of(Warning, late)
    assert not of(ToolProgress, late)


def test_retries_are_warnings() -> None:
    warning = of(Warning, recorded("kimi", "error-429-then-ok"))[0]

    assert warning.code == "retry"
    assert (
        warning.message == "a request to the model failed (429 Rate limit reached); attempt 2 of 10 in 0.6 s"
    )


def test_a_run_without_its_last_record_has_not_completed() -> None:
    assert end_of(recorded("kimi", "sigint-model")).outcome == "interrupted"
    assert end_of(play("kimi", {"role": "assistant", "content": "x"})).outcome == "failed"


def test_the_to_do_list_is_known_whole() -> None:
    tasks = [Task(text="first", status="in_progress"), Task(text="second")]

    assert of(TasksChanged, recorded("kimi", "todo")) == [TasksChanged(tasks=tasks)]
    done = play(
        "kimi", call("TodoList", todos=[{"title": "a", "status": "done"}]), answer("Todo list updated.")
    )
    assert of(TasksChanged, done)[0].tasks == [Task(text="a", status="completed")]
    read = play("kimi", call("TodoList"), answer("Todo list is empty."))
    assert not of(TasksChanged, read)


def test_the_older_program_writes_its_content_in_parts() -> None:
    parts = [{"type": "think", "think": "Hm."}, {"type": "text", "text": "Yes."}, {"type": "image"}]
    events = play("kimi", {"role": "assistant", "content": parts})

    assert [delta.text for delta in of(ReasoningDelta, events)] == ["Hm."]
    assert [message.text for message in of(Message, events)] == ["do it", "Yes."]
    assert [event.raw for event in of(Unknown, events)] == [{"type": "image"}]


def test_arguments_that_are_no_json_stay_as_they_are() -> None:
    line = call("Bash")
    line["tool_calls"][0]["function"]["arguments"] = '{"command": "ec'
    start = of(ToolStart, play("kimi", line))[0]

    assert start.input == '{"command": "ec'
    assert start.raw == line["tool_calls"][0]
