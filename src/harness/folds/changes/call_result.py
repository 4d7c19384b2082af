"""What came of a call, in few lines: what it changed in files, or what a command or a tool of others put out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from harness.events import Operation, ToolEnd, ToolStart
from harness.events.operation import Command, Write
from harness.folds.changes.edits import Edit, edits_of
from harness.folds.changes.lines import DiffRow, rows_of

_CONTEXT = 1
_FIRST = 2
"""Lines of the beginning of an output: how it went stands at its end."""
_SIGNS = {"added": "+", "removed": "-", "same": " "}
_OWN_FRAME = re.compile(r"\Astdout:\n|^exit code: -?\d+\Z", re.MULTILINE)
"""What our own `bash` says around an output: the line of the call has it already."""


class CallResultLine(NamedTuple):
    kind: str
    """`added`, `removed`, `same`, or `output`."""
    text: str


def call_result(start: ToolStart, end: ToolEnd, most: int) -> list[CallResultLine]:
    """So many lines, and one that counts the others: the first of a change, and of an output its last ones too."""
    operations = start.operations if end.operations is None else end.operations
    lines = [*islice(_changed(start, end), most * 20)] if _is_any(operations, Write) else []
    if not lines and (_is_any(operations, Command) or not operations):
        text = _OWN_FRAME.sub("", end.output or "").strip("\n")
        lines = [CallResultLine("output", line) for line in text.split("\n")] if text else []
    if len(lines) <= most + 1:
        return lines
    last = most - _FIRST if lines[0].kind == "output" else 0
    cut = CallResultLine("output", f"… {len(lines) - most} more lines")
    return [*lines[: most - last], cut, *lines[len(lines) - last :]]


def _is_any(operations: Sequence[Operation], kind: type[Operation]) -> bool:
    return any(isinstance(operation, kind) for operation in operations)


def _changed(start: ToolStart, end: ToolEnd) -> Iterator[CallResultLine]:
    for edit in edits_of(start, end):
        for row in _rows(edit):
            if row.kind in _SIGNS:
                number = row.new if row.new is not None else row.old
                place = "" if number is None else f"{number:>4} "
                yield CallResultLine(row.kind, f"{place}{_SIGNS[row.kind]} {row.text}")


def _rows(edit: Edit) -> Iterator[DiffRow]:
    if edit.content is not None:
        yield from rows_of(edit.before or "", edit.content, context=_CONTEXT)
    for passage in edit.passages:
        yield from rows_of(passage.old, passage.new, context=_CONTEXT, first_line=passage.line)
