"""A real terminal with a program in it: what it has written, and what is typed."""

from __future__ import annotations

import os
import re
import termios
import threading
from typing import Any, Self

from cli_machine import CliMachine

TIMEOUT_S = 100
_DRAWING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class PtyTerminal:
    """`until` waits for a text that has come since the last time."""

    def __init__(
        self,
        cli: CliMachine,
        *words: str,
        term: str = "xterm",
        size: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        """`size`: rows and columns, which a terminal need not know."""
        import pty

        self._ours, self._theirs = pty.openpty()
        if size is not None:
            termios.tcsetwinsize(self._theirs, size)
        self.before = termios.tcgetattr(self._theirs)
        cli.environ["TERM"] = term
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), self._theirs)
        self.process = cli.spawn(*words, **{**streams, **options})
        self.raw = b""
        self._seen = 0
        self._changed = threading.Condition()
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

    @property
    def text(self) -> str:
        """Without what only draws."""
        return _DRAWING.sub("", self.raw.decode("utf-8", "replace"))

    @property
    def settings(self) -> Any:
        return termios.tcgetattr(self._theirs)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, wanted: str) -> str:
        with self._changed:
            found = self._changed.wait_for(lambda: wanted in self.text[self._seen :], TIMEOUT_S)
            news = self.text[self._seen :]
            assert found, f"{wanted!r} is not in {news!r}"
            end = news.index(wanted) + len(wanted)
            self._seen += end
            return news[:end]

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._ours, 4096)
            except OSError:  # the other end of the terminal was closed
                return
            if not block:
                return
            with self._changed:
                self.raw += block
                self._changed.notify_all()
