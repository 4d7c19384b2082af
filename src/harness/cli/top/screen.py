"""The screen of `harness top`: draws the inbox, reads keys, answers.

Guards
1. No key answers a card within 400 ms after it appeared, changed or moved, nor while a key is held down.
2. An answer names the ask that was shown. What the list does not show in full is shown first.
3. An ask with marks is allowed only by typing `yes`.
4. The terminal is as before after the end, whatever ended it.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from harness.cli.chat.line_editor import LineEditor
from harness.cli.top.lines import (
    KEYS,
    NARROWEST,
    Look,
    ScreenLine,
    card_place,
    full_lines,
    is_whole,
    screen_lines,
    shown_order,
)
from harness.clients.commands import Cancel, Command, Deny, Steer, Submit
from harness.clients.exit_codes import of_signal
from harness.clients.inbox.contract import Sessions
from harness.clients.inbox.key_answers import (
    AnswerGuard,
    AskKey,
    answer_words,
    command_of,
    has_marks,
    key_of,
    relay_of,
    reply_to_key,
)
from harness.clients.inbox.typed_answers import Asking, TypedReply
from harness.errors import HarnessError
from harness.folds.inbox.row import WORKS, InboxRow, RowAsk
from harness.formatting.columns import cut
from harness.formatting.escapes import single_line
from harness.formatting.terminal import Style

_STDIN, _STDOUT = 0, 1
_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[2J", b"\x1b[?25h\x1b[?1049l\x1b]0;\x07"
_HELD_S = 0.4
"""A key that comes again within this time is held down."""
_REDRAWN_S = 1.0
_MESSAGE_S = 5.0
_COLOURS: dict[Style, str] = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_EMPHASIS: dict[Style, str] = {"bold": "1", "dim": "2"}
_SPELLINGS = {"\x1b[A": "k", "\x1bOA": "k", "\x1b[B": "j", "\x1bOB": "j", "\n": "\r"}
_ANSWERS = frozenset("yanpe123456789")
_MOVES = ("j", "k")
_SCROLLS = {"j": 1, "k": -1, " ": 1, "b": -1}
_YES = "yes"

OpenSession = Callable[[InboxRow | None], object]
"""Shows a session in the terminal, which was left for it; None: a new conversation."""


class TopTerminal:
    """The terminal: keys one by one, a screen of its own. Contract: entered in the main thread."""

    def __init__(self, environ: Mapping[str, str], *, color: bool) -> None:
        self._environ = environ
        self._color = color
        self._settings: list[Any] | None = None
        self._drawn = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self.ended_by = 0
        """The signal that ended it."""

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGWINCH, lambda *_: self.wake())
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def resume(self) -> None:
        import tty

        if self._settings is None:
            self._settings = termios.tcgetattr(_STDIN)
        tty.setcbreak(_STDIN, termios.TCSADRAIN)
        self._drawn = b""
        self._write(_ENTER)

    def leave(self) -> None:
        """The terminal as it was before."""
        self._write(_LEAVE)
        if self._settings is not None:
            with suppress(termios.error):
                termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._settings)

    @property
    def size(self) -> tuple[int, int]:
        try:
            terminal = os.get_terminal_size(_STDOUT)
        except OSError:
            return 80, 24
        return max(NARROWEST, terminal.columns), max(6, terminal.lines)

    def wake(self) -> None:
        """From any thread."""
        with suppress(OSError):
            os.write(self._wake_write, b"\0")

    def keys(self, seconds: float) -> bytes:
        """What was typed within that time; empty when nothing was, or `wake` was called."""
        ready, _, _ = select.select([_STDIN, self._wake_read], [], [], seconds)
        if self._wake_read in ready:
            with suppress(OSError):
                os.read(self._wake_read, 4096)
        if _STDIN not in ready:
            return b""
        try:
            data = os.read(_STDIN, 4096)
        except OSError:
            data = b""
        if not data:
            self.ended_by = self.ended_by or signal.SIGHUP
        return data

    def draw(self, lines: list[ScreenLine], title: str) -> None:
        parts = [f"\x1b[H\x1b]0;{single_line(title)}\x07"]
        parts += ["".join(self._painted(style, text) for style, text in line) + "\x1b[K" for line in lines]
        frame = ("\r\n".join(parts[1:]) + "\x1b[J").encode("utf-8", "replace")
        frame = parts[0].encode("utf-8", "replace") + frame
        if frame != self._drawn:
            self._drawn = frame
            self._write(frame)

    def bell(self) -> None:
        self._write(b"\a")

    def _painted(self, style: Style, text: str) -> str:
        code = _EMPHASIS.get(style) or (_COLOURS.get(style) if self._color else None)
        return f"\x1b[{code}m{text}\x1b[0m" if code and text else text

    def _write(self, data: bytes) -> None:
        with suppress(OSError):
            while data:
                data = data[os.write(_STDOUT, data) :]

    def _on_end(self, number: int, _frame: object) -> None:
        self.ended_by = number
        self.wake()


class TopScreen:
    """Contract: used by the main thread; one thread of its own waits for changes."""

    def __init__(
        self, inbox: Sessions, terminal: TopTerminal, open_session: OpenSession, *, rings: bool
    ) -> None:
        self._inbox = inbox
        self._terminal = terminal
        self._open_session = open_session
        self._rings = rings
        self._cursor = ""
        self._message, self._message_s = "", 0.0
        self._card: tuple[str, str, int] = ("", "", -1)
        self._guard = AnswerGuard()
        self._asking: tuple[AskKey, Asking] | None = None
        self._pressed: dict[str, float] = {}
        self._last_needed = -1
        self._input: tuple[str, Callable[[str], None]] | None = None
        self._editor = LineEditor()
        self._viewed: AskKey | None = None
        """The ask that is shown in full."""
        self._shown_in_full: AskKey | None = None
        """The ask that was shown in full to its end."""
        self._overlay: list[ScreenLine] | None = None
        self._overlay_at = 0
        self._is_over = False
        self._keys: dict[str, Callable[[InboxRow | None], None]] = {
            "q": lambda _row: self._quit(),
            "j": lambda _row: self._move(1),
            "k": lambda _row: self._move(-1),
            "g": lambda _row: self._move(-(10**6)),
            "G": lambda _row: self._move(10**6),
            "?": lambda _row: self._show_keys(),
            "c": lambda _row: self._leave_for(None),
            "\r": self._open,
            "s": self._steer,
            "x": self._stop,
            "v": self._view,
        }

    def run(self) -> int:
        """Until the end; the exit code."""
        threading.Thread(target=self._follow, name="harness-top", daemon=True).start()
        while not self._is_over and not self._terminal.ended_by:
            self._draw()
            data = self._terminal.keys(_REDRAWN_S)
            if data:
                self._take(data)
        return of_signal(self._terminal.ended_by) if self._terminal.ended_by else 0

    def _follow(self) -> None:
        version = 0
        while not self._is_over:
            version = self._inbox.wait(version, 5.0)
            self._terminal.wake()
            time.sleep(0.05)  # changes that come together are drawn together

    def _quit(self) -> None:
        self._is_over = True

    # Drawing.

    def _look(self) -> Look:
        width, height = self._terminal.size
        page = self._inbox.page()
        order = shown_order(page.rows)
        if self._cursor not in order:
            self._cursor = order[0] if order else ""
        message = self._message if time.monotonic() - self._message_s < _MESSAGE_S else ""
        prompt = f"{self._input[0]}{self._editor.text}▏" if self._input is not None else ""
        row = self._inbox.row(self._cursor)
        asking = self._asking_of(row, row.asks[0]) if row is not None and row.asks else None
        return Look(
            page=page,
            today=self._inbox.today,
            cursor=self._cursor,
            now_ms=time.time_ns() // 1_000_000,
            width=width,
            height=height,
            message=message or self._inbox.problem,
            prompt=prompt,
            asking=asking,
        )

    def _draw(self) -> None:
        look = self._look()
        card = card_place(look)
        self._card = card
        self._guard.show(card, time.monotonic())
        needed_count = look.page.counts.needs_you
        if self._rings and 0 <= self._last_needed < needed_count:
            self._terminal.bell()
        self._last_needed = needed_count
        lines = screen_lines(look)
        if self._overlay is not None:
            lines = self._overlaid(look)
        self._terminal.draw(lines, f"({needed_count}) harness top" if needed_count else "harness top")

    def _overlaid(self, look: Look) -> list[ScreenLine]:
        assert self._overlay is not None, "it is shown"
        room = look.height - 1
        self._overlay_at = max(0, min(self._overlay_at, len(self._overlay) - room))
        shown_lines = self._overlay[self._overlay_at : self._overlay_at + room]
        if self._overlay_at + room >= len(self._overlay):
            self._shown_in_full = self._viewed or self._shown_in_full
        shown_lines = shown_lines + [[("", "")]] * (room - len(shown_lines))
        words = "j k space b scroll   any other key closes this"
        return [*shown_lines, [("dim", cut(words, look.width))]]

    def _say(self, text: str) -> None:
        self._message, self._message_s = single_line(text), time.monotonic()

    # Keys.

    def _take(self, data: bytes) -> None:
        if self._input is not None:
            return self._type(data)
        text = data.decode("utf-8", "replace")
        key = _SPELLINGS.get(text, text[:1] if not text.startswith("\x1b") else text)
        return self._press(key)

    def _press(self, key: str) -> None:
        if self._overlay is not None and key in _SCROLLS:
            _width, height = self._terminal.size
            self._overlay_at += _SCROLLS[key] * (1 if key in _MOVES else height - 2)
            return
        is_closed, self._overlay, self._viewed = self._overlay is not None, None, None
        now_s = time.monotonic()
        is_held = now_s - self._pressed.get(key, -_HELD_S) < _HELD_S
        self._pressed[key] = now_s
        row = self._inbox.row(self._cursor)
        if key in _ANSWERS:
            if row is not None and row.asks:
                self._answer(row, row.asks[0], key)
        elif not is_closed and (key in _MOVES or not is_held) and (act := self._keys.get(key)) is not None:
            act(row)

    def _type(self, data: bytes) -> None:
        assert self._input is not None, "something is typed"
        if data == b"\x1b":
            self._input = None
            self._editor.clear()
            return
        for line in self._editor.feed(data):
            _prompt, then = self._input
            self._input = None
            if line is not None:
                then(line)
            break

    def _ask_for(self, prompt: str, then: Callable[[str], None]) -> None:
        self._input = prompt, then
        self._editor.clear()

    def _move(self, steps: int) -> None:
        order = shown_order(self._inbox.page().rows)
        if order:
            place = order.index(self._cursor) if self._cursor in order else 0
            self._cursor = order[max(0, min(len(order) - 1, place + steps))]

    # What keys do.

    def _answer(self, row: InboxRow, ask: RowAsk, key: str) -> None:
        if refused := self._guard.refuses(key, self._card, time.monotonic()):
            self._say(refused)
            return
        if ask.kind in ("question", "tool"):
            self._answer_question(row, ask, key)
        elif key == "e":
            self._ask_for("No, because: ", lambda why: self._reply(row, ask, _refusal(ask, why)))
        elif (reply := reply_to_key(ask, key)) is not None and reply.approved:
            self._allow(row, ask, reply)
        elif reply is not None:
            self._reply(row, ask, reply)

    def _answer_question(self, row: InboxRow, ask: RowAsk, key: str) -> None:
        asking = self._asking_of(row, ask)
        if key == "e":
            self._ask_for("Answer: ", lambda text: self._reply(row, ask, asking.take(text)))
        elif key == "n":
            self._send(row, Deny(relay_id=ask.id, arguments_hash=ask.arguments_hash), "Not answered")
        elif key.isdecimal() and int(key) <= len(asking.options):
            self._reply(row, ask, asking.take(key))

    def _asking_of(self, row: InboxRow, ask: RowAsk) -> Asking:
        """The ask, with the answers that were given to its first questions."""
        key = key_of(row, ask)
        if self._asking is None or self._asking[0] != key:
            self._asking = key, Asking(relay_of(ask))
        return self._asking[1]

    def _allow(self, row: InboxRow, ask: RowAsk, reply: TypedReply) -> None:
        width, _height = self._terminal.size
        if not is_whole(row, ask, width - 4) and self._shown_in_full != key_of(row, ask):
            self._say("Not all of it was shown: read it to the end, then answer")
            self._view(row)
            return
        if not has_marks(ask):
            self._reply(row, ask, reply)
            return

        def confirmed(text: str) -> None:
            if text.strip().lower() == _YES:
                self._reply(row, ask, reply)
            else:
                self._say("Nothing was allowed")

        self._ask_for("It has characters that cannot be seen. Type yes to allow it: ", confirmed)

    def _reply(self, row: InboxRow, ask: RowAsk, reply: TypedReply | None) -> None:
        """Without a reply, the next of several questions is shown."""
        if reply is not None:
            self._send(row, command_of(ask, reply), answer_words(ask, reply).capitalize())

    def _send(self, row: InboxRow, command: Command, done_text: str) -> None:
        self._say(f"{row.title}: …")
        self._draw()
        try:
            self._inbox.send(row.id, command)
            self._say(f"{row.title}: {done_text}")
        except HarnessError as error:
            self._say(error.words)

    def _steer(self, row: InboxRow | None) -> None:
        if row is None:
            return
        is_steered = row.state in WORKS and row.can.steer

        def send(text: str) -> None:
            if text.strip():
                command: Command = Steer(message=text) if is_steered else Submit(prompt=text)
                self._send(row, command, "Sent" if is_steered else "Queued" if row.is_live else "Sent")

        self._ask_for("Steer: " if is_steered else "Next message: ", send)

    def _stop(self, row: InboxRow | None) -> None:
        if row is None or not row.is_live:
            self._say("Nothing runs there")
            return

        def confirmed(text: str) -> None:
            if text.strip().lower() in ("y", _YES):
                self._send(row, Cancel(), "Stopped")

        self._ask_for(f"Stop {single_line(row.title)[:40]}? y: ", confirmed)

    def _view(self, row: InboxRow | None) -> None:
        if row is None or not row.asks:
            return
        width, _height = self._terminal.size
        ask = row.asks[0]
        try:
            whole = self._inbox.whole_ask(row.id, ask.id) if ask.is_cut else ask
        except HarnessError as error:
            self._say(error.words)
            return
        self._overlay, self._overlay_at = full_lines(row, whole, width, self._asking_of(row, ask)), 0
        self._viewed = key_of(row, whole)

    def _show_keys(self) -> None:
        lines: list[ScreenLine] = [[("bold", "Keys")]]
        lines += [[("cyan", f" {key:<10}"), ("", words)] for key, words in KEYS]
        self._overlay, self._overlay_at = lines, 0

    def _open(self, row: InboxRow | None) -> None:
        if row is not None:
            self._inbox.mark_seen(row.id)
            self._leave_for(row)

    def _leave_for(self, row: InboxRow | None) -> None:
        self._terminal.leave()
        try:
            self._open_session(row)
        finally:
            self._terminal.__enter__()


def _refusal(ask: RowAsk, why: str) -> TypedReply:
    if ask.kind == "plan":
        return TypedReply(False, reason=why, answer={"action": "rejected", "feedback": why})
    return TypedReply(False, reason=why)
