"""The terminal of a chat: output above, at most one line of input below it.

On a terminal that can be drawn on, keys are read one by one. While something is being typed, output waits, so that
neither is torn apart. A dumb terminal edits its own lines, and a pipe has nothing to edit.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from harness.cli.chat.line_editor import LineEditor, LineSplitter
from harness.cli.console import can_erase, is_terminal, width_of
from harness.cli.output import STDOUT, ReaderGone, write_out
from harness.errors import HarnessError
from harness.formatting.columns import columns
from harness.formatting.escapes import neutralised, revealed

_STDIN = 0
_PASTE_ON, _PASTE_OFF = b"\x1b[?2004h", b"\x1b[?2004l"
_ERASE = b"\r\x1b[K"
_UNPROMPTED = "» "
"""Before what is typed while no prompt is shown."""
_LONGEST_ECHO = 2_000
"""Characters of what was typed, or rather pasted, that stay on the screen."""


class ChatTerminal:
    """Contract: entered in the main thread, which alone uses it; `wake` may be called from any, also by a signal."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.is_interactive = is_terminal(_STDIN) and is_terminal(STDOUT)
        """Whether a person types and reads here."""
        self._can_draw = self.is_interactive and can_erase(STDOUT, environ)
        self._editor: LineEditor | LineSplitter = LineEditor() if self._can_draw else LineSplitter()
        self._prompt = ""
        self._is_drawn = False
        self._is_at_line_start = True
        self._held: list[bytes] = []
        self._settings: list[Any] | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._has_input = True

    def __enter__(self) -> Self:
        self.resume()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(HarnessError, ReaderGone):  # the terminal may be closed
            self._erase()
            self._release()
        if self._settings is not None:
            import termios

            with suppress(termios.error):
                termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._settings)
            with suppress(HarnessError, ReaderGone):
                write_out(_PASTE_OFF)

    def resume(self) -> None:
        """Read keys: at the start, and after the program was stopped and continued (Ctrl-Z, `fg`)."""
        if not self._can_draw:
            return
        import termios
        import tty

        if self._settings is None:
            self._settings = termios.tcgetattr(_STDIN)
        tty.setcbreak(_STDIN, termios.TCSADRAIN)  # Ctrl-C and Ctrl-Z stay signals
        write_out(_PASTE_ON)
        self._draw()

    @property
    def wake_fd(self) -> int:
        """What is written here makes `wait` return."""
        return self._wake_write

    def wake(self) -> None:
        """Make `wait` return."""
        with suppress(OSError):
            os.write(self._wake_write, b"\0")

    def wait(self, seconds: float | None, *, reads: bool = True) -> bool:
        """Until something was typed, `wake` was called, or the time is over. True: `read` has something."""
        sources = [self._wake_read, *([_STDIN] if reads and self._has_input else [])]
        ready, _, _ = select.select(sources, [], [], seconds)
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        return _STDIN in ready

    def read(self) -> list[str | None]:
        """The lines that were typed; None: the input has ended."""
        try:
            data = os.read(_STDIN, 65_536)
        except OSError:
            data = b""
        self._has_input = bool(data)
        lines = self._editor.feed(data)
        for line in lines:
            self._leave(line or "")
        if not lines or self._editor.text:
            self._draw()
        if not self._editor.text:
            self._release()
        return lines

    @property
    def is_typing(self) -> bool:
        """Whether a line is being typed."""
        return bool(self._editor.text)

    def clear(self) -> None:
        """Discard the line that is being typed."""
        self._editor.clear()
        self._release()
        self._draw()

    def prompt(self, text: str) -> None:
        """Set the prompt before the line of input; empty: nothing is shown until something is typed."""
        if text != self._prompt:
            self._erase()
            self._prompt = text
            if not self._can_draw and self.is_interactive and text:
                self._put(text.encode())
            self._draw()

    def write(self, pieces: Sequence[bytes]) -> None:
        """Output, shown as soon as nothing is being typed. Raises ReaderGone."""
        data = b"".join(pieces)
        if not data:
            return
        if self._editor.text:
            self._held.append(data)
            return
        self._erase()
        self._put(data)
        self._draw()

    def say(self, text: str) -> None:
        """Lines of ours."""
        start = "" if self._is_at_line_start or self._is_drawn or self._held else "\n"
        self.write([f"{start}{neutralised(text)}\n".encode("utf-8", "backslashreplace")])

    def _release(self) -> None:
        held, self._held = self._held, []
        if held:
            self.write(held)

    def _leave(self, line: str) -> None:
        """A line was ended: it stays on the screen."""
        if not self._can_draw:
            self._is_at_line_start = (
                self._is_at_line_start or self.is_interactive
            )  # the terminal has echoed it
            self._prompt = ""
            return
        self._erase()
        if line or self._prompt:
            self._end_line()
            lead = self._prompt or _UNPROMPTED
            self._put(f"{lead}{_echo(line)}\n".encode("utf-8", "backslashreplace"))
        self._prompt = ""

    def _draw(self) -> None:
        if not self._can_draw or not isinstance(self._editor, LineEditor):
            return
        if not (self._prompt or self._editor.text):
            self._erase()
            return
        self._end_line()
        lead = self._prompt or _UNPROMPTED
        width = width_of(STDOUT, self._environ)
        text, cursor = self._editor.drawn(max(2, width - columns(lead) - 1))
        place = columns(lead) + cursor
        move = f"\r\x1b[{place}C" if place else "\r"
        write_out(f"\r{lead}{text}\x1b[K{move}".encode("utf-8", "backslashreplace"))
        self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            write_out(_ERASE)
            self._is_drawn = False

    def _end_line(self) -> None:
        if not self._is_at_line_start and not self._is_drawn:
            self._put(b"\n")

    def _put(self, data: bytes) -> None:
        write_out(data)
        self._is_at_line_start = data.endswith(b"\n")


def _echo(line: str) -> str:
    text = revealed(line[:_LONGEST_ECHO], is_line=True)
    return text if len(line) <= _LONGEST_ECHO else f"{text} … ({len(line):,} characters)"
