"""A tool call in lines of a terminal: what it does, how it went, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, assert_never

from harness.events import Operation, ToolEnd, ToolStart
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write
from harness.formatting.amounts import duration
from harness.formatting.escapes import revealed
from harness.formatting.json_text import compact
from harness.formatting.terminal import Segment

# What a tool call does, in one short line.


class Words(NamedTuple):
    glyph: str
    verb: str
    subject: str


_BLANKS = " \t\r\n"
"""Other characters without a shape are part of what is shown: they are marked there."""
_SHELL = re.compile(r"(/\S*/)?(ba|z|da)?sh -l?c ")
_WRITE_VERBS = {"create": "create", "update": "edit", "delete": "delete", "move": "move"}


def words(operation: Operation, cwd: str) -> Words:
    """Paths below `cwd` are shown from there."""
    match operation:
        case Command():
            return Words("$", "", bare_command(operation.command))
        case Read():
            return Words("⏺", "read", short_path(operation.path, cwd) + _lines(operation))
        case Write():
            verb = _WRITE_VERBS.get(operation.change, "write")
            return Words("✎", verb, short_path(operation.path, cwd) + _lines(operation))
        case Search():
            place = f" in {short_path(operation.path, cwd)}" if operation.path else ""
            return Words("⌕", "search", operation.query + place)
        case List():
            return Words("≡", "list", short_path(operation.path, cwd) if operation.path else ".")
        case Skill():
            return Words("✦", "skill", operation.name or short_path(operation.path, cwd))
        case Fetch():
            return Words(
                "⇣", "fetch" if operation.url else "search the web", operation.url or operation.query
            )
        case Spawn():
            return Words("⇢", "sub-agent", _spawned(operation))
        case Tasks():
            return Words("☰", "tasks", "")
        case _:
            assert_never(operation)


def bare_command(command: str) -> str:
    """What a shell was asked to run, without the asking: `bash -lc 'make test'` is `make test`."""
    command = command.strip(_BLANKS)
    if _SHELL.match(command) is None:
        return command
    from shlex import split

    try:
        words = split(command)
    except ValueError:
        return command
    return words[2].strip(_BLANKS) if len(words) == 3 else command


def short_path(path: str, cwd: str) -> str:
    """From the working directory on, when the path lies in it."""
    home = cwd.rstrip("/") + "/"
    if path.rstrip("/") + "/" == home:
        return "."
    return path[len(home) :] if cwd and path.startswith(home) else path


def short_directory(path: str) -> str:
    """The last two names of a path."""
    names = path.rstrip("/").split("/")
    return "…/" + "/".join(names[-2:]) if len(names) > 3 else path


def _lines(operation: Read | Write) -> str:
    first, last = operation.start_line, operation.end_line
    if first is None and last is None:
        return ""
    return (
        f":{first}" if first == last else f":{'' if first is None else first}-{'' if last is None else last}"
    )


def _spawned(operation: Spawn) -> str:
    name = operation.name or ("" if operation.task else operation.agent_id)
    task = ": ".join(filter(None, (name, operation.task.strip())))
    return task if operation.action == "started" else f"{task} {operation.action}".strip()


_SLOW_MS = 1000
"""The duration from which on it is shown how long a call took."""
_VALUE_CHARACTERS = 60


class CallLine(NamedTuple):
    lead: Sequence[Segment]
    tail: Sequence[Segment]


def described(start: ToolStart, cwd: str) -> Sequence[Segment]:
    """The first thing that a call does; for one that has not ended."""
    operations = start.operations
    return _lead(words(operations[0], cwd) if operations else _unknown_tool(start))


def call_lines(start: ToolStart, end: ToolEnd | None, cwd: str) -> Iterator[CallLine]:
    """One line per thing that the call did, marked as far as its end is known."""
    operations = start.operations
    if end is not None and end.operations is not None:
        operations = end.operations
    if not operations:
        yield CallLine(_lead(_unknown_tool(start)), _tail(start, end, None, is_last=True))
    for operation in operations:
        # The list itself is shown whenever it changes; a line for the write would add nothing.
        if not isinstance(operation, Tasks) or (end is not None and end.success is False):
            tail = _tail(start, end, operation, is_last=operation is operations[-1])
            yield CallLine(_lead(words(operation, cwd)), tail)


def excerpt(text: str, most: int) -> list[str]:
    """The first lines of a text, and how many more there are."""
    lines = text.strip("\n").split("\n", most)
    if len(lines) <= most:
        return lines
    more = lines[most].count("\n") + 1
    return [*lines[:most], f"… {more} more line{'' if more == 1 else 's'}"]


def gist(value: Any) -> str:
    """A few words of any JSON value, however large it is."""
    if isinstance(value, str):
        return value[:_VALUE_CHARACTERS]
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_short(item)}" for key, item in list(value.items())[:8])
    return _short(value)


def _short(value: Any) -> str:
    text = value[: _VALUE_CHARACTERS + 1].replace("\n", " ") if isinstance(value, str) else compact(value)
    return text if len(text) <= _VALUE_CHARACTERS else text[:_VALUE_CHARACTERS] + "…"


def _unknown_tool(start: ToolStart) -> Words:
    return Words("•", start.tool_name, "" if start.input is None else gist(start.input))


def _lead(summary: Words) -> list[Segment]:
    first, newline, rest = summary.subject.partition("\n")
    more = rest.rstrip().count("\n") + 1
    subject = f"{first.rstrip()} … (+{more} line{'' if more == 1 else 's'})" if newline else first
    subject = revealed(subject)
    verb = f"{summary.verb} " if summary.verb and subject else summary.verb
    return [("cyan", f"{summary.glyph} "), ("dim", verb), ("", subject)]


def _tail(
    start: ToolStart, end: ToolEnd | None, operation: Operation | None, *, is_last: bool
) -> list[Segment]:
    if end is None:
        return []
    success, exit_code = end.success, end.exit_code
    if operation is not None and operation.success is not None:
        success = operation.success
    if isinstance(operation, Command) and operation.exit_code is not None:
        exit_code = operation.exit_code
    code = f" exit {exit_code}" if exit_code else ""
    tail: list[Segment] = []
    if success is True:
        tail = [("green", "  ✓"), ("dim", code)]
    elif success is False:
        tail = [("red", f"  ✗{code}")]
    elif code:
        tail = [("dim", f" {code}")]
    took_ms = _took_ms(start, end)
    if is_last and took_ms >= _SLOW_MS:
        tail.append(("dim", f"  {duration(took_ms)}"))
    return tail


def _took_ms(start: ToolStart, end: ToolEnd) -> int:
    if end.duration_ms is not None:
        return end.duration_ms
    return end.timestamp_ms - start.timestamp_ms if start.timestamp_ms >= 0 else 0
