r"""Text as a reader sees it: without colours and invisible characters, and with escapes resolved.

A key that `grep --color` has coloured, that has a zero-width space in it, or that is written in escapes throughout
(`%73%6b…`, `\u0073\u006b…`) has none of its known spellings. Secrets are therefore looked for in the plain text as
well, and masked where they stand in the text as it was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

from harness.log.redact.secret_shapes import compiled

MARKS = (
    b"\x1b",
    *(b"\\u00%b" % rest for rest in (b"1b", b"1B", b"2", b"3", b"4", b"5", b"6", b"7", b"ad", b"AD")),
    *(b"\\u200", b"\\u206", b"\\ufeff", b"\\uFEFF"),
    *(b"%%%d" % digit for digit in range(2, 8)),
    *(b"\xe2\x80%c" % last for last in range(0x8B, 0x90)),
    *(b"\xe2\x81%c" % last for last in range(0xA0, 0xA5)),
    *(b"\xef\xbb\xbf", b"\xc2\xad"),
)
"""Text without any of them is plain, as most text is."""
_SEQUENCE = (
    rb"(?:\[[0-9;:?]*[A-Za-z]|[()][0-9A-Za-z]"  # colours
    rb"|\][^\x07\x1b\\\n]{0,500}(?:\x07|\x1b\\|\\+u0007|\\+u001[bB]\\+))"  # hyperlinks
)
_SEEN = rb"2[1-9A-Fa-f]|[3-6][0-9A-Fa-f]|7[0-9A-Ea-e]"
"""The code of a character that can be seen, and can stand in a key."""
# Each alternative begins with a character of its own, not with a repetition: `re` then skips everything else fast.
_GONE = (
    rb"\x1b%(sequence)b|\\\\*u(?:001[bB]%(sequence)b|200[b-fB-F]|206[0-4]|[fF][eE][fF][fF]|00[aA][dD])"
    rb"|\xe2(?:\x80[\x8b-\x8f]|\x81[\xa0-\xa4])|\xef\xbb\xbf|\xc2\xad"  # characters without a width
) % {b"sequence": _SEQUENCE}
_CODES = rb"%%(?P<percent>%b)|\\\\*u00(?P<unit>%b)" % (_SEEN, _SEEN)
_OBSCURING = rb"%b|%b" % (_CODES, _GONE)


class PlainText(NamedTuple):
    text: bytes
    places: list[int]
    """Where in the plain text each part begins, and…"""
    sources: list[tuple[int, int]]
    """…where it was written: a part that stands there as it is, or the escape that one character was made of."""

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of the plain text was written."""
        first, last = bisect_right(self.places, start) - 1, bisect_right(self.places, end - 1) - 1
        return self._written(first, start), self._written_end(last, end)

    def _written(self, part: int, place: int) -> int:
        begin, _ = self.sources[part]
        return begin + place - self.places[part]

    def _written_end(self, part: int, place: int) -> int:
        begin, end = self.sources[part]
        length = place - self.places[part]
        is_escape = length == 1 and self._length(part) == 1
        return end if is_escape else begin + length

    def _length(self, part: int) -> int:
        following = self.places[part + 1] if part + 1 < len(self.places) else len(self.text)
        return following - self.places[part]


def resolved(text: bytes) -> bytes:
    """The plain text alone."""
    return compiled(_CODES).sub(_character, compiled(_GONE).sub(b"", text))


def plain_text(text: bytes) -> PlainText:
    parts: list[bytes] = []
    places: list[int] = []
    sources: list[tuple[int, int]] = []
    length = end = 0

    def add(part: bytes, source: tuple[int, int]) -> None:
        nonlocal length
        if part:
            parts.append(part)
            places.append(length)
            sources.append(source)
            length += len(part)

    for match in compiled(_OBSCURING).finditer(text):
        add(text[end : match.start()], (end, match.start()))
        end = match.end()
        add(_character(match), match.span())
    add(text[end:], (end, len(text)))
    return PlainText(b"".join(parts), places, sources)


def _character(match: re.Match[bytes]) -> bytes:
    code = match["percent"] or match["unit"]
    return bytes([int(code, 16)]) if code else b""
