"""The tools of one agent: what a call of each means, and what its result tells beyond that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from harness.events import ToolStart, Unknown
from harness.events.operation import Command, Fetch, List, Operation, Read, Search, Skill, Spawn, Tasks, Write
from harness.sources.formats.fields import count_of, first_text, items_of, record_of, text_of
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
        from harness.sources.formats.patches import operations_of_patch

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


class PendingCall(msgspec.Struct):
    """A tool call that has not ended yet."""

    id: str
    name: str
    input: Input
    run_id: str
    cwd: str
    operations: list[Operation] = msgspec.field(default_factory=list)

    @property
    def operation(self) -> Operation | None:
        """The first of them: most tools do one thing."""
        return self.operations[0] if self.operations else None


Verdict: TypeAlias = tuple[bool | None, int | None]
"""Whether a command succeeded, and its exit code: each None where the agent does not say."""
Judgement: TypeAlias = Callable[[PendingCall, Any, str, bool], Verdict]
"""The call of a command, what its result says as data and as text, and whether the call itself went well →
what became of the command."""


def as_the_call(_call: PendingCall, _detail: Any, _output: str, is_success: bool) -> Verdict:
    """Of an agent whose calls fail with their commands, and which tells no exit codes."""
    return is_success, None


def agreed(is_success: bool | None, told: re.Match[str] | None) -> int | None:
    """The exit code in a result's words (group 1). One that denies the verdict is what a command has written."""
    code = None if told is None else int(told[1])
    return code if code is None or is_success is None or is_success == (code == 0) else None


Correction: TypeAlias = Callable[[PendingCall, Input, str], "list[Operation] | None"]
"""A call, what its result says as data and as text → its operations as they really were; None: as asked for."""


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    meanings: Mapping[str, Meaning]
    corrections: Mapping[str, Correction] = {}
    shells: frozenset[str] = frozenset()
    spawners: frozenset[str] = frozenset()
    """Tools that run another agent."""
    verdict: Judgement = as_the_call
    """What the results of shells say of their commands."""
    keeps_directory: bool = False
    """Whether the shell of the main agent stays where a command went."""

    def meaning_of(self, name: str, input: Any, cwd: str) -> list[Operation] | None:
        """The operations of a call; None when nobody knows what it means."""
        return meaning_of(self.meanings, name, input, cwd)

    def start(self, call_id: str, name: str, asked: Any, cwd: str, raw: Any) -> tuple[PendingCall, ToolStart]:
        """A call begins; `raw` is told as well when nobody knows what it means."""
        operations = self.meaning_of(name, asked, cwd)
        call = PendingCall(call_id, name, record_of(asked), "", cwd, operations or [])
        start = ToolStart(
            call_id=call_id,
            tool_name=name or "unknown",
            input=asked,
            operations=call.operations,
            raw=raw if operations is None else None,
        )
        return call, start

    def told_by_result(self, call: PendingCall, detail: Any, output: str) -> list[Operation] | None:
        """The operations as a successful result tells them; None when it tells nothing better."""
        correct = self.corrections.get(call.name)
        found = correct(call, record_of(detail), output) if correct is not None else None
        return None if found == call.operations else found


def unannounced(result: Any, run_id: str = "") -> Unknown:
    """What is left of a result when nobody told of its call."""
    return Unknown(raw=result, reason="the result of a call that was never announced", run_id=run_id)


def lines_of(content: str) -> tuple[int, int] | tuple[None, None]:
    """First and last line of a file with this content."""
    return (1, content.removesuffix("\n").count("\n") + 1) if content else (None, None)
