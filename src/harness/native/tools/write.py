"""`write`: write a whole file, a new one or over one that was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta

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
    TextFile,
    apply,
    as_tool_failure,
    decode,
    lines_of,
    read_all,
)
from harness.workspace.notebooks import CELL, SUFFIX, NotebookFile, notebook
from harness.workspace.roots import FILE_NAMES, ToolWorkspace

_DESCRIPTION = (
    "Write a whole file, with its directories. A file that exists must have been read before, and not have "
    "changed since; its line ends (LF or CRLF) and byte order mark stay. To change a part of a file, use edit or "
    "apply_patch."
)


class WriteFileArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **FILE_NAMES,
        **dict.fromkeys(
            ("contents", "text", "new_text", "file_text", "file_content", "data", "body"), "content"
        ),
    }
    file_path: Annotated[str, Meta(description="the file: absolute, or relative to the workspace")]
    content: Annotated[str, Meta(description="everything that it shall contain")]


class WriteTool(Tool):
    category = "edit"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("write", _DESCRIPTION, WriteFileArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        return [Write(path=self._workspace.named(take(WriteFileArguments, arguments, "write").file_path))]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        order = take(WriteFileArguments, arguments, "write")
        return ToolPermission("write", {"filePath": escaped(order.file_path)})

    async def preview(self, arguments: dict[str, Any], context: ToolContext) -> Sequence[FileChange]:
        order = take(WriteFileArguments, arguments, "write")
        path = self._workspace.writable(order.file_path)
        with as_tool_failure(order.file_path):
            before = _present(path, context)
        if before is None:
            return [FileChange(path=path, before=None, after=order.content)]
        text = _manner(before, path, order).text or before.decode("utf-8", "replace")
        return [FileChange(path=path, before=text, after=order.content)]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = take(WriteFileArguments, arguments, "write")
        path = self._workspace.writable(order.file_path)
        async with context.files.lock(path):
            with as_tool_failure(order.file_path):
                before = _present(path, context)
                manner = _manner(before, path, order)
                after = manner.encode(order.content)
                apply([Change(path, before, after)])
            context.files.read(path)
        count = len(lines_of(order.content))
        change = "create" if before is None else "update"
        change_made = Write(path=path, change=change, start_line=1 if count else None, end_line=count or None)
        verb = "created" if before is None else "replaced"
        text = f"{order.file_path} {verb}: {count} lines, {len(after)} bytes{_kept(manner)}"
        return ToolOutput(text=text, operations=[change_made])


def _manner(before: bytes | None, path: str, order: WriteFileArguments) -> TextFile | NotebookFile:
    """The encoding and line ends to write: those of the existing file, if it was text. Cells make a notebook."""
    if path.endswith(SUFFIX) and order.content.startswith(CELL):
        return (notebook(before) if before else None) or NotebookFile()
    if before is None:
        return TextFile("")
    try:
        return decode(before, order.file_path)
    except ToolFailure:
        return TextFile("")


def _kept(manner: TextFile | NotebookFile) -> str:
    if isinstance(manner, NotebookFile):
        return ""
    unchanged = ["CRLF line ends"] if manner.has_carriage_returns else []
    unchanged += [manner.encoding.upper()] if manner.encoding != "utf-8" else []
    unchanged += ["the byte order mark"] if manner.has_mark else []
    return f" ({', '.join(unchanged)} kept as they were)" if unchanged else ""


def _present(path: str, context: ToolContext) -> bytes | None:
    """The current content of the file; None when there is none. Raises StaleFile unless it was read."""
    try:
        before = read_all(path, MOST_EDITABLE_BYTES)
    except FileNotFoundError:
        before = None
    context.files.assert_current(path)
    return before
