"""Places in a text that a person would read wrongly: characters that cannot be seen, directions, look-alikes, blank runs.

Which characters cannot be seen is decided in `escapes.py`, for every reader.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from harness.formatting.escapes import UNSEEN, revealed

MarkKind = Literal[
    "control", "invisible", "direction", "blank", "blanks", "empty-lines", "look-alike", "heap"
]

_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BLANK_RUN = re.compile(r"(?<=\S)[ \t]{12,}(?=\S)|(?:(?<=\n)|^)[ \t]{60,}(?=\S)")
"""Blanks that push what follows out of sight: inside a line, or before it."""
_EMPTY_LINES = re.compile(r"(?<=\n)[ \t]*(?:\n[ \t]*){2,}(?=\n)")
_HEAP = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]{4,}")
"""Marks above and below one letter: so many cover the lines around it."""
_WORD = re.compile(r"[^\W\d_]+")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_LOOKING_LATIN = frozenset(
    "аАВсСԁеЕҽһНіІјЈкКӏмМоОрРԛѕЅтТѵԝхХуУ"  # Cyrillic
    "αΑΒϲϹεΕΗιΙκΚΜνΝοΟρΡτΤυΥχΧΖ"  # Greek
    "օոսցհԼՏ"  # Armenian
)
"""Letters of other scripts that look like Latin ones: harmless in a word of their own script, not in a Latin word."""
_ALWAYS_ALIKE = re.compile(
    "[\uff01-\uff5e\U0001d400-\U0001d7ff"  # full width, and letters of mathematics
    "\u2010\u2011\u2043\u02d7\u2212"  # hyphens and minus signs that start no option
    "\u2044\u2215\u29f8\u2024\u2236\ua789\ufe68\u01c0\u2223]"  # slash, dot, colon, backslash, bar
)
_MOST_MARKS = 200


class Mark(NamedTuple):
    start: int
    """In UTF-16 code units, as JavaScript counts."""
    end: int
    kind: MarkKind
    label: str
    """What to show in its place."""

    def data(self) -> dict[str, Any]:
        return self._asdict()


def marks_of(text: str) -> list[Mark]:
    """In the order of the text, none inside another; of very many only the first."""
    spans = sorted(_found(text))
    marks: list[Mark] = []
    end, units = 0, 0
    position = 0
    for start, stop, kind, label in spans:
        if start < end:
            continue
        units += utf16_length(text[position:start])
        first, position, end = units, stop, stop
        units += utf16_length(text[start:stop])
        marks.append(Mark(first, units, kind, label))
        if len(marks) == _MOST_MARKS:
            break
    return marks


def _found(text: str) -> Iterator[tuple[int, int, MarkKind, str]]:
    for match in UNSEEN.finditer(text):
        start, text_of_match = match.start(), match.group()
        yield start, match.end(), _kind(text_of_match), revealed(text_of_match)
    for match in _BLANK_RUN.finditer(text):
        yield match.start(), match.end(), "blanks", f"⟨{len(match.group())} blanks⟩"
    for match in _EMPTY_LINES.finditer(text):
        yield match.start(), match.end(), "empty-lines", f"⟨{match.group().count(chr(10)) + 1} empty lines⟩"
    if text.isascii():
        return
    for match in _HEAP.finditer(text):
        yield match.start(), match.end(), "heap", f"⟨{match.end() - match.start()} combining marks⟩"
    for match in _ALWAYS_ALIKE.finditer(text):
        yield match.start(), match.end(), "look-alike", _named(match.group())
    for word in _WORD.finditer(text):
        if _ASCII_LETTER.search(word.group()):
            for offset, letter in enumerate(word.group()):
                if letter in _LOOKING_LATIN:
                    start = word.start() + offset
                    yield start, start + 1, "look-alike", _named(letter)


def _kind(character: str) -> MarkKind:
    if _DIRECTIONS.match(character):
        return "direction"
    category = unicodedata.category(character)
    if category == "Cc":
        return "control"
    return "blank" if category == "Zs" or character in _LETTERS_THAT_ARE_BLANK else "invisible"


_LETTERS_THAT_ARE_BLANK = frozenset("\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0")


def _named(character: str) -> str:
    return f"{character}⟨U+{ord(character):04X}⟩"


def utf16_length(text: str) -> int:
    """As JavaScript counts."""
    return len(text) + sum(character > "\uffff" for character in text)
