"""The screen: the list on the left, the conversation of the row at the cursor on the right.

What keys do is in `actions.py`; here is what is shown, and when it is drawn again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context

from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from harness.clients.inbox.contract import EventTail
from harness.clients.inbox.key_answers import AnswerGuard, AskKey, key_of, relay_of
from harness.clients.inbox.typed_answers import Asking
from harness.errors import HarnessError
from harness.folds.inbox.row import NEEDS_YOU, WORKS, InboxRow, RowAsk
from harness.formatting.escapes import single_line
from harness.tui.ask import box, fits_inline, full_lines, is_shown_whole
from harness.tui.composer import Composer
from harness.tui.conversation import ConversationPane
from harness.tui.inbox_list import Held, ListPane
from harness.tui.keys import SHORT
from harness.tui.lines import StyledPiece, TextBlock, TextLine, aligned, fitted, length, strip_of
from harness.tui.notices import Notices
from harness.tui.rows import head_lines
from harness.tui.screens import Pager
from harness.tui.source_data import ScreenData

NARROW = 84
"""Below this many columns there is one pane at a time."""
_ROWS_EVERY_S, _LOG_EVERY_S = 0.1, 0.033
_RESTED_S = 0.12
"""How long the cursor is on a row before its conversation is read."""
_MESSAGE_S = 6.0
HELD_S = 5.0
CHANGED = "It changed, look again"


class Divider(Widget):
    DEFAULT_CSS = "Divider { width: 1; height: 1fr; }"

    def __init__(self, styles: dict[str, Style]) -> None:
        super().__init__()
        self._palette = styles

    def render_line(self, y: int) -> Strip:
        del y
        return strip_of([("dim", "│")], 1, self._palette)


class InboxView(Screen[None], inherit_bindings=False):
    """Contract: nothing that comes from the data moves the focus, or the cursor to another row."""

    DEFAULT_CSS = """
    InboxView { layout: vertical; }
    InboxView #body { height: 1fr; }
    InboxView #left { width: 40; }
    InboxView #right { width: 1fr; }
    InboxView #list, InboxView #conversation { height: 1fr; }
    InboxView Composer { height: auto; }
    InboxView ComposerText { height: auto; max-height: 8; border: none; padding: 0 1 0 3; }
    """

    def __init__(self, data: ScreenData, styles: dict[str, Style], notices: Notices) -> None:
        super().__init__()
        self.data = data
        self.palette = styles
        self.rows: dict[str, InboxRow] = {}
        self.held: dict[str, Held] = {}
        self.guard = AnswerGuard()
        self.sent: dict[AskKey, str] = {}
        """The asks that were answered here, with the words to show."""
        self.found: set[str] | None = None
        """The sessions that a search has found; None: all are shown."""
        self.words = ""
        """What was searched for."""
        self.wanted = ""
        """A session that was started here: the cursor moves there when its row comes."""
        self.is_opened = False
        """Whether the conversation is shown, where only one pane fits."""
        self.viewed: set[AskKey] = set()
        """The asks that were read to their end in a screen of their own."""
        self._askings: dict[AskKey, Asking] = {}
        self._notices = notices
        self._message = ("", 0.0)
        self._is_rows_due = self._is_log_due = False
        self._rows_at_s = 0.0
        self._following = ""
        self._last_ask: AskKey | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news_context = Context()

    def compose(self) -> ComposeResult:
        yield TextBlock(self.palette, id="header")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield ListPane(self.palette, id="list")
                yield TextBlock(self.palette, id="more")
            yield Divider(self.palette)
            with Vertical(id="right"):
                yield TextBlock(self.palette, id="head")
                yield ConversationPane(self.palette, id="conversation")
                yield TextBlock(self.palette, id="ask")
                yield Composer(self.palette, id="composer")
        yield TextBlock(self.palette, id="footer")

    def on_mount(self) -> None:
        self._loop, self._news_context = asyncio.get_running_loop(), copy_context()
        self.list = self.query_one(ListPane)
        self.pane = self.query_one(ConversationPane)
        self.composer = self.query_one(Composer)
        self.list.focus()
        self.data.open(self._wake_rows)
        self._take_rows()
        self.set_interval(1.0, self._each_second)
        self.set_timer(0.3, self._prepare_composer)

    def _prepare_composer(self) -> None:
        if self.is_attached:  # the program may be ending
            self.composer.prepare()

    def on_unmount(self) -> None:
        self.pane.stop()

    # What is current

    @property
    def is_narrow(self) -> bool:
        return self.size.width < NARROW

    @property
    def row(self) -> InboxRow | None:
        return self.rows.get(self.list.selected)

    @property
    def ask(self) -> RowAsk | None:
        """The oldest one that the row at the cursor asks, unless it was just answered here."""
        row = self.row
        waiting = [] if row is None else [ask for ask in row.asks if key_of(row, ask) not in self.sent]
        return waiting[0] if waiting else None

    def asking(self, row: InboxRow, ask: RowAsk) -> Asking:
        key = key_of(row, ask)
        if key not in self._askings:
            self._askings[key] = Asking(relay_of(ask))
        return self._askings[key]

    def is_shown_whole(self, row: InboxRow, ask: RowAsk) -> bool:
        """Whether everything that is asked has been on the screen."""
        if key_of(row, ask) in self.viewed:
            return True
        if self.list.is_inline and not self.is_opened:
            return fits_inline(ask, self.size.width)
        width = self.query_one("#right").size.width
        return is_shown_whole(row, ask, self.asking(row, ask), width, self._most_of_box)

    @property
    def _most_of_box(self) -> int:
        return max(self.size.height // 2, 8)

    @property
    def place_of_ask(self) -> object:
        """Which ask is shown, and where: a key answers it only after it has been there for a while."""
        row, ask = self.row, self.ask
        if row is None or ask is None:
            return None
        where = self.list.offset_of_selected if self.list.is_inline else -1
        return key_of(row, ask), where, self.size

    def alike(self) -> list[tuple[InboxRow, RowAsk]]:
        """The asks that are like the current one, or like each other."""
        groups: dict[str, list[tuple[InboxRow, RowAsk]]] = {}
        for row in self.rows.values():
            for ask in row.asks:
                is_readable = fits_inline(ask, self.size.width) or key_of(row, ask) in self.viewed
                if ask.alike and is_readable and row.can.answer and key_of(row, ask) not in self.sent:
                    groups.setdefault(ask.alike, []).append((row, ask))
        current = self.ask
        alike_asks = groups.get(current.alike, []) if current is not None and current.alike else []
        several = [group for group in groups.values() if len(group) > 1]
        return alike_asks if len(alike_asks) > 1 else (several[0] if several and current is None else [])

    def view_whole(self, row: InboxRow, ask: RowAsk) -> None:
        """All that is asked; when its end was on the screen, it can be allowed."""
        key, width = key_of(row, ask), self.size.width - 2

        async def read() -> None:
            whole = ask
            try:
                whole = (
                    await asyncio.to_thread(self.data.sessions.whole_ask, row.id, ask.id)
                    if ask.is_cut
                    else ask
                )
            except HarnessError as error:
                self.say(error.words)
                return
            if whole.arguments_hash != ask.arguments_hash:
                self.say(CHANGED)
                return
            lines = full_lines(row, whole, self.asking(row, ask), width)
            self.app.push_screen(Pager(row.title, lines, self.palette, lambda: self.viewed.add(key)))

        self.run_worker(read(), group="reading", exclusive=True)

    # What comes

    def _wake_rows(self) -> None:
        """From any thread."""
        self._soon(self._expect_rows)

    def _soon(self, action: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the program ends
                # Timers of Textual find their program in the context, which other threads do not have.
                self._loop.call_soon_threadsafe(action, context=self._news_context)

    def _expect_rows(self) -> None:
        if not self._is_rows_due and self.is_running:
            self._is_rows_due = True
            pause_s = max(self._rows_at_s + _ROWS_EVERY_S - time.monotonic(), 0.001)
            self.set_timer(pause_s, self._take_rows)

    def _take_rows(self) -> None:
        self._is_rows_due = False
        self._rows_at_s = time.monotonic()
        before, self.rows = self.rows, {row.id: row for row in self.data.rows()}
        open_asks = {key_of(row, ask) for row in self.rows.values() for ask in row.asks}
        self.sent = {key: words for key, words in self.sent.items() if key in open_asks}
        asking_again = {key.session for key in open_asks if key not in self.sent}
        self.held = {id: held_row for id, held_row in self.held.items() if id not in asking_again}
        self._askings = {key: asking for key, asking in self._askings.items() if key in open_asks}
        self.viewed &= open_asks
        if self.wanted in self.rows:
            self.list.selected, self.wanted = self.wanted, ""
        self._notices.compare(before, self.rows)
        self._note_lost_ask(open_asks)
        self.draw()

    def _note_lost_ask(self, open_asks: set[AskKey]) -> None:
        """Show a message when the ask at the cursor was answered elsewhere."""
        key = self._last_ask
        if key is None or key in open_asks or key.session in self.held:
            return
        self._last_ask = None
        reply = self.pane.text.replies.get(key.ask) if self._following == key.session else None
        name = self.data.sessions.answered_by(key.session, key.ask)
        if not name and reply is not None and reply.by != "person":
            name = reply.by
        by = f" by {name}" if name else " elsewhere"
        how = "" if reply is None else f": {'allowed' if reply.approved else 'denied'}"
        self.say(f"It was answered{by}{how}")

    def _wake_log(self) -> None:
        """From any thread."""
        self._soon(self._expect_log)

    def _expect_log(self, pause_s: float = _LOG_EVERY_S) -> None:
        if not self._is_log_due and self.is_running:
            self._is_log_due = True
            self.set_timer(pause_s, self._take_log)

    def _take_log(self) -> None:
        self._is_log_due = False
        if self.pane.advance():
            self._expect_log(0.001)

    def _each_second(self) -> None:
        now = time.monotonic()
        self._release_held(now)
        if self._message[0] and self._message[1] < now:
            self._message = ("", 0.0)
        self.draw()

    def _release_held(self, now_s: float) -> None:
        """Rows that were answered move to their section, but never while the cursor is on them."""
        selected = self.list.selected
        for id, held_row in list(self.held.items()):
            if held_row.until_s <= now_s and id == selected:
                self.held[id] = held_row._replace(words="")
            elif held_row.until_s <= now_s:
                del self.held[id]

    # Which conversation is shown

    def select(self, id: str) -> None:
        self.list.select(id)
        self.selection_changed()

    def selection_changed(self) -> None:
        self.draw()
        self.set_timer(_RESTED_S, self._follow_selected)

    def _follow_selected(self) -> None:
        id = self.list.selected
        if id == self._following or not self.pane.size.width or id not in self.rows:
            return
        self._following = id
        self.pane.follow(None)
        self.run_worker(self._open_log(id), group="log", exclusive=True)

    async def _open_log(self, id: str) -> None:
        row = self.rows.get(id)
        try:
            if row is not None and row.is_unseen:
                await asyncio.to_thread(self.data.sessions.mark_seen, id)
            tail: EventTail = await asyncio.to_thread(self.data.sessions.tail, id, self._wake_log)
        except HarnessError as error:
            self.pane.follow(None, error.words)
            return
        if self._following != id:
            tail.close()
            return
        self.pane.follow(tail)
        self._expect_log(0.001)

    def on_resize(self) -> None:
        width = self.size.width
        left_pane = self.query_one("#left")
        left_pane.styles.width = width if self.is_narrow else min(max(width * 2 // 5, 40), 60)
        self._arrange()

    def on_conversation_pane_resized(self) -> None:
        self.draw()
        self.set_timer(0.1, self._fit_conversation)

    def _arrange(self) -> None:
        """One pane or two."""
        is_narrow = self.is_narrow
        self.query_one("#left").display = not (is_narrow and self.is_opened)
        self.query_one(Divider).display = not is_narrow
        self.query_one("#right").display = not is_narrow or self.is_opened
        self.list.is_inline = is_narrow
        self.call_after_refresh(self.draw)

    def open_pane(self, is_opened: bool) -> None:
        """Where only one pane fits: show the conversation, or the list."""
        self.is_opened = is_opened
        self._arrange()
        (self.pane if is_opened else self.list).focus()

    def _fit_conversation(self) -> None:
        """Lines are made for a width: for another one, the log is read again."""
        if self.pane.size.width and (self.pane.needs_width or not self._following):
            self._following = ""
            self._follow_selected()

    # Drawing

    def say(self, text: str) -> None:
        """One line at the bottom, for a moment."""
        self._message = (single_line(text), time.monotonic() + _MESSAGE_S)
        self._draw_footer()

    def clear_message(self) -> bool:
        had, self._message = bool(self._message[0]), ("", 0.0)
        self._draw_footer()
        return had

    def draw(self) -> None:
        """Everything that depends on rows and time; only what is new of it reaches the terminal."""
        now_ms = time.time_ns() // 1_000_000
        rows_chosen = [row for row in self.rows.values() if self.found is None or row.id in self.found]
        self.list.show(rows_chosen, self.held, now_ms)
        if self.list.selected != self._following:
            self.set_timer(_RESTED_S, self._follow_selected)
        more = self.list.hidden_below
        below = f"  {more} more, G goes to the end" if more and not self.is_narrow else ""
        if self.is_narrow and not rows_chosen:
            below = f" {self._empty_words}"
        self.query_one("#more", TextBlock).show([[("dim", below)]] if below else [])
        self._draw_header()
        self._draw_right(now_ms)
        self._draw_footer()
        self._notices.title(sum(row.state in NEEDS_YOU for row in self.rows.values()))

    @property
    def _empty_words(self) -> str:
        return "Nothing was found." if self.found is not None else "There is no session yet: c starts one."

    def _draw_header(self) -> None:
        width = self.size.width
        needs = sum(row.state in NEEDS_YOU for row in self.rows.values())
        works = sum(row.state in WORKS for row in self.rows.values())
        line: list[StyledPiece] = [("bold", " harness  " if not self.is_narrow else " harness ")]
        if notice := self.data.notice:
            line.append(("red", single_line(notice)))
        else:
            line.append(("yellow" if needs else "dim", f"{needs} need you" if needs != 1 else "1 needs you"))
            line.append(("", f" · {works} {'run' if self.is_narrow else 'running'}"))
            line.append(("dim", f" · {self._spent()}"))
        keys: list[StyledPiece] = [
            ("dim", "? keys  q quit " if self.is_narrow else "/ search   ? keys   q quit ")
        ]
        self.query_one("#header", TextBlock).show([aligned(line, keys, width)])

    def _spent(self) -> str:
        today = self.data.today
        if not today.words:
            return "1 session" if self.data.total == 1 else f"{self.data.total:,} sessions"
        return today.words if self.is_narrow else f"{today.words} today"

    def _draw_right(self, now_ms: int) -> None:
        row, ask = self.row, self.ask
        width = self.query_one("#right").size.width
        head, ask_block = self.query_one("#head", TextBlock), self.query_one("#ask", TextBlock)
        if row is None:
            head.show([[("dim", f" {self._empty_words}")]])
            ask_block.show([])
            return
        if width:
            head.show(head_lines(row, width, now_ms))
            lines: list[TextLine] = []
            if ask is not None:
                lines = box(row, ask, self.asking(row, ask), width, now_ms, self._most_of_box)
            elif words := next((text for key, text in self.sent.items() if key.session == row.id), ""):
                lines = [[("green", f" {words}")]]
            ask_block.show(lines)
            self.composer.show(row.id, self._composer_hint(row))
        self._last_ask = None if ask is None else key_of(row, ask)
        place = self.place_of_ask
        if place is not None:
            self.call_after_refresh(lambda: self.guard.show(place, time.monotonic()))

    def _composer_hint(self, row: InboxRow) -> str:
        if row.can.steer and row.state in WORKS | NEEDS_YOU:
            return "s steer · f follow up · m write"
        return "m write" if row.can.submit else "it takes no messages from here"

    def _draw_footer(self) -> None:
        width = self.size.width
        lines: list[TextLine] = [self._bottom_rule(width)]
        alike = self.alike()
        if self._message[0]:
            lines.append(fitted([("yellow", f" {self._message[0]}")], width))
        elif len(alike) > 1:
            lines.append(fitted(_alike_words(alike, is_narrow=self.is_narrow), width))
        elif self.found is not None:
            lines.append(
                [("yellow", f" {len(self.found)} with “{self.words}”  "), ("key", "esc"), ("", " shows all")]
            )
        else:
            lines.append(())
        keys: list[StyledPiece] = [("", " ")]
        for key, words in SHORT:
            if length([*keys, ("", f"{key} {words}")]) < width:
                keys += [("key", key), ("", f" {words} ")]
        self.query_one("#footer", TextBlock).show([*lines, keys])

    def _bottom_rule(self, width: int) -> TextLine:
        left_width = self.query_one("#left").size.width
        if self.is_narrow or not 0 < left_width < width:
            return [("dim", "─" * width)]
        return [("dim", f"{'─' * left_width}┴{'─' * (width - left_width - 1)}")]


def _alike_words(alike: Sequence[tuple[InboxRow, RowAsk]], *, is_narrow: bool) -> list[StyledPiece]:
    count = len(alike)
    what = "" if is_narrow else f": {single_line(alike[0][1].title)}"
    all_of_them = "both" if count == 2 else f"all {count}"
    return [
        ("yellow", f" {count} ask the same{what}  "),
        ("key", "Y"),
        ("", f" answer {all_of_them}, after a look at the list"),
    ]
