"""What a call would change in files, as somebody who is asked about it is shown it: bounded, and with what goes away."""

from __future__ import annotations

import difflib
from typing import Any

from harness.sources.tool import FileChange, Previewing, Tool, ToolContext, ToolFailure

MOST_LINES = 400
"""Of the differences of one call; how many more there are is said."""
MOST_CHARACTERS = 40_000
_LONGEST_LINE = 2_000
_MOST_COMPARED_LINES = 20_000
"""Comparing takes the square of it at worst: what is longer counts as replaced as a whole."""


async def preview_of(
    tool: Tool, arguments: dict[str, Any], context: ToolContext
) -> list[dict[str, Any]] | None:
    """None when it changes no file. Raises what keeps the call from being carried out."""
    try:
        tool.operations(arguments)
    except ToolFailure:
        raise
    except Exception:  # noqa: S110 # then nobody knows what it does, and somebody is asked
        pass
    if not isinstance(tool, Previewing):
        return None
    changes, room = await tool.preview(arguments, context), _Room()
    return [_shown(change, room) for change in changes] or None


class _Room:
    """What is left to show."""

    def __init__(self) -> None:
        self.lines = MOST_LINES
        self.characters = MOST_CHARACTERS

    def take(self, line: str) -> bool:
        if self.lines <= 0 or self.characters < len(line):
            self.lines = 0
            return False
        self.lines -= 1
        self.characters -= len(line)
        return True


def _shown(change: FileChange, room: _Room) -> dict[str, Any]:
    before, after = _lines(change.before), _lines(change.after)
    differences = _differences(before, after)
    shown = [line for line in differences if room.take(line)]
    kind = "create" if change.before is None else "delete" if change.after is None else "update"
    return {
        "path": change.path,
        "change": kind,
        "added": sum(line.startswith("+") for line in differences),
        "removed": sum(line.startswith("-") for line in differences),
        "diff": "\n".join(shown),
        "hidden_lines": len(differences) - len(shown),
    }


def _lines(text: str | None) -> list[str]:
    return [] if not text else text.removesuffix("\n").split("\n")


def _differences(before: list[str], after: list[str]) -> list[str]:
    """As in a unified diff, from its first hunk on."""
    if not before or not after or len(before) + len(after) > _MOST_COMPARED_LINES:
        found = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    else:
        found = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in found]
