"""What the model was scripted to do, and the recording shows, is in the activities: command, file, search, list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import recorded_runs
from harness.events import Event, Operation, ToolStart
from harness.events.operation import Command, List, Read, Search, Tasks, Write
from harness.formats.shell import operations_of
from harness.stage import ViewOptions
from harness.testing.golden import Case, translate
from harness.views import activity

CASES = [
    case
    for case in recorded_runs.CASES
    # An answer in plain text says in words what was done: there is no call in it to find.
    if case.meta.script and case.stdout.lstrip().startswith((b"{", b"["))
]
COMMAND_KEYS = ("command", "cmd")
PLACE_KEYS = ("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "dir_path")
TEXT_KEYS = ("pattern", "query")


def scripted_calls(script: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call in a script, however it is written down."""
    if isinstance(script, list):
        for item in script:
            yield from scripted_calls(item)
    elif isinstance(script, dict):
        name = script.get("tool", script.get("name"))
        arguments = script.get("input", script.get("args"))
        if isinstance(name, str) and isinstance(arguments, dict):
            yield name, arguments
        for item in script.values():
            yield from scripted_calls(item)


def is_shown(value: str, stdout: str) -> bool:
    """Whether the recording itself shows it: what an agent hides cannot be found."""
    return bool(value.strip()) and json.dumps(value, ensure_ascii=False)[1:-1] in stdout


def activities_of(events: list[Event]) -> list[dict[str, Any]]:
    view = activity.open(ViewOptions())
    lines = [line for event in events for line in view.feed(event)]
    return [json.loads(line) for line in lines]


def bookkeeping_in(events: list[Event]) -> set[str]:
    """Tools that a rule knows to touch nothing on the machine: searching for tools, keeping lists …"""
    starts = [event for event in events if isinstance(event, ToolStart)]
    telling = {
        event.tool_name
        for event in starts
        if event.raw is not None or any(is_reported(each) for each in event.operations)
    }
    return {event.tool_name for event in starts} - telling


def is_reported(operation: Operation) -> bool:
    return not isinstance(operation, Tasks)


def holds_command(found: list[dict[str, Any]], command: str) -> bool:
    """The command itself, or the file operations that it amounts to."""
    if any(
        command in str(each.get("command", "")) or command in json.dumps(each.get("raw", ""))
        for each in found
    ):
        return True
    return all(holds_operation(found, operation) for operation in operations_of(command))


def holds_operation(found: list[dict[str, Any]], operation: Any) -> bool:
    match operation:
        case Command():
            return False
        case Search():
            return any(each.get("query") == operation.query for each in found)
        case Read() | Write() | List():
            return any(str(each.get("path", "")).endswith(operation.path.lstrip("./")) for each in found)
        case _:
            return True


def holds_text(found: list[dict[str, Any]], value: str) -> bool:
    wanted = value.lstrip("./") or value
    return any(wanted in json.dumps(each, ensure_ascii=False) for each in found)


@recorded_runs.each(CASES)
def test_every_scripted_operation_that_is_shown_is_found(case: Case) -> None:
    stdout = case.stdout.decode("utf-8", "replace")
    _, events = translate(case)
    found = activities_of(events)
    ignored = bookkeeping_in(events)
    missing = []
    for name, arguments in scripted_calls(case.meta.script):
        if name in ignored:
            continue
        for key, value in arguments.items():
            if not isinstance(value, str) or not is_shown(value, stdout):
                continue
            if key in COMMAND_KEYS and not holds_command(found, value):
                missing.append((name, key, value))
            if key in (*PLACE_KEYS, *TEXT_KEYS) and not holds_text(found, value):
                missing.append((name, key, value))
    assert not missing
