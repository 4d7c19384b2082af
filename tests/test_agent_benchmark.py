"""The tasks of `make bench-agent`: their checks tell a right solution from a wrong one, through both doors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks" / "agent"))

import run as bench  # the programs are no package
from tasks import TASKS

QUICK = ("bug-with-trace", "crlf", "nested-instructions")


def test_there_are_twenty_tasks_each_with_a_right_and_a_wrong_solution() -> None:
    assert len({task.name for task in TASKS}) == 20
    assert [task.name for task in TASKS if not (task.good and task.wrong)] == ["sixty-messages"]
    assert len(next(task for task in TASKS if task.more_prompts).more_prompts) == 59


@pytest.mark.parametrize("name", QUICK)
def test_a_check_tells_right_from_wrong_in_run_and_chat(name: str) -> None:
    [task] = [task for task in TASKS if task.name == name]
    assert bench.prove([task]) == []


def test_what_was_said_first_survives_sixty_messages_in_a_small_window() -> None:
    [task] = [task for task in TASKS if task.more_prompts]
    assert bench.prove_long(task, ["chat"]) == []


def test_what_a_try_used_is_counted() -> None:
    events = [
        {"type": "StepStart", "id": "1"},
        {"type": "UsageDelta", "usage": {"input": 10, "cache_read": 90, "output": 5}},
        {"type": "ToolEnd", "tool_name": "edit", "success": False},
        {"type": "ToolEnd", "tool_name": "read", "success": True},
    ]
    found = bench.counted(events, is_passed=True, trouble="")
    assert (found.steps, found.read_tokens, found.cached_tokens, found.written_tokens) == (1, 100, 90, 5)
    assert dict(found.failed_calls) == {"edit": 1}
