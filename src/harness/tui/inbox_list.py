"""The list pane: rows by section, one of them at the cursor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.style import Style
from textual.strip import Strip

from harness.folds.inbox.row import InboxRow
from harness.tui.ask import inline_lines
from harness.tui.lines import LineView, strip_of
from harness.tui.rows import ListEntry, child_line, entries, heading_line, row_line, section_of


class Held(NamedTuple):
    """A row that stays where it was for a moment, with the answer that was given."""

    section: str
    words: str
    until_s: float


class ListPane(LineView):
    """Contract: the cursor is on a row, found again by its id; nothing but a key moves it."""

    def __init__(self, styles: dict[str, Style], *, id: str) -> None:
        super().__init__(styles, id=id)
        self.selected = ""
        self.is_inline = False
        """Whether what a row asks is shown below it."""
        self._rows: Sequence[InboxRow] = ()
        self._held_rows: Mapping[str, Held] = {}
        self._entries: list[ListEntry] = []
        self._waiting: list[str] = []
        """The rows that need a person, as they are shown."""
        self._now_ms = 0

    def show(self, rows: Sequence[InboxRow], held_rows: Mapping[str, Held], now_ms: int) -> None:
        """Draws what is new of it."""
        before = self.place
        self._rows, self._held_rows, self._now_ms = rows, held_rows, now_ms
        self._arrange()
        if rows and self._at(self.selected) is None:
            # Its row was removed: select the one that has its place now.
            ids = self.ids
            self.selected = ids[max(0, min(before, len(ids) - 1))]
            self._arrange()
        if (at := self._at(self.selected)) is not None and self.size.height:
            self.reveal(at)
        self.redraw_changed()

    def _arrange(self) -> None:
        sections = {id: held_row.section for id, held_row in self._held_rows.items()}
        rows = self._rows
        if self.selected in self._waiting:
            # What is new comes below: nothing moves under the cursor.
            places = {id: at for at, id in enumerate(self._waiting)}
            rows = sorted(rows, key=lambda row: places.get(row.id, len(places)))
        self._entries = entries(rows, sections, self.selected, is_inline=self.is_inline)
        self._waiting = [row.id for row in rows if (sections.get(row.id) or section_of(row)) == "needs"]

    @property
    def ids(self) -> list[str]:
        """In the order in which they are shown."""
        return [entry.row.id for entry in self._entries if entry.kind == "row" and entry.row is not None]

    @property
    def place(self) -> int:
        """How many rows are before the one at the cursor."""
        ids = self.ids
        return ids.index(self.selected) if self.selected in ids else 0

    @property
    def offset_of_selected(self) -> int:
        """Where on the screen it is."""
        at = self._at(self.selected)
        return -1 if at is None else at - self.top

    @property
    def hidden_below(self) -> int:
        """How many rows are below the last one on the screen."""
        return sum(entry.kind == "row" for entry in self._entries[self.top + self.size.height :])

    def select(self, id: str) -> None:
        self.selected = id
        self._arrange()
        at = self._at(id)
        if at is not None:
            # With its heading, where that is just above, and what it asks below.
            self.reveal(at, margin=0)
            if at and self._entries[at - 1].kind == "heading":
                self.reveal(at - 1)
            if self.is_inline and at + 2 < len(self._entries) and self._entries[at + 1].kind == "subject":
                self.reveal(at + 2)
        self.redraw_changed()

    def move(self, by: int) -> None:
        ids = self.ids
        if ids:
            self.select(ids[max(0, min(self.place + by, len(ids) - 1))])

    def count(self) -> int:
        return len(self._entries)

    def make(self, at: int, width: int) -> Strip:
        entry = self._entries[at]
        if entry.kind == "heading":
            return strip_of(heading_line(entry, width), width, self.palette)
        row = entry.row
        assert row is not None
        if entry.kind == "child":
            return strip_of(child_line(entry, width, self._now_ms), width, self.palette)
        if entry.kind in ("subject", "answers"):
            subject, answers = inline_lines(row.asks[0], width)
            return strip_of(subject if entry.kind == "subject" else answers, width, self.palette)
        is_selected = row.id == self.selected
        held_row = self._held_rows.get(row.id)
        line = row_line(
            row, width, self._now_ms, is_selected=is_selected, words=held_row.words if held_row else ""
        )
        base = ("cursor" if self.has_focus else "rest") if is_selected else ""
        if is_selected:
            line = [("bold" if style == "bold" else "", text) for style, text in line]
        return strip_of(line, width, self.palette, base)

    def _at(self, id: str) -> int | None:
        return next(
            (
                at
                for at, entry in enumerate(self._entries)
                if entry.kind == "row" and entry.row is not None and entry.row.id == id
            ),
            None,
        )

    def on_focus(self) -> None:
        self.redraw_changed()

    def on_blur(self) -> None:
        self.redraw_changed()
