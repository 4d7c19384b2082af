"""What a call that waits for permission would change in files, as far as its arguments say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.events import Operation, Relay, ToolEnd, ToolStart
from harness.views.changes.edits import Edit, edits_of
from harness.views.changes.lines import lines_of, regions
from harness.views.formatting.approval import preview_data

_MOST_LINES = 400
_LONGEST_LINE = 2_000
_SOMEWHERE = "@@ … @@"
"""Before a part of a file: the arguments do not say where it is."""


def asked_preview(relay: Relay, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    """As `preview_data`; where the question has no preview, from the arguments of the call."""
    if relay.kind != "permission" or relay.preview:
        return preview_data(relay)
    start = ToolStart(
        call_id=relay.call_id, tool_name=relay.tool_name, input=relay.input, operations=list(operations)
    )
    edits = edits_of(start, ToolEnd(call_id=relay.call_id, tool_name=relay.tool_name, success=True))
    room = _MOST_LINES
    found: list[dict[str, Any]] = []
    for edit in edits:
        if not edit.passages and edit.content is None and edit.before is None:
            continue
        lines = _lines(edit)
        shown = lines[:room]
        room -= len(shown)
        found.append(
            {
                "path": edit.path,
                "change": edit.change or "update",
                "added": sum(line.startswith("+") for line in lines),
                "removed": sum(line.startswith("-") for line in lines),
                "diff": "\n".join(shown),
                "hiddenLines": len(lines) - len(shown),
            }
        )
    return found or None


def _lines(edit: Edit) -> list[str]:
    found: list[str] = []
    for one in edit.passages:
        found += [_SOMEWHERE, *_differences(lines_of(one.old), lines_of(one.new))]
    found = found or _differences(lines_of(edit.before or ""), lines_of(edit.content or ""))
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in found]


def _differences(old: Sequence[str], new: Sequence[str]) -> list[str]:
    found: list[str] = []
    at = 0
    for region in regions(old, new):
        found += [f" {line}" for line in old[at : region.old_start]]
        found += [f"-{line}" for line in old[region.old_start : region.old_end]]
        found += [f"+{line}" for line in new[region.new_start : region.new_end]]
        at = region.old_end
    return [line.rstrip("\n") for line in [*found, *(f" {line}" for line in old[at:])]]
