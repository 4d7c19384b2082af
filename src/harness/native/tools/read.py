"""`read`: lines of a text file with their numbers, or an image or document as an attachment."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from harness.approvals.globs import escaped
from harness.contracts.tool import (
    Attachment,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutput,
    ToolPermission,
)
from harness.contracts.tool_arguments import Arguments, spec, take
from harness.events import Operation
from harness.events.operation import Read
from harness.workspace.files import (
    MOST_EDITABLE_BYTES,
    UTF_16,
    as_tool_failure,
    decode,
    is_binary,
    open_for_reading,
    read_all,
)
from harness.workspace.notebooks import SUFFIX, NotebookFile, notebook
from harness.workspace.roots import FILE_NAMES, ToolWorkspace

DEFAULT_LINES = 2000
LONGEST_LINE = 2000
MOST_TEXT_BYTES = 50 * 1024
MOST_COLUMNS = 10_000_000
MOST_ATTACHED_BYTES = 5 * 1024 * 1024
MEDIA_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".pdf": "application/pdf",
}
_BLOCK_BYTES = 1024 * 1024
_QUICK_BYTES = 4 * 1024 * 1024
"""Larger files are read in a thread, so that the event loop is not blocked."""
_LINE_BYTES = LONGEST_LINE * 4
"""Enough bytes for that many characters."""

_DESCRIPTION = (
    "Read a file. Text comes with line numbers, at most 2000 lines or 50 KB at a time; go on with offset, and in a "
    "line that was cut with column. "
    "Images (png, jpg, gif, webp) and PDF files up to 5 MB are shown to you. A notebook (ipynb) comes as text, each cell "
    "below a line `# %% [code] id`; edit and write take it so."
)


class ReadArguments(Arguments, frozen=True, kw_only=True):
    aliases: ClassVar[Mapping[str, str]] = {
        **FILE_NAMES,
        **dict.fromkeys(
            ("start_line", "startLine", "line_start", "start", "line_offset", "from_line"), "offset"
        ),
        **dict.fromkeys(("n_lines", "num_lines", "line_count", "max_lines", "lines"), "limit"),
    }
    file_path: Annotated[str, Meta(description="the file: absolute, or relative to the workspace")]
    offset: Annotated[
        int, Meta(description="the first line to read, counted from 1 as grep does; -10: the last ten lines")
    ] = 1
    limit: Annotated[int, Meta(ge=1, description="how many lines to read at most")] = DEFAULT_LINES
    column: Annotated[
        int, Meta(ge=0, le=MOST_COLUMNS, description="of one long line, how many characters to skip")
    ] = 0


class ReadTool(Tool):
    category = "read"

    def __init__(self, workspace: ToolWorkspace) -> None:
        self.spec = spec("read", _DESCRIPTION, ReadArguments)
        self._workspace = workspace

    def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
        order = _taken(arguments)
        path = self._workspace.named(order.file_path)
        if order.offset < 0 or (order.offset == 1 and order.limit == DEFAULT_LINES):
            return [Read(path=path)]
        return [Read(path=path, start_line=order.offset, end_line=order.offset + order.limit - 1)]

    def permission(self, arguments: dict[str, Any]) -> ToolPermission:
        order = _taken(arguments)
        return ToolPermission("read", {"filePath": escaped(order.file_path)})

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        order = _taken(arguments)
        path = self._workspace.readable(order.file_path)
        stamp = context.files.stamp(path)
        with as_tool_failure(order.file_path):
            media_type = MEDIA_TYPES.get(os.path.splitext(path)[1].lower())
            if media_type is not None:
                output = _attached(path, order.file_path, media_type)
            elif not _is_large(path):
                output = _numbered(path, order, context)
            else:
                output = await asyncio.to_thread(_numbered, path, order, context)
        # Only now: a file that could not be read does not count as read.
        context.files.read(path, stamp)
        return output


def _taken(arguments: dict[str, Any]) -> ReadArguments:
    """Some models name the last line instead of how many, or both ends as a list."""
    if isinstance(ends := arguments.get("view_range", arguments.get("lineRange")), list) and len(ends) == 2:
        arguments = {**arguments, "offset": ends[0], "end_line": ends[1]}
    order_given = take(ReadArguments, arguments, "read")
    order_given = replace(order_given, offset=order_given.offset or 1)
    last = next((arguments[name] for name in _LAST_LINE if arguments.get(name) is not None), None)
    if isinstance(last, str) and last.isdecimal():
        last = int(last)
    if isinstance(last, int) and last >= order_given.offset > 0:
        order_given = replace(order_given, limit=last - order_given.offset + 1)
    return order_given


_LAST_LINE = ("end_line", "endLine", "line_end", "end", "to_line")


def _is_large(path: str) -> bool:
    return os.path.getsize(path) > _QUICK_BYTES


def _attached(path: str, shown_path: str, media_type: str) -> ToolOutput:
    data = read_all(path, MOST_ATTACHED_BYTES)
    attachment = Attachment(media_type, b64encode(data).decode(), os.path.basename(path))
    text = f"{shown_path}: {media_type}, {len(data)} bytes, attached"
    return ToolOutput(text=text, attachments=(attachment,), operations=[Read(path=path)])


def _numbered(path: str, order: ReadArguments, context: ToolContext) -> ToolOutput:
    book = _notebook(path)
    window = _window(path, order, book, context)
    if order.offset < 0:
        order = replace(order, offset=max(1, window.count + 1 + order.offset))
        window = _window(path, order, book, context)
    if order.offset > max(1, window.count):
        raise ToolFailure(f"{order.file_path} has only {window.count} lines")
    if order.column:
        return _rest_of_line(window, path, order)
    lines, is_cut = _within_limits(window.lines, order.offset)
    last = order.offset + len(lines) - 1
    where = f"{order.offset}-{last}" if lines else "0-0"
    body = "".join(f"{line}\n" for line in lines)
    text = f'<file path="{order.file_path}" lines="{where}" total="{window.count}">\n{body}</file>'
    if is_cut:
        text += f"\n[cut at 50 KB: go on with offset {last + 1}]"
    elif last < window.count:
        text += f"\n[{window.count - last} lines more: go on with offset {last + 1}]"
    if book is not None and order.offset == 1:
        text = "\n".join([text, *book.outputs()])
    lines_read = Read(path=path, start_line=order.offset, end_line=last) if lines else Read(path=path)
    return ToolOutput(text=text, operations=[lines_read])


def _notebook(path: str) -> NotebookFile | None:
    """A notebook that can be shown, and edited, as the text of its cells."""
    if not path.endswith(SUFFIX) or os.path.getsize(path) > MOST_EDITABLE_BYTES:
        return None
    return notebook(read_all(path, MOST_EDITABLE_BYTES))


def _window(path: str, order: ReadArguments, book: NotebookFile | None, context: ToolContext) -> _Window:
    window = _Window(order)
    if book is not None:
        window.feed(book.text.encode("utf-8", "replace"))
        window.finish()
    else:
        _fill(window, path, order.file_path, context)
    return window


def _fill(window: _Window, path: str, shown_path: str, context: ToolContext) -> None:
    descriptor = open_for_reading(path)
    with open(descriptor, "rb", buffering=0) as file:
        is_wide = file.read(2) in UTF_16
        file.seek(0)
        if is_wide:
            text = decode(read_all(path, MOST_EDITABLE_BYTES), shown_path).text
            window.feed(text.encode("utf-8", "replace"))
        while not is_wide and (block := file.read(_BLOCK_BYTES)):
            if not window.has_begun and is_binary(block):
                raise ToolFailure(f"{shown_path} is a binary file: only its name and size can be shown")
            window.feed(block)
            if context.cancelled:
                raise ToolFailure("stopped")
    window.finish()


def _rest_of_line(window: _Window, path: str, order: ReadArguments) -> ToolOutput:
    """The rest of one long line, from a column on."""
    number = order.offset
    line = window.lines[0].removesuffix(b"\r").decode("utf-8", "replace") if window.lines else ""
    shown_text = line[order.column :].encode("utf-8", "replace")[:MOST_TEXT_BYTES].decode("utf-8", "ignore")
    if not shown_text:
        raise ToolFailure(f"line {number} of {order.file_path} has only {len(line)} characters")
    end = order.column + len(shown_text)
    text = f'<file path="{order.file_path}" line="{number}" columns="{order.column}-{end}">\n{shown_text}\n</file>'
    if end < len(line):
        text += f"\n[the line is longer: go on with offset {order.offset} and column {end}]"
    return ToolOutput(text=text, operations=[Read(path=path, start_line=number, end_line=number)])


def _within_limits(lines: list[bytes], first: int) -> tuple[list[str], bool]:
    lines_shown: list[str] = []
    size_bytes = 0
    for number, raw in enumerate(lines, first):
        line = raw.removesuffix(b"\r").decode("utf-8", "replace")
        if len(line) > LONGEST_LINE:
            line = f"{line[:LONGEST_LINE]} [cut: go on with offset {number} and column {LONGEST_LINE}]"
        line = f"{number:>6}\t{line}"
        size_bytes += len(line.encode("utf-8", "replace")) + 1
        if size_bytes > MOST_TEXT_BYTES:
            return lines_shown, True
        lines_shown.append(line)
    return lines_shown, False


class _Window:
    """Some lines of a file of any size, and its number of lines. Long lines are truncated."""

    def __init__(self, order: ReadArguments) -> None:
        self.count = 0
        self.lines: list[bytes] = []
        self.has_begun = False
        self._first = order.offset - 1
        self._end = self._first + (1 if order.column else order.limit)
        self._most_bytes = _LINE_BYTES if not order.column else (order.column + MOST_TEXT_BYTES) * 4 + 4
        self._line = bytearray()
        self._is_inside_line = False

    def feed(self, block: bytes) -> None:
        if not self.has_begun:
            block = block.removeprefix(b"\xef\xbb\xbf")
        self.has_begun = True
        breaks = block.count(b"\n")
        if self.count >= self._end or self.count + breaks < self._first:
            self.count += breaks
            self._is_inside_line = not block.endswith(b"\n")
            return
        first, *others = block.split(b"\n")
        self._extend(first)
        for line in others:
            self._close_line()
            self._extend(line)

    def finish(self) -> None:
        if self._is_inside_line:
            self._close_line()

    def _extend(self, part: bytes) -> None:
        if part:
            self._is_inside_line = True
            if len(self._line) < self._most_bytes and self._first <= self.count < self._end:
                self._line += part[: self._most_bytes - len(self._line)]

    def _close_line(self) -> None:
        if self._first <= self.count < self._end:
            self.lines.append(bytes(self._line))
        self.count += 1
        self._line.clear()
        self._is_inside_line = False
