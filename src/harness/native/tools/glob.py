"""`glob`: find files by their names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Search
from harness.workspace.roots import FOLDER_NAMES, ToolWorkspace
from harness.workspace.tree import Glob, walk

MOST_VISITED = 1_000_000
_DESCRIPTION = (
    "Find files by a glob such as *.py, src/**/*.ts or **/test_*.{js,ts}. Without a slash it is about names at "
    "any depth. What .gitignore names is left out."
)


class GlobArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("glob", "glob_pattern", "patterns", "query", "file_pattern", "name"), "pattern"),
        **FOLDER_NAMES,
        **dict.fromkeys(("head_limit", "max_results", "maxResults"), "limit"),
    }
    pattern: Annotated[str, Meta(min_length=1, description="a glob")]
    path: Annotated[str, Meta(description="directory to look in; the whole workspace without it")] = ""
    limit: Annotated[int, Meta(ge=1, le=5000, description="how many files to show at most")] = 200


class GlobTool(Tool):
    category = "read"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("glob", _DESCRIPTION, GlobArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        order = take(GlobArguments, arguments, "glob")
        return [Search(query=order.pattern, path=self._workspace.named(order.path))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("glob")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(GlobArguments, arguments, "glob")
        start = self._workspace.place_to_search(order.path, is_folder=True)
        try:
            return await asyncio.to_thread(self._find, order, start, context)
        except asyncio.CancelledError:
            context.cancelled = True  # the thread cannot be interrupted, but checks this
            raise

    def _find(self, order: GlobArguments, start: str, context: ToolContext) -> ToolOutput:
        glob = Glob(order.pattern)
        paths: list[str] = []
        more = ""
        for visited, entry in enumerate(walk(start, self._workspace.root)):
            if context.cancelled or visited >= MOST_VISITED:
                more = f"[stopped after {visited} files]"
                break
            if glob.matches(entry.relative):
                if len(paths) == order.limit:
                    more = "[there are more: narrow the pattern, or raise limit]"
                    break
                paths.append(self._workspace.shown(entry.path).encode("utf-8", "replace").decode())
        return ToolOutput(text="\n".join([*paths, more] if more else paths) or "nothing was found")
