"""The stream is the published format, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    Task,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    Usage,
    UsageDelta,
    Warning,
)
from showing import shown
from steered import steered

AT: dict[str, Any] = {"timestamp_ms": 1700000000000, "seq": 3, "run_id": "run"}
USAGE = Usage(input=10, output=5, cache_read=7, cache_write=0, reasoning=2, cost_usd=0.01)
USAGE_DATA = (
    '{"input_tokens":10,"output_tokens":7,"cache_read_tokens":7,"cache_creation_tokens":0,"cost_usd":0.01}'
)

EXACT: list[tuple[Event, str]] = [
    (
        SessionStart(session_id="abc-123", agent="claude", model="m-1", cwd="/path", version="2", **AT),
        (
            '{"type":"SessionStart","timestamp_ms":1700000000000,"session_id":"abc-123","agent":"claude",'
            '"model":"m-1","cwd":"/path"}'
        ),
    ),
    (
        SessionStart(session_id="abc-123", agent="codex", **AT),
        '{"type":"SessionStart","timestamp_ms":1700000000000,"session_id":"abc-123","agent":"codex"}',
    ),
    (
        TextDelta(id="m", text="I'll start by reading", **AT),
        '{"type":"TextDelta","timestamp_ms":1700000000000,"text":"I\'ll start by reading"}',
    ),
    (
        Message(role="assistant", text="I found the bug.", id="m", **AT),
        '{"type":"Message","timestamp_ms":1700000000000,"role":"assistant","text":"I found the bug."}',
    ),
    (
        ToolStart(call_id="call_1", tool_name="read_file", input={"path": "src/main.rs"}, **AT),
        (
            '{"type":"ToolStart","timestamp_ms":1700000000000,"call_id":"call_1","tool_name":"read_file",'
            '"input":"{\\"path\\":\\"src/main.rs\\"}"}'
        ),
    ),
    (
        ToolStart(call_id="call_1", tool_name="plan", **AT),
        '{"type":"ToolStart","timestamp_ms":1700000000000,"call_id":"call_1","tool_name":"plan"}',
    ),
    (
        ToolEnd(call_id="call_1", tool_name="read_file", success=True, output="fn main() {\n}", **AT),
        (
            '{"type":"ToolEnd","timestamp_ms":1700000000000,"call_id":"call_1","tool_name":"read_file",'
            '"success":true,"output":"fn main() {\\n}"}'
        ),
    ),
    (
        ToolEnd(call_id="call_1", tool_name="read_file", **AT),
        '{"type":"ToolEnd","timestamp_ms":1700000000000,"call_id":"call_1","tool_name":"read_file","success":false}',
    ),
    (
        Result(success=True, text="Done.", duration_ms=5000, total_cost_usd=0.05, usage=USAGE, turns=2, **AT),
        (
            '{"type":"Result","timestamp_ms":1700000000000,"success":true,"text":"Done.","session_id":"",'
            f'"duration_ms":5000,"total_cost_usd":0.05,"usage":{USAGE_DATA}}}'
        ),
    ),
    (
        Result(success=False, outcome="failed", **AT),
        '{"type":"Result","timestamp_ms":1700000000000,"success":false,"text":"","session_id":""}',
    ),
    (
        Error(message="Agent process exited with code 1", code="process_error", **AT),
        (
            '{"type":"Error","timestamp_ms":1700000000000,"message":"Agent process exited with code 1",'
            '"code":"process_error"}'
        ),
    ),
    (Error(message="no", **AT), '{"type":"Error","timestamp_ms":1700000000000,"message":"no"}'),
    (
        UsageDelta(usage=USAGE, model="m-1", **AT),
        f'{{"type":"UsageDelta","timestamp_ms":1700000000000,"usage":{USAGE_DATA}}}',
    ),
    (
        UsageDelta(usage=Usage(output=0), **AT),
        '{"type":"UsageDelta","timestamp_ms":1700000000000,"usage":{"output_tokens":0}}',
    ),
]

HIDDEN: list[Event] = [
    ReasoningDelta(text="hm"),
    TextRetracted(id="m"),
    ToolInputDelta(call_id="c", text="{"),
    ToolProgress(call_id="c", text="50 %"),
    TasksChanged(tasks=[Task(text="a")]),
    Compacted(),
    Warning(message="w"),
    Info(message="i"),
    Unknown(raw={"type": "new"}),
    Unrecognized(unread={"type": "Later"}),
    StepStart(id="s"),
    StepEnd(id="s"),
    RelayReply(id="r", approved=True, by="policy"),
    ReplInput(id="p", code="1"),
    ReplProgress(id="p", text="x"),
    ReplOutput(id="p"),
    *steered("x"),
]


@pytest.mark.parametrize(("event", "line"), EXACT, ids=lambda value: type(value).__name__)
def test_each_type_is_written_exactly_so(event: Event, line: str) -> None:
    assert shown("stream", event, usage=True) == line + "\n"


@pytest.mark.parametrize("event", HIDDEN, ids=lambda event: type(event).__name__)
def test_what_the_format_has_no_word_for_is_left_out(event: Event) -> None:
    assert shown("stream", event, usage=True) == ""


def test_a_question_that_waits_and_the_end_of_the_wait_are_written() -> None:
    events = [
        SessionStart(agent="native", run_id="log"),
        Relay(id="q", run_id="log", call_id="c", tool_name="bash", input={"command": "make"}, timestamp_ms=1),
        RelayReply(id="q", run_id="log", approved=False, reason="no", timestamp_ms=2),
        RelayReply(id="q", run_id="log", approved=True, timestamp_ms=3),
    ]
    asked = (
        '{"type":"Relay","timestamp_ms":1,"id":"q","kind":"permission","log_id":"log","call_id":"c",'
        '"tool_name":"bash","input":"{\\"command\\":\\"make\\"}"}'
    )
    assert shown("stream", *events).split("\n")[1:] == [
        asked,
        '{"type":"RelayReply","timestamp_ms":2,"id":"q","approved":false,"by":"person","reason":"no"}',
        "",
    ]


def test_usage_is_written_only_on_request() -> None:
    assert shown("stream", UsageDelta(usage=USAGE)) == ""


def test_an_event_without_a_stamp_is_written_at_zero() -> None:
    assert shown("stream", TextDelta(text="x")) == '{"type":"TextDelta","timestamp_ms":0,"text":"x"}\n'


@pytest.mark.parametrize("value", [{"a": [1, None]}, "plain", [], 0, False, {"k": "漢\n"}])
def test_the_input_of_a_tool_is_a_string_of_json(value: object) -> None:
    line = json.loads(shown("stream", ToolStart(call_id="c", tool_name="t", input=value)))

    assert isinstance(line["input"], str)
    assert json.loads(line["input"]) == value


@pytest.mark.parametrize("top", ["", "0198-top"], ids=["unstamped", "stamped"])
def test_a_child_run_is_written_without_its_own_start_and_result(top: str) -> None:
    lines = _types(
        SessionStart(session_id="parent", agent="claude", run_id=top),
        ToolStart(call_id="call_1", tool_name="Task", run_id=top),
        SessionStart(session_id="child", agent="claude", run_id="kid", parent_id="call_1"),
        TextDelta(text="child", run_id="kid"),
        Message(role="assistant", text="child", run_id="kid"),
        ToolStart(call_id="call_2", tool_name="Read", run_id="kid"),
        ToolEnd(call_id="call_2", tool_name="Read", success=True, run_id="kid"),
        Error(message="child", run_id="kid"),
        Result(success=True, text="child", run_id="kid"),
        ToolEnd(call_id="call_1", tool_name="Task", success=True, run_id=top),
        Result(success=True, text="parent", run_id=top),
    )

    assert [line["type"] for line in lines] == [
        "SessionStart",
        "ToolStart",
        "TextDelta",
        "Message",
        "ToolStart",
        "ToolEnd",
        "Error",
        "ToolEnd",
        "Result",
    ]
    assert lines[-1]["text"] == "parent"
    assert lines[-1]["session_id"] == "parent"


def test_a_child_that_was_not_announced_is_still_a_child() -> None:
    lines = _types(
        SessionStart(session_id="parent", agent="codex"),
        SessionStart(run_id="orphan"),
        Result(success=True, run_id="orphan"),
        Result(success=True, text="parent"),
    )

    assert [line["type"] for line in lines] == ["SessionStart", "Result"]


@pytest.mark.parametrize(("output", "success"), [("hi", True), ("", True), (None, False)])
def test_a_call_without_a_reported_success_succeeded_if_it_was_answered(
    output: str | None, success: bool
) -> None:
    [line] = _types(ToolEnd(call_id="c", tool_name="shell", output=output, **AT))

    assert line["success"] is success


def test_the_result_carries_the_session_of_the_start() -> None:
    lines = _types(SessionStart(session_id="s-1", agent="claude"), Result(success=True))

    assert lines[-1]["session_id"] == "s-1"


def test_a_session_that_became_known_later_counts() -> None:
    lines = _types(SessionStart(session_id="ours", agent="copilot"), Result(success=True, session_id="s-2"))

    assert lines[-1]["session_id"] == "s-2"


def test_half_a_character_and_endless_nesting_are_written_as_far_as_json_can() -> None:
    deep: list[Any] = []
    for _ in range(3000):
        deep = [deep]
    lines = _types(
        TextDelta(text="a\ud800b"),
        ToolStart(call_id="c", tool_name="t", input={"deep": deep, "half": "\udfff"}),
        ToolEnd(call_id="c", tool_name="t", success=True, output="\ud83d"),
    )

    assert lines[0]["text"] == "a\ufffdb"
    assert json.loads(lines[1]["input"])["half"] == "\ufffd"
    assert lines[2]["output"] == "\ufffd"


def test_a_claude_run_reads_as_the_format_promises() -> None:
    lines = _types(
        SessionStart(session_id="mock-session", agent="claude", model="m", cwd="/w", timestamp_ms=1),
        Message(role="user", text="analyze", timestamp_ms=1),
        Message(role="assistant", text="Looking.", id="msg_1", timestamp_ms=2),
        UsageDelta(usage=Usage(input=3), timestamp_ms=2),
        Result(success=True, text="Analysis complete.", timestamp_ms=3),
    )

    assert [(line["type"], line.get("role"), line.get("text")) for line in lines] == [
        ("SessionStart", None, None),
        ("Message", "user", "analyze"),
        ("Message", "assistant", "Looking."),
        ("Result", None, "Analysis complete."),
    ]
    assert lines[-1]["session_id"] == "mock-session"
    assert all(line["timestamp_ms"] > 0 for line in lines)


def test_a_codex_run_with_usage_reads_as_the_format_promises() -> None:
    lines = _types(
        SessionStart(session_id="th-mock", agent="codex"),
        Message(role="user", text="go"),
        Message(role="assistant", text="on it"),
        ToolStart(call_id="item_1", tool_name="shell", input={"command": "ls"}),
        ToolEnd(call_id="item_1", tool_name="shell", success=True, output="a\n", exit_code=0),
        UsageDelta(usage=Usage(input=600, cache_read=900, output=48, reasoning=16)),
        Result(success=True, text="on it"),
        usage=True,
    )

    assert [line["type"] for line in lines] == [
        "SessionStart",
        "Message",
        "Message",
        "ToolStart",
        "ToolEnd",
        "UsageDelta",
        "Result",
    ]
    assert lines[5]["usage"] == {"input_tokens": 600, "output_tokens": 64, "cache_read_tokens": 900}


def test_a_run_that_never_began_ends_with_its_error_and_result() -> None:
    lines = _types(
        SessionStart(agent="claude"),
        Error(message="agent binary not found: claude", code="agent_not_found"),
        Result(success=False, outcome="agent_not_found"),
    )

    assert [line["type"] for line in lines] == ["SessionStart", "Error", "Result"]
    assert lines[0]["session_id"] == ""


def _types(*events: Event, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown("stream", *events, **options).split("\n") if line]


def test_the_end_of_a_logged_run_names_its_log() -> None:
    lines = shown(
        "stream",
        SessionStart(session_id="s", agent="a", run_id="log"),
        Result(success=True, run_id="log", log_id="log"),
    )
    end = json.loads(lines.split("\n")[1])

    assert (end["session_id"], end["agent_session_id"], end["log_id"]) == ("s", "s", "log")
