"""Grok Build: command lines, what its recordings must come to, and rules said one by one."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.grok.agent import AGENT, command
from harness.contracts.request import Limits, Request
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Read, Spawn, Write

ALWAYS = ("--output-format", "streaming-json", "--no-auto-update")
STDIN = ("--prompt-file", "/dev/stdin")


def call(name: str, call_id: str = "c-1", **asked: Any) -> dict[str, Any]:
    return {"type": "tool_call", "toolCallId": call_id, "toolName": name, "rawInput": asked}


def update(status: str | None, text: str = "", call_id: str = "c-1", raw: Any = None) -> dict[str, Any]:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    return {
        "type": "tool_call_update",
        "toolCallId": call_id,
        "status": status,
        "content": content,
        "rawOutput": raw,
    }


def text(data: str) -> dict[str, Any]:
    return {"type": "text", "data": data}


def used(tokens: int) -> dict[str, Any]:
    return {"type": "usage", "usage": {"input_tokens": tokens, "output_tokens": 1}}


END = {"type": "end", "stopReason": "end_turn", "sessionId": "s-1"}


def test_every_option_of_a_request_has_its_argument() -> None:
    request = Request(
        agent="grok",
        prompt="-Hi",
        model="grok-4",
        resume="s-1",
        system_prompt="You",
        append_system_prompt="And",
        limits=Limits(max_turns=3),
        extra_args=("--no-plan",),
    )
    asked = command(request, ())

    assert asked.args == (
        *(*ALWAYS, "--always-approve", "--model", "grok-4", "--max-turns", "3"),
        *("--system-prompt-override", "You", "--rules", "And", "--resume", "s-1", "--no-plan", *STDIN),
    )
    assert asked.stdin == b"-Hi"
    latest = command(Request(agent="grok", prompt="Hi", continue_last=True, permissions="agent-default"), ())
    assert latest.args == (*ALWAYS, "--continue", *STDIN)
    assert "max_budget_usd" not in AGENT.supports


def test_read_only_leaves_only_tools_that_read() -> None:
    asked = command(Request(agent="grok", prompt="Look", permissions="read-only"), ())

    assert asked.args[3:5] == ("--tools", "read_file,list_dir,grep,todo_write")
    assert [end.success for end in of(ToolEnd, recorded("grok", "read-only"))] == [False, True]


def test_usage_is_emitted_per_answer_and_adds_up() -> None:
    events = recorded("grok", "reasoning")

    # Scripted: twice 1200 in and 40 out; of the first 300 came from the cache and 12 were reasoning.
    first = Usage(input=900, output=28, cache_read=300, cache_write=0, reasoning=12)
    second = Usage(input=1200, output=40, cache_read=0, cache_write=0, reasoning=0)
    assert [delta.usage for delta in of(UsageDelta, events)] == [first, second]
    assert end_of(events).usage == first.plus(second)


def test_a_total_that_forgets_an_answer_is_completed() -> None:
    total = {"input_tokens": 5, "output_tokens": 1}
    events = play("grok", used(5), used(7), {**END, "usage": total, "total_cost_usd": 0.5})

    assert end_of(events).usage == Usage(input=12, output=2, cost_usd=0.5, cost_source="stated")
    assert end_of(events).total_cost_usd == 0.5
    unpriced = play("grok", used(5), {**END, "usage": total, "total_cost_usd": 0})
    assert end_of(unpriced).total_cost_usd is None


def texts_of_run(events: list[Event], run_id: str) -> list[str]:
    return [message.text for message in of(Message, events, run_id) if message.role == "assistant"]


@pytest.mark.parametrize("name", ["subagent", "subagent-messages", "subagent-background"])
def test_what_a_sub_agent_does_between_the_lines_is_its_own(name: str) -> None:
    events = recorded("grok", name)

    assert texts_of_run(events, "call_0004") == ["Child works.", "Child result: 42."]
    assert texts_of_run(events, "") == ["Done."]
    assert [start.tool_name for start in of(ToolStart, events, "call_0004")] == ["run_terminal_command"]
    assert len(of(UsageDelta, events, "call_0004")) == 2
    result = of(Result, events, "call_0004")[0]
    assert (result.success, result.text) == (True, "Child result: 42.")
    spawn = next(end for end in of(ToolEnd, events) if end.call_id == "call_0004").operations
    assert spawn is not None
    assert isinstance(spawn[0], Spawn)
    assert spawn[0].agent_id


def test_of_two_sub_agents_at_work_it_is_not_known_which_one_answers() -> None:
    spawns = [call("spawn_subagent", call_id, prompt="x", description=call_id) for call_id in ("a", "b")]
    done = [update("completed", "y", call_id, {"type": "SubagentCompleted"}) for call_id in ("a", "b")]
    events = play("grok", used(1), *spawns, text("Who?"), used(1), *done, END)

    assert texts_of_run(events, "") == ["Who?"]


def test_calls_of_one_answer_belong_to_the_same_agent() -> None:
    spawn = call("spawn_subagent", "a", prompt="x", description="y")
    events = play("grok", used(1), spawn, call("read_file", "b", target_file="f"), text("Child."), used(1))

    assert {start.call_id: start.run_id for start in of(ToolStart, events)} == {"a": "", "b": ""}
    assert texts_of_run(events, "a") == ["Child."]


def test_a_sub_agent_within_a_sub_agent_is_found() -> None:
    events = play(
        "grok",
        *(used(1), call("spawn_subagent", "a", prompt="x", description="y")),
        *(used(1), call("spawn_subagent", "b", prompt="x", description="y"), text("Deep.")),
    )

    starts = {start.run_id: start.parent_id for start in of(SessionStart, events) if start.run_id}
    assert starts == {"a": "a", "b": "b"}
    assert texts_of_run(events, "b") == ["Deep."]


def test_a_failed_command_is_a_failed_call_though_it_completed() -> None:
    ends = of(ToolEnd, recorded("grok", "parallel"))
    stated = of(ToolEnd, recorded("grok", "shell-fail-messages"))[0]

    assert [end.exit_code for end in ends if end.call_id == "call_0007"] == [7]
    assert (stated.success, stated.exit_code, stated.output) == (False, 3, "exit: 3\nout\nerr\n")
    killed = {end.call_id: end for end in of(ToolEnd, recorded("grok", "background-command"))}
    assert (killed["call_0006"].success, killed["call_0006"].exit_code) == (False, None)
    assert (killed["call_0004"].success, killed["call_0004"].exit_code) == (None, None)


def test_what_was_asked_becomes_what_was_done() -> None:
    edit = of(ToolEnd, recorded("grok", "edit-ok"))[1]
    write = of(ToolEnd, recorded("grok", "write-new"))[0]
    read = of(ToolStart, recorded("grok", "read-range"))[0]

    at = "/workspace/grok-edit-ok/src/app.py"
    assert edit.operations == [Write(path=at, start_line=2, end_line=2, change="update")]
    at = "/workspace/grok-write-new/out/new.txt"
    assert write.operations == [Write(path=at, start_line=1, end_line=2, change="create")]
    at = "/workspace/grok-read-range/notes.txt"
    assert read.operations == [Read(path=at, start_line=10, end_line=20)]


def test_pieces_become_a_message_when_the_answer_is_complete() -> None:
    events = play("grok", {"type": "thought", "data": "Hm."}, text("A"), text("b"), used(1), text("C"), END)

    assert [(delta.id, delta.text) for delta in of(TextDelta, events)] == [
        ("text-2", "A"),
        ("text-2", "b"),
        ("text-3", "C"),
    ]
    assert [delta.id for delta in of(ReasoningDelta, events)] == ["thought-1"]
    assert [(message.id, message.text) for message in of(Message, events)[1:]] == [
        ("text-2", "Ab"),
        ("text-3", "C"),
    ]


def test_output_so_far_is_emitted_as_it_grows() -> None:
    events = play(
        "grok",
        call("run_terminal_command", command="x"),
        update("in_progress", "a"),
        update("in_progress", "ab"),
    )

    assert [progress.text for progress in of(ToolProgress, events)] == ["a", "b"]


def test_the_to_do_list_is_emitted_when_it_changes() -> None:
    second = Task(text="second")

    assert [event.tasks for event in of(TasksChanged, recorded("grok", "todo"))] == [
        [Task(text="first", status="in_progress"), second],
        [Task(text="first", status="completed"), second],
    ]


def test_a_failure_is_emitted_once_with_its_status() -> None:
    for name in ("error-401", "error-401-messages", "error-after-tool"):
        events = recorded("grok", name)
        assert [error.code for error in of(Error, events)] == ["http_401"]
        assert "\n" not in of(Error, events)[0].message
        assert not of(Warning, events)
        assert end_of(events).outcome == "failed"


@pytest.mark.parametrize(
    ("name", "outcome", "codes"),
    [
        ("max-turns", "limit_exceeded", ["max_turns"]),
        ("denied", "failed", ["permission_denied"]),
        ("sigint-model", "interrupted", ["process_error"]),
        ("hello-json", "completed", []),
        ("hello-plain", "completed", []),
    ],
)
def test_how_a_run_ended_is_emitted_truly(name: str, outcome: Outcome, codes: list[str]) -> None:
    events = recorded("grok", name)

    assert end_of(events).outcome == outcome
    assert [error.code for error in of(Error, events)] == codes


def test_a_model_that_refuses_has_failed() -> None:
    assert end_of(play("grok", {**END, "stopReason": "refusal"})).outcome == "failed"
    assert end_of(play("grok", {**END, "stopReason": "cancelled"})).outcome == "interrupted"


def test_what_is_unknown_is_preserved() -> None:
    events = play(
        "grok", {"type": "text", "data": 7}, update("done"), update("completed", call_id="other"), END
    )

    assert len(of(Unknown, events)) == 3
