"""The conversation pane: a log's transcript, followed until the reader scrolls away from its end."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from harness.clients.inbox.contract import EventTail
from harness.errors import HarnessError
from harness.events import Event
from harness.tui.lines import LineView, StyledPiece, parts_of, strip_of, text_of
from harness.tui.transcript_lines import LineTag, TranscriptLines

_BUDGET_S = 0.02
"""How long one look at the log may take: keys are answered in between."""
_SLICE = 250


class ConversationPane(LineView):
    """Contract: `follow` a log, then call `advance` when it may have grown."""

    class Resized(Message):
        """It has another size, or was shown."""

    def __init__(self, styles: dict[str, Style], *, id: str) -> None:
        super().__init__(styles, id=id)
        self.text = TranscriptLines(80)
        self.cursor = -1
        """The line that ↵ opens; -1: none."""
        self.message = ""
        """In place of the lines."""
        self._tail: EventTail | None = None
        self._shown_places: list[int] | None = None
        """Which lines are shown; None: all of them."""
        self._folded: set[str] = set()
        self._found_text = ""
        self._is_following = True

    # What is shown

    def follow(self, tail: EventTail | None, message: str = "") -> None:
        """Show another log, from its beginning; None: nothing."""
        self.stop()
        self._tail = tail
        self.text = TranscriptLines(max(self.size.width - 2, 20))
        self.cursor, self.top, self.message = -1, 0, message
        self._shown_places, self._folded, self._found_text = None, set(), ""
        self._is_following = True
        self.redraw()

    def stop(self) -> None:
        if self._tail is not None:
            self._tail.close()
        self._tail = None

    @property
    def needs_width(self) -> bool:
        """Whether it was made for another width than it has now."""
        return self.text.width != max(self.size.width - 2, 20)

    def advance(self) -> bool:
        """Show what has come; True: there is more to come at once."""
        if self._tail is None:
            return False
        until = time.monotonic() + _BUDGET_S
        has_more = True
        has_changed = False
        while has_more and time.monotonic() < until:
            try:
                events = self._tail.poll()
            except HarnessError as error:
                self.message = error.words
                self.stop()
                self.redraw()
                return False
            has_more = bool(events)
            for start in range(0, len(events), _SLICE):
                self._feed(events[start : start + _SLICE])
            has_changed = has_changed or has_more
        if has_changed:
            if self._is_following:
                self.top = self.last_top
            self.redraw_changed()
        return has_more

    def _feed(self, events: Sequence[Event]) -> None:
        before = len(self.text.lines)
        self.text.feed(events)
        if self._shown_places is not None:
            tags = self.text.tags
            self._shown_places += [at for at in range(before, len(tags)) if not self._is_hidden(tags[at])]

    def count(self) -> int:
        lines = len(self.text.lines) if self._shown_places is None else len(self._shown_places)
        return lines + bool(self.text.tail) if not self.message else 1

    def make(self, at: int, width: int) -> Strip:
        if self.message:
            return strip_of([("dim", f" {self.message}")], width, self.palette)
        line = self._line_at(at)
        is_selected = at == self.cursor and self.has_focus
        lead: StyledPiece = ("bold", "▶") if is_selected else ("", " ")
        parts = parts_of(self.text.tail if line is None else self.text.lines[line])
        if line is not None and (folded := self._folded & {self.text.tags[line].spawns}):
            parts.append(("dim", f"  … {self._hidden(folded)} lines, ↵ opens"))
        if self._found_text and self._found_text in text_of(parts).lower():
            parts = _marked(parts, self._found_text)
        return strip_of([lead, *parts], width, self.palette)

    def _line_at(self, at: int) -> int | None:
        """A line of the text; None: the one that is not finished."""
        if self._shown_places is not None:
            return self._shown_places[at] if at < len(self._shown_places) else None
        return at if at < len(self.text.lines) else None

    def on_resize(self) -> None:
        super().on_resize()
        if self._is_following:
            self.top = self.last_top
        self.redraw()
        self.post_message(self.Resized())

    def on_focus(self) -> None:
        self.redraw_changed()

    def on_blur(self) -> None:
        self.redraw_changed()

    # Moving

    def move_cursor(self, by: int) -> None:
        at = self.cursor if self.cursor >= 0 else self.top + self.size.height
        self.place_cursor(at + by)

    def place_cursor(self, at: int) -> None:
        self.cursor = max(0, min(at, self.count() - 1))
        self.reveal(self.cursor)
        self._is_following = self.top >= self.last_top and self.cursor >= self.count() - 1
        self.redraw()

    def scroll_lines(self, by: int) -> None:
        super().scroll_lines(by)
        self._is_following = self.top >= self.last_top

    def to_end(self) -> None:
        self._is_following = True
        self.cursor = -1
        self.top = self.last_top
        self.redraw()

    def turn(self, by: int) -> None:
        """To the next or the previous prompt."""
        at = self._line_at(
            self.cursor if self.cursor >= 0 else self.count() if self._is_following else self.top
        )
        here = len(self.text.lines) if at is None else at
        turns = self.text.turns
        turn_wanted = (
            [line for line in turns if line > here] if by > 0 else [line for line in turns if line < here]
        )
        if turn_wanted:
            self._show_line(turn_wanted[0] if by > 0 else turn_wanted[-1])
        elif by > 0:
            self.to_end()

    def _show_line(self, line: int) -> None:
        at = (
            line
            if self._shown_places is None
            else next((at for at, place in enumerate(self._shown_places) if place >= line), 0)
        )
        self.cursor = at
        self._is_following = False
        self.move_to(at)
        self.redraw()

    def search(self, text: str, *, is_next: bool) -> int:
        """Mark a text, go to the next line that has it; returns how many there are."""
        self._found_text = text.lower().strip()
        if not self._found_text:
            self.redraw()
            return 0
        hits = [
            at
            for at, line in enumerate(self.text.lines)
            if self._found_text in text_of(parts_of(line)).lower()
        ]
        here = self._line_at(self.cursor) if self.cursor >= 0 else -1
        after = [at for at in hits if at > (-1 if here is None else here)] if is_next else []
        if hits:
            self._show_line((after or hits)[0])
        else:
            self.redraw()
        return len(hits)

    # What is at the cursor

    @property
    def tag(self) -> LineTag | None:
        line = self._line_at(self.cursor) if 0 <= self.cursor < self.count() else None
        return None if line is None else self.text.tags[line]

    def toggle(self, run_id: str) -> None:
        """Fold a sub-agent, or unfold it."""
        self._folded ^= {run_id}
        line = self._line_at(self.cursor)
        tags = self.text.tags
        if self._folded:
            self._shown_places = [at for at, tag in enumerate(tags) if not self._is_hidden(tag)]
        else:
            self._shown_places = None
        if line is not None:
            self.cursor = line if self._shown_places is None else self._shown_places.index(line)
        self.move_to(self.top)
        self.redraw()

    def _is_hidden(self, tag: LineTag) -> bool:
        return not (tag.spawns and tag.spawns in self._folded) and self.text.is_within(
            tag.run_id, self._folded
        )

    def _hidden(self, folded: set[str]) -> int:
        return sum(
            self.text.is_within(tag.run_id, folded) and tag.spawns not in folded for tag in self.text.tags
        )


def _marked(parts: Sequence[StyledPiece], wanted_text: str) -> list[StyledPiece]:
    out: list[StyledPiece] = []
    for style, text in parts:
        rest, low = text, text.lower()
        # Lower case may be longer for a few letters; then the mark is left out, the line is still found.
        while len(low) == len(rest) and (at := low.find(wanted_text)) >= 0:
            out += [(style, rest[:at]), ("found", rest[at : at + len(wanted_text)])]
            rest, low = rest[at + len(wanted_text) :], low[at + len(wanted_text) :]
        out.append((style, rest))
    return [part for part in out if part[1]]
