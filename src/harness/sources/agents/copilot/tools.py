"""What the tools of Copilot mean, and what their results tell beyond what was asked for."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from harness.events.operation import List, Operation, Read, Skill, Spawn, Tasks, Write
from harness.sources.formats.fields import count_of, exit_code_of, items_of, record_of, text_of
from harness.sources.formats.meanings import (
    Input,
    Meaning,
    fetching,
    keeping_tasks,
    nothing,
    patching,
    reading,
    running,
    searching,
    spawning,
    using_skill,
    writing,
)
from harness.sources.formats.meanings import meaning_of as _meaning_of
from harness.sources.formats.outputs import output_of
from harness.sources.formats.paths import absolute
from harness.sources.formats.toolset import Call, Verdict
from harness.sources.formats.unified_diff import changed_lines

SPAWNERS = frozenset({"task"})
_SHELLS = frozenset({"bash", "powershell", "shell"})
_CHANGES = {"create": "create", "edit": "update", "delete": "delete", "move": "move", "rename": "move"}
_TODO_TABLE = re.compile(r"\btodos?\b|\btodo_deps\b", re.IGNORECASE)
_EXIT_LINE = re.compile(
    r"(?:\A|\n)<(?:exited|shellId: [^\s>]{1,40} completed) with exit code (\d{1,9})>\s*\Z"
)
"""The last line of what a command gives back, which Copilot adds: until 1.0.50 all that it says of the end."""
_TRAILER_LENGTH = 120
_FILE_DIFF = re.compile(r"^diff --git ", re.MULTILINE)


def _view(asked: Input, cwd: str) -> list[Operation] | None:
    path = absolute(text_of(asked.get("path")), cwd)
    lines = [*items_of(asked.get("view_range")), None, None]
    # The last line may be -1: to the end of the file.
    start, end = count_of(lines[0]) or None, count_of(lines[1]) or None
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _query_database(asked: Input, _cwd: str) -> list[Operation]:
    """The to-do list is a table of the session's own database."""
    return [Tasks()] if _TODO_TABLE.search(text_of(asked.get("query"))) else []


def _edit_or_view(asked: Input, cwd: str) -> list[Operation] | None:
    """One tool for all that is done to files, in earlier versions."""
    meaning = _view if asked.get("command") == "view" else writing("path")
    return meaning(asked, cwd)


_TOOLS: dict[str, Meaning] = {
    **dict.fromkeys(_SHELLS, running("command")),
    "view": _view,
    "show_file": reading("path"),
    "create": writing("path", change="create"),
    "edit": writing("path", change="update"),
    "str_replace": writing("path", change="update"),
    "insert": writing("path", change="update"),
    "str_replace_editor": _edit_or_view,
    "apply_patch": patching("input", "patch"),
    "grep": searching("pattern", paths=("paths", "path")),
    "rg": searching("pattern", paths=("paths", "path")),
    "glob": searching("pattern", paths=("paths", "path")),
    "skill": using_skill("skill", "name"),
    "task": spawning("description", "prompt", names=("agent_type", "name")),
    "web_fetch": fetching,
    "web_search": fetching,
    "sql": _query_database,
    "update_todo": keeping_tasks,
} | dict.fromkeys(
    (
        "ask_user",
        "exit_plan_mode",
        "fetch_copilot_cli_documentation",
        "list_agents",
        "list_bash",
        "list_powershell",
        "read_agent",
        "read_bash",
        "read_powershell",
        "report_intent",
        "session_store_sql",
        "stop_bash",
        "stop_powershell",
        "store_memory",
        "task_complete",
        "think",
        "write_agent",
        "write_bash",
        "write_powershell",
    ),
    nothing,
)


def meaning_of(name: str, asked: Any, cwd: str) -> list[Operation] | None:
    """The operations of a call; None when nobody knows what it means. A patch comes as mere text."""
    return _meaning_of(_TOOLS, name, {"input": asked} if isinstance(asked, str) else asked, cwd)


def verdict_of(call: Call, data: Input, output: str) -> Verdict:
    """A command that failed is a success of the tool that ran it; here only its exit code makes it one."""
    is_success = data.get("success")
    is_success = is_success if isinstance(is_success, bool) else None
    if call.name not in _SHELLS:
        return is_success, None
    stated = exit_code_of(record_of(data.get("shellExecution")).get("exitCode"))
    if stated is None and (told := _EXIT_LINE.search(output[-_TRAILER_LENGTH:])) is not None:
        stated = int(told[1])
    if is_success is False:
        return False, stated or None
    return (None if stated is None else stated == 0), stated


def output_of_result(data: Input) -> str:
    result, error = data.get("result"), data.get("error")
    if isinstance(result, dict):
        result = result.get("content") or result.get("contents")
    return output_of(result) or text_of(record_of(error).get("message")) or output_of(error)


def told_by_result(call: Call, data: Input, skills: dict[str, str], agent_id: str) -> list[Operation] | None:
    """The operations as a result tells them; None when it tells nothing better."""
    found = _changed_files(data) or [
        _told(operation, data, skills, agent_id) for operation in call.operations
    ]
    return None if found == call.operations else found


def _told(operation: Operation, data: Input, skills: dict[str, str], agent_id: str) -> Operation:
    match operation:
        case Read() if _properties(data).get("viewType") == "directory":
            return List(path=operation.path)
        case Skill() if operation.name in skills:
            return replace(operation, path=skills[operation.name])
        case Spawn() if agent_id:
            return replace(operation, agent_id=agent_id)
        case _:
            return operation


def _properties(data: Input) -> Input:
    return record_of(record_of(data.get("toolTelemetry")).get("properties"))


def _changed_files(data: Input) -> list[Operation]:
    edits = [record_of(edit) for edit in items_of(data.get("fileEdits"))]
    diffs = _FILE_DIFF.split(text_of(record_of(data.get("result")).get("detailedContent")))[1:]
    found: list[Operation] = []
    for number, edit in enumerate(edits):
        path, change = text_of(edit.get("path")), _CHANGES.get(text_of(edit.get("kind")), "")
        has_lines = change != "delete" and len(diffs) == len(edits)
        start, end = (changed_lines(diffs[number]) if has_lines else None) or (None, None)
        if path:
            found.append(Write(path=path, start_line=start, end_line=end, change=change))
    return found
