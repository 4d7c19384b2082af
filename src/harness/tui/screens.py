"""Screens over the inbox: a text to read (a call, changes, help), similar asks, a new conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from harness.clients.conversations.backend import Setup
from harness.clients.inbox.key_answers import AnswerGuard, is_command
from harness.clients.inbox.labels import agent_code, agent_title
from harness.events import Event, ToolEnd, ToolStart
from harness.folds.changes.fold import ChangedFile, ChangeHistory
from harness.folds.changes.lines import DiffRow, rows_of
from harness.folds.changes.texts import versions
from harness.folds.inbox.row import InboxRow, RowAsk
from harness.formatting.approval import bounded, lines_of
from harness.formatting.calls import call_lines as described_lines
from harness.formatting.calls import short_path
from harness.formatting.escapes import neutralised, revealed, single_line
from harness.tui.composer import ComposerText
from harness.tui.keys import KEYS
from harness.tui.lines import LineView, StyledPiece, TextBlock, TextLine, aligned, rule, strip_of
from harness.tui.rows import home_path
from harness.tui.source_data import ScreenData
from harness.tui.transcript_lines import CallRange

_SCROLL = {"j": 1, "down": 1, "k": -1, "up": -1}
_PLACES = {
    "everywhere": "Keys",
    "conversation": "In a conversation",
    "fleet": "In a fleet",
    "text": "While you write",
}


class TextPane(LineView):
    """Lines that do not change."""

    def __init__(self, lines: Sequence[TextLine], styles: dict[str, Style]) -> None:
        super().__init__(styles, id="text-pane")
        self._lines = lines

    def count(self) -> int:
        return len(self._lines)

    def make(self, at: int, width: int) -> Strip:
        return strip_of([("", " "), *self._lines[at]], width, self.palette)


class Pager(Screen[None], inherit_bindings=False):
    """A text of any length: esc or q closes it. `on_end` is called when its last line was on the screen."""

    DEFAULT_CSS = "Pager #text-pane { height: 1fr; }"

    def __init__(
        self,
        heading: str,
        lines: Sequence[TextLine],
        styles: dict[str, Style],
        on_end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__()
        self._heading = heading
        self._lines = lines
        self._on_end = on_end
        self._palette = styles

    def compose(self) -> ComposeResult:
        yield TextBlock(self._palette, id="pager-head")
        yield TextPane(self._lines, self._palette)

    def on_mount(self) -> None:
        self.query_one(TextPane).focus()

    def on_resize(self) -> None:
        hint: list[StyledPiece] = [("dim", "j k space b  ·  "), ("key", "esc"), ("dim", " back ")]
        width = self.size.width
        head = aligned([("bold", f" {self._heading}")], hint, width)
        self.query_one("#pager-head", TextBlock).show([head, rule((), width)])
        self.call_after_refresh(self._note_end)

    def _note_end(self) -> None:
        pane = self.query_one(TextPane)
        if pane.size.height and pane.top >= pane.last_top:
            self._on_end()

    def on_key(self, event: events.Key) -> None:
        pane = self.query_one(TextPane)
        event.stop()
        if event.key in _SCROLL:
            pane.scroll_lines(_SCROLL[event.key])
        elif event.key in ("space", "pagedown", "ctrl+d"):
            pane.scroll_lines(pane.size.height - 1)
        elif event.key in ("b", "pageup", "ctrl+u"):
            pane.scroll_lines(1 - pane.size.height)
        elif event.key in ("g", "home"):
            pane.move_to(0)
        elif event.key in ("G", "end"):
            pane.move_to(pane.last_top)
        elif event.key in ("escape", "q", "enter", "ctrl+c"):
            self.dismiss()
            return
        self._note_end()

    def on_mouse_scroll_down(self) -> None:
        self.call_after_refresh(self._note_end)


def help_lines() -> list[TextLine]:
    lines: list[TextLine] = []
    for where, words in _PLACES.items():
        lines += [(), [("bold", words)]]
        lines += [[("key", f"  {key.label:<8}"), ("", key.words)] for key in KEYS if key.where == where]
    return lines[1:]


class AlikeAnswer(NamedTuple):
    is_approved: bool
    chosen: tuple[tuple[InboxRow, RowAsk], ...]


class AlikeScreen(Screen[AlikeAnswer | None], inherit_bindings=False):
    """All asks that are alike: each with a tick, each answered for itself."""

    DEFAULT_CSS = "AlikeScreen #alike { height: 1fr; }"

    def __init__(self, asks: Sequence[tuple[InboxRow, RowAsk]], styles: dict[str, Style]) -> None:
        super().__init__()
        self._asks = list(asks)
        self._ticked = set(range(len(asks)))
        self._cursor = 0
        self._palette = styles
        self._guard = AnswerGuard()

    def compose(self) -> ComposeResult:
        yield TextBlock(self._palette, id="alike")

    def on_mount(self) -> None:
        self.draw()
        self.call_after_refresh(lambda: self._guard.show(self, time.monotonic()))

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        width = max(self.size.width, 20)
        count = len(self._ticked)
        lines: list[TextLine] = [
            aligned(
                [("bold", f" {len(self._asks)} ask the same")], [("key", "esc"), ("dim", " back ")], width
            ),
            rule((), width),
        ]
        for at, (row, ask) in enumerate(self._asks):
            tick = "☑" if at in self._ticked else "☐"
            lead: StyledPiece = ("bold", "▶ ") if at == self._cursor else ("", "  ")
            title = single_line(row.title[:200])
            lines.append(
                [
                    lead,
                    ("", f"{tick} "),
                    ("bold", title),
                    ("dim", f"  {agent_code(row)}  {home_path(row.cwd)}"),
                ]
            )
            subject = revealed(ask.subject, is_line=True)
            lines.append([("", f"      {'$ ' if is_command(ask) else f'{ask.title}: '}{subject}")])
        lines += [
            (),
            [
                ("key", " y"),
                ("", f" allow these {count} once   "),
                ("key", "n"),
                ("", f" deny these {count}   "),
                ("key", "space"),
                ("", " tick   "),
                ("key", "j k"),
                ("", " move"),
            ],
        ]
        self.query_one("#alike", TextBlock).show(lines)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in _SCROLL:
            self._cursor = max(0, min(self._cursor + _SCROLL[event.key], len(self._asks) - 1))
            self.draw()
        elif event.key == "space":
            self._ticked ^= {self._cursor}
            self.draw()
        elif event.key in ("y", "n") and self._ticked:
            if self._guard.refuses(event.key, self, event.time):
                return
            asks_chosen = tuple(self._asks[at] for at in sorted(self._ticked))
            self.dismiss(AlikeAnswer(event.key == "y", asks_chosen))
        elif event.key in ("escape", "q", "ctrl+c"):
            self.dismiss(None)


class ChoiceField(Widget, can_focus=True):
    """One of a few words; ← and → change it."""

    DEFAULT_CSS = "ChoiceField { height: 1; }"

    def __init__(
        self,
        label: str,
        options: Sequence[str],
        styles: dict[str, Style],
        *,
        id: str,
        words: Callable[[str], str] = str,
    ) -> None:
        """`words`: how an option is shown."""
        super().__init__(id=id)
        self._label = label
        self._options = options
        self._words = words
        self._palette = styles
        self._at = 0

    @property
    def value(self) -> str:
        return self._options[self._at] if self._options else ""

    def offer(self, options: Sequence[str]) -> None:
        """Others; what is chosen stays, if it is among them."""
        value = self.value
        self._options = options or self._options
        self._at = self._options.index(value) if value in self._options else 0
        self.refresh()

    def render_line(self, y: int) -> Strip:
        del y
        lead: StyledPiece = ("bold", "▶ ") if self.has_focus else ("", "  ")
        line = [lead, ("dim", f"{self._label:<12}"), ("bold", f"‹ {self._words(self.value) or 'none'} ›")]
        return strip_of(line, self.size.width, self._palette)

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_key(self, event: events.Key) -> None:
        step = {"left": -1, "right": 1, "space": 1}.get(event.key)
        if step is not None and self._options:
            event.stop()
            self._at = (self._at + step) % len(self._options)
            self.refresh()


class ConversationStart(NamedTuple):
    """A conversation that is to begin."""

    setup: Setup
    prompt: str


_PERMISSIONS = {
    "before changes and commands": "default",
    "before commands": "acceptEdits",
    "never": "fullAuto",
    "read only": "readOnly",
}


_FREE, _CONFINED = "no", "to the folder"


class StartScreen(Screen[ConversationStart | None]):
    """A new conversation: which agent and model, where, when it asks, whether it is confined, and the first message."""

    DEFAULT_CSS = """
    StartScreen Input { border: none; height: 1; padding: 0; margin: 0 0 0 14; }
    StartScreen ComposerText { height: 6; margin: 0 2; border: none; }
    """
    AUTO_FOCUS = "#composer-text"

    def __init__(self, agent: str, folder: str, draft: str, styles: dict[str, Style]) -> None:
        super().__init__()
        self._agent = agent
        self._folder = folder
        self.draft = draft
        self._palette = styles
        self._offered_files: dict[str, Sequence[str]] = {}
        """What was known before there was a field for it."""

    def compose(self) -> ComposeResult:
        yield TextBlock(self._palette, id="start-head")
        yield ChoiceField("agent", [self._agent or "…"], self._palette, id="start-agent", words=agent_title)
        yield ChoiceField("asks you", list(_PERMISSIONS), self._palette, id="start-asks")
        yield ChoiceField("confined", ["…"], self._palette, id="start-sandbox")
        yield TextBlock(self._palette, id="start-model-label")
        yield Input(placeholder="the usual one", id="start-model", compact=True)
        yield TextBlock(self._palette, id="start-folder-label")
        yield Input(self._folder, id="start-folder", compact=True)
        yield TextBlock(self._palette, id="start-text-label")
        yield ComposerText([])

    def on_mount(self) -> None:
        self.query_one(ComposerText).text = self.draft
        show: dict[str, list[TextLine]] = {
            "start-model-label": [[("dim", "  model")]],
            "start-folder-label": [[("dim", "  folder")]],
            "start-text-label": [(), [("dim", "  what is to be done  (↵ starts it, tab moves)")]],
        }
        for id, lines in show.items():
            self.query_one(f"#{id}", TextBlock).show(lines)
        for field, options in self._offered_files.items():
            self.query_one(f"#{field}", ChoiceField).offer(options)

    def on_resize(self) -> None:
        width = self.size.width
        head = aligned([("bold", " New conversation")], [("key", "esc"), ("dim", " back ")], width)
        self.query_one("#start-head", TextBlock).show([head, rule((), width), ()])

    def offer(self, agents: Sequence[str]) -> None:
        """The agents that can be started, when they are known."""
        self._offer("start-agent", agents)

    def offer_sandbox(self, by: str, refusal: str) -> None:
        """What could confine it, when that is known; or why nothing can."""
        self._offer(
            "start-sandbox", [_FREE, f"{_CONFINED} ({by})"] if by else [f"{_FREE}: {single_line(refusal)}"]
        )

    def _offer(self, field: str, options: Sequence[str]) -> None:
        self._offered_files[field] = options
        if self.is_mounted:
            self.query_one(f"#{field}", ChoiceField).offer(options)

    def on_composer_text_sent(self, event: ComposerText.Sent) -> None:
        event.stop()
        if not event.text.strip() or self.query_one("#start-agent", ChoiceField).value == "…":
            return
        setup = Setup(
            agent=self.query_one("#start-agent", ChoiceField).value,
            permission_mode=_PERMISSIONS[self.query_one("#start-asks", ChoiceField).value],
            model=self.query_one("#start-model", Input).value.strip(),
            cwd=self.query_one("#start-folder", Input).value.strip(),
            sandbox=self.query_one("#start-sandbox", ChoiceField).value.startswith(_CONFINED),
        )
        self.dismiss(ConversationStart(setup, event.text))

    def on_composer_text_left(self, event: ComposerText.Left) -> None:
        event.stop()
        self._leave()

    def on_composer_text_completed(self, event: ComposerText.Completed) -> None:
        event.stop()
        self.focus_next()

    def on_composer_text_editor_wanted(self, event: ComposerText.EditorWanted) -> None:
        event.stop()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "ctrl+c"):
            event.stop()
            self._leave()
        elif event.key in ("up", "down"):
            event.stop()
            (self.focus_next if event.key == "down" else self.focus_previous)()

    def _leave(self) -> None:
        self.draft = self.query_one(ComposerText).text
        self.dismiss(None)


_MOST = 20_000
_SIGNS = {"added": ("+", "green"), "removed": ("-", "red"), "same": (" ", "")}


def call_lines(data: ScreenData, session: str, place: CallRange, cwd: str) -> list[TextLine]:
    """Input and output of a call, whole."""
    first = place.start if place.start >= 0 else place.end
    start: ToolStart | None = None
    end: ToolEnd | None = None
    for event in data.sessions.read(session, first):
        if isinstance(event, ToolStart) and event.seq == place.start:
            start = event
        elif isinstance(event, ToolEnd) and event.seq == place.end:
            end = event
        if event.seq >= max(place.start, place.end):
            break
    if start is None:
        start = ToolStart(call_id="", tool_name=end.tool_name if end is not None else "")
    lines: list[TextLine] = [[*line.lead, *line.tail] for line in described_lines(start, end, cwd)]
    lines += [(), [("bold", f"Input of {start.tool_name}")]]
    lines += [[("", line)] for line in bounded(lines_of(start.input), _MOST)]
    if end is not None and end.output:
        lines += [(), [("bold", "Output")]]
        lines += [[("", line)] for line in bounded(neutralised(end.output).split("\n"), _MOST)]
    return lines


def change_lines(events: Iterable[Event], cwd: str) -> list[TextLine]:
    """The files that were changed, each with its difference, as far as the log has it."""
    history = ChangeHistory()
    for event in events:
        history.feed(event)
    if not history.files:
        return [[("dim", "No file was changed.")]]
    lines: list[TextLine] = []
    for file in history.files.values():
        rows = _rows(file)
        added, removed = (sum(row.kind == kind for row in rows) for kind in ("added", "removed"))
        moved = f" (was {short_path(file.original, cwd)})" if file.original else ""
        path = revealed(f"{short_path(file.path, cwd)}{moved}", is_line=True)
        lines += [(), [("bold", path), ("green", f"  +{added}"), ("red", f" −{removed}")]]
        lines += [_diff_line(row) for row in rows] or [[("dim", "  The log does not have the text.")]]
    return lines[1:]


def _rows(file: ChangedFile) -> list[DiffRow]:
    texts = versions(file.edits)
    first, last = texts[0], texts[-1]
    if first is not None and last is not None:
        return rows_of(first if isinstance(first, str) else "", last if isinstance(last, str) else "")
    passages = [passage for edit in file.edits for passage in edit.passages]
    rows = [row for passage in passages for row in rows_of(passage.old, passage.new, first_line=passage.line)]
    whole = [edit.content for edit in file.edits if edit.content is not None and not edit.passages]
    return rows + [row for text in whole[-1:] for row in rows_of("", text)]


def _diff_line(row: DiffRow) -> TextLine:
    if row.kind == "place":
        return [("cyan", f"  ⋯ {revealed(row.text, is_line=True)}")]
    sign, style = _SIGNS[row.kind]
    number = row.new if row.new is not None else row.old
    return [("dim", f"{'' if number is None else number:>6} "), (style, f"{sign} {revealed(row.text)}")]
