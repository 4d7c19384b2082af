"""What the tools of OpenCode and its relatives mean.

Told by a call's input and by what its record tells besides (`metadata`): real line ranges, changed files,
where a skill lies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from harness.events.operation import Command, List, Operation, Read, Search, Skill, Spawn, Write
from harness.events.run import Task
from harness.sources.formats import meanings
from harness.sources.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.sources.formats.meanings import DIRECTORIES, PATHS, QUERIES, lines_asked
from harness.sources.formats.patch import operations_of_patch
from harness.sources.formats.paths import absolute
from harness.sources.formats.todo_lists import tasks_of
from harness.sources.formats.toolset import lines_of
from harness.sources.formats.unified_diff import changed_lines

Fields: TypeAlias = dict[str, Any]
Meaning: TypeAlias = Callable[[Fields, Fields, str], "list[Operation] | None"]

SHELLS = frozenset({"bash", "shell"})
SPAWNERS = frozenset({"task", "agent_manager"})
TODO_LISTS = frozenset({"todowrite", "todoread", "todo"})

_PATCHES = ("patchText", "patch", "diff", "content", "input")
_AGENT_IDS = ("sessionId", "session_id", "agentId", "agent_id", "id")
_AGENT_NAMES = ("subagent_type", "name", "agent", "subagent", "agentType")
_CHANGES = {"add": "create", "update": "update", "delete": "delete", "move": "move"}
_LISTED = re.compile(r"<path>([^\n]*)</path>\n<type>directory</type>\n")
_SYMBOL_LOOKUPS = ("symbol", "reference", "definition", "implementation", "call")


def _read(input: Fields, metadata: Fields, cwd: str) -> list[Operation] | None:
    shown = record_of(metadata.get("display"))
    path = absolute(text_of(shown.get("path")) or first_text(input, *PATHS), cwd)
    if not path:
        return None
    if shown.get("type") == "directory":
        return [List(path=path)]
    start, end = count_of(shown.get("lineStart")) or None, count_of(shown.get("lineEnd")) or None
    if start is None:
        start, end = lines_asked(input)
    return [Read(path=path, start_line=start, end_line=end)]


def _write(input: Fields, metadata: Fields, cwd: str) -> list[Operation] | None:
    path = absolute(text_of(metadata.get("filepath")) or first_text(input, *PATHS), cwd)
    if not path:
        return None
    existed = metadata.get("exists")
    change = "update" if existed is True else "create" if existed is False else ""
    start, end = lines_of(text_of(input.get("content")))
    return [Write(path=path, start_line=start, end_line=end, change=change)]


def _edit(input: Fields, metadata: Fields, cwd: str) -> list[Operation] | None:
    told = record_of(metadata.get("filediff"))
    path = absolute(text_of(told.get("file")) or first_text(input, *PATHS), cwd)
    diff = text_of(told.get("patch")) or text_of(metadata.get("diff"))
    return [_changed(path, "update" if diff else "", diff)] if path else None


def _patch(input: Fields, metadata: Fields, cwd: str) -> list[Operation] | None:
    """What was changed, or, where that failed, what should have been."""
    writes: list[Operation] = []
    for item in items_of(metadata.get("files")):
        file = record_of(item)
        path, moved = (absolute(text_of(file.get(name)), cwd) for name in ("filePath", "movePath"))
        change = _CHANGES.get(text_of(file.get("type")), "")
        diff = text_of(file.get("patch")) if change != "delete" else ""
        if path and moved:
            writes += [Write(path=path, change="move"), _changed(moved, "create", diff)]
        elif path:
            writes.append(_changed(path, change, diff))
    if writes:
        return writes
    path = absolute(first_text(input, *PATHS), cwd)
    return [Write(path=path)] if path else [*operations_of_patch(first_text(input, *_PATCHES), cwd)] or None


def _changed(path: str, change: str, diff: str) -> Write:
    start, end = changed_lines(diff) or (None, None)
    return Write(path=path, start_line=start, end_line=end, change=change)


def _search(input: Fields, _metadata: Fields, cwd: str) -> list[Operation] | None:
    query = first_text(input, *QUERIES)
    path = absolute(first_text(input, *DIRECTORIES), cwd)
    return [Search(query=query, path=path)] if query else None


def _recall(input: Fields, _metadata: Fields, _cwd: str) -> list[Operation]:
    query = text_of(input.get("query"))
    return [Search(query=query)] if query else []


def _look_up(input: Fields, _metadata: Fields, cwd: str) -> list[Operation] | None:
    """A language server was asked; only some of the questions are searches."""
    asked = text_of(input.get("operation"))
    is_search = any(word in asked.lower() for word in _SYMBOL_LOOKUPS)
    query = first_text(input, "query", "symbol") or (asked if is_search else "")
    return [Search(query=query, path=absolute(first_text(input, *PATHS), cwd))] if query else None


def _run_in_background(input: Fields, _metadata: Fields, _cwd: str) -> list[Operation]:
    command = text_of(input.get("command"))
    return [Command(command=command)] if command and input.get("action", "start") == "start" else []


def _skill(input: Fields, metadata: Fields, cwd: str) -> list[Operation] | None:
    name = first_text(metadata, "name") or first_text(input, "name", "skill", "skill_name")
    directory = text_of(metadata.get("dir")) or (f"skills/{name}" if name else "")
    return [Skill(path=absolute(f"{directory}/SKILL.md", cwd), name=name)] if directory else None


def _spawn(input: Fields, metadata: Fields, _cwd: str) -> list[Operation] | None:
    agent_id, name = agent_id_of(input, metadata), agent_name_of(input)
    task = first_text(input, "description", "prompt", "task")
    return [Spawn(agent_id=agent_id, name=name, task=task)] if agent_id or name else None


def _as_asked(meaning: meanings.Meaning) -> Meaning:
    """Of a tool whose record tells no more than its input."""
    return lambda asked, _metadata, cwd: meaning(asked, cwd)


_TOOLS: dict[str, Meaning] = {
    "background_process": _run_in_background,
    "kilo_local_recall": _recall,
    "list": _as_asked(meanings.listing(*DIRECTORIES)),
    "lsp": _look_up,
    "read": _read,
    "skill": _skill,
    "write": _write,
    **dict.fromkeys(("apply_patch", "patch"), _patch),
    **dict.fromkeys(("codesearch", "glob", "grep", "semantic_search"), _search),
    **dict.fromkeys(("edit", "multiedit"), _edit),
    **dict.fromkeys(("webfetch", "websearch"), _as_asked(meanings.fetching)),
    **dict.fromkeys(SHELLS, _as_asked(meanings.running("command", "cmd", "script", directory="workdir"))),
    **dict.fromkeys(SPAWNERS, _spawn),
    **dict.fromkeys(TODO_LISTS, _as_asked(meanings.keeping_tasks)),
} | dict.fromkeys(
    (
        "batch",
        "board_post",
        "board_read",
        "cancel_wakeup",
        "compact",
        "cron_create",
        "cron_delete",
        "cron_list",
        "get_context_info",
        "goal",
        "goal_report",
        "link_pr",
        "plan_enter",
        "plan_exit",
        "question",
        "schedule_wakeup",
        "suggest",
    ),
    _as_asked(meanings.nothing),
)


def meaning_of(name: str, input: Any, metadata: Fields, cwd: str) -> list[Operation] | None:
    """The operations of a call; None when nobody knows what it means."""
    meaning = _TOOLS.get(name)
    return meaning(input, metadata, cwd) if meaning is not None and isinstance(input, dict) else None


def shown_by(name: str, state: Fields, metadata: Fields) -> Fields:
    """What a record tells besides; until 1.15 that it was a directory which was read, only its words tell."""
    listed = (
        _LISTED.match(text_of(state.get("output"))) if name == "read" and "display" not in metadata else None
    )
    if listed is None:
        return metadata
    return {**metadata, "display": {"type": "directory", "path": listed[1]}}


def agent_id_of(input: Fields, metadata: Fields) -> str:
    """The session of the sub-agent that a call spawned; "" when there was none."""
    return first_text(metadata, *_AGENT_IDS) or first_text(input, *_AGENT_IDS)


def agent_name_of(input: Fields) -> str:
    return first_text(input, *_AGENT_NAMES) or text_of(input.get("description"))


def todo_list_of(input: Fields, metadata: Fields) -> list[Task] | None:
    """The whole list after a call; None when it does not tell."""
    return tasks_of(metadata.get("todos", input.get("todos")))
