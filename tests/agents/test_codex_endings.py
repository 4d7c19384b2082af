"""Codex: what goes wrong, what it used, and its sub-agents."""

from __future__ import annotations

from typing import Any

import pytest

import recorded_runs
from agent_runs import end_of
from codex_stream import CASES, completed, item, run, turn
from harness.agents.codex.agent import AGENT, CodexTranslator
from harness.contracts.translator import Ending
from harness.events import (
    Error,
    Message,
    Result,
    SessionStart,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Spawn
from harness.log.raw import RawControl, RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate


def collab(
    step: str, call_id: str, tool: str, states: dict[str, Any], prompt: str | None = None
) -> dict[str, Any]:
    return item(
        step,
        id=call_id,
        type="collab_tool_call",
        tool=tool,
        sender_thread_id="th",
        receiver_thread_ids=["kid"] if step == "completed" else [],
        prompt=prompt,
        agents_states={
            thread: {"status": state, "message": words} for thread, (state, words) in states.items()
        },
        status="completed" if step == "completed" else "in_progress",
    )


SPAWNED = [
    collab("started", "c1", "spawn_agent", {}, "look"),
    collab("completed", "c1", "spawn_agent", {"kid": ("pending_init", None)}, "look"),
]


def test_a_sub_agent_is_a_run_that_begins_when_spawned_and_ends_when_waited_for() -> None:
    done = {"kid": ("completed", "two files")}
    waited = [collab("completed", call_id, "wait", done) for call_id in ("c2", "c3")]

    assert turn(*SPAWNED, *waited) == [
        ToolStart(
            call_id="c1", tool_name="spawn_agent", input={"prompt": "look"}, operations=[Spawn(task="look")]
        ),
        SessionStart(run_id="kid", parent_id="c1", session_id="kid", agent="codex"),
        Message(role="user", text="look", run_id="kid"),
        ToolEnd(
            call_id="c1",
            tool_name="spawn_agent",
            success=True,
            operations=[Spawn(agent_id="kid", task="look")],
        ),
        ToolStart(call_id="c2", tool_name="wait", input={"receiver_thread_ids": ["kid"]}),
        Result(run_id="kid", success=True, text="two files"),
        ToolEnd(
            call_id="c2",
            tool_name="wait",
            success=True,
            output="two files",
            operations=[Spawn(agent_id="kid", action="completed")],
        ),
        ToolStart(call_id="c3", tool_name="wait", input={"receiver_thread_ids": ["kid"]}),
        ToolEnd(call_id="c3", tool_name="wait", success=True, output="two files"),
    ]


def test_a_sub_agent_that_fails_and_is_written_to_again_is_two_runs() -> None:
    error = '{"error": {"message": "bad request"}}'
    events = turn(
        *SPAWNED,
        collab("completed", "c2", "wait", {"kid": ("errored", error)}),
        collab("completed", "c3", "send_input", {"kid": ("errored", error)}, "again"),
        collab("completed", "c4", "wait", {"kid": ("completed", "ok")}),
        collab("completed", "c5", "close_agent", {"kid": ("completed", "ok")}),
    )

    assert [event for event in events if event.run_id] == [
        SessionStart(run_id="kid", parent_id="c1", session_id="kid", agent="codex"),
        Message(role="user", text="look", run_id="kid"),
        Error(message="bad request", code="turn_failed", run_id="kid"),
        Result(run_id="kid", success=False, outcome="failed"),
        SessionStart(run_id="kid#2", parent_id="c3", session_id="kid", agent="codex"),
        Message(role="user", text="again", run_id="kid#2"),
        Result(run_id="kid#2", success=True, text="ok"),
    ]


@pytest.mark.parametrize("tail", [[], [collab("completed", "c2", "close_agent", {"kid": ("running", None)})]])
def test_a_sub_agent_that_never_says_how_it_ended_is_interrupted(tail: list[Any]) -> None:
    results = [event for event in turn(*SPAWNED, *tail) if isinstance(event, Result)]

    assert results == [Result(run_id="kid", success=False, outcome="interrupted")]


def test_a_retry_is_a_warning_and_the_error_that_ends_the_turn_is_emitted_once() -> None:
    events = run(
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        {"type": "error", "message": "Re-connecting... 1/2"},
        {"type": "error", "message": "Reconnecting... 2/2 (cut off)"},
        {"type": "error", "message": "no luck"},
        {"type": "turn.failed", "error": {"message": "no luck"}},
        exit_code=1,
    )

    assert events[1:-1] == [
        Warning(message="Re-connecting... 1/2", code="retry"),
        Warning(message="Reconnecting... 2/2 (cut off)", code="retry"),
        Error(message="no luck", code="turn_failed"),
    ]
    assert (end_of(events).success, end_of(events).outcome) == (False, "failed")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"error": {"message": "plain"}}, "plain"),
        ({"error": "as text"}, "as text"),
        ({"message": "beside"}, "beside"),
        ({}, "turn failed"),
        ({"error": {"message": '{"error": {"message": "inner", "code": null}}'}}, "inner"),
        ({"error": {"message": 'status 400: {"error": {"message": "inner"}}'}}, "status 400: inner"),
        ({"error": {"message": "not {json}"}}, "not {json}"),
    ],
)
def test_a_failed_turn_says_why_in_plain_words(error: dict[str, Any], message: str) -> None:
    events = run({"type": "turn.started"}, {"type": "turn.failed", **error}, exit_code=1)

    assert [event for event in events if isinstance(event, Error)] == [
        Error(message=message, code="turn_failed")
    ]


def test_an_error_that_the_turn_survives_is_an_error_all_the_same() -> None:
    broken = {"type": "error", "message": "MCP client failed to start"}

    assert turn(broken, completed(type="agent_message", text="Done.")) == [
        Error(message="MCP client failed to start", code="agent_error"),
        Message(role="assistant", text="Done."),
    ]


def test_an_error_item_is_advice() -> None:
    assert turn(completed(type="error", message="Model metadata not found")) == [
        Warning(message="Model metadata not found", code="notice")
    ]


@pytest.mark.parametrize(
    ("code", "signal", "outcome"),
    [
        (0, None, "failed"),
        (1, None, "failed"),
        (101, None, "failed"),
        (130, None, "interrupted"),
        (None, 15, "interrupted"),
        (None, 9, "failed"),
    ],
)
def test_a_turn_without_an_end_has_not_completed_however_the_process_ended(
    code: int | None, signal: int | None, outcome: str
) -> None:
    opening = item("started", type="command_execution", command="sleep 9", status="in_progress")
    events = run({"type": "turn.started"}, opening, exit_code=code, signal=signal)

    assert end_of(events).outcome == outcome
    assert [event.code for event in events if isinstance(event, Error)] == ["missing_end"]
    assert ToolEnd(call_id="item_0", tool_name="shell") in events


def test_a_run_that_the_harness_stopped_is_not_an_error() -> None:
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(RawOutput(at_ms=1, stream="stdout", data=b'{"type":"turn.started"}\n'))]
    events += pipeline.feed(RawControl(at_ms=2, action="stop"))
    events += pipeline.feed(RawExit(at_ms=3, code=1))

    assert not [event for event in events if isinstance(event, Error)]
    assert end_of(events).outcome == "interrupted"


def test_a_process_that_never_begins_a_turn_has_failed() -> None:
    events = run(stderr="Error: no such thread\n", exit_code=1)

    assert end_of(events).outcome == "failed"
    assert Warning(message="Error: no such thread", code="stderr") in events


def test_stderr_is_warnings_but_for_the_notice_on_stdin() -> None:
    events = run(
        {"type": "turn.completed"},
        stderr=(
            "Reading additional input from stdin...\nReading prompt from stdin...\n\x1b[0m\n"
            "\x1b[2m2026-11-15T07:35:38.9Z\x1b[0m \x1b[31mERROR\x1b[0m codex_core::tools::router: error=unsupported call: x\n"
            "\x1b[33mcareful\x1b[0m\n"
        ),
    )

    assert [event for event in events if isinstance(event, Warning)] == [
        Warning(message="unsupported call: x", code="tool_error"),
        Warning(message="careful", code="stderr"),
    ]


@pytest.mark.parametrize(
    ("line", "raw"),
    [
        ("not json", "not json"),
        ({"type": "future.thing", "a": 1}, {"type": "future.thing", "a": 1}),
        ({"a": 1}, {"a": 1}),
        ({"type": "item.completed"}, {"type": "item.completed"}),
        ({"type": "item.completed", "item": []}, {"type": "item.completed", "item": []}),
        (completed(type="hologram"), {"id": "item_0", "type": "hologram"}),
        (completed(type="file_change", changes=[]), {"id": "item_0", "type": "file_change", "changes": []}),
        (completed(type="command_execution"), {"id": "item_0", "type": "command_execution"}),
        (completed(type="agent_message", text=7), {"id": "item_0", "type": "agent_message", "text": 7}),
        (item("updated", type="reasoning", text="x"), {"id": "item_0", "type": "reasoning", "text": "x"}),
    ],
)
def test_what_is_unknown_is_preserved(line: Any, raw: Any) -> None:
    assert turn(line) == [Unknown(raw=raw)]


def test_cached_tokens_are_taken_out_of_the_input_and_reasoning_out_of_the_output() -> None:
    stated = {
        "input_tokens": 1500,
        "cached_input_tokens": 900,
        "cache_write_input_tokens": 200,
        "output_tokens": 64,
        "reasoning_output_tokens": 16,
    }

    assert turn(usage=stated) == [
        UsageDelta(usage=Usage(input=400, output=48, cache_read=900, cache_write=200, reasoning=16))
    ]


def test_what_a_version_never_says_stays_unknown() -> None:
    assert turn(usage={"input_tokens": 1000, "cached_input_tokens": 600, "output_tokens": 200}) == [
        UsageDelta(usage=Usage(input=400, output=200, cache_read=600))
    ]


def test_several_turns_of_a_process_state_the_total_and_give_the_differences() -> None:
    events = run(
        {"type": "thread.started", "thread_id": "t"},
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 1500, "cached_input_tokens": 900, "output_tokens": 64},
        },
        {
            "type": "turn.completed",
            "usage": {"input_tokens": 4500, "cached_input_tokens": 2700, "output_tokens": 192},
        },
    )

    assert [event.usage for event in events if isinstance(event, UsageDelta)] == [
        Usage(input=600, output=64, cache_read=900),
        Usage(input=1200, output=128, cache_read=1800),
    ]
    assert end_of(events).usage == Usage(input=1800, output=192, cache_read=2700)


def test_a_total_that_falls_has_started_again() -> None:
    many, few = {"input_tokens": 100, "output_tokens": 10}, {"input_tokens": 30, "output_tokens": 3}
    events = run({"type": "turn.completed", "usage": many}, {"type": "turn.completed", "usage": few})

    assert end_of(events).usage == Usage(input=130, output=13)


@pytest.mark.parametrize(
    ("version", "argv", "is_flagged"),
    [
        ("0.166.0", ["codex", "exec", "resume", "th", "-"], True),
        ("", ["codex", "exec", "resume", "--last"], True),
        ("0.77.0", ["codex", "exec", "resume", "th", "-"], False),
        ("0.166.0", ["codex", "exec", "-"], False),
    ],
)
def test_the_usage_of_a_resumed_run_is_flagged_where_it_is_that_of_the_thread(
    version: str, argv: list[str], is_flagged: bool
) -> None:
    translator = CodexTranslator()
    translator.begin(RawStart(at_ms=0, agent="codex", version=version, argv=argv))
    events = [
        *translator.record({"type": "turn.completed", "usage": {"input_tokens": 3000, "output_tokens": 128}}),
        *translator.finish(Ending(exit_code=0)),
    ]

    codes = [event.code for event in events if isinstance(event, Warning)]
    assert codes == (["usage_cumulative"] if is_flagged else [])
    assert UsageDelta(usage=Usage(input=3000, output=128)) in events


@recorded_runs.each(CASES)
def test_the_usage_of_a_recording_is_a_whole_number_of_model_calls(case: Case) -> None:
    """The scripted model counts 1500/900/64/16 tokens per call, but for two scenarios."""
    usage = end_of(translate(case)[1]).usage
    if usage is None or case.name in ("compact", "diff-review"):
        return
    calls = usage.cache_read // 900 if usage.cache_read else 0
    with_reasoning = usage.reasoning is not None
    assert usage == Usage(
        input=600 * calls,
        output=(48 if with_reasoning else 64) * calls,
        cache_read=900 * calls,
        cache_write=0 if case.version == "0.166.0" else None,
        reasoning=16 * calls if with_reasoning else None,
    )
    assert calls > 0
