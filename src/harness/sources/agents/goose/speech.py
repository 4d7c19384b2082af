"""Answers of Goose's models while they are written: pieces under the id of the message.

Rules
1. A piece is appended, also when it says again what was said before ("ha", "ha"). Only records without
   `metadata`, which no version since 1.37 writes, may tell the whole text so far instead of a piece.
2. A message may be written in several goes, with calls between them: each is a `Message` of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.events import Event, Message, TextDelta
from harness.sources.formats.fields import text_of
from harness.sources.translator import Record


class Speech:
    __slots__ = ("_times", "has_spoken", "id", "is_open", "native_id", "pieces")

    def __init__(self) -> None:
        self.native_id: Any = None
        self.id = ""
        self.is_open = False
        self.pieces: list[str] = []
        self.has_spoken = False
        self._times: Counter[str] = Counter()

    def add(self, said: str, message: Record) -> list[Event]:
        out: list[Event] = []
        if self.is_open and message.get("id") != self.native_id:
            out += self.finish()
        if not self.is_open:
            self._open(message.get("id"))
        elif "metadata" not in message:
            said = said.removeprefix("".join(self.pieces))
        self.pieces.append(said)
        return [*out, TextDelta(id=self.id, text=said)] if said else out

    def finish(self) -> list[Event]:
        """Something else comes: what was said so far is whole."""
        if not self.is_open:
            return []
        whole, self.pieces, self.is_open = "".join(self.pieces), [], False
        return [Message(role="assistant", text=whole, id=self.id)]

    def _open(self, native_id: Any) -> None:
        self.native_id, self.is_open, self.has_spoken = native_id, True, True
        name = text_of(native_id)
        self._times[name] += 1
        times = self._times[name]
        self.id = name if name and times == 1 else f"{name or 'message'}#{times}"
