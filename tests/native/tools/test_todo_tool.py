"""The to-do list of the agent of our own: what it takes, and what the model is sent about what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import Task
from harness.events.operation import Tasks
from harness.native.tools.todo import TodoTool
from harness.session.workspaces import DirectoryWorkspace, WorkspaceConfig
from tool_kit import Bench


def test_the_whole_list_is_taken_in_order(bench: Bench) -> None:
    todos = [
        {"content": "a", "status": "completed", "id": "1", "priority": "high"},
        {"text": " b ", "status": "in_progress"},
        {"content": "c", "status": "in_progress"},
        {"content": "d"},
    ]
    output = bench.call(TodoTool(), todos=todos)
    assert output.tasks == [
        Task(text="a", status="completed"),
        Task(text="b", status="in_progress"),
        Task(text="c", status="in_progress"),
        Task(text="d"),
    ]
    assert output.text == "The list is kept: 1 of 4 completed.\nin progress: b\nin progress: c"
    assert bench.call(TodoTool(), todos=[]).text == "The list is empty."


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "`todos` (arguments: todos)"),
        ({"todos": "a, b"}, "Expected `array`, got `str` - at `$.todos`"),
        ({"todos": [3]}, "got `int` - at `$.todos[0]`"),
        ({"todos": [{"status": "pending"}]}, "`content` - at `$.todos[0]`"),
        ({"todos": [{"content": ""}]}, "at `$.todos[0].content`"),
        ({"todos": [{"content": "a"}, {"content": " \n"}]}, "`$.todos[1].content` is blank"),
        ({"todos": [{"content": 3, "status": None}]}, "`$.todos[0]."),
        ({"todos": [{"content": "a", "status": "later"}]}, "'later'"),
    ],
)
def test_a_list_that_is_none_is_refused_in_words(arguments: Any, words: str, bench: Bench) -> None:
    emitted = bench.refused(TodoTool(), **arguments)
    assert words in emitted
    assert "The list is as it was. Each entry has content" in emitted
    assert TodoTool().operations(arguments) == [Tasks()]


def test_its_entries_are_described_where_they_are_used() -> None:
    entry = TodoTool().spec.schema["properties"]["todos"]["items"]
    assert set(entry["properties"]) == {"content", "status"}
    assert entry["required"] == ["content"]
    assert sorted(entry["properties"]["status"]["enum"]) == ["completed", "in_progress", "pending"]


def test_a_session_with_task_tools_of_its_own_is_not_given_it(bench: Bench) -> None:
    workspace = DirectoryWorkspace(WorkspaceConfig(cwd=str(bench.root)))
    assert {"todo", "agent"}.isdisjoint(tool.spec.name for tool in workspace.tools())
