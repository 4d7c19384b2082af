"""On a real terminal: it is as before when the program has ended, whatever ended it; and what is written to it."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Self

import pytest

pytest.importorskip("pty", reason="there are no terminals here")
PROGRAM = Path(__file__).parent / "scripted_program.py"
_OF_THE_TERMINAL = ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES")
_COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


class Terminal:
    """A terminal of 100 × 30 with the program in it."""

    def __init__(self, *words: str, **environ: str) -> None:
        import pty

        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        expected_texts = {name: value for name, value in os.environ.items() if name not in _OF_THE_TERMINAL}
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**expected_texts, "TERM": "xterm-256color", **environ},
            start_new_session=True,
        )
        self.raw = b""
        self._typed_at = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        self._thread.join(10)
        os.close(self._ours)

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._ours, 65_536)
            except OSError:
                return
            if not block:
                return
            self.raw += block

    def until(self, wanted: bytes) -> None:
        """Until this has been written since something was typed."""
        ends_s = time.monotonic() + 100
        while wanted not in self.raw[self._typed_at :]:
            assert time.monotonic() < ends_s, self.raw[-2000:]
            time.sleep(0.02)

    def type(self, text: str) -> None:
        self._typed_at = len(self.raw)
        os.write(self._ours, text.encode())

    def until_as_before(self) -> None:
        ends_s = time.monotonic() + 100
        while not self.is_as_before():
            assert time.monotonic() < ends_s, self.raw[-2000:]
            time.sleep(0.02)

    def is_as_before(self) -> bool:
        """Its settings, the screen, the cursor, the title, the mouse and paste."""
        ends = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l")
        return termios.tcgetattr(self._theirs) == self.before and all(end in self.raw for end in ends)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_as_before_after_a_signal(number: signal.Signals, code: int) -> None:
    with Terminal() as terminal:
        terminal.until(b"may it run this?")
        terminal.process.send_signal(number)
        assert terminal.process.wait(100) == code
        terminal.until_as_before()
        assert b"Traceback" not in terminal.raw


def test_the_terminal_is_as_before_after_an_exception() -> None:
    with Terminal("fail") as terminal:
        terminal.until(b"may it run this?")
        terminal.type("u")
        assert terminal.process.wait(100) == 70
        terminal.until(b"failed: on purpose")
        assert terminal.is_as_before()
        assert b"Traceback" not in terminal.raw


def test_the_count_stands_in_the_title_and_the_title_is_given_back() -> None:
    with Terminal() as terminal:
        terminal.until(b"\x1b]0;(4) harness\x07")
        terminal.type("q")
        assert terminal.process.wait(100) == 0
        terminal.until(b"\x1b[23;0t")
        assert terminal.is_as_before()


def test_without_colours_there_are_none() -> None:
    with Terminal() as terminal:
        terminal.until(b"may it run this?")
        assert _COLOUR.search(terminal.raw)
    with Terminal(NO_COLOR="1") as terminal:
        terminal.until(b"may it run this?")
        terminal.type("jjd")
        terminal.until(b"No file was changed.")
        terminal.type("q")
        terminal.until(b"Which package manager?")
        terminal.type("q")
        terminal.process.wait(100)
        assert not _COLOUR.search(terminal.raw), _COLOUR.findall(terminal.raw)[:5]
