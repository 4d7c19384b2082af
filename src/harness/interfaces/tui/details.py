"""What is behind a line: a call with its input and output, and the files that a session changed."""

from __future__ import annotations

from collections.abc import Iterable

from harness.events import Event, ToolEnd, ToolStart
from harness.interfaces.tui.lines import Line
from harness.interfaces.tui.source_data import ScreenData
from harness.interfaces.tui.transcript_lines import CallRange
from harness.views.changes.fold import ChangedFile, ChangeHistory
from harness.views.changes.lines import DiffRow, rows_of
from harness.views.changes.texts import versions
from harness.views.formatting.approval import bounded, lines_of
from harness.views.formatting.calls import call_lines as described_lines
from harness.views.formatting.calls import short_path
from harness.views.formatting.escapes import neutralised, revealed

_MOST = 20_000
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "same": (" ", "")}


def call_lines(data: ScreenData, session: str, place: CallRange, cwd: str) -> list[Line]:
    """Input and output of a call, whole."""
    first = place.start if place.start >= 0 else place.end
    start: ToolStart | None = None
    end: ToolEnd | None = None
    for event in data.read(session, first):
        if isinstance(event, ToolStart) and event.seq == place.start:
            start = event
        elif isinstance(event, ToolEnd) and event.seq == place.end:
            end = event
        if event.seq >= max(place.start, place.end):
            break
    if start is None:
        start = ToolStart(call_id="", tool_name=end.tool_name if end is not None else "")
    lines: list[Line] = [[*line.lead, *line.tail] for line in described_lines(start, end, cwd)]
    lines += [(), [("bold", f"Input of {start.tool_name}")]]
    lines += [[("", line)] for line in bounded(lines_of(start.input), _MOST)]
    if end is not None and end.output:
        lines += [(), [("bold", "Output")]]
        lines += [[("", line)] for line in bounded(neutralised(end.output).split("\n"), _MOST)]
    return lines


def change_lines(events: Iterable[Event], cwd: str) -> list[Line]:
    """The files that were changed, each with its difference, as far as the log has it."""
    history = ChangeHistory()
    for event in events:
        history.feed(event)
    if not history.files:
        return [[("dim", "No file was changed.")]]
    lines: list[Line] = []
    for file in history.files.values():
        rows = _rows(file)
        added, removed = (sum(row.kind == kind for row in rows) for kind in ("added", "removed"))
        moved = f" (was {short_path(file.original, cwd)})" if file.original else ""
        path = revealed(f"{short_path(file.path, cwd)}{moved}", is_line=True)
        lines += [(), [("bold", path), ("green", f"  +{added}"), ("red", f" −{removed}")]]
        lines += [_diff_line(row) for row in rows] or [[("dim", "  The log does not have the text.")]]
    return lines[1:]


def _rows(file: ChangedFile) -> list[DiffRow]:
    texts = versions(file.edits)
    first, last = texts[0], texts[-1]
    if first is not None and last is not None:
        return rows_of(first if isinstance(first, str) else "", last if isinstance(last, str) else "")
    passages = [passage for edit in file.edits for passage in edit.passages]
    rows = [row for passage in passages for row in rows_of(passage.old, passage.new, first_line=passage.line)]
    whole = [edit.content for edit in file.edits if edit.content is not None and not edit.passages]
    return rows + [row for text in whole[-1:] for row in rows_of("", text)]


def _diff_line(row: DiffRow) -> Line:
    if row.kind == "place":
        return [("cyan", f"  ⋯ {revealed(row.text, is_line=True)}")]
    sign, style = _SIGNS[row.kind]
    number = row.new if row.new is not None else row.old
    return [("dim", f"{'' if number is None else number:>6} "), (style, f"{sign} {revealed(row.text)}")]
