"""`grep`: search file contents.

The files, the matches and their output do not depend on ripgrep: if installed, it only narrows down the files
to search.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from harness.approvals.work_folder import is_below
from harness.contracts.tool import Tool, ToolContext, ToolFailure, ToolOutput, ToolPermission
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Search
from harness.formats.json_lines import LineBlocks
from harness.native.tools import grep_program
from harness.native.tools.grep_pattern import Expression, NotUnderstood, translated
from harness.process.child import OutputChunk
from harness.process.invocation import Invocation
from harness.workspace.commands import Enough, run_command
from harness.workspace.roots import FOLDER_NAMES, ToolWorkspace
from harness.workspace.tree import Glob, TreeEntry, walk

TIMEOUT_S = 60.0
MOST_BYTES = 40_000
_DESCRIPTION = (
    "Search the contents of files, line by line, with a regular expression (no look-around, no references to "
    "groups). What .gitignore names is left out, and so are binary files; hidden files are not. "
    "Results are path:line:text."
)


FEW_FILES = 50
"""With fewer files, starting another program is not worthwhile."""
_RIPGREP = (
    *("--no-config", "--no-messages", "--color=never", "--files-with-matches", "--null"),
    *("--text", "--no-ignore", "--hidden"),
    # With its default limit it compiles some patterns for half a minute; larger ones are searched without it.
    "--regex-size-limit=20M",
)
_PROGRAM = os.path.abspath(grep_program.__file__)
_EXPECTED = (0, 1, 123)
"""123: the exit code of `xargs` when the program that it started found nothing."""


class GrepArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("query", "regex", "search", "search_pattern", "text"), "pattern"),
        **dict.fromkeys(
            ("glob", "include_pattern", "includePattern", "file_pattern", "filePattern"), "include"
        ),
        **dict.fromkeys(("-i", "case_insensitive", "caseInsensitive"), "ignoreCase"),
        **dict.fromkeys(("-C", "-A", "-B", "context_lines", "contextLines"), "context"),
        **dict.fromkeys(("head_limit", "max_results", "maxResults"), "limit"),
        **FOLDER_NAMES,
    }
    pattern: Annotated[str, Meta(min_length=1, description="a regular expression")]
    path: Annotated[str, Meta(description="file or directory to search; the whole workspace without it")] = ""
    include: Annotated[
        str, Meta(description="only files that match this glob, such as *.py; seen from path")
    ] = ""
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=20, description="lines to show around each match")] = 0
    files_only: Annotated[bool, Meta(description="only the names of files with a match")] = False
    limit: Annotated[int, Meta(ge=1, le=2000, description="how many lines to show at most")] = 200


class GrepTool(Tool):
    category = "read"

    def __init__(self, workspace: ToolWorkspace, program: str | None = None) -> None:
        """`program`: the path of ripgrep; None is the one on PATH, empty is none."""
        self.spec = spec("grep", _DESCRIPTION, GrepArguments)
        self._workspace = workspace
        self._program = program

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        order = _taken(arguments)
        return [Search(query=order.pattern, path=self._workspace.named(order.path))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        del arguments
        return ToolPermission("grep")

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = _taken(arguments)
        start = self._workspace.place_to_search(order.path)
        try:
            expression = translated(order.pattern, ignore_case=order.ignore_case)
        except NotUnderstood as error:
            raise ToolFailure(f"the search failed: in the pattern, {error}") from None
        listing = _Listing(start, self._workspace.root, order.include, context)
        try:
            await asyncio.to_thread(listing.fill)
        except asyncio.CancelledError:
            context.cancelled = True  # the thread cannot be interrupted, but checks this
            raise
        paths = await self._narrowed(listing.paths, expression, context)
        matches = _Matches(self._workspace, order.limit)
        query = {"expression": expression.python, "context": order.context, "files_only": order.files_only}
        argv = (sys.executable, "-I", "-S", _PROGRAM, json.dumps(query))
        ending = await run_command(_reading(argv, paths, context), matches.take, TIMEOUT_S)
        matches.finish()
        notes = []
        if ending.exit.code and not (ending.is_enough or ending.is_timeout):
            notes.append(f"[the search broke off: {matches.trouble()}]")
            if not matches.lines:
                raise ToolFailure(f"the search failed: {matches.trouble()}")
        if ending.is_enough:
            notes.append("[there is more: narrow the search, or raise limit]")
        if ending.is_timeout or listing.is_cut:
            notes.append(f"[stopped after {TIMEOUT_S:g} s: not everything was searched]")
        return ToolOutput(text="\n".join([*matches.lines, *notes]) or "nothing was found")

    async def _narrowed(
        self, paths: Sequence[str], expression: Expression, context: ToolContext
    ) -> Sequence[str]:
        """The files in which ripgrep, which is faster, finds a match; all files if it cannot be used."""
        root = self._workspace.root
        ripgrep = _on_path("rg", context, root) if self._program is None else self._program
        xargs = _on_path("xargs", context, root)
        if not (ripgrep and xargs and len(paths) >= FEW_FILES):
            return paths
        # xargs handles more names than fit on a command line.
        argv = (xargs, "-0", ripgrep, *_RIPGREP, f"--regexp={expression.ripgrep}", "--")
        output = {"stdout": bytearray(), "stderr": bytearray()}

        def collect(chunks: Sequence[OutputChunk]) -> None:
            for chunk in chunks:
                output[chunk.stream] += chunk.data

        ending = await run_command(_reading(argv, paths, context), collect, TIMEOUT_S)
        if output["stderr"] or ending.is_timeout or ending.exit.code not in _EXPECTED:
            return paths
        named_files = set(os.fsdecode(bytes(output["stdout"])).split("\0"))
        return [path for path in paths if path in named_files]


def _taken(arguments: dict[str, Any]) -> GrepArguments:
    """Some models say with a word what is to be shown, or that case counts."""
    if arguments.get("output_mode") in ("files_with_matches", "count") and "filesOnly" not in arguments:
        arguments = {**arguments, "filesOnly": True}
    if "case_sensitive" in arguments and "ignoreCase" not in arguments:
        arguments = {**arguments, "ignoreCase": not arguments["case_sensitive"]}
    return take(GrepArguments, arguments, "grep")


class _Listing:
    """The files to be searched, in order."""

    def __init__(self, start: str, top: str, include: str, context: ToolContext) -> None:
        self.paths: list[str] = []
        self.is_cut = False
        self._start = start
        self._top = top
        self._glob = Glob(include) if include else None
        self._context = context

    def fill(self) -> None:
        is_file = os.path.isfile(self._start)
        entries = (
            iter([TreeEntry(self._start, os.path.basename(self._start))])
            if is_file
            else walk(self._start, self._top)
        )
        deadline = time.monotonic() + TIMEOUT_S
        for entry in entries:
            if self._glob is None or self._glob.matches(entry.relative):
                self.paths.append(entry.path)
            if self._context.cancelled or time.monotonic() > deadline:
                self.is_cut = True
                return


def _reading(argv: tuple[str, ...], paths: Sequence[str], context: ToolContext) -> Invocation:
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    return Invocation(argv, context.env, context.cwd, stdin=names)


def _on_path(program: str, context: ToolContext, root: str) -> str:
    """The first of that name; none where it lies in the workspace (`node_modules/.bin`): to search is not to run it."""
    folders = context.env.get("PATH", "").split(os.pathsep)
    candidates = (os.path.join(folder, program) for folder in folders if os.path.isabs(folder))
    program_path = next(
        (path for path in candidates if os.access(path, os.X_OK) and os.path.isfile(path)), ""
    )
    return (
        ""
        if any(is_below(place, root) for place in (program_path, os.path.realpath(program_path)))
        else program_path
    )


class _Matches:
    """Lines of output as the model sees them, until there are enough."""

    def __init__(self, workspace: ToolWorkspace, limit: int) -> None:
        self.lines: list[str] = []
        self._workspace = workspace
        self._limit = limit
        self._size_bytes = 0
        self._blocks = LineBlocks()
        self._errors = b""

    def take(self, chunks: Sequence[OutputChunk]) -> None:
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
