"""The texts of a file between its edits, as far as they can be known.

A log has parts of texts: what was replaced, and by what. From a whole text (one that the agent wrote, the file as it is
now, or as it was committed) the others follow, forwards and backwards. A part that is not found, or is found more than
once, makes a text unknown: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TypeAlias

from harness.folds.changes.edits import Edit, Passage
from harness.folds.changes.lines import Region, lines_of, regions


class Absent(Enum):
    """There is no file."""

    FILE = "no file"


ABSENT = Absent.FILE
Text: TypeAlias = str | Absent | None
"""None: not known."""
_SHORTEST_DISTINCT = 12


def applied(text: Text, edit: Edit) -> Text:
    """The text after an edit."""
    if edit.content is not None:
        return edit.content
    if edit.change == "delete":
        return ABSENT
    if edit.change == "move" and not edit.passages:
        return text
    if not isinstance(text, str) or not edit.passages:
        return None
    for passage in edit.passages:
        replacement = _replaced(text, passage.old, passage.new, passage)
        if replacement is None:
            return None
        text = replacement
    return text


def undone(text: Text, edit: Edit) -> Text:
    """The text before an edit, from the one after it."""
    if edit.before is not None:
        return edit.before
    if edit.change == "create":
        return ABSENT
    if edit.change == "move" and not edit.passages:
        return text
    if not isinstance(text, str) or not edit.passages:
        return None
    if edit.content is not None and text != edit.content:
        return None
    for passage in reversed(edit.passages):
        if passage.every:
            return None  # which of them were the same before is not known
        replacement = _replaced(text, passage.new, passage.old, passage)
        if replacement is None:
            return None
        text = replacement
    return text


def versions(
    edits: Sequence[Edit],
    present: Text = None,
    candidates: Sequence[Text] = (),
    *,
    is_as_left: bool = True,
) -> list[Text]:
    """The text before the first edit, and after each of them.

    `present`: the file as it is now; `is_as_left`: nothing shows that it was changed since the last edit.
    `candidates`: what it may have been before; one is believed if all edits can be made in it.
    """
    contents = _forwards(edits, [None] * (len(edits) + 1))
    _backwards(edits, contents)
    if contents[0] is not None and contents[-1] is not None:
        return contents
    is_distinct = all(_is_distinct(passage.new) for edit in edits for passage in edit.passages)
    if is_as_left and (from_present := _from_present(edits, contents, present)):
        return from_present
    for candidate in candidates:
        attempt = _forwards(edits, [candidate, *[None] * len(edits)])
        if None not in attempt and _agree(attempt, contents):
            return attempt
    if is_distinct and (from_present := _from_present(edits, contents, present)):
        return from_present
    return contents


def _from_present(edits: Sequence[Edit], contents: Sequence[Text], present: Text) -> list[Text] | None:
    """All texts, if they follow from the one that is there now."""
    if present is None or contents[-1] not in (None, present):
        return None
    texts = [*contents[:-1], present]
    _backwards(edits, texts)
    return texts if None not in texts else None


def _is_distinct(part: str) -> bool:
    """Whether it is long enough to be the agent's text at any place."""
    return len(part.strip()) >= _SHORTEST_DISTINCT


def _forwards(edits: Sequence[Edit], texts: list[Text]) -> list[Text]:
    """What follows from earlier texts."""
    contents = [*texts]
    for number, edit in enumerate(edits):
        if contents[number] is None and (edit.change == "create" or edit.before is not None):
            contents[number] = undone(None, edit)
        if contents[number + 1] is None:
            contents[number + 1] = applied(contents[number], edit)
    return contents


def _backwards(edits: Sequence[Edit], texts: list[Text]) -> None:
    for number in range(len(edits) - 1, -1, -1):
        if texts[number] is None:
            texts[number] = undone(texts[number + 1], edits[number])


def _agree(attempt: Sequence[Text], contents: Sequence[Text]) -> bool:
    return all(known_text in (None, text) for text, known_text in zip(attempt, contents, strict=True))


def _replaced(text: str, old: str, new: str, passage: Passage) -> str | None:
    if passage.every:
        return text.replace(old, new) if old and old in text else None
    if not old:
        return _inserted(text, new, passage.line)
    places = [*_places(text, old, is_lines=passage.is_lines)]
    if len(places) > 1 and passage.line is not None:
        places = [place for place in places if _covers(text, place, old, passage.line)]
    if len(places) != 1:
        return None
    return text[: places[0]] + new + text[places[0] + len(old) :]


def _places(text: str, part: str, *, is_lines: bool) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        if not is_lines or not at or text[at - 1] == "\n":
            yield at
        at = text.find(part, at + 1)


def _covers(text: str, place: int, part: str, line: int) -> bool:
    first = text.count("\n", 0, place) + 1
    return first <= line <= first + part.count("\n")


def _inserted(text: str, new: str, line: int | None) -> str | None:
    """Whole lines before the line of that number."""
    if line is None:
        return None
    lines = lines_of(text)
    if line - 1 > len(lines):
        return None
    return "".join(lines[: line - 1]) + new + "".join(lines[line - 1 :])


def merged(base: str, mine: str, theirs: str) -> str | None:
    """`mine` with what `theirs` changed in `base`; None if both changed the same place, each in its own way."""
    old, mine_lines, right = lines_of(base), lines_of(mine), lines_of(theirs)
    changed = [(region, mine_lines) for region in regions(old, mine_lines)]
    for region in regions(old, right):
        same = [each for each, lines in changed if lines is mine_lines and _touch(each, region)]
        if not same:
            changed.append((region, right))
        elif len(same) > 1 or not _is_same(same[0], mine_lines, region, right):
            return None
    out: list[str] = []
    at = 0
    for region, lines in sorted(changed, key=lambda each: each[0]):
        out += old[at : region.old_start]
        out += lines[region.new_start : region.new_end]
        at = region.old_end
    return "".join([*out, *old[at:]])


def _touch(first: Region, other: Region) -> bool:
    """Whether two regions of the same text overlap, or one inserts at an edge of the other."""
    start, end = max(first.old_start, other.old_start), min(first.old_end, other.old_end)
    inserts = first.old_start == first.old_end or other.old_start == other.old_end
    return start < end or (inserts and start == end)


def _is_same(first: Region, one_lines: Sequence[str], other: Region, right: Sequence[str]) -> bool:
    is_there = (first.old_start, first.old_end) == (other.old_start, other.old_end)
    return is_there and one_lines[first.new_start : first.new_end] == right[other.new_start : other.new_end]
