"""Whole runs of Claude Code: sub-agents, what they cost, other output formats, and damaged recordings."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recorded_runs
from agent_runs import of
from claude_lines import INIT, OK, assistant, call, message_start, play, result_of, stream, text
from harness.agents.claude.agent import AGENT
from harness.events import (
    Event,
    Info,
    Message,
    Result,
    SessionStart,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.usage import CLASSES
from harness.log import codec
from harness.log.raw import RawExit, RawOutput, RawStart
from harness.runs.pipeline import Pipeline
from harness.testing.golden import Case, translate

CASES = [case for case in recorded_runs.CASES if case.agent == "claude"]
OLD_INIT = {**INIT, "claude_code_version": "2.0.60"}
SPAWN = call("Task", "spawn", subagent_type="helper", description="Look", prompt="look around")
STARTED = {
    "type": "system",
    "subtype": "task_started",
    "task_id": "a1",
    "tool_use_id": "spawn",
    "subagent_type": "helper",
    "task_type": "local_agent",
    "prompt": "look around",
}
PER_CALL = {"input": 1200, "output": 42, "cache_read": 900, "cache_write": 300}


def case_named(name: str) -> Case:
    return next(case for case in CASES if str(case) == f"claude/{name}")


def child_line(line: dict[str, Any]) -> dict[str, Any]:
    return {**line, "parent_tool_use_id": "spawn"}


def notified(status: str = "completed") -> dict[str, Any]:
    stated = {"task_id": "a1", "tool_use_id": "spawn", "status": status, "summary": "Two files."}
    return {"type": "system", "subtype": "task_notification", **stated}


def assert_whole(events: list[Event]) -> None:
    """Everything opened is closed, each run once, and the result of the run itself comes last."""
    started = [(event.run_id, event.call_id) for event in of(ToolStart, events)]
    assert sorted(started) == sorted((event.run_id, event.call_id) for event in of(ToolEnd, events))
    results = [event.run_id for event in of(Result, events)]
    assert sorted(results) == sorted({event.run_id for event in of(SessionStart, events)})
    assert isinstance(events[-1], Result)
    assert not events[-1].run_id


def test_a_sub_agent_is_a_run_between_the_ends_of_its_call() -> None:
    inner = [child_line(assistant(call("Bash", "inner", command="ls"))), child_line(result_of("inner"))]
    events = play(INIT, assistant(SPAWN), STARTED, *inner, notified(), result_of("spawn"), OK)
    names = [(type(event).__name__, event.run_id) for event in events[2:-1]]
    assert names == [
        ("ToolStart", ""),
        ("SessionStart", "spawn"),
        ("Message", "spawn"),
        ("ToolStart", "spawn"),
        ("ToolEnd", "spawn"),
        ("Result", "spawn"),
        ("ToolEnd", ""),
    ]
    start = of(SessionStart, events)[1]
    assert (start.parent_id, start.name, start.agent, start.session_id) == ("spawn", "helper", "claude", "a1")
    assert of(Result, events)[0].text == "Two files."


def test_an_old_version_says_nothing_and_the_call_itself_is_the_beginning_and_the_end() -> None:
    events = play(OLD_INIT, assistant(SPAWN), result_of("spawn", [text("Two files.")]), OK)
    assert [event.run_id for event in of(SessionStart, events)] == ["", "spawn"]
    assert of(Result, events)[0].text == "Two files."


def test_a_sub_agent_that_only_its_result_shows_is_still_a_run() -> None:
    events = play(INIT, assistant(SPAWN), result_of("spawn", detail={"agentId": "a1"}), OK)
    assert [event.run_id for event in of(SessionStart, events)] == ["", "spawn"]
    assert_whole(events)


def test_a_sub_agent_that_could_not_be_started_is_no_run() -> None:
    events = play(INIT, assistant(SPAWN), result_of("spawn", "no such agent", is_error=True), OK)
    assert len(of(SessionStart, events)) == 1
    assert of(ToolEnd, events)[0].success is False


def test_a_background_agent_outlives_its_call_and_fails_by_itself() -> None:
    launched = result_of("spawn", detail={"isAsync": True, "status": "async_launched", "agentId": "a1"})
    started = {**STARTED, "is_backgrounded": True}
    events = play(INIT, assistant(SPAWN), started, launched, OK, notified("failed"), INIT, OK)
    ends = [(type(event).__name__, event.run_id) for event in events if isinstance(event, ToolEnd | Result)]
    assert ends == [("ToolEnd", ""), ("Result", "spawn"), ("Result", "")]
    assert of(Result, events)[0].outcome == "failed"


def test_a_background_command_is_no_sub_agent() -> None:
    shell = {**STARTED, "task_type": "local_bash", "subagent_type": None}
    events = play(
        INIT, assistant(call("Bash", "spawn", command="x")), shell, result_of("spawn"), notified(), OK
    )
    assert len(of(SessionStart, events)) == 1


def test_a_command_that_was_only_slow_has_no_notice_besides_its_result() -> None:
    stated = {"task_id": "b1", "tool_use_id": "slow", "status": "completed", "summary": "Run a command"}
    ended = {"type": "system", "subtype": "task_notification", "output_file": "", **stated}
    ran = assistant(call("Bash", "slow", command="sleep 5"))
    assert not of(Info, play(INIT, ran, ended, result_of("slow"), OK))
    stopped = {**ended, "output_file": "/tmp/b1.output", "status": "stopped", "summary": "Serve the page"}
    (notice,) = of(Warning, play(INIT, ran, result_of("slow"), stopped, OK))
    assert (notice.message, notice.code) == ("Serve the page: stopped", "background_task")


def test_an_agent_that_is_woken_up_again_is_another_run() -> None:
    again = child_line(assistant(text("Once more."), message_id="msg_9"))
    events = play(INIT, assistant(SPAWN), STARTED, notified(), result_of("spawn"), again, OK)
    assert [event.run_id for event in of(SessionStart, events)] == ["", "spawn", "spawn#2"]
    assert_whole(events)


def test_an_agent_within_an_agent_shows_what_it_does_at_its_call() -> None:
    inner = call("Agent", "inner", subagent_type="helper", prompt="go")
    more = {"tool_use_id": "inner", "task_id": "a2"}
    started = {**STARTED, **more, "parent_task_id": "a1", "spawn_depth": 2}
    progress = {"type": "system", "subtype": "task_progress", **more, "description": "Running ls"}
    events = play(INIT, assistant(SPAWN), STARTED, child_line(assistant(inner)), started, progress, OK)
    assert of(ToolProgress, events) == [ToolProgress(call_id="inner", text="Running ls", run_id="spawn")]
    assert_whole(events)
    closed = [event.run_id for event in of(Result, events)]
    assert closed == ["inner", "spawn", ""]


@recorded_runs.each(CASES)
def test_the_usage_of_a_recording_adds_up_to_its_total(case: Case) -> None:
    _, events = translate(case)
    total = Usage()
    for delta in of(UsageDelta, events):
        total = total.plus(delta.usage)
    stated = of(Result, events)[-1].usage or Usage()
    assert [getattr(total, name) or 0 for name in CLASSES] == [getattr(stated, name) or 0 for name in CLASSES]
    assert (total.cost_usd or 0) == pytest.approx(stated.cost_usd or 0)


@pytest.mark.parametrize(
    ("name", "calls", "cost_usd"),
    [
        ("2.1.325/hello", 1, 0.00732),
        ("2.1.325/partial", 2, 0.01464),
        ("2.1.325/subagent", 5, 0.0366),
        ("2.1.325/subagent-partial", 5, 0.0366),
        ("2.1.325/subagent-nested", 6, 0.04392),
        ("2.1.325/subagent-bg", 5, 0.0366),
        ("2.1.325/shell-bg-late", 3, 0.02196),
        ("2.1.325/resume-1", 2, 0.01464),
        ("2.1.325/resume-2", 1, 0.00732),
        ("2.1.325/resume-fork", 1, 0.00732),
        ("2.1.325/json-format", 1, 0.00732),
        ("2.1.325/err-401", 0, 0.0),
        ("2.0.60/partial", 6, 0.0225),
        ("2.0.60/resume-2", 4, 0.015),
    ],
)
def test_a_run_used_what_its_model_calls_used(name: str, calls: int, cost_usd: float) -> None:
    _, events = translate(case_named(name))
    result = of(Result, events)[-1]
    assert {each: getattr(result.usage, each) for each in PER_CALL} == {
        k: calls * v for k, v in PER_CALL.items()
    }
    assert result.total_cost_usd == result.usage.cost_usd == pytest.approx(cost_usd)
    assert result.usage.cost_source == "stated"


def test_each_streamed_model_call_states_its_usage_and_its_model() -> None:
    _, events = translate(case_named("2.0.60/partial"))
    calls = [delta for delta in of(UsageDelta, events) if delta.id]
    assert [delta.usage for delta in calls] == [Usage(**PER_CALL), Usage(**PER_CALL)]
    assert {delta.model for delta in of(UsageDelta, events)} == {
        "claude-haiku-4-5-20251001",
        "claude-sonnet-4-5-20250929",
    }


def test_totals_of_a_process_that_only_grow_are_counted_by_their_growth() -> None:
    def stated(calls: int) -> dict[str, Any]:
        counts = {"inputTokens": 10 * calls, "outputTokens": calls, "costUSD": 0.5 * calls}
        return {**OK, "modelUsage": {"claude-test-1": counts}, "total_cost_usd": 0.5 * calls}

    events = play(INIT, stated(2), INIT, stated(5))
    assert [delta.usage.input for delta in of(UsageDelta, events)] == [20, 30]
    result = of(Result, events)[-1]
    assert (result.usage.input, result.usage.output, result.total_cost_usd) == (50, 5, 2.5)


def test_a_model_that_goes_by_two_names_is_not_billed_twice() -> None:
    ended = [stream("message_delta", delta={}, usage={"output_tokens": 42}), stream("message_stop")]
    for name in ("claude-test-1[1m]", "quite-another-name"):
        stated = {"inputTokens": 1200, "outputTokens": 42, "cacheReadInputTokens": 900, "costUSD": 1.0}
        result = {**OK, "modelUsage": {name: stated}, "total_cost_usd": 1.0}
        events = play(INIT, message_start(), *ended, result)
        assert sum(delta.usage.input or 0 for delta in of(UsageDelta, events)) == 1200
        assert events[-1].usage.input == 1200  # type: ignore[attr-defined]


def test_one_model_under_two_names_in_one_result_is_one_model() -> None:
    stated = {name: {"inputTokens": 10, "outputTokens": 1} for name in ("claude-test-1", "claude-test-1[1m]")}
    events = play(INIT, {**OK, "modelUsage": stated})
    assert [(delta.model, delta.usage.input) for delta in of(UsageDelta, events)] == [("claude-test-1", 20)]


def test_an_array_of_records_is_read_record_by_record() -> None:
    lines = [INIT, assistant(text("Hello.")), OK]
    assert play(lines) == play(*lines)


def test_a_run_that_was_asked_for_plain_text_answers_with_it() -> None:
    events = play("# Title", "", "Some text.")
    assert [event.text for event in of(Message, events)] == ["do it", "# Title\n\nSome text."]
    assert (events[-1].success, events[-1].text) == (True, "# Title\n\nSome text.")  # type: ignore[attr-defined]


def test_stray_text_before_the_first_record_stays_what_it_is() -> None:
    events = play("some warning", INIT, OK)
    assert [event.raw for event in of(Unknown, events)] == ["some warning"]
    assert of(Unknown, play("error: bad flag", exit_code=1))


def test_a_session_that_was_not_announced_still_has_its_id() -> None:
    events = play({**OK, "session_id": "s1"})
    assert events[0] == SessionStart(session_id="s1", agent="claude")


@recorded_runs.each(CASES)
def test_whatever_a_recording_says_and_calls_is_in_its_events(case: Case) -> None:
    _, events = translate(case)
    notices = [event.message for event in events if hasattr(event, "message")]
    said = {event.text for event in of(Message, events)} | set(notices)
    called = {event.call_id for event in of(ToolStart, events)}
    for line in case.stdout.split(b"\n"):
        record = _decoded(line)
        if record.get("type") != "assistant":
            continue
        for block in record["message"]["content"]:
            assert block["type"] != "text" or block["text"] in said
            assert block["type"] != "tool_use" or block["id"] in called


def _decoded(line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}


JUNK = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "\ud800", [], [[]], {}, {"type": []}]
)
RECORDS = [record for case in CASES for line in case.stdout.split(b"\n") if (record := _decoded(line))]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in items for place in ((*path, key), *_places(inner, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A recorded line with a few of its values, at any depth, replaced by something else."""
    record = draw(st.sampled_from(RECORDS))
    changed = copy.deepcopy(record)
    for _ in range(draw(st.integers(0, 3))):
        places = _places(changed)
        if not places:
            break
        *path, key = draw(st.sampled_from(places))
        inner: Any = changed
        for step in path:
            inner = inner[step]
        inner[key] = copy.deepcopy(draw(JUNK))
    return changed


def _fed(records: list[dict[str, Any]], exit_code: int | None) -> tuple[Pipeline, list[Event]]:
    """Past the decoder, so that also what JSON cannot hold comes through."""
    pipeline = Pipeline(AGENT.translator())
    events = [*pipeline.feed(RawStart(at_ms=0, agent="claude", prompt="p"))]
    for record in records:
        pipeline.lifecycle.accept(pipeline.translator.record(record), events)
        assert pipeline.translator.rule
    events.extend(pipeline.feed(RawOutput(at_ms=1, stream="stderr", data=b"\xff\n")))
    events.extend(pipeline.feed(RawExit(at_ms=2, code=exit_code)))
    return pipeline, events


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(damaged(), max_size=30), st.sampled_from([0, 1, 143, None]))
def test_no_mixture_of_damaged_lines_breaks_a_run(
    records: list[dict[str, Any]], exit_code: int | None
) -> None:
    _, events = _fed(records, exit_code)
    assert_whole(events)
    for line in codec.encode_lines(events).split(b"\n")[:-1]:
        codec.decode(line)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_no_order_of_a_recordings_lines_breaks_a_run(data: st.DataObject) -> None:
    case = data.draw(
        st.sampled_from([case for case in CASES if "subagent" in case.name or "partial" in case.name])
    )
    records = [record for line in case.stdout.split(b"\n") if (record := _decoded(line))]
    shuffled = data.draw(st.permutations(records))
    kept = shuffled[: data.draw(st.integers(0, len(shuffled)))]
    _, events = _fed([*kept, *kept[:3]], 0)
    assert_whole(events)
