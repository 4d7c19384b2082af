"""What a run asks while it goes on, put to whoever sits at the terminal, one question after the other."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from harness.errors import UsageError
from harness.events import Event, Relay, RelayReply
from harness.interfaces.cli.approval import SHOW, question_text, reply_to
from harness.interfaces.cli.console import Console
from harness.rendering.state.shapes import relay as shape_of
from harness.sources.run import Run


class Questions:
    def __init__(self, run: Run, console: Console) -> None:
        self.noted: dict[type[Event], Callable[[Any], None]] = {
            Relay: self._asked,
            RelayReply: self._answered,
        }
        """What it wants to see of the run."""
        self._run = run
        self._console = console
        self._waiting: deque[Relay] = deque()
        self._is_listening = False

    def _asked(self, relay: Relay) -> None:
        self._waiting.append(relay)
        if len(self._waiting) == 1:
            self._tell(relay)
        if not self._is_listening:
            self._is_listening = True
            threading.Thread(target=self._listen, daemon=True).start()

    def _answered(self, reply: RelayReply) -> None:
        """By whomever: by the person, or by the clock."""
        first = self._waiting[0] if self._waiting else None
        self._waiting = deque(relay for relay in self._waiting if relay.id != reply.id)
        if first is not None and first.id == reply.id:
            if reply.by == "timeout":
                self._console.say(f"{reply.reason}: it was refused")
            if self._waiting:
                self._tell(self._waiting[0])

    def _tell(self, relay: Relay) -> None:
        self._console.say(question_text(shape_of(relay)))

    def _listen(self) -> None:
        for text in _lines():
            if text == SHOW and self._waiting:
                self._console.say(question_text(shape_of(self._waiting[0]), is_whole=True))
            elif text and self._waiting:
                self._reply(self._waiting[0], text)
        while self._waiting:  # nobody will type any more
            relay = self._waiting.popleft()
            self._run.reply(relay.id, approved=False, reason="standard input was closed")

    def _reply(self, relay: Relay, text: str) -> None:
        try:
            self._run.reply(relay.id, **reply_to(shape_of(relay), text)._asdict())
        except UsageError as error:
            self._console.say(error.words)


def _lines() -> Iterator[str]:
    """What is typed. Not from `sys.stdin`, whose lock a thread that waits there would hold when the program ends."""
    rest = b""
    while True:
        try:
            block = os.read(0, 4096)
        except OSError:
            return
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        yield from (line.decode("utf-8", "replace").strip() for line in lines)
