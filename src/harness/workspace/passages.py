"""Passages of a file for a model: what a change made of its lines, and which lines are most like some others."""

from __future__ import annotations

import difflib

_AROUND = 3
_MOST_LINES = 60
_MOST_COMPARED = 20_000
"""Lines: in a longer file nothing alike is looked for."""
_LONGEST_LINE = 400
_ALIKE = 0.6


def shown_change(before: str, after: str) -> list[str]:
    """The new lines with their numbers and three around them, what went with a minus; bounded."""
    old, new = before.split("\n"), after.split("\n")
    first = _alike(old, new)
    end = _alike(old[first:][::-1], new[first:][::-1])
    old_lines, come = old[first : len(old) - end], new[first : len(new) - end]
    above, below = new[max(0, first - _AROUND) : first], new[len(new) - end : len(new) - end + _AROUND]
    lines = [_numbered(first - len(above) + at, " ", line) for at, line in enumerate(above, 1)]
    lines += [_numbered(0, "-", line) for line in old_lines]
    lines += [_numbered(first + at, "+", line) for at, line in enumerate(come, 1)]
    lines += [_numbered(first + len(come) + at, " ", line) for at, line in enumerate(below, 1)]
    if len(lines) > _MOST_LINES:
        half = _MOST_LINES // 2
        left_out = len(lines) - 2 * half
        lines = [*lines[:half], f"        … [{left_out} lines left out] …", *lines[-half:]]
    return lines


def nearest_passage(text: str, sought: str) -> str:
    """The lines of a text that are most like those that were not found, for an error; or that there are none."""
    lines, sought_lines = text.split("\n"), [line for line in sought.split("\n") if line.strip()]
    again = "; read the file again"
    if not sought_lines or not lines or len(lines) > _MOST_COMPARED:
        return again
    matcher = difflib.SequenceMatcher(b=sought_lines[0].strip()[:_LONGEST_LINE], autojunk=False)
    best, place = _ALIKE, -1
    for at, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_LONGEST_LINE])
        if (
            matcher.real_quick_ratio() > best
            and matcher.quick_ratio() > best
            and (ratio := matcher.ratio()) > best
        ):
            best, place = ratio, at
    if place < 0:
        return again
    passage = lines[place : place + min(len(sought_lines) + 1, 8)]
    excerpt = "\n".join(_numbered(place + at, " ", line) for at, line in enumerate(passage, 1))
    return f"; what is most like it:\n{excerpt}"


def _alike(first: list[str], second: list[str]) -> int:
    """How many lines at the beginning are the same."""
    pairs = zip(first, second, strict=False)
    return next(
        (at for at, (first_item, other) in enumerate(pairs) if first_item != other),
        min(len(first), len(second)),
    )


def _numbered(number: int, sign: str, line: str) -> str:
    line = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} …"
    return f"{number or '':>6} {sign}{line}"
