"""Markdown as lines of a terminal: what an agent writes, as its own screen would show it.

A line is drawn when it is complete; a table when it has ended. Nothing is loaded and nothing is left out but marks: the
address of a link stands behind its text, and a picture is named. What is not Markdown is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from harness.formatting.columns import columns, pieces
from harness.formatting.escapes import neutralised
from harness.formatting.terminal import Segment, Style

Line = list[Segment]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})\s*([^`]*)")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*\s*")
_RULE = re.compile(r" {0,3}([-*_])(?:\s*\1){2,}\s*")
_QUOTE = re.compile(r" {0,3}((?:>\s?)+)(.*)")
_ITEM = re.compile(r"(\s*)([-*+]|\d{1,9}[.)])\s+(.*)")
_TASK = re.compile(r"\[([ xX])\]\s+(.*)")
_ROW = re.compile(r"\s*\|.*")
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r"\s*:?-+:?\s*")
_INLINE = re.compile(
    r"(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)"
    r"|!\[(?P<alt>[^\]]*)\]\((?P<picture>[^)]*)\)"
    r"|\[(?P<label>[^\]]+)\]\((?P<address>[^)\s]+)(?:\s+\"[^\"]*\")?\)"
    r"|<(?P<bare>(?:https?|mailto):[^>\s]+)>"
    r"|(?P<strong>\*\*|__)(?=\S)(?P<loud>.+?)(?<=\S)(?P=strong)"
    r"|(?<![\w*])\*(?=[^\s*])(?P<star>[^*]+?)(?<=\S)\*(?![\w*])"
    r"|(?<!\w)_(?=[^\s_])(?P<under>[^_]+?)(?<=\S)_(?!\w)"
    r"|\\(?P<escaped>[!-/:-@\[-`{-~])"
)
_WORDS = re.compile(r" +|[^ ]+")
_BULLET, _OPEN, _DONE = "• ", "☐ ", "☑ "
_CODE_INDENT = "  "
_WIDEST_RULE = 40
_MOST_HELD = 200
"""Rows of a table that is not over: a longer one is drawn in parts."""
_LONGEST_LINE = 20_000
"""A longer line is no prose: it is shown as it is."""


class MarkdownLines:
    """Contract: pure. `feed` gives the lines that are complete, `end` the rest; none is wider than `width`."""

    def __init__(self, width: int) -> None:
        self._width = max(width, 10)
        self._pending = ""
        self._fence = ""
        self._rows: list[str] = []

    @property
    def pending(self) -> str:
        """The end of the line that is not complete, as it was written."""
        head, data, _rest = self._pending.partition("](data:")
        return neutralised(f"{head}{data and ']'}"[-self._width :])

    def feed(self, text: str) -> list[Line]:
        *whole, self._pending = (self._pending + text).split("\n")
        return [drawn for line in whole for drawn in self._line(line)]

    def end(self) -> list[Line]:
        """What was held back; the next text begins anew."""
        last, self._pending = self._pending, ""
        drawn = [*(self._line(last) if last.strip() else ()), *self._table()]
        self._fence = ""
        return drawn

    def _line(self, raw: str) -> Iterator[Line]:
        line = neutralised(raw.removesuffix("\r").expandtabs(4))
        if not self._fence and _ROW.fullmatch(line) and len(self._rows) < _MOST_HELD:
            self._rows.append(line)
            return
        yield from self._table()
        yield from self._block(line)

    def _block(self, line: str) -> Iterator[Line]:
        match = _FENCE.fullmatch(line)
        if self._fence:
            if match is not None and match[1].startswith(self._fence) and not match[2].strip():
                self._fence = ""
            else:
                yield from self._code(line)
        elif match is not None:
            self._fence = match[1]
        elif not line.strip():
            yield []
        elif _RULE.fullmatch(line):
            yield [("dim", "─" * min(self._width, _WIDEST_RULE))]
        else:
            yield from self._prose(line)

    def _code(self, line: str) -> Iterator[Line]:
        for piece in pieces(line, self._width - len(_CODE_INDENT)) or [""]:
            yield [("cyan", f"{_CODE_INDENT}{piece}")]

    def _prose(self, line: str) -> Iterator[Line]:
        if len(line) > _LONGEST_LINE:
            for piece in pieces(line, self._width):
                yield [("", piece)]
        elif heading := _HEADING.fullmatch(line):
            yield from _wrapped(inline(heading[1], "bold"), self._width)
        elif quote := _QUOTE.fullmatch(line):
            bars = "│ " * quote[1].count(">")
            yield from _wrapped(inline(quote[2], "dim"), self._width, ("dim", bars), ("dim", bars))
        elif item := _ITEM.fullmatch(line):
            blanks, mark, text = item.groups()
            task = _TASK.fullmatch(text)
            sign = _BULLET if mark in "-+*" else f"{mark} "
            if task is not None:
                sign, text = _OPEN if task[1] == " " else _DONE, task[2]
            blanks = blanks[: self._width // 3]
            lead, rest = f"{blanks}{sign}", " " * (len(blanks) + columns(sign))
            yield from _wrapped(inline(text), self._width, ("cyan", lead), ("", rest))
        else:
            blanks = line[: min(len(line) - len(line.lstrip()), self._width // 3)]
            yield from _wrapped(inline(line.strip()), self._width, ("", blanks), ("", blanks))

    def _table(self) -> Iterator[Line]:
        """The rows that were held back: as a table, if they are one."""
        rows, self._rows = self._rows, []
        cells = [[cell.strip() for cell in _cells(line)] for line in rows]
        if len(cells) < 2 or not all(_DELIMITER.fullmatch(cell) for cell in cells[1]):
            for line in rows:
                yield from self._prose(line)
            return
        count = len(cells[0])
        body = [[*row, *[""] * count][:count] for row in (cells[0], *cells[2:])]
        widths = _widths([[_text(inline(cell)) for cell in row] for row in body], self._width)
        for number, row in enumerate(body):
            yield from _row(row, widths, "" if number else "bold")
            if not number:
                yield [("dim", "─┼─".join("─" * width for width in widths))]


def inline(text: str, style: Style = "") -> list[Segment]:
    """The parts of a line of prose, without its marks."""
    out: list[Segment] = []
    at = 0
    for match in _INLINE.finditer(text):
        out.append((style, text[at : match.start()]))
        out += _marked(match, style)
        at = match.end()
    out.append((style, text[at:]))
    return [part for part in out if part[1]]


def _marked(match: re.Match[str], style: Style) -> Sequence[Segment]:
    parts = match.groupdict()
    if parts["code"] is not None:
        return [("cyan", parts["code"].strip() or parts["code"])]
    if parts["alt"] is not None:
        place = "" if parts["picture"].startswith("data:") else f" {parts['picture']}"
        return [("dim", f"[picture{': ' if parts['alt'] else ''}{parts['alt']}]{place}")]
    if parts["label"] is not None:
        label, address = parts["label"], parts["address"]
        segments = inline(label, style)
        return segments if label == address else [*segments, ("dim", f" ({address})")]
    if parts["loud"] is not None:
        return inline(parts["loud"], "bold")
    for name in ("star", "under"):
        if parts[name] is not None:
            return inline(parts[name], style)
    return [(style, parts["bare"] or parts["escaped"])]


def _wrapped(
    parts: Sequence[Segment], width: int, first: Segment = ("", ""), rest: Segment = ("", "")
) -> Iterator[Line]:
    """Between words; a word that is wider than a line is broken. Each line begins with its lead."""
    line: Line = [first]
    room, used_columns = max(width - columns(first[1]), 1), 0
    for style, word in ((style, word) for style, text in parts for word in _WORDS.findall(text)):
        if word.isspace():
            if used_columns and used_columns + len(word) < room:
                line.append((style, word))
                used_columns += len(word)
            continue
        for piece in pieces(word, room):
            if used_columns and used_columns + columns(piece) > room:
                yield line
                line, used_columns = [rest], 0
                room = max(width - columns(rest[1]), 1)
            line.append((style, piece))
            used_columns += columns(piece)
    yield line


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.replace("\\|", "|") for cell in _BETWEEN_CELLS.split(inner)]


def _text(parts: Sequence[Segment]) -> str:
    return "".join(text for _style, text in parts)


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Of the columns of a table: what they need, and less for the widest where there is no room."""
    widths = [max(1, *map(columns, column)) for column in zip(*rows, strict=True)]
    room = max(width - 3 * (len(widths) - 1), len(widths))
    while sum(widths) > room:
        widest = widths.index(max(widths))
        if widths[widest] == 1:
            break
        widths[widest] -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], style: Style) -> Iterator[Line]:
    """A row is as many lines high as its highest cell."""
    drawn = [list(_wrapped(inline(cell, style), width)) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, drawn))):
        line: Line = []
        for at, (cell, width) in enumerate(zip(drawn, widths, strict=True)):
            parts = cell[number] if number < len(cell) else []
            gap = " " * max(width - sum(columns(text) for _style, text in parts), 0)
            line += [*parts, ("", gap)] if at == len(widths) - 1 else [*parts, ("", gap), ("dim", " │ ")]
        yield line
