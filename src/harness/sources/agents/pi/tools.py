"""What the tools of Pi mean, and what their results tell beyond what was asked for.

Names are matched without regard to case. Skills are not a tool of their own: whoever uses one reads
its `SKILL.md`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from harness.events.operation import Operation, Read, Search, Skill, Write
from harness.sources.formats.fields import count_of, exit_code_of, first_text, record_of, text_of
from harness.sources.formats.meanings import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    Meaning,
    lines_asked,
    listing,
    nothing,
    writing,
)
from harness.sources.formats.meanings import meaning_of as _meaning_of
from harness.sources.formats.outputs import output_of
from harness.sources.formats.paths import absolute
from harness.sources.formats.shell import operations_of
from harness.sources.formats.toolset import agreed

_SHELLS = frozenset({"bash", "shell", "powershell"})
_SKILL_FILE = "/SKILL.md"
_EXIT_CODE = re.compile(r"(?:\A|\n)Command exited with code (-?\d{1,9})\s*\Z")
_SHOWN_LINES = re.compile(r"\[Showing lines (\d{1,9})-(\d{1,9}) of \d+[^\]]*\]\s*$")
_NEXT_LINE = re.compile(r"\[\d+ more lines in file\. Use offset=(\d{1,9}) to continue\.\]\s*$")
_CHANGED_LINE = re.compile(r"^([+-]) *(\d{1,9}) ", re.MULTILINE)
_TRAILER_LENGTH = 200
"""Remarks of a tool stand at the end of what it gave back, which may be long."""


@dataclass(slots=True)
class Call:
    """A tool call that has not ended yet."""

    name: str
    operations: list[Operation]
    shown: str = ""
    """What it had written when we last heard of it."""


def _read(asked: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(asked, *PATHS), cwd)
    return [_reading(path, *lines_asked(asked))] if path else None


def _reading(path: str, start: int | None, end: int | None) -> Read | Skill:
    if path.endswith(_SKILL_FILE):
        name = path.removesuffix(_SKILL_FILE).rpartition("/")[2]
        return Skill(path=path, name=name, start_line=start, end_line=end)
    return Read(path=path, start_line=start, end_line=end)


def _search(asked: Input, cwd: str) -> list[Operation] | None:
    query, path = first_text(asked, *QUERIES), absolute(first_text(asked, *DIRECTORIES), cwd)
    return [Search(query=query, path=path)] if query else None


def _run(asked: Input, cwd: str) -> list[Operation] | None:
    command = first_text(asked, "command", "cmd", "script")
    return operations_of(command, cwd) if command else None


_TOOLS: dict[str, Meaning] = {
    "read": _read,
    "write": writing(*PATHS),
    "edit": writing(*PATHS, change="update"),
    **dict.fromkeys(("grep", "find", "search", "glob"), _search),
    **dict.fromkeys(("ls", "list"), listing(*DIRECTORIES)),
    **dict.fromkeys(_SHELLS, _run),
    # A script that calls other tools: each of those calls is told by itself.
    "codemode": nothing,
}


def meaning_of(name: str, asked: Any, cwd: str) -> list[Operation] | None:
    """The operations of a call; None when nobody knows what it means."""
    return _meaning_of(_TOOLS, name.lower(), asked, cwd)


def told_by_result(call: Call, result: Input, output: str) -> list[Operation] | None:
    """The operations as a successful result tells them; None when it tells nothing better."""
    if len(call.operations) != 1 or call.name.lower() in _SHELLS:
        return None
    asked = call.operations[0]
    if not isinstance(asked, Read | Skill | Write):
        return None
    if not isinstance(asked, Write):
        lines = _lines_read(asked.start_line, output)
    else:
        lines = _lines_changed(record_of(result.get("details"))) if asked.change == "update" else None
    if lines is None or lines == (asked.start_line, asked.end_line):
        return None
    return [replace(asked, start_line=lines[0], end_line=lines[1])]


def _lines_read(start: int | None, output: str) -> tuple[int, int] | None:
    """Told only when the file goes on after what was read."""
    trailer = output[-_TRAILER_LENGTH:]
    if (shown := _SHOWN_LINES.search(trailer)) is not None:
        return int(shown[1]), int(shown[2])
    if (following := _NEXT_LINE.search(trailer)) is not None:
        return start or 1, int(following[1]) - 1
    return None


def _lines_changed(details: Input) -> tuple[int, int] | None:
    """Added lines, and of what was only taken out the line where it stood."""
    first = count_of(details.get("firstChangedLine")) or None
    changed = _CHANGED_LINE.findall(text_of(details.get("diff")))
    added = [int(number) for mark, number in changed if mark == "+"]
    start = first or min(added, default=None)
    return None if start is None else (start, max([start, *added]))


def output_of_result(result: Any) -> str:
    """What a call gave back; some tools tell it as data alone."""
    if not isinstance(result, dict):
        return output_of(result)
    structured = result.get("structuredContent")
    said = record_of(structured).get("output", structured)
    return output_of(result.get("content")) or output_of(said)


def exit_code_of_call(name: str, result: Input, output: str, *, is_success: bool | None) -> int | None:
    """Of a command: stated from 1.5 on, before that only in words, and only for failures."""
    if name.lower() not in _SHELLS:
        return None
    stated = exit_code_of(record_of(result.get("structuredContent")).get("exit_code"))
    if stated is not None or is_success is not False:
        return stated
    return agreed(False, _EXIT_CODE.search(output[-_TRAILER_LENGTH:]))
