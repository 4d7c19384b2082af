"""What a tool call does, in one short line."""

from __future__ import annotations

import re
from typing import NamedTuple, assert_never

from harness.events import Operation
from harness.events.operation import Command, Fetch, List, Read, Search, Skill, Spawn, Tasks, Write


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
    said = ": ".join(filter(None, (name, operation.task.strip())))
    return said if operation.action == "started" else f"{said} {operation.action}".strip()
