"""GitHub Copilot CLI: command lines, what its recordings must come to, and rules said one by one."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runs import end_of, of, play, recorded
from harness.agents.copilot.agent import AGENT, command
from harness.contracts.request import Permissions, Request
from harness.events import (
    Compacted,
    Error,
    Info,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import List, Skill, Spawn, Tasks, Write

ALWAYS = ("--output-format", "json", "--no-auto-update", "--no-ask-user")


def record(kind: str, agent: str = "", **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, **({"agentId": agent} if agent else {})}


def test_every_option_of_a_request_has_its_argument() -> None:
    asked = command(Request(agent="copilot", prompt="-Hi", model="gpt-5", continue_last=True), ())

    assert asked.args == (*ALWAYS, "--allow-all", "--model", "gpt-5", "--continue")
    assert asked.stdin == b"-Hi"
    resumed = command(Request(agent="copilot", prompt="Hi", resume="s-1", permissions="agent-default"), ())
    assert resumed.args == (*ALWAYS, "--resume=s-1")
    assert {"resume", "continue_last", "effort", "model", "read-only", "agent-default"} == AGENT.supports


def test_read_only_forbids_commands_and_writing() -> None:
    asked = command(Request(agent="copilot", prompt="Look", permissions="read-only"), ())
    events = recorded("copilot", "read-only")

    assert asked.args == (*ALWAYS, "--deny-tool=shell", "--deny-tool=write")
    assert [warning.code for warning in of(Warning, events)] == ["permission_denied"]
    assert [end.success for end in of(ToolEnd, events)] == [True, False]
    assert end_of(events).success


def test_a_sub_agent_is_a_run_of_its_own() -> None:
    for name in ("subagent", "subagent-background"):
        events = recorded("copilot", name)
        child = [event for event in events if event.run_id == "call_0002"]

        assert isinstance(child[0], SessionStart)
        assert (child[0].name, child[0].parent_id) == ("general-purpose", "call_0002")
        said = [message.text for message in child if isinstance(message, Message)]
        assert said == ["CHILDTASK count to 42", "Child works.", "Child result: 42."]
        assert of(ToolEnd, events, "call_0002")[0].exit_code == 0
        assert isinstance(child[-1], Result)
        assert (child[-1].success, child[-1].text) == (True, "Child result: 42.")
        spawned = next(end for end in of(ToolEnd, events) if end.call_id == "call_0002").operations
        assert spawned == [
            Spawn(agent_id=child[0].session_id, name="general-purpose", task="count it", success=None)
        ]


def test_a_sub_agent_that_fails_says_why() -> None:
    events = play(
        "copilot",
        record("subagent.started", "a-1", toolCallId="call_1", agentName="explore"),
        record("subagent.failed", "a-1", toolCallId="call_1", error="no model", durationMs=7),
        record("tool.execution_complete", "a-1", toolCallId="call_9", success=True),
    )

    assert Result(run_id="call_1", success=False, outcome="failed", text="no model", duration_ms=7) in events
    assert of(Unknown, events)[0].reason


def test_a_failed_command_is_a_failed_call_though_its_tool_succeeded() -> None:
    end = next(end for end in of(ToolEnd, recorded("copilot", "parallel")) if end.call_id == "call_0005")

    assert (end.success, end.exit_code) == (False, 7)


def test_one_write_per_changed_file_with_its_lines() -> None:
    events = recorded("copilot", "patch")

    writes = next(end for end in of(ToolEnd, events) if end.tool_name == "apply_patch").operations
    assert writes == [
        Write(path="/workspace/copilot-patch/src/app.py", start_line=2, end_line=2, change="update"),
        Write(path="/workspace/copilot-patch/new.txt", start_line=1, end_line=3, change="create"),
        Write(path="/workspace/copilot-patch/README.md", change="delete"),
    ]


def test_what_was_asked_becomes_what_was_done() -> None:
    viewed = of(ToolEnd, recorded("copilot", "view-dir"))[0]
    skills = of(ToolEnd, recorded("copilot", "skill"))
    tasks = of(ToolStart, recorded("copilot", "sql-todo"))[0]

    assert viewed.operations == [List(path="/workspace/copilot-view-dir/src")]
    path = "/workspace/copilot-skill/.github/skills/greet/SKILL.md"
    assert skills[0].operations == [Skill(path=path, name="greet")]
    assert tasks.operations == [Tasks()]


def test_text_that_a_retry_writes_again_is_taken_back() -> None:
    events = recorded("copilot", "drop-midstream")

    ids = list(dict.fromkeys(delta.id for delta in of(TextDelta, events)))
    assert [event.id for event in of(TextRetracted, events)] == ids[:-1]
    assert [warning.code for warning in of(Warning, events)] == ["retry"] * 5
    assert [error.code for error in of(Error, events)] == ["query"]
    assert end_of(events).outcome == "failed"


def test_a_provider_error_is_emitted_once_with_its_status() -> None:
    events = recorded("copilot", "error-401")

    assert [error.code for error in of(Error, events)] == ["http_401"]
    assert "HTTP 401: Incorrect API key" in of(Warning, events)[0].message


def test_a_run_that_was_stopped_was_interrupted_though_it_exits_with_zero() -> None:
    for name in ("sigint-model", "sigterm-model", "sigint-tool"):
        end = end_of(recorded("copilot", name))
        assert (end.success, end.outcome, end.exit_code) == (False, "interrupted", 0)
    stopped = play("copilot", record("abort", reason="user"), {"type": "result", "exitCode": 0})
    assert end_of(stopped).outcome == "interrupted"


def test_a_run_that_continues_after_an_abort_has_not_been_interrupted() -> None:
    again = play(
        "copilot",
        record("session.tools_updated", model="m"),
        record("abort"),
        record("assistant.turn_start", turnId="0"),
        {"type": "result", "exitCode": 0, "sessionId": "s-9"},
    )

    assert end_of(again).success
    assert of(Info, again) == [
        Info(message="the agent told the id of its session", code="session_id", session_id="s-9")
    ]


def test_reasoning_is_emitted_once_however_it_comes() -> None:
    whole = record("assistant.reasoning", reasoningId="r-1", content="Hm.")
    message = record("assistant.message", messageId="m-1", content="Yes.", reasoningText="Hm.")
    piece = record("assistant.reasoning_delta", reasoningId="r-1", deltaContent="Hm.")

    for lines in ((piece, message, whole), (message, whole), (whole,), (piece, whole)):
        assert [delta.text for delta in of(ReasoningDelta, play("copilot", *lines))] == ["Hm."]


def test_output_that_is_repeated_is_emitted_as_it_grows() -> None:
    start = record("tool.execution_start", toolCallId="c-1", toolName="x-y", arguments={})
    grown = [
        record("tool.execution_partial_result", toolCallId="c-1", partialOutput=out) for out in ("a", "ab")
    ]

    assert [progress.text for progress in of(ToolProgress, play("copilot", start, *grown))] == ["a", "b"]


def test_documented_records_that_no_recording_holds_are_known() -> None:
    usage = record(
        "assistant.usage", model="m", inputTokens=9, outputTokens=5, reasoningTokens=2, apiCallId="i"
    )
    events = play(
        "copilot",
        usage,
        record("session.compaction_complete", success=True, preCompactionTokens=9, postCompactionTokens=2),
        record("session.compaction_complete", success=False, error="no"),
    )

    assert of(UsageDelta, events) == [
        UsageDelta(usage=Usage(input=9, output=3, reasoning=2), model="m", id="i")
    ]
    assert of(Compacted, events) == [Compacted(before_tokens=9, after_tokens=2)]
    assert of(Warning, events) == [Warning(message="no", code="compaction_failed")]
    assert not of(Unknown, events)


@pytest.mark.parametrize("is_success", [True, False])
def test_a_compaction_has_used_what_it_says_also_when_it_was_given_up(is_success: bool) -> None:
    used = {"model": "m", "inputTokens": 900, "cacheReadTokens": 200, "outputTokens": 11}
    about = {"compactionAttemptId": "a", "compactionTokensUsed": used}
    events = play("copilot", record("session.compaction_complete", success=is_success, **about))
    (delta,) = of(UsageDelta, events)
    assert (delta.id, delta.usage.input, delta.usage.cache_read, delta.usage.output) == ("a", 700, 200, 11)


def test_plain_text_is_the_answer_of_a_run_that_was_asked_for_it() -> None:
    assert end_of(play("copilot", "Hello", "there.")).text == "Hello\nthere."
    assert [event.raw for event in of(Unknown, play("copilot", "stray", record("abort")))] == ["stray"]


def test_no_skill_is_loaded_where_everything_is_to_be_asked_about() -> None:
    """It loads one without a question, so the model has no such tool there."""
    two_way = AGENT.two_way
    assert two_way is not None
    cases: list[tuple[Permissions, bool]] = [("ask", True), ("read-only", True), ("full-access", False)]
    for permissions, is_left_out in cases:
        request = Request(agent="copilot", prompt="x", permissions=permissions)
        assert ("--excluded-tools=skill" in two_way.command(request, (1, 0, 102)).args) is is_left_out
