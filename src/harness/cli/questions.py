"""The questions of `harness run`, asked at the terminal one after the other.

They are written to standard error, so that the output is left alone, and answered on standard input, or on the
terminal itself where the prompt came through a pipe. What was typed before a question was there answers nothing.
"""

from __future__ import annotations

import os
import select
import termios
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from harness.cli.console import is_terminal, open_terminal
from harness.clients.inbox.typed_answers import SHOW, Asking
from harness.errors import UsageError
from harness.events import Event, Relay, RelayReply
from harness.folds.page_state.shapes import relay as shape_of
from harness.runs.run import Run

_STDIN = 0
_SETTLED_S = 0.05
"""How long a question waits before it is shown: rules answer at once what they can answer."""
_CLOSED = "the terminal was closed"


def discard_typed(fd: int) -> None:
    """Forget what was typed and not read yet."""
    with suppress(termios.error, OSError):
        termios.tcflush(fd, termios.TCIFLUSH)


class Questions:
    """Contract: `noted` is called with every `Relay` and `RelayReply` of the run, in order."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        """`say`: writes lines to the terminal."""
        self.noted: dict[type[Event], Callable[[Any], None]] = {
            Relay: self._asked,
            RelayReply: self._answered,
        }
        """What it wants to see of the run."""
        self._run = run
        self._say = say
        self._lock = threading.Lock()
        self._waiting: dict[str, tuple[Asking, float]] = {}
        """By id, the oldest first, with the time when it was asked."""
        self._shown_ids: set[str] = set()
        self._held_questions: dict[str, Relay] = {}
        """Questions that the view has not been given yet."""
        self._is_working = False
        self._wake_read, self._wake_write = os.pipe()

    @property
    def is_asking(self) -> bool:
        return bool(self._waiting)

    def left_to_view(self, events: Sequence[Event]) -> list[Event]:
        """For a view on the same terminal: without the questions that are asked here."""
        unanswered: list[Event] = []
        for event in events:
            if isinstance(event, Relay):
                self._held_questions[event.id] = event
                continue
            if isinstance(event, RelayReply):
                relay = self._held_questions.pop(event.id, None)
                if relay is not None and event.id not in self._shown_ids:
                    unanswered.append(relay)  # a rule answered it
            unanswered.append(event)
        return unanswered

    def _asked(self, relay: Relay) -> None:
        asking = Asking(shape_of(relay), self._run.launch.request.cwd)
        with self._lock:
            self._waiting[relay.id] = (asking, time.monotonic())
        if not self._is_working:
            self._is_working = True
            threading.Thread(target=self._work, name="questions", daemon=True).start()
        os.write(self._wake_write, b"\0")

    def _answered(self, reply: RelayReply) -> None:
        """A question was answered by the person, by rules or by its timeout."""
        with self._lock:
            self._waiting.pop(reply.id, None)
        if reply.by == "timeout":
            self._say(f"{reply.reason}: it was refused")
        os.write(self._wake_write, b"\0")

    def _work(self) -> None:
        try:
            fd = _STDIN if is_terminal(_STDIN) else open_terminal()
        except OSError:
            self._refuse_all()
            return
        work_line, rest = "", b""
        while True:
            asking, wait_s = self._next()
            if asking is None or wait_s:
                self._sleep(wait_s)
                continue
            if asking.id != work_line:
                work_line = asking.id
                self._shown_ids.add(work_line)
                discard_typed(fd)
                self._say(asking.text())
            ready, _, _ = select.select([fd, self._wake_read], [], [])
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                continue
            block = _read(fd)
            if not block:
                self._refuse_all()
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._take(asking, line.decode("utf-8", "replace").strip())

    def _next(self) -> tuple[Asking | None, float | None]:
        """The question to be asked now, and how long it has to wait before it is."""
        with self._lock:
            asking, at_s = next(iter(self._waiting.values()), (None, 0.0))
        if asking is None:
            return None, None
        return asking, max(0.0, at_s + _SETTLED_S - time.monotonic())

    def _sleep(self, seconds: float | None) -> None:
        ready, _, _ = select.select([self._wake_read], [], [], seconds)
        if ready:
            os.read(self._wake_read, 4096)

    def _take(self, asking: Asking, text: str) -> None:
        if text == SHOW:
            self._say(asking.text(is_whole=True))
        elif text:
            reply = asking.take(text)
            if reply is None:
                self._say(asking.text())
                return
            try:
                self._run.reply(asking.id, **reply._asdict())
            except UsageError as error:
                self._say(error.words)
            else:
                with self._lock:
                    self._waiting.pop(asking.id, None)

    def _refuse_all(self) -> None:
        """Refuse all open questions: the terminal is closed."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for relay_id in waiting:
            self._run.reply(relay_id, approved=False, reason=_CLOSED)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except OSError:
        return b""
