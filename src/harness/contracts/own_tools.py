"""From a call of one agent to a call of another: its own tool by the meaning of the call, else a name it has no tool of.

A name of the target with other arguments would teach its model to call the tool wrongly, so a call that has no
counterpart keeps its name, with the name of the agent that made it before it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.contracts.conversation import HandedCall
from harness.events.operation import Command, List, Read, Search, Write
from harness.formats.fields import first_text, items_of, record_of

_LONGEST_NAME = 64
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_FIELD = re.compile(r"\{(\w+)\}")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_COMMANDS = ("command", "cmd", "script")
_CONTENTS = ("content", "contents", "file_text", "text", "code_edit")
_OLD = ("old_string", "oldString", "old_str", "oldText", "before", "search", "old")
_NEW = ("new_string", "newString", "new_str", "newText", "after", "replace", "new")


class OwnTool(NamedTuple):
    """A tool of the target. `input` is a template: `{path}`, `{command}` …; what has no value is left out.

    A text as template is for tools that take free text.
    """

    name: str
    input: Any


ToolTable = Mapping[str, OwnTool]
"""Of command, read, write, edit, search, list: the target's own tool."""


class OwnCall(NamedTuple):
    name: str
    input: Any
    """An object; a text for tools that take free text."""


def own_call(call: HandedCall, table: ToolTable, *, source: str, target: str) -> OwnCall:
    """The call as the target would have made it."""
    arguments = (
        call.input if isinstance(call.input, dict) else {} if call.input is None else {"input": call.input}
    )
    if source == target:
        return OwnCall(_fitting(call.tool_name), arguments)
    meaning = _meaning_of(call)
    tool = table.get(meaning[0]) if meaning is not None else None
    if meaning is None or tool is None:
        prefix = f"{_UNFIT.sub('_', source)}_"
        name = call.tool_name if call.tool_name.startswith(prefix) else f"{prefix}{call.tool_name}"
        return OwnCall(_fitting(name), arguments)
    return OwnCall(tool.name, _filled(tool.input, meaning[1]))


def _fitting(name: str) -> str:
    return _UNFIT.sub("_", name).strip("_")[:_LONGEST_NAME] or "unknown"


def _meaning_of(call: HandedCall) -> tuple[str, dict[str, Any]] | None:
    arguments = record_of(call.input)
    if command := _command_of(arguments):
        return "command", {"command": command}
    if len(call.operations) != 1:
        return None
    match call.operations[0]:
        case Command(command=command):
            return "command", {"command": _unwrapped(command)}
        case Read(path=path, start_line=first, end_line=last):
            return "read", read_fields(path, first, last)
        case Search(query=query, path=path):
            command = search_command(query, path or ".")
            return "search", {"query": query, "path": path or ".", "command": command}
        case List(path=path):
            return "list", {"path": path or ".", "command": list_command(path or ".")}
        case Write(path=path):
            return _change(path, arguments)
        case _:
            return None


def _command_of(arguments: dict[str, Any]) -> str:
    words = next((arguments[name] for name in _COMMANDS if isinstance(arguments.get(name), list)), None)
    if words is not None:
        return _unwrapped(shlex.join(map(str, words)))
    return _unwrapped(first_text(arguments, *_COMMANDS))


def _unwrapped(command: str) -> str:
    """`bash -lc 'ls'` → `ls`."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_shell = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if is_shell else command


def read_fields(path: str, first: int | None, last: int | None) -> dict[str, Any]:
    """The fields that tools which read a file take; None where all lines are read."""
    count = last - (first or 1) + 1 if last else None
    shell = f"sed -n '{first or 1},{last}p' {shlex.quote(path)}" if last else f"cat {shlex.quote(path)}"
    between = [first or 1, last] if last else None
    skipped = first - 1 if first else None
    return {
        "path": path,
        "first": first,
        "last": last,
        "count": count,
        "skipped": skipped,
        "range": between,
        "command": shell,
    }


def search_command(query: str, path: str) -> str:
    return f"grep -rn -- {shlex.quote(query)} {shlex.quote(path)}"


def list_command(path: str) -> str:
    return f"ls {shlex.quote(path)}"


def _change(path: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """What was written, where the call says it."""
    edits = [record_of(edit) for edit in items_of(arguments.get("edits"))]
    if len(edits) == 1:
        arguments = edits[0]
    old, new = (
        next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)
        for names in (_OLD, _NEW)
    )
    if old is not None and new is not None:
        lines = [*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))]
        patch = _patch(f"*** Update File: {path}", "@@", *lines)
        return "edit", {"path": path, "old": old, "new": new, "patch": patch}
    content = next((arguments[name] for name in _CONTENTS if isinstance(arguments.get(name), str)), None)
    if content is None or edits:
        return None
    added = content.removesuffix("\n").split("\n") if content else []
    patch = _patch(f"*** Add File: {path}", *(f"+{line}" for line in added))
    return "write", {"path": path, "content": content, "patch": patch}


def _patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"]) + "\n"


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, str):
        match = _FIELD.fullmatch(template)
        return values.get(match[1]) if match else template
    if isinstance(template, Mapping):
        fields = {name: _filled(inner, values) for name, inner in template.items()}
        return {name: value for name, value in fields.items() if value is not None}
    if isinstance(template, list):
        return [_filled(inner, values) for inner in template]
    return template
