"""What a call that waits for permission would change in files, as far as its arguments and the files say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from harness.events import Operation, Relay, ToolEnd, ToolStart
from harness.folds.changes.edits import Edit, edits_of
from harness.folds.changes.lines import hunks, lines_of, regions
from harness.folds.changes.texts import applied
from harness.formatting.approval import preview_data

TextReader: TypeAlias = Callable[[str], str | None]
"""The present text of a file; None: not known."""

_MOST_LINES = 400
_LONGEST_LINE = 2_000
_EVERYTHING = 10**9
_SOMEWHERE = "@@ … @@"
"""Before a part of a file: the arguments do not say where it is."""


def asked_preview(
    relay: Relay,
    operations: Sequence[Operation],
    *,
    text_of: TextReader = lambda _path: None,
    is_whole: bool = False,
) -> list[dict[str, Any]] | None:
    """As `preview_data`; where the question has no preview, or not all of it, from the arguments of the call.

    `text_of` adds numbers and the lines around a change; `is_whole`: however long it is.
    """
    from_payload = preview_data(relay)
    if relay.kind != "permission" or (from_payload and not (is_whole and has_hidden_lines(from_payload))):
        return from_payload
    start = ToolStart(
        call_id=relay.call_id, tool_name=relay.tool_name, input=relay.input, operations=list(operations)
    )
    edits = edits_of(start, ToolEnd(call_id=relay.call_id, tool_name=relay.tool_name, success=True))
    room = _EVERYTHING if is_whole else _MOST_LINES
    longest = _EVERYTHING if is_whole else _LONGEST_LINE
    parts_of_files: list[dict[str, Any]] = []
    for edit in edits:
        if not edit.has_text or (edit.change == "move" and not edit.passages):
            continue
        lines = _lines(edit, text_of)
        if not lines:
            continue
        parts = [line[:longest] for line in lines[:room]]
        room -= len(parts)
        is_cut = any(len(line) > longest for line in lines[: len(parts)])
        parts_of_files.append(
            {
                "path": edit.path,
                "change": edit.change or "update",
                "added": sum(line.startswith("+") for line in lines),
                "removed": sum(line.startswith("-") for line in lines),
                "diff": "\n".join(parts),
                "hiddenLines": max(len(lines) - len(parts), int(is_cut)),
            }
        )
    return parts_of_files or from_payload


def has_hidden_lines(preview: Sequence[dict[str, Any]] | None) -> bool:
    """Whether a preview does not have all of the lines that would change."""
    return any(file.get("hiddenLines") or _has_cut_line(str(file.get("diff", ""))) for file in preview or ())


def _has_cut_line(diff: str) -> bool:
    """Whether a line is as long as those that the makers of previews cut."""
    return len(diff) >= _LONGEST_LINE and any(len(line) >= _LONGEST_LINE for line in diff.split("\n"))


def _lines(edit: Edit, text_of: TextReader) -> list[str]:
    before = edit.before if edit.before is not None else text_of(edit.path)
    if before is not None:
        after = applied(before, edit)
        if isinstance(after, str) and after != before:
            return hunks(lines_of(before), lines_of(after))
        if edit.change == "delete":
            return hunks(lines_of(before), [])
    lines: list[str] = []
    for passage in edit.passages:
        place = _SOMEWHERE if passage.line is None else f"@@ -{passage.line} +{passage.line} @@"
        lines += [place, *_differences(lines_of(passage.old), lines_of(passage.new))]
    return lines or _differences(lines_of(edit.before or ""), lines_of(edit.content or ""))


def _differences(old: Sequence[str], new: Sequence[str]) -> list[str]:
    lines: list[str] = []
    at = 0
    for region in regions(old, new):
        lines += [f" {line}" for line in old[at : region.old_start]]
        lines += [f"-{line}" for line in old[region.old_start : region.old_end]]
        lines += [f"+{line}" for line in new[region.new_start : region.new_end]]
        at = region.old_end
    return [line.rstrip("\n") for line in [*lines, *(f" {line}" for line in old[at:])]]
