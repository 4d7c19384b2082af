"""The application of `harness tui`. However it ends, the terminal is restored."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from textual.app import App
from textual.binding import BindingType

from harness.clients import exit_codes
from harness.tui.actions import InboxScreen
from harness.tui.lines import COLOURED, PLAIN
from harness.tui.notices import Notices
from harness.tui.source_data import ScreenData

_ENDING = (signal.SIGTERM, signal.SIGHUP)
_EXIT_TIMEOUT_S = 5.0


class InboxApp(App[int], inherit_bindings=False):
    """Contract: `run` returns the exit code; `failure` has what went wrong in it."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(self, data: ScreenData, environ: Mapping[str, str], *, is_notifying: bool = True) -> None:
        self._is_plain = bool(environ.get("NO_COLOR"))
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.failure: Exception | None = None
        self._data = data
        self._notices = Notices(self._write, is_on=is_notifying)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            with suppress(RuntimeError, ValueError):  # not in the main thread
                loop.add_signal_handler(number, self._end, exit_codes.of_signal(number))
        self.push_screen(InboxScreen(self._data, PLAIN if self._is_plain else COLOURED, self._notices))

    def _end(self, code: int) -> None:
        """By a signal. Where the terminal is closed, restoring it may wait forever."""
        self.exit(code)
        last = threading.Timer(_EXIT_TIMEOUT_S, os._exit, (code,))
        last.daemon = True
        last.start()

    def exit_now(self) -> None:
        """Restore the title, and close the data."""
        self._notices.close()
        self._data.close()

    def on_unmount(self) -> None:
        self.exit_now()

    def _write(self, text: str) -> None:
        if self._driver is not None and not self.is_headless:
            with suppress(OSError, ValueError):
                self._driver.write(text)

    def _fatal_error(self) -> None:
        """Textual would print a traceback: the command line writes it into a file."""
        self.failure = self._exception
        self._close_messages_no_wait()
