"""The field at the bottom, for messages, reasons, answers and searches; and `$EDITOR` for a long text."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import TextArea

from harness.errors import UsageError
from harness.formatting.escapes import neutralised
from harness.tui.lines import StyledPiece, TextBlock, TextLine, rule

_AT = re.compile(r"(?:^|\s)@([^\s@]*)$")
_REMEMBERED = 100


class ComposerMode(NamedTuple):
    name: str
    lead: str
    """Before an empty field."""
    hint: str
    is_live: bool = False
    """Whether every change counts, not only what is sent."""


WRITE = ComposerMode(
    "write", "steer, or write what comes next", "↵ steer · alt-↵ queue · @ file · ctrl-g editor"
)
QUEUE = ComposerMode("queue", "what to do after this run", "↵ queue · @ file · ctrl-g editor · esc back")
DENY = ComposerMode("deny", "no, because …", "↵ deny with this reason · esc back, nothing is answered")
ANSWER = ComposerMode("answer", "your own words", "↵ answer · esc back, nothing is answered")
CONFIRM = ComposerMode("confirm", "write allow", "write allow, then ↵ · esc back, nothing is answered")
SEARCH = ComposerMode("search", "words in any session", "↵ done · esc all sessions", is_live=True)
FIND = ComposerMode("find", "find in this conversation", "↵ next · esc done", is_live=True)


class ComposerText(TextArea):
    """Contract: what is typed stays here until it is sent or left; nothing typed here is a key of the screen."""

    class Sent(Message):
        def __init__(self, text: str, *, is_queued: bool) -> None:
            super().__init__()
            self.text = text
            self.is_queued = is_queued

    class Left(Message):
        """The field was left; what was written stays."""

    class EditorWanted(Message):
        """`$EDITOR` is to be opened with the text."""

    class Completed(Message):
        """Tab: the first of the offered files."""

    def __init__(self, history: list[str]) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, id="composer-text")
        self._history = history
        self._back = 0
        """How far back in the history the text is; 0: it is new."""

    async def _on_key(self, event: events.Key) -> None:
        actions: dict[str, Callable[[], object]] = {
            "enter": lambda: self._send(is_queued=False),
            "alt+enter": lambda: self._send(is_queued=True),
            "escape": lambda: self.post_message(self.Left()),
            "ctrl+c": lambda: self.post_message(self.Left()),
            "ctrl+g": lambda: self.post_message(self.EditorWanted()),
            "tab": lambda: self.post_message(self.Completed()),
            "shift+enter": lambda: self.insert("\n"),
            "ctrl+j": lambda: self.insert("\n"),
        }
        action = actions.get(event.key)
        if action is None and event.key in ("up", "down") and self._is_recalling(event.key):
            step = 1 if event.key == "up" else -1
            action = partial(self._recall, step)
        if action is None:
            self._back = 0 if event.is_printable else self._back
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        action()

    async def _on_paste(self, event: events.Paste) -> None:
        """Terminals send a carriage return for every line end of what is pasted."""
        event.prevent_default()  # Textual would also call the handler of `TextArea`, and the text come twice
        event.stop()
        self.insert(neutralised(event.text.replace("\r\n", "\n").replace("\r", "\n")))

    def _send(self, *, is_queued: bool) -> None:
        self.post_message(self.Sent(self.text, is_queued=is_queued))

    def _is_recalling(self, key: str) -> bool:
        return bool(self._back) or (key == "up" and not self.text and bool(self._history))

    def _recall(self, step: int) -> None:
        self._back = max(0, min(self._back + step, len(self._history)))
        self.text = self._history[-self._back] if self._back else ""
        self.move_cursor(self.document.end)

    def remember(self, text: str) -> None:
        self._back = 0
        if text.strip() and self._history[-1:] != [text]:
            self._history.append(text)
            del self._history[:-_REMEMBERED]


class Composer(Vertical):
    """Contract: a draft belongs to a session and a mode, and is shown again with them."""

    def __init__(self, styles: dict[str, Style], *, id: str) -> None:
        super().__init__(id=id)
        self._palette = styles
        self.mode = WRITE
        self.session = ""
        self._drafts: dict[tuple[str, str], str] = {}
        self._history: list[str] = []
        self._offered_files: Sequence[str] = ()
        self._note = ""
        self.has_text_field = False

    def compose(self) -> ComposeResult:
        yield TextBlock(self._palette, id="composer-rule")
        yield TextBlock(self._palette, id="composer-idle")
        yield TextBlock(self._palette, id="composer-hint")

    def on_resize(self) -> None:
        self.draw()

    @property
    def field(self) -> ComposerText | None:
        return self.query_one("#composer-text", ComposerText) if self.has_text_field else None

    @property
    def is_open(self) -> bool:
        field = self.field
        return field is not None and bool(field.display)

    @property
    def text(self) -> str:
        field = self.field
        return field.text if field is not None and field.display else ""

    def prepare(self) -> ComposerText:
        """Make the field: it is not needed for the first screen, and takes a while."""
        field = self.field
        if field is None:
            field = ComposerText(self._history)
            field.display = False
            self.mount(field, after="#composer-idle")
            self.has_text_field = True
        return field

    def open(self, mode: ComposerMode, session: str) -> None:
        """Write there, from the draft on."""
        self.mode, self.session, self._offered_files = mode, session, ()
        field = self.prepare()
        field.text = self._drafts.get((session, mode.name), "")
        field.move_cursor(field.document.end)
        field.display = True
        field.focus()
        self.draw()

    def close(self) -> None:
        """The draft stays."""
        field = self.field
        if field is not None and field.display:
            if not self.mode.is_live:
                self._drafts[self.session, self.mode.name] = field.text
            field.display = False
        self.mode = WRITE
        self.draw()

    def sent(self) -> None:
        """What was written has been sent: its draft is removed."""
        field = self.field
        if field is not None:
            if not self.mode.is_live:
                field.remember(field.text)
            self._drafts.pop((self.session, self.mode.name), None)
            field.text = ""

    def restore(self, session: str, mode: ComposerMode, text: str) -> None:
        """It could not be sent."""
        self._drafts[session, mode.name] = text
        self.draw()

    def draft(self, session: str) -> str:
        return self._drafts.get((session, WRITE.name), "")

    def offer(self, files: Sequence[str]) -> None:
        """Files that complete the word after `@`."""
        if files != self._offered_files:
            self._offered_files = files
            self.draw()

    def note(self, text: str) -> None:
        """In place of the hint, such as how many places were found."""
        self._note = text
        self.draw()

    @property
    def at_word(self) -> str | None:
        """The word after the `@` before the cursor; None: there is none."""
        field = self.field
        if field is None or not field.display or self.mode.is_live:
            return None
        row, column = field.cursor_location
        match = _AT.search(field.document.get_line(row)[:column])
        return match[1] if match is not None else None

    def complete(self) -> None:
        """The first of the offered files takes the place of what was typed."""
        word, field = self.at_word, self.field
        if word is None or field is None or not self._offered_files:
            return
        row, column = field.cursor_location
        field.replace(f"{self._offered_files[0]} ", (row, column - len(word)), (row, column))
        self.offer(())

    def show(self, session: str, hint: str) -> None:
        """Of which session the draft is shown while nothing is written."""
        if not self.is_open and (session, hint) != (self.session, self._note):
            self.session, self._note = session, hint
            self.draw()

    def draw(self) -> None:
        if not self.is_mounted:
            return
        width = max(self.size.width, 20)
        heading: list[StyledPiece] = []
        if self.is_open and self.mode is not WRITE:
            heading = [("dim", "── "), ("yellow", f"{self.mode.lead} ")]
        lead = rule(heading, width)
        self.query_one("#composer-rule", TextBlock).show([lead])
        draft = self.draft(self.session)
        idle: list[TextLine] = []
        if not self.is_open:
            idle = [[("dim", " > "), ("" if draft else "dim", draft.partition("\n")[0] or WRITE.lead)]]
        self.query_one("#composer-idle", TextBlock).show(idle)
        self.query_one("#composer-hint", TextBlock).show([self._hint()])

    def _hint(self) -> TextLine:
        if self._offered_files:
            return [("dim", " tab "), ("cyan", "  ".join(self._offered_files))]
        if self.is_open:
            return [("dim", f" {self._note if self.mode.is_live and self._note else self.mode.hint}")]
        return [("dim", f" {self._note or 'm write · s steer · f follow up'}")]


def edited(text: str, environ: Mapping[str, str]) -> str:
    """The text as it was left there. Raises UsageError when there is no editor, or it fails: nothing is lost then.

    Contract: called while the terminal belongs to the editor.
    """
    command = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        path = os.path.join(folder, "message.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            code = subprocess.call([*command, path])
        except OSError as error:
            raise UsageError(f"{command[0]} does not start: {error.strerror}", hint="set EDITOR") from error
        if code:
            raise UsageError(f"{command[0]} ended with {code}: the text is as it was")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
