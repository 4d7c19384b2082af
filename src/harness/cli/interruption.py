"""Signals while an agent runs: the first asks it to stop, each further one with more force."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Self

from harness.clients import exit_codes
from harness.runs.run import Run

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ENOUGH_BEFORE, _ENOUGH_AFTER = 2, 3
"""How many signals end the program at once, before and after the run."""


def raise_on_interrupt() -> None:
    """From now on Ctrl-C is a KeyboardInterrupt: for commands that have something to tidy up.

    Called when everything is imported; before, Ctrl-C ends the program at once.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Interruption:
    """Contract: entered in the main thread, before the run is started.

    A signal that comes before there is a run is passed to it once it starts; a second one ends the program at
    once. So does a third one after the run: by then only a reader that does not read can be blocking.
    """

    def __init__(self) -> None:
        self.first = 0
        """The first signal that came."""
        self._count = 0
        self._run: Run | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # nohup, or a job in the background: stays ignored
                self._before[number] = before
                signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def watch(self, run: Run) -> None:
        self._run = run
        if self.first:
            run.cancel()

    @property
    def exit_code(self) -> int:
        return exit_codes.of_signal(self.first or signal.SIGINT)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.first = self.first or number
        self._count += 1
        if self._run is not None and not self._run.hub.is_ended(sys.maxsize):
            self._run.cancel()
        elif self._count >= (_ENOUGH_BEFORE if self._run is None else _ENOUGH_AFTER):
            os._exit(self.exit_code)  # there is nothing to close: no agent, or its log is complete
