"""What the tools of Claude Code mean, and what their results tell beyond what was asked for.

`TOOLS` says it from a call's input, `CORRECTIONS` again when the result knows better: real line
ranges, created or updated, files that a shell command changed besides.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from harness.events.operation import Fetch, List, Operation, Read, Search, Skill, Spawn, Tasks, Write
from harness.sources.dialects.fields import count_of, first_text, items_of, record_of, text_of
from harness.sources.dialects.meanings import Input, Meaning, nothing
from harness.sources.dialects.paths import absolute
from harness.sources.dialects.shell import operations_of
from harness.sources.dialects.toolset import Call, Correction, Toolset, lines_of

SHELLS = frozenset({"Bash", "PowerShell"})
SPAWNERS = frozenset({"Task", "Agent"})
SKILLS = frozenset({"Skill"})
ANSWERS = frozenset({"StructuredOutput"})
"""Hand over the answer as data: the result tells it, and nothing else was done."""


def _read(input: Input, cwd: str) -> list[Operation] | None:
    path = first_text(input, "file_path", "path", "notebook_path")
    start = count_of(input.get("offset", input.get("start_line"))) or None
    limit = count_of(input.get("limit", input.get("line_count"))) or None
    end = start + limit - 1 if start and limit else None
    return [Read(path=absolute(path, cwd), start_line=start, end_line=end)] if path else None


def _write(input: Input, cwd: str) -> list[Operation] | None:
    path = first_text(input, "file_path", "filePath", "path", "notebook_path", "notebookPath")
    return [Write(path=absolute(path, cwd))] if path else None


def _search(input: Input, cwd: str) -> list[Operation] | None:
    query = first_text(input, "pattern", "query", "glob")
    return [Search(query=query, path=absolute(text_of(input.get("path")), cwd))] if query else None


def _list(input: Input, cwd: str) -> list[Operation]:
    return [List(path=absolute(text_of(input.get("path")), cwd))]


def _run(input: Input, cwd: str) -> list[Operation] | None:
    command = first_text(input, "command", "cmd")
    return operations_of(command, cwd) if command else None


def _skill(input: Input, cwd: str) -> list[Operation] | None:
    name = first_text(input, "skill", "skill_name", "command", "name").removeprefix("/")
    return [Skill(path=absolute(f"skills/{name}/SKILL.md", cwd), name=name)] if name else None


def _spawn(input: Input, _cwd: str) -> list[Operation] | None:
    task = first_text(input, "description", "prompt")
    name = text_of(input.get("subagent_type"))
    return [Spawn(name=name, task=task)] if task or name else None


def _fetch(input: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(input.get("url")), text_of(input.get("query"))
    return [Fetch(url=url, query=query)] if url or query else None


def _tasks(_input: Input, _cwd: str) -> list[Operation]:
    return [Tasks()]


TOOLS: dict[str, Meaning] = {
    "Read": _read,
    "NotebookRead": _read,
    "Write": _write,
    "Edit": _write,
    "MultiEdit": _write,
    "NotebookEdit": _write,
    "Grep": _search,
    "Glob": _search,
    "LS": _list,
    **dict.fromkeys(SHELLS, _run),
    "Skill": _skill,
    "Task": _spawn,
    "Agent": _spawn,
    "WebFetch": _fetch,
    "WebSearch": _fetch,
    "web_fetch": _fetch,
    "web_search": _fetch,
    "TodoWrite": _tasks,
    "TodoRead": _tasks,
    "TaskCreate": _tasks,
    "TaskUpdate": _tasks,
    "TaskList": _tasks,
    "TaskGet": _tasks,
} | dict.fromkeys(
    (
        "AgentOutputTool",
        "AskUserQuestion",
        "BashOutput",
        "CronCreate",
        "CronDelete",
        "CronList",
        "EnterPlanMode",
        "EnterWorktree",
        "ExitPlanMode",
        "ExitWorktree",
        "KillBash",
        "KillShell",
        "ListAgents",
        "ListMcpResourcesTool",
        "Monitor",
        "ReadMcpResourceTool",
        "ReportFindings",
        "ScheduleWakeup",
        "SendMessage",
        "SlashCommand",
        "StructuredOutput",
        "TaskOutput",
        "TaskStop",
        "ToolSearch",
        "Workflow",
    ),
    nothing,
)


def _read_really(call: Call, detail: Input, _output: str) -> list[Operation] | None:
    file = record_of(detail.get("file"))
    path = first_text(file, "filePath", "file_path", "path")
    start = count_of(file.get("startLine")) or None
    lines = count_of(file.get("numLines")) or None
    if not path or not start or not lines:
        return None
    return [Read(path=absolute(path, call.cwd), start_line=start, end_line=start + lines - 1)]


def _written_really(call: Call, detail: Input, output: str) -> list[Operation] | None:
    if not call.operations:
        return None
    asked = call.operations[0]
    if not isinstance(asked, Write):
        return None
    path = absolute(first_text(detail, "filePath"), call.cwd) or asked.path
    change = _change_of(detail, output)
    start, end = _written_lines(detail, is_new=change == "create")
    return [Write(path=path, start_line=start, end_line=end, change=change)]


def _change_of(detail: Input, output: str) -> str:
    change = text_of(detail.get("type"))
    if change in ("create", "update"):
        return change
    if "originalFile" in detail:
        return "create" if detail["originalFile"] is None else "update"
    return "create" if output.startswith("File created") else "update"


def _written_lines(detail: Input, *, is_new: bool) -> tuple[int | None, int | None]:
    """First and last line that the file got: of all hunks, without the lines around them."""
    lines = [line for hunk in items_of(detail.get("structuredPatch")) for line in _changed(record_of(hunk))]
    if lines:
        return min(lines), max(lines)
    return lines_of(text_of(detail.get("content")) if is_new else "")


def _changed(hunk: Input) -> list[int]:
    """Numbers of the added lines, and of the lines that stand where others were taken out."""
    number = count_of(hunk.get("newStart"))
    if number is None:
        return []
    found: list[int] = []
    for line in items_of(hunk.get("lines")):
        mark = text_of(line)[:1]
        if mark in ("+", "-"):
            found.append(max(1, number))
        if mark not in ("-", "\\"):
            number += 1
    return found


def _run_really(call: Call, detail: Input, _output: str) -> list[Operation] | None:
    known = {operation.path for operation in call.operations if isinstance(operation, Write)}
    changed = [
        path
        for item in items_of(record_of(detail.get("bashEditDiff")).get("changedFiles"))
        if (path := absolute(text_of(item), call.cwd)) and path not in known
    ]
    return [*call.operations, *(Write(path=path) for path in dict.fromkeys(changed))] if changed else None


def _spawned_really(call: Call, detail: Input, _output: str) -> list[Operation] | None:
    agent_id = text_of(detail.get("agentId"))
    if not agent_id or not call.operations or not isinstance(call.operations[0], Spawn):
        return None
    return [replace(call.operations[0], agent_id=agent_id)]


CORRECTIONS: dict[str, Correction] = {
    "Read": _read_really,
    "NotebookRead": _read_really,
    "Write": _written_really,
    "Edit": _written_really,
    "MultiEdit": _written_really,
    "NotebookEdit": _written_really,
    **dict.fromkeys(SHELLS, _run_really),
    "Task": _spawned_really,
    "Agent": _spawned_really,
}

CLAUDE = Toolset(
    meanings=TOOLS,
    corrections=CORRECTIONS,
    shells=SHELLS,
    spawners=SPAWNERS,
    exit_code=re.compile(r"\A(?:Error: )?Exit code (\d{1,9})\b"),
    keeps_directory=True,
)
