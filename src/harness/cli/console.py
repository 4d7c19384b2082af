"""Messages for people, on standard error.

They name arguments, files and sessions of strangers: what could move, hide or command is shown instead of obeyed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from harness.config.settings import LOG_LEVELS
from harness.errors import HarnessError
from harness.formatting.escapes import neutralised, revealed

_WARN, _INFO, _DEBUG = (LOG_LEVELS.index(name) for name in ("warn", "info", "debug"))


class Console:
    """Contract: never raises; when standard error is closed, messages are dropped."""

    def __init__(self, level: str = "warn") -> None:
        self._level = LOG_LEVELS.index(level)

    def set_level(self, level: str) -> None:
        self._level = LOG_LEVELS.index(level)

    @property
    def is_verbose(self) -> bool:
        return self._level >= _DEBUG

    def error(self, error: HarnessError) -> None:
        self.say(revealed(f"harness: {error.message}"))
        if error.hint:
            self.say(revealed(f"  {error.hint}"))

    def warning(self, message: str) -> None:
        self._at(_WARN, f"harness: warning: {message}")

    def info(self, message: str) -> None:
        self._at(_INFO, f"harness: {message}")

    def debug(self, message: str) -> None:
        self._at(_DEBUG, f"harness: {message}")

    def say(self, text: str) -> None:
        """Print it at every level."""
        self.put(neutralised(text) + "\n")

    def put(self, text: str) -> None:
        """Print it as it is: for what moves the cursor."""
        try:
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except OSError:
            return

    def _at(self, level: int, text: str) -> None:
        if self._level >= level:
            self.say(revealed(text))


def number_of(count: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def wants_color(choice: str, environ: Mapping[str, str], *, is_terminal: bool) -> bool:
    """The option decides, then NO_COLOR, then FORCE_COLOR, then what it is written to."""
    if choice in ("always", "never"):
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal and environ.get("TERM", "dumb") != "dumb"


def width_of(fd: int, environ: Mapping[str, str]) -> int:
    """Columns of a terminal; 100 for everything else."""
    if environ.get("COLUMNS", "").isdecimal() and int(environ["COLUMNS"]) > 0:
        return int(environ["COLUMNS"])
    try:
        return os.get_terminal_size(fd).columns or 100
    except OSError:
        return 100


def screen_width(environ: Mapping[str, str]) -> int:
    """Columns of the terminal, also when standard output goes through `less` or `head`."""
    return width_of(next(filter(is_terminal, (1, 2, 0)), 1), environ)


def can_erase(fd: int, environ: Mapping[str, str]) -> bool:
    """Whether what was written there can be taken back: a terminal that is not a dumb one."""
    return is_terminal(fd) and environ.get("TERM", "dumb") != "dumb"


def is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def open_terminal() -> int:
    """Open the terminal of this process, also when its standard streams are redirected. Raises OSError."""
    return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def can_answer() -> bool:
    """Whether a person can see a question on standard error, and type an answer."""
    if not is_terminal(2):
        return False
    if is_terminal(0):
        return True
    try:
        os.close(open_terminal())
    except OSError:
        return False
    return True
