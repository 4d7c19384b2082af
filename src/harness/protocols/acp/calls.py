"""Tool calls of the Agent Client Protocol: announced in parts under one id, with a kind instead of a tool's name.

    {"toolCallId": "c1", "title": "cat a.py", "kind": "execute", "status": "pending", "rawInput": {"command": "cat a.py"}}
    {"toolCallId": "c1", "status": "completed", "content": [{"type": "content", "content": {"type": "text", …}}]}

A field that is absent or null is unchanged. Agents differ in what they put where: their own files say it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.contracts.toolset import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    PendingCall,
    ToolMapping,
    Toolset,
    lines_of,
)
from harness.contracts.translator import Record
from harness.events import FileTexts
from harness.events.operation import Command, Fetch, List, Operation, Read, Search, Write
from harness.formats.fields import (
    absolute,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.shell import operations_of

ENDS = {"completed": True, "failed": False}
"""Status of a call that has ended → whether it succeeded."""
_MOST_SHOWN_CHARACTERS = 400_000
"""Of the texts of an edit: the log need not have larger ones."""


class AcpCall(msgspec.Struct):
    """What is known of a call so far."""

    id: str
    run_id: str = ""
    title: str = ""
    """The first one: later ones say what the call does."""
    name: str = ""
    """The tool's name, where the agent says it."""
    kind: str = ""
    status: str = ""
    input: Any = None
    content: list[Any] = []
    output: Any = None
    """The result as data (`rawOutput`)."""
    locations: list[Any] = []
    meta: dict[str, Any] = {}
    shown: str = ""
    """Output that was shown while it runs."""
    pending: PendingCall | None = None
    """Set when its `ToolStart` was emitted."""

    def update(self, data: Record) -> None:
        self.title = self.title or text_of(data.get("title"))
        self.name = text_of(data.get("name")) or self.name
        self.kind = text_of(data.get("kind")) or self.kind
        self.status = text_of(data.get("status")) or self.status
        self.input = data["rawInput"] if data.get("rawInput") else self.input
        self.output = data["rawOutput"] if data.get("rawOutput") is not None else self.output
        self.content = items_of(data["content"]) if data.get("content") is not None else self.content
        self.locations = items_of(data.get("locations")) or self.locations
        self.meta = {**self.meta, **record_of(data.get("_meta"))}

    @property
    def has_ended(self) -> bool:
        return self.status in ENDS

    @property
    def text(self) -> str:
        """What its content says."""
        return text_of_content(self.content)

    @property
    def path(self) -> str:
        """The file that it is about, where that is stated."""
        diff = next((item for item in map(record_of, self.content) if item.get("type") == "diff"), {})
        place = next((record_of(item) for item in self.locations), {})
        return text_of(diff.get("path")) or text_of(place.get("path"))


def text_of_content(content: list[Any]) -> str:
    """The texts of a call's content. Differences and terminals are no output."""
    blocks = [record_of(item).get("content") for item in content if record_of(item).get("type") == "content"]
    return output_of(blocks) if blocks else ""


def diffs_of(call: AcpCall, cwd: str) -> list[Operation]:
    """The files that a call changes, from the differences that it shows."""
    operations: list[Operation] = []
    for item in map(record_of, call.content):
        path = absolute(text_of(item.get("path")), cwd)
        if item.get("type") == "diff" and path:
            is_new = not item.get("oldText")
            start, end = lines_of(text_of(item.get("newText"))) if is_new else (None, None)
            operations.append(
                Write(path=path, change="create" if is_new else "update", start_line=start, end_line=end)
            )
    return operations


def texts_of(call: AcpCall, cwd: str) -> list[FileTexts] | None:
    """What a call without arguments changed, from the differences that it shows; None: it shows none, or too much."""
    diffs = [record_of(item) for item in call.content if record_of(item).get("type") == "diff"]
    texts = [
        FileTexts(
            path=absolute(text_of(item.get("path")), cwd),
            before=text_of(item.get("oldText")) or None,
            after=text_of(item.get("newText")),
        )
        for item in diffs
        if text_of(item.get("path"))
    ]
    length = sum(len(each.before or "") + len(each.after) for each in texts)
    return texts if texts and not call.input and length <= _MOST_SHOWN_CHARACTERS else None


def written(call: AcpCall, operations: list[Operation], cwd: str) -> list[Operation] | None:
    """The operations of a call with what its differences say of new files; None: they say nothing."""
    writes = {
        each.path: each for each in diffs_of(call, cwd) if isinstance(each, Write) and each.change == "create"
    }
    merged = [
        replace(each, change=each.change or "create", start_line=new.start_line, end_line=new.end_line)
        if isinstance(each, Write) and (new := writes.get(each.path)) is not None
        else each
        for each in operations
    ]
    return None if merged == operations else merged


def named_by_input(tools: Mapping[str, tuple[str, ...]], tool_input: Any) -> str:
    """The tool whose arguments these are, for agents that never say its name: the first of which all are there."""
    fields = record_of(tool_input)
    return next((name for name, keys in tools.items() if all(key in fields for key in keys)), "")


def _execute(arguments: Input, cwd: str) -> list[Operation] | None:
    command = arguments.get("command", arguments.get("cmd"))
    text = " ".join(map(text_of, command)) if isinstance(command, list) else text_of(command)
    return [*operations_of(text, cwd)] or [Command(command=text)] if text else None


def _read(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *PATHS), cwd)
    return [Read(path=path)] if path else None


def _write(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *PATHS), cwd)
    return [Write(path=path)] if path else None


def _search(arguments: Input, cwd: str) -> list[Operation] | None:
    query, path = first_text(arguments, *QUERIES), absolute(first_text(arguments, *DIRECTORIES), cwd)
    if query:
        return [Search(query=query, path=path)]
    return [List(path=path)] if path else None


def _fetch(arguments: Input, _cwd: str) -> list[Operation] | None:
    url, query = text_of(arguments.get("url")), text_of(arguments.get("query"))
    return [Fetch(url=url, query=query)] if url or query else None


_KINDS: dict[str, ToolMapping] = {
    "execute": _execute,
    "read": _read,
    "edit": _write,
    "delete": _write,
    "move": _write,
    "search": _search,
    "fetch": _fetch,
}

BY_KIND = Toolset(tools=_KINDS, shells=frozenset({"execute"}))
"""For an agent of which nothing is known: the kind of a call stands for its tool."""


def exit_code_in(output: Any) -> int | None:
    """The exit code in a result as data, under the names that agents use for it."""
    data = record_of(output)
    code = next((data[key] for key in ("exit_code", "exitCode") if data.get(key) is not None), None)
    return count_of(code)
