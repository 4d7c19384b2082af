"""The tools of Droid. Results are text; those of tools that change files hold JSON with the changed lines."""

from __future__ import annotations

import re

from msgspec.structs import replace

from harness.events import Task
from harness.events.operation import Operation, Read, Write
from harness.sources.formats.fields import absolute, count_of, decoded, items_of, record_of, text_of
from harness.sources.formats.patches import changed_lines
from harness.sources.formats.toolset import (
    Input,
    PendingCall,
    ToolMapping,
    Toolset,
    consistent_exit_code,
    fetching,
    lines_of,
    listing,
    no_operation,
    patching,
    reading,
    running,
    searching,
    spawning,
    tasks_of,
    tracking_tasks,
    using_skill,
    writing,
)

SHELL = "Execute"
SPAWNER = "Task"
TODO_LISTS = frozenset({"TodoWrite"})

_EXIT_CODE = re.compile(r"(?:\A|\n)\[Process exited with code (\d{1,9})\]\s*\Z")
_SHOWN_LINES = re.compile(r"\[Showing lines (\d{1,9})-(\d{1,9}) of \d+ total lines\]")
_TRAILER_LENGTH = 200
_TODO = re.compile(r"^\s*(?:\d+\.|[-*])?\s*\[(completed|in_progress|pending| |x)\]\s*(.+)$", re.MULTILINE)
_TODO_STATUSES = {"x": "completed", " ": "pending"}


def _patch(asked: Input, cwd: str) -> list[Operation] | None:
    """Models that were not made for it wrap the patch into JSON once more."""
    text = text_of(asked.get("input"))
    inner = record_of(decoded(text)) if text.startswith("{") else {}
    return patching("input")(inner or asked, cwd)


_TOOLS: dict[str, ToolMapping] = {
    SHELL: running("command"),
    "Read": reading("file_path", "path"),
    "LS": listing("directory_path", "path"),
    "Edit": writing("file_path", "path", change="update"),
    "MultiEdit": writing("file_path", "path", change="update"),
    "Create": writing("file_path", "path", change="create"),
    "ApplyPatch": _patch,
    "Grep": searching("pattern"),
    "Glob": searching("patterns", "pattern", paths=("folder", "path")),
    "Skill": using_skill("skill", "name"),
    SPAWNER: spawning("description", "prompt", names=("subagent_type",)),
    "WebSearch": fetching,
    "FetchUrl": fetching,
    **dict.fromkeys(TODO_LISTS, tracking_tasks),
} | dict.fromkeys(
    (
        "AskUser",
        "ConnectorSearch",
        "ExitMissionPlanning",
        "ExitSpecMode",
        "GenerateImage",
        "RecommendMission",
        "TaskOutput",
        "TaskStop",
        "ToolSearch",
    ),
    no_operation,
)


def exit_code_of(name: str, output: str, *, is_success: bool | None) -> int | None:
    return (
        consistent_exit_code(is_success, _EXIT_CODE.search(output[-_TRAILER_LENGTH:]))
        if name == SHELL
        else None
    )


def todo_list_of(asked: Input) -> list[Task] | None:
    """A list, or text with a line per task."""
    todos = asked.get("todos")
    if not isinstance(todos, str):
        return tasks_of(todos)
    found = [
        {"content": text.strip(), "status": _TODO_STATUSES.get(mark, mark)}
        for mark, text in _TODO.findall(todos)
    ]
    return tasks_of(found) if found else None


def _read_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    asked, shown = call.operation, _SHOWN_LINES.search(output[-_TRAILER_LENGTH:])
    if shown is None or not isinstance(asked, Read):
        return None
    return [replace(asked, start_line=int(shown[1]), end_line=int(shown[2]))]


def _edit_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    asked = call.operation
    lines = [record_of(line) for line in items_of(detail.get("diffLines"))]
    numbers = [
        number
        for line in lines
        if line.get("type") == "added" and (number := count_of(record_of(line.get("lineNumber")).get("new")))
    ]
    if not numbers or not isinstance(asked, Write):
        return None
    return [replace(asked, start_line=min(numbers), end_line=max(numbers))]


def _create_result(call: PendingCall, _detail: Input, _output: str) -> list[Operation] | None:
    asked = call.operation
    start, end = lines_of(text_of(call.input.get("content")))
    return [replace(asked, start_line=start, end_line=end)] if isinstance(asked, Write) else None


def _patch_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    found: list[Operation] = []
    for item in items_of(detail.get("files")):
        file = record_of(item)
        path = absolute(text_of(file.get("file_path")), call.cwd)
        change = text_of(file.get("display_operation"))
        start, end = changed_lines(text_of(file.get("diff"))) or lines_of(text_of(file.get("content")))
        if path:
            found.append(Write(path=path, start_line=start, end_line=end, change=change))
    return found or None


DROID = Toolset(
    tools=_TOOLS,
    results={
        "Read": _read_result,
        "Edit": _edit_result,
        "MultiEdit": _edit_result,
        "Create": _create_result,
        "ApplyPatch": _patch_result,
    },
    spawners=frozenset({SPAWNER}),
)
"""Results are text; those of tools that change files hold JSON with the changed lines."""
