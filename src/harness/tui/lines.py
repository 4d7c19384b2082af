"""Styled lines, and the widgets that show them.

Every text that is shown passes through `strip_of`: what an agent wrote can neither move the cursor nor hide there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from harness.formatting.columns import columns, cut
from harness.formatting.escapes import single_line

StyledPiece: TypeAlias = tuple[str, str]
"""A style of `COLOURED`, and a text."""
TextLine: TypeAlias = Sequence[StyledPiece]

COLOURED: dict[str, Style] = {
    "": Style(),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "red": Style(color="red"),
    "green": Style(color="green"),
    "yellow": Style(color="yellow"),
    "cyan": Style(color="cyan"),
    "blue": Style(color="bright_blue"),
    "key": Style(bold=True),
    "cursor": Style(color="bright_white", bgcolor="blue"),
    "rest": Style(bold=True, bgcolor="bright_black"),
    "found": Style(reverse=True),
}
"""`cursor`: the line that keys act on; `rest`: that of a pane without the focus."""
PLAIN: dict[str, Style] = {
    **dict.fromkeys(COLOURED, Style()),
    "bold": Style(bold=True),
    "dim": Style(dim=True),
    "key": Style(bold=True),
    "red": Style(bold=True),
    "yellow": Style(bold=True),
    "cursor": Style(reverse=True),
    "rest": Style(underline=True),
    "found": Style(reverse=True),
}
"""For NO_COLOR: words and signs say the same."""

_PAINT = re.compile(r"\x1b\[(\d+)m")
_CODES = {"0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}
"""Those of `formatting/terminal.py`."""
_SCROLLED = 3
_WIDE_SIGNS = str.maketrans({"⏺": "•", "⏸": "‖"})
"""Two cells wide in many terminals, one in others."""


def parts_of(painted: str) -> list[StyledPiece]:
    """A line that a view has painted, in parts."""
    if "\x1b" not in painted:
        return [("", painted)]
    first, *rest = _PAINT.split(painted)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return [
        part for part in (("", first), *((_CODES.get(code, ""), text) for code, text in pairs)) if part[1]
    ]


def fitted(line: TextLine, width: int) -> list[StyledPiece]:
    """Cut to a width; what is missing shows as an ellipsis."""
    out: list[StyledPiece] = []
    for style, text in line:
        piece, width_needed = _fit(text, width)
        width -= width_needed
        out.append((style, piece))
    return out


@lru_cache(maxsize=4096)
def _fit(text: str, width: int) -> tuple[str, int]:
    """The same few texts are drawn again and again."""
    piece = cut(single_line(text).translate(_WIDE_SIGNS), width)
    return piece, _columns(piece)


_columns = lru_cache(maxsize=4096)(columns)


def aligned(left_line: TextLine, right: TextLine, width: int) -> list[StyledPiece]:
    """Two parts of a line at its two ends; the left one is cut."""
    width_needed = length(right)
    start = fitted(left_line, max(width - width_needed, 0))
    return [*start, ("", " " * (width - width_needed - length(start))), *right]


def length(line: TextLine) -> int:
    return sum(_columns(text) for _, text in line)


def rule(heading: TextLine, width: int, style: str = "dim") -> list[StyledPiece]:
    """A heading, and a line up to the end."""
    heading_shown = fitted(heading, width)
    return [*heading_shown, (style, "─" * (width - length(heading_shown)))]


def text_of(line: TextLine) -> str:
    return "".join(text for _, text in line)


def strip_of(line: TextLine, width: int, styles: dict[str, Style], base: str = "") -> Strip:
    """What Textual draws: as wide as it must be, and harmless."""
    under = styles[base]
    segments: list[Segment] = []
    width_used = 0
    for style, text in fitted(line, width):
        if not text:
            continue
        segments.append(Segment(text, under + styles[style] if base else styles[style]))
        width_used += cell_len(text)
    if width_used > width:  # Textual measures some characters as wider than we do
        last = segments.pop()
        width_left = width - sum(cell_len(segment.text) for segment in segments)
        segments.append(Segment(set_cell_size(last.text, max(width_left, 0)), last.style))
        width_used = width
    if width_used < width:
        segments.append(Segment(" " * (width - width_used), under))
    return Strip(segments, width)


class TextBlock(Widget):
    """A few lines, as high as they are."""

    DEFAULT_CSS = "TextBlock { height: auto; }"

    def __init__(self, styles: dict[str, Style], *, id: str) -> None:
        super().__init__(id=id)
        self._palette = styles
        self._lines: list[TextLine] = []
        self.styles.height = 0

    def show(self, lines: Sequence[TextLine]) -> None:
        """Nothing is drawn again that is the same."""
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self._lines = list(lines)
            self.refresh()
            return
        for at, line in enumerate(lines):
            if line != self._lines[at]:
                self._lines[at] = line
                self.refresh(Region(0, at, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        line: TextLine = self._lines[y] if y < len(self._lines) else ()
        return strip_of(line, self.size.width, self._palette)


class LineView(Widget, can_focus=True):
    """Any number of lines, of which only those on the screen are made. It scrolls by itself: Textual's own scrolling
    would lay out the whole screen again whenever a line is added.
    """

    def __init__(self, styles: dict[str, Style], *, id: str) -> None:
        super().__init__(id=id)
        self.palette = styles
        self.top = 0
        """The first line on the screen."""
        self._drawn: dict[int, Strip] = {}
        """By place on the screen."""

    def count(self) -> int:
        raise NotImplementedError

    def make(self, at: int, width: int) -> Strip:
        """One of the lines."""
        raise NotImplementedError

    @property
    def last_top(self) -> int:
        return max(self.count() - self.size.height, 0)

    def move_to(self, top: int) -> None:
        top = max(0, min(top, self.last_top))
        if top != self.top:
            self.top = top
            self.redraw()

    def scroll_lines(self, by: int) -> None:
        self.move_to(self.top + by)

    def reveal(self, at: int, margin: int = 0) -> None:
        """Scroll as little as shows a line."""
        height = self.size.height
        if at < self.top + margin:
            self.move_to(at - margin)
        elif at >= self.top + height - margin:
            self.move_to(at - height + 1 + margin)

    def redraw(self) -> None:
        """Everything, when it is drawn next."""
        self._drawn.clear()
        self.refresh()

    def redraw_changed(self) -> None:
        """Only the lines that are other than they were."""
        width = self.size.width
        for y in range(self.size.height):
            strip = self._line(y, width)
            if self._drawn.get(y) != strip:
                self._drawn[y] = strip
                self.refresh(Region(0, y, width, 1))

    def render_line(self, y: int) -> Strip:
        strip = self._drawn.get(y)
        if strip is None:
            strip = self._drawn[y] = self._line(y, self.size.width)
        return strip

    def _line(self, y: int, width: int) -> Strip:
        at = self.top + y
        return self.make(at, width) if at < self.count() else strip_of((), width, self.palette)

    def on_resize(self) -> None:
        self._drawn.clear()
        self.move_to(self.top)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(_SCROLLED)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-_SCROLLED)
