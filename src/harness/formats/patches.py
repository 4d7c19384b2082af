"""Which files and lines a patch changes: of the format that models write for `apply_patch`, and of unified diffs.

*** Begin Patch
*** Update File: src/old.py
*** Move to: src/new.py
@@ def greet():
-    return "hi"
+    return "hello"
*** Add File: notes.md
+text
*** Delete File: gone.py
*** End Patch
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from harness.events.operation import Write
from harness.formats.fields import absolute

_FILE_LINE = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to):(.*)")
_CHANGES = {"Add File": "create", "Update File": "update", "Delete File": "delete", "Move to": "create"}
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


def operations_of_patch(text: str, cwd: str = "") -> list[Write]:
    """One `Write` per file, in the order of the patch; a file that is named again is the same one.

    A moved file is two: the old path (`move`) and the new one (`create`). Lines are known only where
    a hunk has numbers (`@@ -1,4 +1,5 @@`); they span from the first hunk to the last.
    """
    writes: dict[str, Write] = {}
    path = ""
    for line in text.split("\n"):
        if (match := _FILE_LINE.match(line)) is not None:
            keyword, named_path = match[1], absolute(match[2].strip(), cwd)
            if keyword == "Move to" and path in writes:
                writes[path] = replace(writes[path], change="move")
            path = named_path or path
            if named_path:
                writes[path] = _renewed(writes.get(path), Write(path=path, change=_CHANGES[keyword]))
        elif path and (hunk := _HUNK.match(line)) is not None:
            start = int(hunk[1])
            writes[path] = _spanning(writes[path], start, start + max(1, int(hunk[2] or 1)) - 1)
    return list(writes.values())


_MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File")


def paths_of_patch(text: str) -> list[str] | None:
    """Every path that a patch could mean, as written; None when something in it is not understood.

    Programs differ in how they read a patch: what looks like the line of a file counts as one, wherever it stands.
    """
    paths: list[str] = []
    for line in map(str.strip, re.split(r"[\r\n\v\f\x85\u2028\u2029]+", text)):
        if not line.startswith("***") or line in _MARKS:
            continue
        match = _FILE_LINE.fullmatch(line)
        if match is None or not match[2].strip():
            return None
        paths.append(match[2].strip())
    return paths or None


def _renewed(before: Write | None, write: Write) -> Write:
    """A file that a patch changes in several ways is, on the whole, updated."""
    if before is None:
        return write
    return before if before.change == write.change else replace(before, change="update")


def _spanning(write: Write, start: int, end: int) -> Write:
    return replace(
        write,
        start_line=min(start, write.start_line or start),
        end_line=max(end, write.end_line or end),
    )


_DIFF_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def changed_lines(diff: str) -> tuple[int, int] | None:
    """First and last line of a unified diff that was added, or that stands where others were removed.

    The lines around a change, which a hunk shows as well, do not count. Of several files in one diff
    the result spans all; give it one at a time.
    """
    line_numbers: list[int] = []
    number = old_left = new_left = 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if (hunk := _DIFF_HUNK.match(line)) is not None:
                number = int(hunk[3])
                old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            continue
        mark = line[:1]
        if mark == "\\":
            continue
        if mark in ("+", "-"):
            line_numbers.append(max(1, number))
        if mark != "+":
            old_left -= 1
        if mark != "-":
            new_left -= 1
            number += 1
    return (min(line_numbers), max(line_numbers)) if line_numbers else None
