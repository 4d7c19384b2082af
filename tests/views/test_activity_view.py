"""The activity view: one event per operation, and `unknown` for whatever has no type of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.events import Event, Message, Result, SessionStart, ToolEnd, ToolStart
from harness.events.operation import Command, Fetch, Operation, Spawn, Tasks
from showing import shown

START = SessionStart(run_id="r", session_id="s", agent="claude")


def activities(*events: Event) -> list[dict[str, Any]]:
    lines = shown("activity", START, *events).splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timestamp"} for line in lines]


def call(
    *operations: Operation, name: str = "tool", success: bool | None = True, **end: Any
) -> tuple[Event, Event]:
    return (
        ToolStart(run_id="r", call_id="c", tool_name=name, input={"a": 1}, operations=list(operations)),
        ToolEnd(run_id="r", call_id="c", tool_name=name, success=success, **end),
    )


UNKNOWN = {"sessionId": "s", "type": "unknown", "raw": {"tool": "ask", "input": {"a": 1}}}


@pytest.mark.parametrize("operations", [[], [Fetch(url="http://x")]])
def test_a_call_that_has_no_type_here_is_unknown_and_not_lost(operations: list[Operation]) -> None:
    assert activities(*call(*operations, name="ask")) == [UNKNOWN]


def test_a_tool_that_no_rule_knows_is_emitted_once_with_its_own_record() -> None:
    start = ToolStart(run_id="r", call_id="c", tool_name="new", raw={"native": 1})
    end = ToolEnd(run_id="r", call_id="c", tool_name="new", success=True)

    assert activities(start, end) == [{"sessionId": "s", "type": "unknown", "raw": {"native": 1}}]


def test_a_record_that_comes_with_the_end_of_a_call_is_emitted_once_too() -> None:
    assert activities(*call(name="mcp__a__b", raw={"native": 2})) == [
        {"sessionId": "s", "type": "unknown", "raw": {"native": 2}}
    ]


def test_the_agents_own_lists_and_its_answer_are_no_activity() -> None:
    assert not activities(*call(Tasks(), name="TodoWrite"))
    assert not activities(*call(name="StructuredOutput", operations=[]))
    assert not activities(*call(Command(command="make"), name="bash", success=False, operations=[]))


def test_a_sub_agent_whose_call_failed_did_not_start() -> None:
    failed = {"type": "orchestration", "action": "subagent_failed", "subagentName": "x", "isSuccess": False}

    assert activities(*call(Spawn(name="x"), success=False)) == [{"sessionId": "s", **failed}]


def test_a_sub_agent_that_is_a_run_is_emitted_by_its_run_alone() -> None:
    start, end = call(Spawn(name="x", agent_id="a"))
    child = SessionStart(run_id="k", parent_id="c", session_id="a", name="x")
    found = activities(start, child, Result(run_id="k", success=False, outcome="failed"), end)

    assert [each["action"] for each in found] == ["subagent_started", "subagent_failed"]


def test_for_a_person_an_unknown_call_is_a_line_too() -> None:
    said = Message(run_id="r", role="assistant", text="hi")

    assert shown("activity", START, said, *call(name="ask"), human=True) == (
        '  agent   hi\n  ·       {"tool":"ask","input":{"a":1}}\n'
    )
