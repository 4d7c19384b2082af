"""Which lines of a file a unified diff changes, as they are numbered after it.

@@ -1,3 +1,4 @@
 kept
-taken out
+put in
+put in
 kept
"""

from __future__ import annotations

import re

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


def changed_lines(diff: str) -> tuple[int, int] | None:
    """First and last line that was put in, or that stands where others were taken out.

    The lines around a change, which a hunk shows as well, do not count. Of several files in one diff
    the result spans all; give it one at a time.
    """
    found: list[int] = []
    number = old_left = new_left = 0
    for line in diff.split("\n"):
        if old_left <= 0 and new_left <= 0:
            if (hunk := _HUNK.match(line)) is not None:
                number = int(hunk[3])
                old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            continue
        mark = line[:1]
        if mark == "\\":
            continue
        if mark in ("+", "-"):
            found.append(max(1, number))
        if mark != "+":
            old_left -= 1
        if mark != "-":
            new_left -= 1
            number += 1
    return (min(found), max(found)) if found else None
