"""How many columns text takes in a terminal, and how to make it fit without breaking a character."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

_JOINER = "\u200d"
_EMOJI_SELECTOR = "\ufe0f"
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_HANGUL_ENDINGS = range(0x1160, 0x1200)
_ELLIPSIS = "…"
_TAB = "    "
_PIECES = re.compile(r"\n|[ \t]+|[^\n \t]+")
_MARK = re.compile(r"[-*+•]|\d{1,3}[.)]")
"""Of an item of a list."""


def columns(text: str) -> int:
    """Terminal cells of a text without line ends; where terminals disagree, the larger number."""
    if text.isascii() or (text[-1] == _ELLIPSIS and text[:-1].isascii()):
        return len(text)
    return sum(_cluster_columns(cluster) for cluster in clusters(text))


def clusters(text: str) -> Iterator[str]:
    """Pieces that must stay together: a character with the marks, joiners and selectors after it."""
    start = 0
    for position in range(1, len(text)):
        if not _belongs(text[position], text[start:position]):
            yield text[start:position]
            start = position
    if text:
        yield text[start:]


def cut(text: str, width: int) -> str:
    """At most `width` cells; what is missing shows as an ellipsis."""
    text = text[: width * 8 + 64]  # more could not be shown, and may be megabytes
    if columns(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + _ELLIPSIS if width > 0 else ""
    fitting, room = [], width - 1
    for cluster in clusters(text):
        room -= _cluster_columns(cluster)
        if room < 0:
            break
        fitting.append(cluster)
    return "".join(fitting) + _ELLIPSIS if width > 0 else ""


def wrapped(text: str, width: int, *, most: int) -> list[str]:
    """Lines of at most `width` cells and at most `most` of them; an ellipsis says that there were more."""
    flow = Flow(width)
    head = text[: most * width * 2 + 64].rstrip()
    lines = (flow.feed(head) + flow.flush()).split("\n")
    if len(lines) > most or len(head) < len(text.rstrip()):
        lines = [*lines[: most - 1], cut(lines[min(most, len(lines)) - 1] + " …", width)]
    return lines


def pieces(text: str, width: int) -> list[str]:
    """All of a text in lines of at most `width` cells: broken, not wrapped, so that every blank stays where it is."""
    lines: list[str] = []
    for line in text.expandtabs(4).split("\n"):
        if line.isascii():
            lines += [line[at : at + width] for at in range(0, len(line), width)] or [""]
            continue
        piece: list[str] = []
        room = width
        for cluster in clusters(line):
            width_of_cluster = _cluster_columns(cluster)
            if width_of_cluster > room and piece:
                lines.append("".join(piece))
                piece, room = [], width
            piece.append(cluster)
            room -= width_of_cluster
        lines.append("".join(piece))
    return lines


class Flow:
    """Text that comes in pieces, wrapped between words as it comes.

    The last word is held back until it is known to be whole. Blanks at the end of a line are
    dropped; words wider than a line, and scripts without blanks, are broken between characters. An item of
    a list continues below its text, not below its mark.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._indent = 0
        """Where the next line of this paragraph begins."""
        self._blanks = ""
        self._pending = ""
        self._is_first = True
        """Whether the next word is the first of a paragraph."""

    @property
    def is_at_line_start(self) -> bool:
        return self._column == 0 and not self._pending

    def feed(self, text: str) -> str:
        pieces = _PIECES.findall(self._pending + text)
        self._pending = ""
        if pieces and pieces[-1] != "\n":
            whole, self._pending = self._held_back(pieces.pop())
            if whole:
                pieces.append(whole)
        return "".join(map(self._place, pieces))

    def flush(self) -> str:
        """What was held back; the line stays open."""
        pending, self._pending = self._pending, ""
        return self._place(pending) if pending else ""

    def end_line(self) -> str:
        """What was held back, and a line end if there is a line to end."""
        rest = self.flush()
        has_text = self._column > 0
        self._begin_paragraph()
        return f"{rest}\n" if has_text else rest

    def _held_back(self, piece: str) -> tuple[str, str]:
        """The last piece: what may be placed already, and what may still grow."""
        if len(piece) > self._width:
            return piece, ""
        if piece.isascii():
            return "", piece
        parts = list(clusters(piece))
        last_wide = max((at for at, part in enumerate(parts) if _cluster_columns(part) > 1), default=0)
        return "".join(parts[:last_wide]), "".join(parts[last_wide:])

    def _place(self, piece: str) -> str:
        if piece == "\n":
            self._begin_paragraph()
            return piece
        if piece[0] in " \t":
            self._blanks += piece.replace("\t", _TAB)
            return ""
        blanks, self._blanks = self._blanks, ""
        width_of_piece = columns(piece)
        if self._is_first:
            self._is_first = False
            hanging = len(blanks) + width_of_piece + 1
            self._indent = hanging if _MARK.fullmatch(piece) and hanging <= self._width // 2 else 0
        is_breakable = width_of_piece > len(piece) or width_of_piece > self._width
        if self._column + len(blanks) + (1 if is_breakable else width_of_piece) <= self._width:
            self._column += len(blanks)
        elif self._column:
            blanks = self._line_end()
        else:
            blanks = ""
        if is_breakable:
            return blanks + self._broken(piece)
        self._column += width_of_piece
        return blanks + piece

    def _broken(self, word: str) -> str:
        out: list[str] = []
        for cluster in clusters(word):
            width_of_cluster = _cluster_columns(cluster)
            if self._column > self._indent and self._column + width_of_cluster > self._width:
                out.append(self._line_end())
            out.append(cluster)
            self._column += width_of_cluster
        return "".join(out)

    def _line_end(self) -> str:
        self._column = self._indent
        return "\n" + " " * self._indent

    def _begin_paragraph(self) -> None:
        self._column, self._indent, self._blanks, self._is_first = 0, 0, "", True


def _belongs(character: str, cluster: str) -> bool:
    code = ord(character)
    if cluster[-1] == _JOINER or code in _SKIN_TONES or _character_columns(character) == 0:
        return True
    return code in _REGIONAL and len(cluster) == 1 and ord(cluster) in _REGIONAL


def _cluster_columns(cluster: str) -> int:
    width_of_cluster = sum(map(_character_columns, cluster))
    return max(width_of_cluster, 2) if _EMOJI_SELECTOR in cluster else width_of_cluster


@lru_cache(maxsize=4096)
def _character_columns(character: str) -> int:
    if ord(character) in _HANGUL_ENDINGS or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table of text, each column as wide as it must be."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(
            text + " " * (width - columns(text)) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        + "\n"
        for row in rows
    )
