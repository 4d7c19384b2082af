"""Look for many patterns in every byte an agent writes, fast: each pattern hangs on one byte, its anchor.

`bytes.find` runs to a single byte at memory speed. A regular expression that begins with one
literal byte needs four times as long, and one that begins with a set of bytes fifty times. So
every pattern is looked for by a byte that is rare in what agents write, and looks behind for
what stands before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import NamedTuple

RARE_BYTES = b"ZQJX@YVzKBjGHWMF"
"""The rarest first; in code and in prose each comes less than once in a thousand bytes."""
COMMON_BYTES = b"DPUqLCIORATSEN6532784kvwxy9-b"
"""The next ones. Searching by one of these costs as much as three plain searches."""
_RARE_DISTANCE_BYTES = 1024
_SHORT_BYTES = 4096
_FIRST_BYTES = 32 * 1024
"""So much is looked through without compiling anything, unless there is something to be found."""

compiled = cache(re.compile)


class Span(NamedTuple):
    start: int
    end: int
    name: str


class _Row(NamedTuple):
    lead: int
    name: str


def rare_places(text: bytes, anchor: bytes) -> list[int] | None:
    """Where a byte stands. None: it is not rare in this text, and an expression is faster."""
    if anchor not in RARE_BYTES:
        return None
    places: list[int] = []
    most = len(text) // _RARE_DISTANCE_BYTES + 16
    place = text.find(anchor)
    while place >= 0:
        if len(places) == most:
            return None
        places.append(place)
        place = text.find(anchor, place + 1)
    return places


def quick_places(text: bytes, needle: bytes) -> list[int] | None:
    """Where a needle stands, found by its rarest byte. None: that is not rare enough here."""
    if len(text) <= _SHORT_BYTES and needle not in text:
        return []
    anchor = rarest_byte(needle)
    places = rare_places(text, anchor) if anchor else None
    if places is None:
        return None
    lead = needle.index(anchor)
    return [place - lead for place in places if place >= lead and text.startswith(needle, place - lead)]


@cache
def rarest_byte(needle: bytes) -> bytes:
    """Empty when no byte of it is rare."""
    return next((bytes([byte]) for byte in RARE_BYTES if byte in needle), b"")


class AnchoredSearch:
    """All patterns that hang on one anchor, as one expression.

    Values stand anywhere, and one may begin or stand inside another. Shapes begin a word, and
    `boundary` tells where one begins.
    """

    def __init__(self, anchor: bytes, guard: bytes = b"", boundary: bytes = b"") -> None:
        self.anchor = anchor
        self._guard = guard
        self._boundary = boundary
        self._alternatives: list[bytes] = []
        self._literals: list[bytes] = []
        self._rows: list[_Row] = []
        self._pattern: re.Pattern[bytes] | None = None
        self._seen_bytes = 0

    def add(self, ahead: bytes, lead: int, name: str, literals: Iterable[bytes]) -> None:
        """`ahead` is the pattern from its anchor on, `lead` how much stands before; one of `literals` is in each match."""
        self._alternatives.append(ahead + b"()")
        self._rows.append(_Row(lead, name))
        self._literals += literals

    def spans(self, text: bytes) -> Iterator[Span]:
        if not self._may_find(text):
            return
        next_match = self._matches(text)
        position = 0
        while match := next_match(position):
            row = self._rows[(match.lastindex or 1) - 1]
            start = match.start() - row.lead
            position = match.start() + 1
            if self._boundary:
                # Not part of the expression: it would be there thirty times, and it is needed once in a million.
                if not compiled(self._boundary).match(text, start):
                    continue
                position = match.end()
            yield Span(start, match.end(), row.name)

    def _may_find(self, text: bytes) -> bool:
        """Compiling costs as much as looking through a megabyte, which a short run never writes."""
        if self._pattern is not None or self._seen_bytes > _FIRST_BYTES:
            return True
        self._seen_bytes += len(text)
        return len(text) > _FIRST_BYTES or any(literal in text for literal in self._literals)

    def _matches(self, text: bytes) -> Callable[[int], re.Match[bytes] | None]:
        """A function that gives the next match from a position on; the positions must rise."""
        if self._pattern is None:
            alternatives = b"|".join(self._alternatives)
            self._pattern = re.compile(b"%b%b(?:%b)" % (re.escape(self.anchor), self._guard, alternatives))
        places = rare_places(text, self.anchor)
        if places is None:
            return partial(self._pattern.search, text)
        return partial(_first_match, self._pattern, text, iter(places))


def _first_match(
    pattern: re.Pattern[bytes], text: bytes, places: Iterator[int], position: int
) -> re.Match[bytes] | None:
    """At one of the places that are left."""
    for place in places:
        if place >= position and (match := pattern.match(text, place)):
            return match
    return None
