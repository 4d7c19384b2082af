"""`edit`: replace a passage of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

from msgspec import Meta, field

from harness.approvals.globs import escaped
from harness.contracts.tool import (
    FileChange,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
)
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Write
from harness.workspace.files import (
    MOST_EDITABLE_BYTES,
    Change,
    apply,
    as_tool_failure,
    changed_lines,
    read_all,
)
from harness.workspace.notebooks import file_of
from harness.workspace.passages import nearest_passage, shown_change
from harness.workspace.roots import FILE_NAMES, ToolWorkspace

_DESCRIPTION = (
    "Replace a passage of a file that was read before. oldString must occur exactly once, just as it stands in "
    "the file but without line numbers; with replaceAll every occurrence is replaced. The answer shows the new lines."
)


_OLD = ("old_str", "oldStr", "old_text", "oldText", "old", "search", "find", "original", "before")
_NEW = ("new_str", "newStr", "new_text", "newText", "new", "replace", "replacement", "updated", "after")


class EditPassage(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(_OLD, "oldString"),
        **dict.fromkeys(_NEW, "newString"),
        **dict.fromkeys(("replaceall", "global", "allow_multiple", "replace_all_occurrences"), "replaceAll"),
    }
    old_string: Annotated[str, Meta(min_length=1, description="the passage as it is now")]
    new_string: Annotated[str, Meta(description="what shall stand there instead")]
    replace_all: Annotated[bool, Meta(description="replace every occurrence")] = False


class EditArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {**FILE_NAMES, **EditPassage.aliases, "changes": "edits"}
    file_path: Annotated[str, Meta(description="the file: absolute, or relative to the workspace")]
    old_string: Annotated[str, Meta(description="the passage as it is now")] = ""
    new_string: Annotated[str, Meta(description="what shall stand there instead")] = ""
    replace_all: Annotated[bool, Meta(description="replace every occurrence")] = False
    edits: Annotated[
        list[dict[str, Any]],
        Meta(
            description="instead of these three: several replacements, one after the other, all or none, each with "
            "oldString, newString and replaceAll"
        ),
    ] = field(default_factory=list)

    def replacements(self) -> list[EditPassage]:
        """Raises ToolFailure for one that says too little."""
        if not self.edits:
            own = {"oldString": self.old_string, "newString": self.new_string, "replaceAll": self.replace_all}
            return [take(EditPassage, own, "edit")]
        return [take(EditPassage, passage, "edit") for passage in self.edits]


class EditTool(Tool):
    category = "edit"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("edit", _DESCRIPTION, EditArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        path = self._workspace.named(take(EditArguments, arguments, "edit").file_path)
        return [Write(path=path, change="update")]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        order = take(EditArguments, arguments, "edit")
        return ToolPermission("edit", {"filePath": escaped(order.file_path)})

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        order = take(EditArguments, arguments, "edit")
        path = self._workspace.writable(order.file_path)
        context.files.assert_current(path)
        with as_tool_failure(order.file_path):
            before = file_of(read_all(path, MOST_EDITABLE_BYTES), path, order.file_path)
            after, _count = _replaced_all(before.text, order)
        return [FileChange(path=path, before=before.text, after=after)]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(EditArguments, arguments, "edit")
        path = self._workspace.writable(order.file_path)
        async with context.files.lock(path):
            context.files.assert_current(path)
            with as_tool_failure(order.file_path):
                data = read_all(path, MOST_EDITABLE_BYTES)
                before = file_of(data, path, order.file_path)
                after, count = _replaced_all(before.text, order)
                apply([Change(path, data, before.encode(after))])
            context.files.read(path)
        first, last = changed_lines(before.text, after) or (None, None)
        change = Write(path=path, change="update", start_line=first, end_line=last)
        places = "1 place" if count == 1 else f"{count} places"
        head = f"{order.file_path} changed in {places}, lines {first}-{last}:"
        return ToolOutput(text="\n".join([head, *shown_change(before.text, after)]), operations=[change])


def _replaced_all(text: str, order: EditArguments) -> tuple[str, int]:
    total = 0
    for passage in order.replacements():
        text, count = _replaced(text, passage, order.file_path)
        total += count
    return text, total


def _replaced(text: str, order: EditPassage, shown_path: str) -> tuple[str, int]:
    old, new = order.old_string.replace("\r\n", "\n"), order.new_string.replace("\r\n", "\n")
    is_mixed = "\r\n" in text  # mixed line ends, which `read` does not show
    if is_mixed and order.old_string in text:
        old, new, is_mixed = order.old_string, order.new_string, False
    if old == new:
        raise ToolFailure("oldString and newString are the same: nothing to change")
    sought = re.compile("\r?\n".join(map(re.escape, old.split("\n"))) if is_mixed else re.escape(old))
    count = sum(1 for _ in sought.finditer(text))
    if not count:
        raise ToolFailure(f"oldString does not occur in {shown_path}{_hint(text, old)}")
    if count > 1 and not order.replace_all:
        raise ToolFailure(
            f"oldString occurs {count} times in {shown_path}, at the lines {_lines_of(text, sought)}: give more of the lines "
            "around it, or replaceAll"
        )

    def replacement(match: re.Match[str]) -> str:
        return new.replace("\n", "\r\n") if is_mixed and "\r\n" in match[0] else new

    return sought.sub(replacement, text), count


def _lines_of(text: str, sought: re.Pattern[str]) -> str:
    starts = (match.start() for match in islice(sought.finditer(text), 8))
    return ", ".join(str(text.count("\n", 0, start) + 1) for start in starts)


def _hint(text: str, old: str) -> str:
    """Where a passage is that differs only in white space, or the lines that are most like it."""
    parts = old.split()
    if not parts or len(parts) > 400:
        return ""
    match = re.search(r"\s+".join(map(re.escape, parts)), text)
    if match is None:
        return nearest_passage(text, old)
    return f"; line {text.count(chr(10), 0, match.start()) + 1} differs only in its blanks"
