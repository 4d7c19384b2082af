"""`list`: the contents of a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import List
from harness.workspace.files import as_tool_failure
from harness.workspace.roots import FOLDER_NAMES, ToolWorkspace

MOST_SORTED = 20_000
_DESCRIPTION = "List a directory: directories end with /, links with @, files have their size in bytes."


class ListArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = FOLDER_NAMES
    path: Annotated[str, Meta(description="the directory; the workspace without it")] = ""
    limit: Annotated[int, Meta(ge=1, le=5000, description="how many entries to show at most")] = 500


class ListTool(Tool):
    category = "read"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("list", _DESCRIPTION, ListArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [List(path=self._workspace.named(take(ListArguments, arguments, "list").path))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("list")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del context
        order = take(ListArguments, arguments, "list")
        path = self._workspace.readable(order.path or ".")
        with as_tool_failure(order.path or "."), os.scandir(path) as entries:
            # Of a huge directory, only this many entries are read and sorted.
            entries_seen = sorted(islice(entries, MOST_SORTED + 1), key=lambda entry: entry.name)
        lines = [_line(entry) for entry in entries_seen[: order.limit]]
        if len(entries_seen) > MOST_SORTED:
            lines.append(f"[more than {MOST_SORTED} entries: use glob or grep]")
        elif len(entries_seen) > order.limit:
            lines.append(f"[{len(entries_seen) - order.limit} more: raise limit, or use glob]")
        return ToolOutput(text="\n".join(lines) or "the directory is empty", operations=[List(path=path)])


def _line(entry: os.DirEntry[str]) -> str:
    name = entry.name.encode("utf-8", "replace").decode().replace("\n", "\\n")
    if entry.is_symlink():
        return f"{name}@"
    if entry.is_dir(follow_symlinks=False):
        return f"{name}/"
    try:
        return f"{name}  {entry.stat(follow_symlinks=False).st_size}"
    except OSError:
        return name
