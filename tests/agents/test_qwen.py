"""Qwen Code: how it is called, where it differs from Claude's dialect, and how it really ended."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import agent_runs
import recorded_runs
from agent_runs import end_of, of
from harness.agents.qwen.agent import acp_command, command
from harness.contracts.request import Limits, Request
from harness.events import (
    Compacted,
    Error,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Command, Operation, Read, Spawn, Write
from harness.testing.golden import Case, translate

play = partial(agent_runs.play, "qwen", cwd="")
recorded = partial(agent_runs.recorded, "qwen")
CASES = {case.name: case for case in recorded_runs.CASES if case.agent == "qwen"}
INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "cwd": "/here", "model": "qwen-test"}
OK = {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "num_turns": 1}
ALWAYS = ("--output-format", "stream-json", "--include-partial-messages")


def says(text: str, message_id: str = "m-1", **usage: Any) -> dict[str, Any]:
    return line({"type": "text", "text": text}, message_id=message_id, **usage)


def line(*blocks: Any, message_id: str = "m-1", parent: str | None = None, **usage: Any) -> dict[str, Any]:
    message = {"id": message_id, "model": "qwen-test", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "parent_tool_use_id": parent, "message": message}


def calls(name: str, call_id: str = "c1", /, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": input}


def answer(content: str, call_id: str = "c1", *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "is_error": is_error, "content": content}
    return {"type": "user", "parent_tool_use_id": None, "message": {"role": "user", "content": [block]}}


def streamed(kind: str, **event: Any) -> dict[str, Any]:
    return {"type": "stream_event", "parent_tool_use_id": None, "event": {"type": kind, **event}}


def piece(text: str, index: int = 0) -> dict[str, Any]:
    return streamed("content_block_delta", index=index, delta={"type": "text_delta", "text": text})


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(agent="qwen"), ("--approval-mode", "yolo")),
        (Request(agent="qwen", permissions="read-only"), ("--approval-mode", "plan")),
        (Request(agent="qwen", permissions="agent-default"), ()),
        (Request(agent="qwen", permissions="agent-default", model="m"), ("--model", "m")),
        (
            Request(agent="qwen", permissions="agent-default", limits=Limits(max_turns=3)),
            ("--max-session-turns", "3"),
        ),
        (Request(agent="qwen", permissions="agent-default", system_prompt="a"), ("--system-prompt", "a")),
        (
            Request(agent="qwen", permissions="agent-default", append_system_prompt="b"),
            ("--append-system-prompt", "b"),
        ),
        (Request(agent="qwen", permissions="agent-default", resume="s-1"), ("--resume", "s-1")),
        (Request(agent="qwen", permissions="agent-default", continue_last=True), ("--continue",)),
        (Request(agent="qwen", permissions="agent-default", extra_args=("-d",)), ("-d",)),
    ],
)
def test_a_request_becomes_a_command_line(request_: Request, expected: tuple[str, ...]) -> None:
    assert command(request_, ()).args == (*ALWAYS, *expected)


def test_the_prompt_goes_through_stdin() -> None:
    assert command(Request(agent="qwen", prompt="-x\ny"), ()).stdin == b"-x\ny"


@pytest.mark.parametrize(
    ("make", "mode"), [(command, "read-only"), (acp_command, "read-only"), (acp_command, "ask")]
)
def test_its_agent_for_memories_which_asks_nobody_is_left_out(make: Any, mode: Any) -> None:
    held_by = make(Request(agent="qwen", prompt="hi", permissions=mode), ()).held_by
    assert (
        held_by.variable == "QWEN_CODE_SYSTEM_SETTINGS_PATH"
    )  # what stands there counts more than the user's own
    settings = json.loads(Path(held_by.file).read_bytes())
    assert settings["memory"] == {"enableManagedAutoMemory": False, "enableManagedAutoDream": False}


def test_all_lines_of_one_answer_are_one_message_and_its_pieces_are_named_like_it() -> None:
    events = recorded("hello-partial")

    first = "38dc1105-09a2-437d-8510-1863d057ddef"
    assert [delta.id for delta in of(ReasoningDelta, events)] == [f"{first}:0"]
    assert of(TextDelta, events)[0].id == f"{first}:1"
    assert [message.id for message in of(Message, events)][1:] == [
        f"{first}:1",
        "11dace8b-93a2-45d1-9359-083c1f361559:0",
    ]
    assert [delta.call_id for delta in of(ToolInputDelta, events)] == ["call_0002"]
    assert not of(TextRetracted, events)


@pytest.mark.parametrize(
    ("name", "stated_calls", "total"),
    [
        ("hello", 1, 2),
        ("parallel", 2, 2),
        ("subagent", 3, 5),
        ("stdin-stream-json", 2, 4),
        ("resume", 1, 1),
        ("max-turns", 2, 2),
        ("long-text", 1, 1),
    ],
)
def test_usage_is_what_the_model_was_scripted_to_say(name: str, stated_calls: int, total: int) -> None:
    """Every scripted call is 1200 tokens in and 40 out; side requests and sub-agents show only in the total."""
    events = recorded(name)

    deltas = of(UsageDelta, events)
    assert len([delta for delta in deltas if delta.id]) == stated_calls
    assert end_of(events).usage == Usage(input=1200 * total, output=40 * total, cache_read=0)
    assert sum(delta.usage.input for delta in deltas) == 1200 * total


def test_the_prompt_includes_what_came_from_the_cache() -> None:
    used: dict[str, Any] = {
        "input_tokens": 100,
        "cache_read_input_tokens": 60,
        "output_tokens": 10,
        "total_tokens": 115,
    }

    events = play(INIT, says("Hi.", **used), {**OK, "usage": used})

    assert end_of(events).usage == Usage(input=40, cache_read=60, output=10, reasoning=5)


def test_what_a_session_had_used_before_it_was_resumed_is_not_counted_again() -> None:
    def total(count: int) -> dict[str, Any]:
        return {**OK, "usage": {"input_tokens": count, "output_tokens": count}}

    lines = (INIT, says("A.", "m-1", input_tokens=10, output_tokens=10), total(1010))
    more = (INIT, says("B.", "m-2", input_tokens=20, output_tokens=20), total(1035))

    events = play(*lines, *more, argv=["qwen", "--resume", "s-1"])

    assert end_of(events).usage == Usage(input=35, output=35)


def test_the_usage_of_a_sub_agents_call_is_emitted_of_the_sub_agent() -> None:
    events = play(
        INIT,
        line(calls("agent", subagent_type="helper", prompt="count"), message_id="m-1"),
        line({"type": "text", "text": "42"}, message_id="m-2", parent="c1", input_tokens=5, output_tokens=1),
        answer("42"),
        OK,
    )

    [delta] = of(UsageDelta, events)
    assert (delta.run_id, delta.id) == ("c1", "m-2")
    assert [message.text for message in of(Message, events) if message.run_id] == ["count", "42"]


def test_a_sub_agent_in_the_background_ends_when_it_is_emitted() -> None:
    events = recorded("subagent")

    [_main, child] = of(SessionStart, events)
    [ended, _result] = of(Result, events)
    assert (child.parent_id, child.name) == ("call_0002", "general-purpose")
    assert (ended.run_id, ended.success, ended.duration_ms) == ("call_0002", True, 2316)
    assert events.index(ended) > events.index(of(ToolEnd, events)[0])
    assert of(ToolEnd, events)[0].operations == [
        Spawn(agent_id="general-purpose-call_0002", name="general-purpose", task="count")
    ]


@pytest.mark.parametrize(
    ("name", "outcome", "code"),
    [
        ("hello", "completed", ""),
        ("long-text", "completed", ""),
        ("empty", "failed", "api_error"),
        ("error-401", "failed", "http_401"),
        ("error-after-tool", "failed", "http_401"),
        ("error-500", "failed", "process_error"),
        ("no-key", "failed", "error_during_execution"),
        ("max-turns", "limit_exceeded", "max_turns"),
        ("max-tool-calls", "limit_exceeded", "max_tool_calls"),
        ("max-wall-time", "timed_out", "max_wall_time"),
        ("sigint-tool-group", "interrupted", "process_error"),
    ],
)
def test_the_outcome_is_true_and_every_failure_is_emitted_once(name: str, outcome: str, code: str) -> None:
    events = recorded(name)

    assert end_of(events).outcome == outcome
    assert end_of(events).success == (outcome == "completed")
    assert [error.code for error in of(Error, events)] == ([code] if code else [])


def failed(message: str) -> dict[str, Any]:
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "error": {"message": message},
    }


def test_an_error_that_the_model_seems_to_say_is_not_said() -> None:
    events = play(INIT, says("[API Error: 429 Slow down]"), failed("[API Error: 429 Slow down]"), exit_code=1)

    assert [message.role for message in of(Message, events)] == ["user"]
    assert [error.code for error in of(Error, events)] == ["http_429"]
    assert end_of(events).text == ""


def test_what_was_said_before_the_error_stays() -> None:
    events = play(INIT, says("Half a [API Error: terminated]"), failed("[API Error: terminated]"))

    assert of(Message, events)[-1].text == "Half a "


def test_an_error_that_was_streamed_is_taken_back() -> None:
    events = play(
        INIT,
        streamed("message_start", message={"id": "m-1"}),
        piece("[API Error: gone]"),
        says("[API Error: gone]", "m-1"),
        streamed("message_stop"),
        failed("[API Error: gone]"),
    )

    assert [retracted.id for retracted in of(TextRetracted, events)] == ["m-1:0"]
    assert not [message for message in of(Message, events) if message.role == "assistant"]


def test_a_model_may_speak_of_errors() -> None:
    events = play(INIT, says("It prints [API Error: 500]."), OK)

    assert of(Message, events)[-1].text == "It prints [API Error: 500]."
    assert not of(Error, events)


def test_a_call_that_was_never_run_did_nothing() -> None:
    [end] = of(ToolEnd, recorded("malformed-args"))

    assert (end.success, end.operations) == (False, [])
    assert [warning.code for warning in of(Warning, recorded("malformed-args"))] == ["retry"]


def test_a_denial_is_emitted_once_and_when_it_happens() -> None:
    events = recorded("approval-default")

    [denied] = [warning for warning in of(Warning, events) if warning.code == "permission_denied"]
    assert isinstance(events[events.index(denied) - 1], ToolEnd)


def test_a_call_through_another_tool_is_a_call_of_the_inner_one() -> None:
    events = play(INIT, line(calls("tool_call", name="edit", arguments={"file_path": "a"})), answer("ok"), OK)

    [start] = of(ToolStart, events)
    assert (start.tool_name, start.input) == ("edit", {"file_path": "a"})
    assert start.operations == [Write(path="/here/a", change="update")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read-range", Read(path="/workspace/qwen-read-range/notes.txt", start_line=10, end_line=20)),
        ("write-new", Write(path="/workspace/qwen-write-new/out/new.txt", start_line=1, end_line=2)),
    ],
)
def test_lines_are_counted_from_one(name: str, expected: Operation) -> None:
    assert of(ToolStart, recorded(name))[0].operations == [expected]


def test_the_result_knows_which_lines_were_read_and_whether_a_file_is_new() -> None:
    read = line(calls("read_file", file_path="a", limit=500))
    events = play(INIT, read, answer("Read lines 1-41 of 41 from a"), OK)

    assert of(ToolEnd, events)[0].operations == [Read(path="/here/a", start_line=1, end_line=41)]
    assert of(ToolEnd, recorded("write-new"))[0].operations[0].change == "create"


def test_each_command_runs_in_the_working_directory() -> None:
    """Unlike Claude's, its shell does not stay where a command went."""
    events = play(
        INIT,
        line(calls("run_shell_command", command="cd src")),
        answer("ok"),
        line(calls("run_shell_command", "c2", command="make && cat a", directory="/other")),
        answer("Command: make\nExit Code: 3\nSignal: (none)", "c2", is_error=True),
        line(calls("run_shell_command", "c3", command="cat a")),
        answer("x", "c3"),
        OK,
    )

    [_moved, other, read] = of(ToolStart, events)
    assert other.operations == [Command(command="make && cat a", cwd="/other")]
    assert read.operations == [Read(path="/here/a")]
    assert [end.exit_code for end in of(ToolEnd, events)] == [None, 3, None]


def test_remarks_of_other_versions() -> None:
    boundary = {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 9}}
    fallback = {"type": "system", "subtype": "model_fallback", "data": {"fromModel": "a", "toModel": "b"}}
    todos = line(calls("todo_write", todos=[{"id": "1", "content": "x", "status": "completed"}]))
    progress = streamed("tool_progress", tool_use_id="c1", content={"message": "half"})
    start = {**INIT, "subtype": "session_start"}

    events = play(start, boundary, fallback, todos, progress, answer("ok"), OK)

    assert of(SessionStart, events)[0].session_id == "s-1"
    assert of(Compacted, events)[0].before_tokens == 9
    assert [(warning.code, warning.message) for warning in of(Warning, events)] == [
        ("model_fallback", "a → b")
    ]
    assert of(ToolProgress, events)[0].text == "half"
    assert of(TasksChanged, events)[0].tasks[0].status == "completed"


def test_a_result_whose_end_was_lost_still_states_how_the_run_ended() -> None:
    cut = b'{"type":"result","subtype":"success","uuid":"u","session_id":"s","is_error":false,"result":"Hel'

    events = play(INIT, says("Hello."), cut)

    assert (end_of(events).success, end_of(events).text) == (True, "Hello.")
    assert [warning.code for warning in of(Warning, events)] == ["cut_off"]


@recorded_runs.each(CASES.values())
def test_no_recording_has_unknown_records(case: Case) -> None:
    assert not of(Unknown, translate(case)[1])
