"""What changed between two texts, line by line: the rows of a diff, how many lines they are, and a patch of them.

Unique lines that both texts have are matched first, so that a diff of large files takes time in proportion to their
size. What is left between them is compared with `difflib`, unless it is too much: then all of it is replaced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

import msgspec

CONTEXT_LINES = 3
_MOST_COMPARISONS = 4_000_000
_DEEPEST = 12
_LONGEST_SECTION = 80

Block: TypeAlias = tuple[int, int, int]
"""First line in the old text, first line in the new text, how many are equal."""


class Region(NamedTuple):
    """Lines `old_start` to `old_end` became `new_start` to `new_end`; counted from 0, without the last."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class DiffRow(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A line of a diff. `place`: the lines that follow are elsewhere; `text` is then the section that they are in."""

    kind: Literal["same", "added", "removed", "place"]
    text: str
    old: int | None = None
    """Its number in the old text, from 1."""
    new: int | None = None
    skipped: int = 0
    """Of a place: how many equal lines are left out before it."""
    ends_open: bool = False
    """The text ends with this line, without a line feed."""


def lines_of(text: str) -> list[str]:
    """The lines with their ends. Only a line feed ends a line."""
    parts = text.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def regions(old: Sequence[str], new: Sequence[str]) -> list[Region]:
    """What differs, in order."""
    result: list[Region] = []
    at_old = at_new = 0
    for first_old, first_new, count in [*_blocks(old, new, 0), (len(old), len(new), 0)]:
        if at_old < first_old or at_new < first_new:
            result.append(Region(at_old, first_old, at_new, first_new))
        at_old, at_new = first_old + count, first_new + count
    return result


def counts(old: str, new: str) -> tuple[int, int]:
    """How many lines were added, and how many removed."""
    changed = regions(lines_of(old), lines_of(new))
    added = sum(region.new_end - region.new_start for region in changed)
    return added, sum(region.old_end - region.old_start for region in changed)


def _blocks(old: Sequence[str], new: Sequence[str], depth: int) -> list[Block]:
    head, shorter = 0, min(len(old), len(new))
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    blocks: list[Block] = [(0, 0, head)] if head else []
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if middle_old and middle_new:
        blocks += [(i + head, j + head, count) for i, j, count in _middle(middle_old, middle_new, depth)]
    return [*blocks, (len(old) - tail, len(new) - tail, tail)] if tail else blocks


def _middle(old: Sequence[str], new: Sequence[str], depth: int) -> Iterator[Block]:
    anchors = _anchors(old, new) if depth < _DEEPEST else []
    if not anchors:
        if len(old) * len(new) <= _MOST_COMPARISONS:
            matcher = SequenceMatcher(None, old, new, autojunk=False)
            yield from (block for block in matcher.get_matching_blocks() if block[2])
        return
    at_old = at_new = 0
    for i, j in [*anchors, (len(old), len(new))]:
        for first_old, first_new, count in _blocks(old[at_old:i], new[at_new:j], depth + 1):
            yield first_old + at_old, first_new + at_new, count
        if i < len(old):
            yield i, j, 1
        at_old, at_new = i + 1, j + 1


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """The longest series of lines that occur once in both texts, in the same order in both."""
    counted_old, counted_new = Counter(old), Counter(new)
    places = {line: j for j, line in enumerate(new) if counted_new[line] == 1}
    pairs = [(i, places[line]) for i, line in enumerate(old) if counted_old[line] == 1 and line in places]
    ends: list[int] = []
    best: list[int] = []
    """For each length, the pair that ends a series of it soonest."""
    before: list[int] = []
    for number, (_i, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(best[length - 1] if length else -1)
        if length == len(ends):
            ends.append(j)
            best.append(number)
        else:
            ends[length], best[length] = j, number
    anchors: list[tuple[int, int]] = []
    at = best[-1] if best else -1
    while at >= 0:
        anchors.append(pairs[at])
        at = before[at]
    return anchors[::-1]


def rows_of(
    old_text: str,
    new_text: str,
    *,
    context: int = CONTEXT_LINES,
    first_line: int | None = 1,
    ignores_spaces: bool = False,
) -> list[DiffRow]:
    """The rows of a diff. `first_line`: the number of the first line, if the texts are parts of a file; None: unknown.
    `ignores_spaces`: lines that differ in nothing but spaces are the same.
    """
    old, new = lines_of(old_text), lines_of(new_text)
    changed = regions(_without_spaces(old), _without_spaces(new)) if ignores_spaces else regions(old, new)
    rows: list[DiffRow] = []
    position = 0
    for group in _groups(changed, context):
        start, end = max(0, group[0].old_start - context), min(len(old), group[-1].old_end + context)
        shift = group[0].new_start - group[0].old_start
        if first_line is not None:
            section = _section(old, start)
            rows.append(_row("place", section, start, start + shift, first_line, skipped=start - position))
        rows += _group_rows(old, new, group, (start, end), first_line)
        position = end
    if rows and position < len(old) and first_line is not None:
        rows.append(DiffRow("place", "", skipped=len(old) - position))
    return rows


def _without_spaces(lines: Sequence[str]) -> list[str]:
    return ["".join(line.split()) for line in lines]


def _group_rows(
    old: Sequence[str],
    new: Sequence[str],
    group: Sequence[Region],
    bounds: tuple[int, int],
    first_line: int | None,
) -> Iterator[DiffRow]:
    at = bounds[0]
    shift = group[0].new_start - group[0].old_start
    for region in group:
        for number in range(at, region.old_start):
            yield _row("same", new[number + shift], number, number + shift, first_line)
        for number in range(region.old_start, region.old_end):
            yield _row("removed", old[number], number, None, first_line)
        for number in range(region.new_start, region.new_end):
            yield _row("added", new[number], None, number, first_line)
        at, shift = region.old_end, region.new_end - region.old_end
    for number in range(at, bounds[1]):
        yield _row("same", new[number + shift], number, number + shift, first_line)


def _groups(changed: Sequence[Region], context: int) -> list[list[Region]]:
    """Regions whose context touches belong together."""
    groups: list[list[Region]] = []
    for region in changed:
        if groups and region.old_start - groups[-1][-1].old_end <= 2 * context:
            groups[-1].append(region)
        else:
            groups.append([region])
    return groups


def _row(
    kind: Literal["same", "added", "removed", "place"],
    text: str,
    old: int | None,
    new: int | None,
    first_line: int | None,
    *,
    skipped: int = 0,
) -> DiffRow:
    ends_open = kind != "place" and not text.endswith("\n")
    if first_line is None:
        return DiffRow(kind, text.removesuffix("\n"), None, None, skipped, ends_open)
    number_old = None if old is None else old + first_line
    number_new = None if new is None else new + first_line
    return DiffRow(kind, text.removesuffix("\n"), number_old, number_new, skipped, ends_open)


def _section(lines: Sequence[str], before: int) -> str:
    """The last line before a place that begins a section, such as a function: one without indentation."""
    for number in range(before - 1, max(-1, before - 2000), -1):
        first = lines[number][:1]
        if first.isalpha() or first in ("_", "$"):
            return lines[number].strip()[:_LONGEST_SECTION]
    return ""


def patch_of(old_path: str, new_path: str, old_text: str | None, new_text: str | None) -> str:
    """A unified diff of one file, as git writes it; None: there is no file. Paths are relative."""
    head = [f"diff --git {_quoted('a/' + old_path)} {_quoted('b/' + new_path)}"]
    if old_text is None:
        head.append("new file mode 100644")
    elif new_text is None:
        head.append("deleted file mode 100644")
    elif old_path != new_path:
        head += [f"rename from {_quoted(old_path)}", f"rename to {_quoted(new_path)}"]
    parts = hunks(lines_of(old_text or ""), lines_of(new_text or ""))
    if parts:
        head.append(f"--- {_quoted('a/' + old_path) if old_text is not None else '/dev/null'}")
        head.append(f"+++ {_quoted('b/' + new_path) if new_text is not None else '/dev/null'}")
    return "\n".join([*head, *parts]) + "\n"


def hunks(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of a unified diff, from its first `@@` on."""
    out: list[str] = []
    for group in _groups(regions(old, new), CONTEXT_LINES):
        start = max(0, group[0].old_start - CONTEXT_LINES)
        end = min(len(old), group[-1].old_end + CONTEXT_LINES)
        new_start = start + group[0].new_start - group[0].old_start
        new_end = end + group[-1].new_end - group[-1].old_end
        section = _section(old, start)
        place = f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
        out.append(f"{place} {section}".rstrip())
        signs = {"same": " ", "added": "+", "removed": "-", "place": ""}
        for row in _group_rows(old, new, group, (start, end), 1):
            out.append(f"{signs[row.kind]}{row.text}")
            if row.ends_open:
                out.append("\\ No newline at end of file")
    return out


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"


def _quoted(path: str) -> str:
    """A path as git quotes it: with escapes where it has characters that would end it."""
    if all(character.isprintable() and character not in '"\\' for character in path):
        return path
    escaped = []
    for byte in path.encode("utf-8", "surrogateescape"):
        if byte in b'"\\':
            escaped.append("\\" + chr(byte))
        else:
            escaped.append(chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
    return '"' + "".join(escaped) + '"'
