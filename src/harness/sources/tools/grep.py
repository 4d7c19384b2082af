"""`grep`: search file contents, with ripgrep where it is installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from harness.events import Operation
from harness.events.operation import Search
from harness.sources.invocation import Invocation
from harness.sources.line_blocks import LineBlocks
from harness.sources.process import Chunk
from harness.sources.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.sources.tools.arguments import Arguments, spec, take
from harness.sources.workspace import tree
from harness.sources.workspace.commands import Enough, run_command
from harness.sources.workspace.roots import Workspace

TIMEOUT_S = 60.0
MOST_BYTES = 40_000
_DESCRIPTION = (
    "Search the contents of files with a regular expression. What .gitignore names is left out, and so are "
    "binary files. Results are path:line:text."
)
_RIPGREP = (
    *("--no-config", "--no-messages", "--color=never", "--no-heading", "--with-filename", "--line-number"),
    *("--null", "--sort=path", "--hidden", "--glob=!.git", "--no-require-git", "--no-ignore-dot"),
    *(
        "--no-ignore-global",
        "--no-ignore-exclude",
        f"--max-columns={tree.LONGEST_LINE}",
        "--max-columns-preview",
    ),
)
_FAILED = 2
"""The exit code of ripgrep and of `tree` when the search itself failed; 1 means that nothing was found."""


class GrepArguments(Arguments, frozen=True, kw_only=True):
    pattern: Annotated[str, Meta(min_length=1, description="a regular expression")]
    path: Annotated[str, Meta(description="file or directory to search; the whole workspace without it")] = ""
    include: Annotated[str, Meta(description="only files that match this glob, such as *.py")] = ""
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20, description="lines to show around each match")] = 0
    files_only: Annotated[bool, Meta(description="only the names of files with a match")] = False
    limit: Annotated[int, Meta(ge=1, le=2000, description="how many lines to show at most")] = 200


class GrepTool(Tool):
    def __init__(self, workspace: Workspace, program: str | None = None) -> None:
        """`program`: that of ripgrep; without it the one on PATH, and none at all when it is empty."""
        self.spec = spec("grep", _DESCRIPTION, GrepArguments)
        self._workspace = workspace
        self._program = program

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        asked = take(GrepArguments, arguments, "grep")
        return [Search(query=asked.pattern, path=self._workspace.named(asked.path))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("grep")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        asked = take(GrepArguments, arguments, "grep")
        start = self._workspace.place_to_search(asked.path)
        found = _Matches(self._workspace, asked.limit)
        ending = await run_command(self._invocation(asked, start, context), found.take, TIMEOUT_S)
        found.finish()
        if ending.exit.code == _FAILED and not found.lines:
            raise ToolFailure(f"the search failed: {found.trouble()}")
        notes = []
        if ending.is_enough:
            notes.append("[there is more: narrow the search, or raise limit]")
        if ending.is_timeout:
            notes.append(f"[stopped after {TIMEOUT_S:g} s: not everything was searched]")
        return ToolOutput(text="\n".join([*found.lines, *notes]) or "nothing was found")

    def _invocation(self, asked: GrepArguments, start: str, context: ToolContext) -> Invocation:
        program = _on_path(context) if self._program is None else self._program
        argv = _ripgrep(program, asked, start) if program else self._own(asked, start)
        return Invocation(argv, context.env, self._workspace.root)

    def _own(self, asked: GrepArguments, start: str) -> tuple[str, ...]:
        query = {
            **{
                name: getattr(asked, name)
                for name in ("pattern", "include", "ignore_case", "context", "files_only")
            },
            "start": start,
            "top": self._workspace.root,
        }
        return sys.executable, "-I", "-S", os.path.abspath(tree.__file__), msgspec.json.encode(query).decode()


def _on_path(context: ToolContext) -> str:
    folders = context.env.get("PATH", "").split(os.pathsep)
    candidates = (os.path.join(folder, "rg") for folder in folders if os.path.isabs(folder))
    return next((path for path in candidates if os.access(path, os.X_OK) and os.path.isfile(path)), "")


def _ripgrep(program: str, asked: GrepArguments, start: str) -> tuple[str, ...]:
    options = [f"--context={asked.context}"] if asked.context else []
    options += ["--ignore-case"] if asked.ignore_case else []
    options += ["--files-with-matches"] if asked.files_only else []
    options += [f"--glob={asked.include}"] if asked.include else []
    return program, *_RIPGREP, *options, f"--regexp={asked.pattern}", "--", start


class _Matches:
    """Lines of output as the model sees them, until there are enough."""

    def __init__(self, workspace: Workspace, limit: int) -> None:
        self.lines: list[str] = []
        self._workspace = workspace
        self._limit = limit
        self._size_bytes = 0
        self._blocks = LineBlocks()
        self._errors = b""

    def take(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            if chunk.stream == "stderr":
                self._errors = (self._errors + chunk.data)[:4096]
            else:
                self._add(self._blocks.feed(chunk.data))

    def finish(self) -> None:
        try:
            self._add(self._blocks.finish())
        except Enough:
            return

    def trouble(self) -> str:
        return self._errors.decode("utf-8", "replace").strip() or "it did not say why"

    def _add(self, block: bytes) -> None:
        for line in block.split(b"\n"):
            if not line:
                continue
            path, has_path, rest = line.decode("utf-8", "surrogateescape").partition("\0")
            text = self._workspace.shown(path) if has_path else path
            text = (f"{text}:{rest}" if rest else text).encode("utf-8", "replace").decode()
            self._size_bytes += len(text) + 1
            if len(self.lines) >= self._limit or self._size_bytes > MOST_BYTES:
                raise Enough
            self.lines.append(text)
