"""Builders for tables of tools: what a call means, told by the names of its fields.

An agent's table maps the name of each of its tools to a `Meaning`. A name that is not in the table
(an MCP server's tool, or a new one) is nobody's guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from harness.events.operation import Command, Fetch, List, Operation, Read, Search, Skill, Spawn, Tasks, Write
from harness.sources.formats.fields import count_of, first_text, items_of, text_of
from harness.sources.formats.paths import absolute
from harness.sources.formats.shell import operations_of

Input: TypeAlias = dict[str, Any]
Meaning: TypeAlias = Callable[[Input, str], "list[Operation] | None"]
"""A call's input and the directory it is seen from → its operations; None when that is not what the tool takes."""


PATHS = ("path", "file_path", "filePath", "filepath", "abs_path", "absolutePath")
DIRECTORIES = ("path", "dir", "directory", "directory_path", "dir_path")
QUERIES = ("pattern", "query", "regex", "glob", "search", "searchText", "q")
"""Under which names tools take these, where no more is known of them."""
_FIRST_LINES = ("offset", "start_line", "startLine", "line")
_LAST_LINES = ("end_line", "endLine")
_LINE_COUNTS = ("limit", "line_count", "lineCount", "num_lines", "numLines")


def lines_asked(asked: Input) -> tuple[int | None, int | None]:
    """First and last line that a call asks for, counted from 1; a number of lines alone begins with the first."""
    start, end, count = (_first_count(asked, names) for names in (_FIRST_LINES, _LAST_LINES, _LINE_COUNTS))
    if end is None and count:
        start = start or 1
        end = start + count - 1
    return start, end


def _first_count(asked: Input, names: tuple[str, ...]) -> int | None:
    return next((count for name in names if (count := count_of(asked.get(name)))), None)


def meaning_of(table: Mapping[str, Meaning], name: str, asked: Any, cwd: str) -> list[Operation] | None:
    """The operations of a call; None when nobody knows what it means."""
    meaning = table.get(name)
    return meaning(asked, cwd) if meaning is not None and isinstance(asked, dict) else None


def reading(*paths: str, start: str = "offset", count: str = "limit") -> Meaning:
    """`start` counts from 1; whoever asks for a number of lines only begins with the first."""

    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        path = absolute(first_text(asked, *paths), cwd)
        if not path:
            return None
        first = count_of(asked.get(start)) or None
        lines = count_of(asked.get(count)) or None
        if lines and asked.get(start) is None:
            first = 1
        return [Read(path=path, start_line=first, end_line=first + lines - 1 if first and lines else None)]

    return meaning


def writing(*paths: str, change: str = "") -> Meaning:
    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        path = absolute(first_text(asked, *paths), cwd)
        return [Write(path=path, change=change)] if path else None

    return meaning


def patching(*patches: str) -> Meaning:
    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        # Only now: many runs have no patch at all, and reading one takes patterns of its own.
        from harness.sources.formats.patch import operations_of_patch

        return [*operations_of_patch(first_text(asked, *patches), cwd)] or None

    return meaning


def searching(*queries: str, paths: tuple[str, ...] = ("path",)) -> Meaning:
    """Queries and places may come alone or as lists; each place is searched by itself."""

    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        query = " ".join(_texts(asked, queries))
        places = list(_texts(asked, paths)) or [""]
        return [Search(query=query, path=absolute(place, cwd)) for place in places] if query else None

    return meaning


def listing(*paths: str) -> Meaning:
    def meaning(asked: Input, cwd: str) -> list[Operation]:
        return [List(path=absolute(first_text(asked, *paths), cwd))]

    return meaning


def running(*commands: str, directory: str = "cwd") -> Meaning:
    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        command, place = first_text(asked, *commands), absolute(text_of(asked.get(directory)), cwd)
        if not command:
            return None
        return [
            replace(operation, cwd=place) if isinstance(operation, Command) else operation
            for operation in operations_of(command, place or cwd)
        ]

    return meaning


def using_skill(*names: str) -> Meaning:
    """Where a skill lies is not asked for: its usual place, until somebody tells the real one."""

    def meaning(asked: Input, cwd: str) -> list[Operation] | None:
        name = first_text(asked, *names).removeprefix("/")
        return [Skill(path=absolute(f"skills/{name}/SKILL.md", cwd), name=name)] if name else None

    return meaning


def spawning(*tasks: str, names: tuple[str, ...]) -> Meaning:
    def meaning(asked: Input, _cwd: str) -> list[Operation] | None:
        task, name = first_text(asked, *tasks), first_text(asked, *names)
        return [Spawn(name=name, task=task)] if task or name else None

    return meaning


def fetching(asked: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(asked.get("url")), text_of(asked.get("query"))
    return [Fetch(url=url, query=query)] if url or query else None


def keeping_tasks(_asked: Input, _cwd: str) -> list[Operation]:
    return [Tasks()]


def nothing(_asked: Input, _cwd: str) -> list[Operation]:
    """Of tools that are known, and about nothing that an operation could name."""
    return []


def _texts(asked: Input, names: tuple[str, ...]) -> Iterable[str]:
    for name in names:
        value = asked.get(name)
        found = [text for text in (items_of(value) or [value]) if isinstance(text, str) and text]
        if found:
            return found
    return ()
