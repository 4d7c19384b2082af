"""An append-only terminal with one status line at the bottom.

Everything that is shown passes through here, so this is where text of agents is made harmless
and fitted to the width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from harness.formatting.columns import Flow, columns, cut, wrapped
from harness.formatting.escapes import neutralised, single_line

Style: TypeAlias = Literal["", "bold", "dim", "red", "green", "yellow", "cyan"]
Segment: TypeAlias = tuple[Style, str]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_NARROWEST = 20
_ERASE_LINE = "\r\x1b[K"


class Page:
    """Write to it, then `take` the bytes."""

    def __init__(self, *, width: int, color: bool) -> None:
        self.width = max(width, _NARROWEST)
        self._color = color
        self._out: list[str] = []
        self._flow = Flow(self.width)
        self._style: Style = ""
        self._ending = "\n\n"
        """The last two characters that were written; an empty page ends like a blank line."""
        self._status = ""

    def line(self, *segments: Segment, tail: Sequence[Segment] = ()) -> None:
        """One line. What does not fit is cut from `segments`; `tail` stays."""
        self.end_text()
        self._write(self._fitted(segments, tail, self.width) + "\n")

    def block(self, lead: Sequence[Segment], style: Style, text: str, *, most: int) -> None:
        """Several lines, wrapped, those after the first indented below the text of the first."""
        indent = sum(columns(part) for _, part in lead)
        first: Sequence[Segment] = lead
        for line in wrapped(neutralised(text), max(self.width - indent, 1), most=most):
            self.line(*first, (style, line))
            first = [(part_style, _hanging(part)) for part_style, part in lead]

    def text(self, text: str, style: Style = "") -> None:
        """A piece of flowing text: wrapped as it comes, without a line end of its own."""
        if style != self._style:
            self.end_text()
            self._style = style
        self._write(self._painted(style, self._flow.feed(neutralised(text))))

    def end_text(self) -> None:
        """End the line that flowing text is on, if it is on one."""
        self._write(self._painted(self._style, self._flow.end_line()))

    def gap(self) -> None:
        """A blank line, unless there is one or nothing is above."""
        self.end_text()
        if self._ending != "\n\n":
            self._write("\n")

    def take(self, status: Sequence[Segment] = ()) -> Sequence[bytes]:
        """What was written since the last time, with a status below it as long as no text is flowing."""
        status_line = ""
        if status and self._flow.is_at_line_start:
            status_line = self._fitted(status, (), self.width - 1)
        if not self._out and status_line == self._status:
            return ()
        parts = [_ERASE_LINE if self._status else "", *self._out, status_line]
        self._out = []
        self._status = status_line
        text = "".join(parts)
        return (text.encode(),) if text else ()

    def _write(self, text: str) -> None:
        if text:
            self._out.append(text)
            self._ending = (self._ending + text)[-2:]

    def _fitted(self, segments: Sequence[Segment], tail: Sequence[Segment], width: int) -> str:
        ends = [(style, single_line(text)) for style, text in tail]
        room = width - sum(columns(text) for _, text in ends)
        out: list[str] = []
        for style, text in segments:
            piece = cut(single_line(text[: width * 16]), room)
            room -= columns(piece)
            out.append(self._painted(style, piece))
        return "".join([*out, *(self._painted(style, text) for style, text in ends)]).rstrip(" ")

    def _painted(self, style: Style, text: str) -> str:
        if not (self._color and style and text):
            return text
        # A colour never crosses a line end: pagers and multiplexers lose it there.
        code = _CODES[style]
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def _hanging(lead: str) -> str:
    """The indent below a lead: its bars continue, the rest is blank."""
    return "".join(character if character == "│" else " " for character in lead)
