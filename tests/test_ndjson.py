"""What a run writes into a pipe can be read back and added up, in either spelling."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.ndjson import extract_tool_calls, one_line, read, sum_costs, total_tokens

LINES = [
    '{"type":"SessionStart","timestamp_ms":1,"session_id":"s1","agent":"claude"}',
    '{"type":"tool_start","call_id":"a","tool_name":"Bash","input":"{}"}',
    "",
    '{"type":"ToolStart","call_id":"a","tool_name":"Bash","input":"{\\"again\\":1}"}',
    '{"type":"ToolEnd","call_id":"a","tool_name":"Bash","success":true,"output":"one"}',
    '{"type":"ToolStart","call_id":"b","tool_name":"Read"}',
    '{"type":"usage_delta","usage":{"input_tokens":100,"output_tokens":5,"cost_usd":0.01}}',
    '{"type":"UsageDelta","usage":{"input_tokens":200,"cost_usd":0.02}}',
    '{"type":"Error","message":"no"}',
    '{"type":"Result","success":true,"text":"Done.","session_id":"s1","total_cost_usd":0.05}',
    "",
]


def test_costs_and_tokens_add_up() -> None:
    events = list(read(LINES))
    assert sum_costs(events) == pytest.approx(0.08)
    assert total_tokens(events) == (300, 5)


def test_each_call_takes_the_first_end_that_is_left() -> None:
    calls = extract_tool_calls(read(LINES))
    assert [(call.id, call.name, call.success, call.output) for call in calls] == [
        ("a", "Bash", True, "one"),
        ("a", "Bash", None, ""),
        ("b", "Read", None, ""),
    ]


def test_an_event_is_one_line() -> None:
    assert [one_line(event) for event in read(LINES)] == [
        "[session:s1] agent=claude",
        "[tool:start] Bash(a)",
        "[tool:start] Bash(a)",
        "[tool:ok] Bash(a)",
        "[tool:start] Read(b)",
        "[usage] 100 in / 5 out",
        "[usage] 200 in / 0 out",
        "[error] no",
        "[result:success] Done.",
    ]


def test_a_missing_time_is_zero() -> None:
    assert [event["timestamp_ms"] for event in read(LINES)][:2] == [1, 0]


@pytest.mark.parametrize("line", ["no JSON", "[]", "{}", '{"type":1}', b'{"type":"\xff"}'])
def test_what_is_no_event_is_named_with_its_line(line: str | bytes) -> None:
    with pytest.raises(UsageError, match="line 1 is no"):
        list(read([line]))
