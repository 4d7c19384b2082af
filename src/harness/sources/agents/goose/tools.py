"""What the tools of Goose mean, and what their results tell beyond what was asked for.

Tools of Goose's own extensions have plain names today and had their extension's before
(`developer__shell`); the tool of any other extension (`demo__count`) is nobody's guess. Goose has no
tools to read, search or list: models use its shell for that.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.events.operation import Command, Fetch, Operation, Read, Skill, Spawn, Tasks, Write
from harness.events.run import Task
from harness.sources.formats.fields import count_of, first_text, items_of, text_of
from harness.sources.formats.meanings import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    Meaning,
    fetching,
    keeping_tasks,
    lines_asked,
    listing,
    nothing,
    running,
    searching,
    spawning,
    writing,
)
from harness.sources.formats.meanings import meaning_of as _meaning_of
from harness.sources.formats.paths import absolute
from harness.sources.formats.toolset import lines_of

SHELL, SPAWNER, TODO_WRITER = "shell", "delegate", "todo_write"
ANSWER = "final_output"
"""Hands over the answer as data."""
_TODO_TOOLS = "todo__"

_OWN_EXTENSIONS = frozenset(
    [
        "analyze",
        "apps",
        "autovisualiser",
        "chatrecall",
        "code_execution",
        "computercontroller",
        "developer",
        "extensionmanager",
        "memory",
        "platform",
        "recipe",
        "skills",
        "summon",
        "todo",
        "tutorial",
    ]
)
_PATHS = (*PATHS, "source")
_EDITOR_WRITES = frozenset(
    ("write", "create", "overwrite", "edit", "str_replace", "insert", "move", "rename", "delete", "undo_edit")
)
_SKILL_DIRECTORY = re.compile(r"^Skill directory: (.+)$", re.MULTILINE)
_TODO = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[(.)\]\s+(.+?)\s*$", re.MULTILINE)


class Call(msgspec.Struct):
    """A tool call that has not ended yet."""

    id: str
    tool_name: str
    name: str
    """Without its extension; "" if that is not one of Goose's own."""
    input: Input
    operations: list[Operation]


def own_name(tool_name: str) -> str:
    extension, mark, name = tool_name.partition("__")
    if not mark:
        return tool_name
    return name if extension in _OWN_EXTENSIONS else ""


def _run_script(asked: Input, _cwd: str) -> list[Operation] | None:
    script = text_of(asked.get("script"))
    return [Command(command=script)] if script else None


def _edit_text(asked: Input, cwd: str) -> list[Operation] | None:
    """The one tool for files that Goose had once: what it does is one of its arguments."""
    action, path = text_of(asked.get("command")), absolute(first_text(asked, *_PATHS), cwd)
    if action in ("view", "read") and path:
        shown = [count_of(number) or None for number in items_of(asked.get("view_range"))]
        start, end = shown if len(shown) == 2 else (None, None)
        return [Read(path=path, start_line=start, end_line=end)]
    return [Write(path=path)] if action in _EDITOR_WRITES and path else None


def _read(asked: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(asked, *_PATHS), cwd)
    start, end = lines_asked(asked)
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _look(asked: Input, cwd: str) -> list[Operation] | None:
    source = first_text(asked, *_PATHS)
    if source.startswith(("http://", "https://")):
        return [Fetch(url=source)]
    return [Read(path=absolute(source, cwd))] if source else None


def _write(asked: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(asked, *_PATHS), cwd)
    start, end = lines_of(text_of(asked.get("content")))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _skill(asked: Input, cwd: str) -> list[Operation] | None:
    """`greet` is a skill, `greet/extra.md` a file that lies beside it."""
    name, _, file = first_text(asked, "name", "skill", "skill_name").partition("/")
    return [Skill(path=absolute(f"skills/{name}/{file or 'SKILL.md'}", cwd), name=name)] if name else None


_SEARCH = searching(*QUERIES, paths=DIRECTORIES)

_TOOLS: dict[str, Meaning] = {
    "automation_script": _run_script,
    SPAWNER: spawning("instructions", "task", names=("source", "name")),
    "edit": writing(*_PATHS, change="update"),
    "glob": _SEARCH,
    "grep": _SEARCH,
    "image_processor": _look,
    "list": listing(*DIRECTORIES),
    "load_skill": _skill,
    "read": _read,
    "read_image": _look,
    SHELL: running("command", "cmd", "script", directory="working_dir"),
    "skill": _skill,
    "text_editor": _edit_text,
    "todo_read": keeping_tasks,
    TODO_WRITER: keeping_tasks,
    "tree": listing(*DIRECTORIES),
    "web_scrape": fetching,
    "web_search": fetching,
    "write": _write,
} | dict.fromkeys(
    (
        "analyze",
        "cache",
        "chatrecall",
        "create_app",
        "delete_app",
        "execute",
        ANSWER,
        "iterate_app",
        "list_apps",
        "list_resources",
        "list_windows",
        "load",
        "manage_extensions",
        "manage_schedule",
        "read_resource",
        "remember_memory",
        "remove_memory_category",
        "remove_specific_memory",
        "retrieve_memories",
        "screen_capture",
        "search_available_extensions",
    ),
    nothing,
)


def meaning_of(tool_name: str, asked: Any, cwd: str) -> list[Operation] | None:
    """The operations of a call; None when nobody knows what it means."""
    if tool_name.startswith(_TODO_TOOLS):
        return [Tasks()]
    return _meaning_of(_TOOLS, own_name(tool_name), asked, cwd)


class Skills:
    """Where skills lie: told by the result that loads one, and needed again for the files beside it."""

    def __init__(self) -> None:
        self._directories: dict[str, str] = {}

    def placed(self, operations: list[Operation], output: str) -> list[Operation]:
        return [self._placed(each, output) if isinstance(each, Skill) else each for each in operations]

    def _placed(self, skill: Skill, output: str) -> Skill:
        found = _SKILL_DIRECTORY.search(output)
        if found is not None:
            self._directories[skill.name] = found[1].strip()
        directory, file = self._directories.get(skill.name), skill.path.rpartition(f"/{skill.name}/")[2]
        return replace(skill, path=f"{directory}/{file}") if directory else skill


def told_by_result(call: Call, output: str, agent_id: str, skills: Skills) -> list[Operation] | None:
    """The operations as a successful result tells them; None when it tells nothing better."""
    found = call.operations
    if agent_id and call.name == SPAWNER:
        found = [replace(each, agent_id=agent_id) if isinstance(each, Spawn) else each for each in found]
    elif output.startswith("Created "):
        found = [replace(each, change="create") if isinstance(each, Write) else each for each in found]
    else:
        found = skills.placed(found, output)
    return None if found == call.operations else found


def todo_list_of(call: Call) -> list[Task] | None:
    """The whole list, which is kept as Markdown; None where it is something else than a checklist."""
    content = call.input.get("content")
    if call.name != TODO_WRITER or not isinstance(content, str):
        return None
    tasks = [_task_of(mark, text) for mark, text in _TODO.findall(content)]
    return tasks if tasks or not content.strip() else None


def _task_of(mark: str, text: str) -> Task:
    if mark == " ":
        return Task(text=text)
    return Task(text=text, status="completed" if mark in "xX✓" else "in_progress")
