"""Toolset: a tool call and its result as operations."""

from __future__ import annotations

from typing import Any

import pytest

from harness.agents.registry import load
from harness.contracts.toolset import (
    Input,
    PendingCall,
    Toolset,
    no_operation,
    reading,
    running,
    searching,
    writing,
)
from harness.events.operation import Operation, Read, Write

RECORD = {"type": "call"}


def _created(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    asked = call.operation
    return [Write(path=asked.path, change="create")] if isinstance(asked, Write) and detail else None


OTTER = Toolset(
    tools={"sh": running("command"), "view": reading("path"), "write": writing("path"), "plan": no_operation},
    results={"write": _created},
    shells=frozenset({"sh"}),
    key=str.lower,
)


def test_a_call_has_the_operations_of_its_input_seen_from_the_working_directory() -> None:
    call, start = OTTER.start("c1", "view", {"path": "a.py", "offset": 2, "limit": 3}, "/w", RECORD)

    assert start.operations == call.operations == [Read(path="/w/a.py", start_line=2, end_line=4)]
    assert (start.call_id, start.tool_name, start.raw) == ("c1", "view", None)


def test_the_operations_of_a_tool_that_is_not_in_the_table_are_unknown() -> None:
    _, start = OTTER.start("c1", "demo__count", {"n": 1}, "/w", RECORD, run_id="child")

    assert (start.operations, start.raw, start.run_id) == ([], RECORD, "child")


def test_so_are_those_of_an_input_that_the_tool_does_not_take() -> None:
    for asked in ({"file": "a.py"}, "a.py", None):
        assert OTTER.operations("view", asked, "/w") is None


def test_a_known_tool_may_have_no_operation() -> None:
    _, start = OTTER.start("c1", "plan", {}, "/w", RECORD)

    assert (start.operations, start.raw) == ([], None)


def test_names_are_looked_up_by_their_key_and_shown_as_they_are() -> None:
    _, start = OTTER.start("c1", "View", {"path": "a.py"}, "/w", RECORD)

    assert (start.tool_name, start.operations) == ("View", [Read(path="/w/a.py")])


def test_the_table_may_be_given_other_arguments_than_the_event() -> None:
    call, start = OTTER.start("c1", "write", "a.py", "/w", RECORD, arguments={"path": "a.py"})

    assert (start.input, call.input, start.operations) == ("a.py", {}, [Write(path="/w/a.py")])


def test_a_result_may_know_better() -> None:
    call, _ = OTTER.start("c1", "Write", {"path": "a.py"}, "/w", RECORD)

    assert OTTER.operations_after(call, {"new": True}, "") == [Write(path="/w/a.py", change="create")]
    assert OTTER.operations_after(call, {}, "") is None
    assert OTTER.operations_after(PendingCall("c2", "sh", {}, "", "/w"), {"new": True}, "") is None


_HOSTILE_PATCH = "*** Begin Patch\n*** Add File: .claude/settings.json\n+x\n*** End Patch"


@pytest.mark.parametrize(
    ("agent", "tool", "arguments", "path"),
    [
        ("opencode", "apply_patch", {"patchText": _HOSTILE_PATCH, "path": "a"}, ".claude/settings.json"),
        ("kilo", "patch", {"patchText": _HOSTILE_PATCH, "filePath": "a"}, ".claude/settings.json"),
        ("cline", "apply_patch", {"input": _HOSTILE_PATCH, "path": "a"}, ".claude/settings.json"),
        ("cline", "read_files", {"files": [{"path": "a"}], "paths": ["/etc/passwd"]}, "/etc/passwd"),
        ("kimi", "Glob", {"pattern": "*", "path": ".", "directory": "/etc"}, "/etc"),
    ],
)
def test_all_paths_of_a_call_count_whichever_argument_names_them(
    agent: str, tool: str, arguments: dict[str, Any], path: str
) -> None:
    two_way = load(agent).two_way
    assert two_way is not None
    assert path in two_way.tools.call(tool, arguments, "/w").paths


@pytest.mark.parametrize("glob", [".{.,}/.{.,}/etc/passwd", ".\\./x", "{.,a}{.,b}/x", "@(.).(.)/x"])
def test_a_glob_that_may_climb_is_in_doubt(glob: str) -> None:
    table = Toolset(tools={"glob": searching("pattern", globs=("pattern",))})
    assert table.call("glob", {"pattern": glob}, "/w").doubt


@pytest.mark.parametrize(
    "glob", ["**/*.{ts,tsx}", "src/**", ".github/**/*.yml", "**/.*", "{.github,.vscode}/*"]
)
def test_a_glob_that_stays_below_its_folder_is_certain(glob: str) -> None:
    table = Toolset(tools={"glob": searching("pattern", globs=("pattern",))})
    assert not table.call("glob", {"pattern": glob}, "/w").doubt
