"""A sign of life at the end of the terminal's last line: a moving mark and the time since the start.

It stands behind the cursor and never moves it, so whatever is written next simply takes its place.
"""

from __future__ import annotations

import time

from harness.interfaces.cli.console import Console

FRAME_S = 0.1
_QUIET_S = 0.5
"""Only a pause that people notice needs a sign of life."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SAVE_AND_STOP_WRAPPING, _WRAP_AND_RESTORE = "\x1b7\x1b[?7l", "\x1b[?7h\x1b8"
_ERASE_TO_THE_RIGHT = "\x1b[K"


class Spinner:
    """Contract: `erase` before anything else is written to the terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_s = self._touched_s = time.monotonic()
        self._frame = 0
        self._is_drawn = False

    def draw(self, *, at_line_start: bool) -> None:
        now_s = time.monotonic()
        if now_s - self._touched_s < _QUIET_S:
            return
        minutes, seconds = divmod(int(now_s - self._started_s), 60)
        clock = f"{minutes}:{seconds:02}" if minutes else f"{seconds} s"
        self._frame = (self._frame + 1) % len(_FRAMES)
        space = "" if at_line_start else " "
        sign = f"{space}\x1b[2m{_FRAMES[self._frame]} {clock}\x1b[0m"
        self._console.put(f"{_SAVE_AND_STOP_WRAPPING}{sign}{_ERASE_TO_THE_RIGHT}{_WRAP_AND_RESTORE}")
        self._is_drawn = True

    def erase(self) -> None:
        self._touched_s = time.monotonic()
        if self._is_drawn:
            self._console.put(_ERASE_TO_THE_RIGHT)
            self._is_drawn = False
