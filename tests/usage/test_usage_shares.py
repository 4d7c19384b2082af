"""Who has used what: a run of a session that goes on, a sub-agent, thinking as apart from the answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runs import end_of, of, play, recorded
from harness import FileStore, Request, start
from harness.events import Error, Event, Result, ToolEnd, Unknown, Usage, UsageDelta, Warning
from harness.runs.audit import check

THREAD = "01a1de21-ba0d-72e0-b5a3-df499bafe3a7"
CODEX = """#!/bin/sh
case "$1" in --version) echo codex-cli 0.166.0; exit 0;; esac
echo '{"type":"thread.started","thread_id":"%s"}'
echo '{"type":"turn.started"}'
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"Hi."}}'
echo '{"type":"turn.completed","usage":{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d}}'
"""


class Codex:
    """Runs of a program that tells these totals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = FileStore(str(folder / "sessions"))

    def run(self, *totals: int, thread: str = THREAD, **options: Any) -> tuple[Result, list[Event]]:
        path = self.folder / "codex"
        path.write_text(CODEX % (thread, *totals))
        path.chmod(0o755)
        run = start(
            Request(agent="codex", prompt="go on", binary=str(path), cwd=str(self.folder), **options),
            store=self.store,
        )
        events = list(run)
        assert not check(self.store, run.id).problems
        return run.wait(), events


@pytest.mark.parametrize("how", [{"resume": THREAD}, {"continue_last": True}])
def test_a_run_that_goes_on_with_a_thread_has_used_what_it_added(how: dict[str, Any], tmp_path: Path) -> None:
    codex = Codex(tmp_path)
    first, _ = codex.run(1500, 900, 64)
    second, _ = codex.run(4500, 2700, 192, **how)
    third, events = codex.run(6000, 3600, 256, **how)

    assert [one.usage for one in (first, second, third)] == [
        Usage(input=600, cache_read=900, output=64),
        Usage(input=1200, cache_read=1800, output=128),
        Usage(input=600, cache_read=900, output=64),
    ]
    assert [delta.usage for delta in of(UsageDelta, events)] == [third.usage]
    assert not of(Warning, events)


def test_a_thread_whose_earlier_runs_nobody_recorded_tells_its_total_and_says_so(tmp_path: Path) -> None:
    codex = Codex(tmp_path)
    second, events = codex.run(4500, 2700, 192, resume=THREAD)
    third, _ = codex.run(6000, 3600, 256, resume=THREAD)

    assert second.usage == Usage(input=1800, cache_read=2700, output=192)
    assert [warning.code for warning in of(Warning, events)] == ["usage_cumulative"]
    assert third.usage == Usage(input=600, cache_read=900, output=64)


def test_a_thread_that_was_begun_anew_has_no_earlier_runs(tmp_path: Path) -> None:
    codex = Codex(tmp_path)
    codex.run(1500, 900, 64)
    anew, events = codex.run(1500, 900, 64, thread=THREAD.replace("01a1", "02b2"), resume=THREAD)

    assert anew.usage == Usage(input=600, cache_read=900, output=64)
    assert not of(Warning, events)


def test_a_goose_that_goes_on_takes_off_what_was_used_before() -> None:
    said = {
        "type": "message",
        "message": {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "Hi"}]},
    }
    total = {"type": "complete", "total_tokens": 2480, "input_tokens": 2400, "output_tokens": 80}
    argv = ["goose", "run", "--resume", "--session-id", "20261115_1"]
    unknown = play("goose", said, total, argv=argv)

    assert end_of(unknown).usage == Usage(input=2400, output=80)
    assert [warning.code for warning in of(Warning, unknown)] == ["usage_cumulative"]
    known = play("goose", said, total, argv=argv, earlier_usage=Usage(input=1200, output=40))
    assert end_of(known).usage == Usage(input=1200, output=40)
    assert not of(Warning, known)


INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s",
    "model": "opus",
    "claude_code_version": "2.1.201",
}


def answer(message_id: str, *content: Any, usage: dict[str, Any], parent: str = "") -> dict[str, Any]:
    message = {
        "id": message_id,
        "role": "assistant",
        "model": "opus",
        "content": list(content),
        "usage": usage,
    }
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent or None}


def streamed(message_id: str, given: int, answered: int, thought: int) -> list[dict[str, Any]]:
    """One answer in pieces, of which only what it used matters here."""
    begun = {"id": message_id, "model": "opus", "usage": {"input_tokens": given, "output_tokens": 1}}
    details = {"output_tokens": answered, "output_tokens_details": {"thinking_tokens": thought}}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": details},
        {"type": "message_stop"},
    ]
    return [{"type": "stream_event", "event": event} for event in events]


def ended(given: int, answered: int, **model: Any) -> dict[str, Any]:
    by_model = {"inputTokens": given, "outputTokens": answered, **model}
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "usage": {"input_tokens": given, "output_tokens": answered},
        "modelUsage": {"opus": by_model},
    }


@pytest.mark.parametrize("model", [{}, {"thinkingTokens": 987}])
def test_what_claude_thought_is_no_output(model: dict[str, Any]) -> None:
    lines = [*streamed("m1", 10, 1024, 919), *streamed("m2", 20, 114, 68)]
    events = play("claude", INIT, *lines, ended(30, 1138, **model))

    assert [(delta.usage.output, delta.usage.reasoning) for delta in of(UsageDelta, events)] == [
        (105, 919),
        (46, 68),
    ]
    assert end_of(events).usage == Usage(input=30, output=151, reasoning=987)


def test_usage_may_have_the_shorter_names_of_some_tools() -> None:
    used = {
        "input_tokens": 5,
        "output_tokens": 7,
        "cache_read_tokens": 3,
        "cache_creation_tokens": 2,
        "cost": 0.25,
    }
    result = {"type": "result", "subtype": "success", "result": "x", "usage": used}
    end = end_of(play("claude", INIT, result))

    assert end.usage == Usage(
        input=5, output=7, cache_read=3, cache_write=2, cost_usd=0.25, cost_source="stated"
    )
    assert end.total_cost_usd == 0.25


def test_what_a_sub_agent_used_is_its_own() -> None:
    """Its one call is told by the result of the call that spawned it, where its answer has no line."""
    spawn = {
        "type": "tool_use",
        "id": "t",
        "name": "Agent",
        "input": {"prompt": "count", "subagent_type": "x"},
    }
    told = {"status": "completed", "agentId": "a", "resolvedModel": "opus", "content": "7"}
    used = {"input_tokens": 3000, "output_tokens": 15}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "7"}
    events = play(
        "claude",
        INIT,
        *streamed("m1", 100, 10, 0),
        answer("m1", spawn, usage={"input_tokens": 100, "output_tokens": 1}),
        {
            "type": "system",
            "subtype": "task_started",
            "task_id": "a",
            "tool_use_id": "t",
            "subagent_type": "x",
        },
        {
            "type": "system",
            "subtype": "task_notification",
            "task_id": "a",
            "tool_use_id": "t",
            "status": "completed",
        },
        {
            "type": "user",
            "message": {"role": "user", "content": [result]},
            "tool_use_result": {**told, "usage": used},
        },
        *streamed("m2", 100, 10, 0),
        {**ended(200, 20), "modelUsage": {"opus": {"inputTokens": 3200, "outputTokens": 35}}},
    )

    of_child = [delta.usage for delta in of(UsageDelta, events) if delta.run_id]
    assert of_child == [Usage(input=3000, output=15)]
    own = [delta.usage for delta in of(UsageDelta, events) if not delta.run_id]
    assert (sum(one.input or 0 for one in own), sum(one.output or 0 for one in own)) == (200, 20)
    assert (end_of(events).usage or Usage()).input == 3200
    place = [type(event) for event in events if event.run_id]
    assert place[-2:] == [UsageDelta, Result]


@pytest.mark.parametrize("name", ["subagent", "subagent-parallel", "subagent-forward"])
def test_sub_agents_are_billed_for_what_their_models_were_given(name: str) -> None:
    events = recorded("claude", name)
    own = [delta.usage for delta in of(UsageDelta, events) if not delta.run_id]

    assert sum(one.input or 0 for one in own) == 2 * 1200
    assert (
        sum(delta.usage.output or 0 for delta in of(UsageDelta, events))
        == (end_of(events).usage or Usage()).output
    )


def test_copilot_tells_how_long_its_answers_are_and_whose_they_are() -> None:
    deltas = of(UsageDelta, recorded("copilot", "subagent", "1.0.50"))

    assert [(bool(delta.run_id), delta.usage.output) for delta in deltas] == [
        (False, 50),
        (True, 50),
        (True, 50),
        (False, 50),
    ]


def test_what_is_told_twice_of_an_answer_counts_once() -> None:
    said = {"messageId": "m", "content": "Hi", "outputTokens": 7, "apiCallId": "call"}
    used = {"apiCallId": "call", "inputTokens": 9, "outputTokens": 7}
    events = play(
        "copilot",
        {"type": "assistant.message", "data": said},
        {"type": "assistant.usage", "data": used},
        {"type": "result", "sessionId": "s", "exitCode": 0},
    )

    assert end_of(events).usage == Usage(input=9, output=7)


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        ([{"type": "error", "message": "m", "code": "c1"}], ["c1"]),
        (
            [
                {"type": "error", "message": "m", "code": "c1"},
                {"type": "turn.failed", "error": {"message": "m"}},
            ],
            ["c1"],
        ),
        (
            [{"type": "error", "message": "m"}, {"type": "turn.failed", "error": {"message": "m"}}],
            ["turn_failed"],
        ),
        ([{"type": "turn.failed", "error": {"message": "m", "code": "c2"}}], ["c2"]),
        (
            [{"type": "error", "message": "m"}, {"type": "turn.failed", "error": {"message": "n"}}],
            ["agent_error", "turn_failed"],
        ),
    ],
)
def test_an_error_of_codex_keeps_its_own_code(lines: list[Any], codes: list[str]) -> None:
    assert [error.code for error in of(Error, play("codex", *lines, exit_code=1))] == codes


def test_a_command_that_codex_does_not_name_has_still_run() -> None:
    item = {"id": "i", "type": "command_execution", "aggregated_output": "out", "exit_code": 3}
    events = play("codex", {"type": "item.completed", "item": item}, {"type": "turn.completed"})
    [end] = of(ToolEnd, events)

    assert (end.tool_name, end.success, end.exit_code, end.output) == ("shell", False, 3, "out")
    assert not of(Unknown, events)


def test_a_summary_after_a_turn_is_known() -> None:
    line = {"type": "system", "subtype": "post_turn_summary", "summary": json.dumps({"a": 1})}

    assert not of(Unknown, play("claude", INIT, line, ended(1, 1)))
