"""Agents that write records, and plain text where they are asked for that: then the text is the answer."""

from __future__ import annotations

from collections.abc import Sequence

from harness.events import Event, Message, Result, Unknown
from harness.sources.translator import Ending, Record, Translator


class PlainAnswer(Translator):
    """A line of text before the first record is held back until it is clear which of both it is."""

    def __init__(self) -> None:
        super().__init__()
        self._has_records = False
        self._held: list[str] = []

    def record(self, record: Record) -> Sequence[Event]:
        self._has_records = True
        if self._held:
            return [*self._release(), *super().record(record)]
        return super().record(record)

    def text(self, line: str) -> Sequence[Event]:
        if self._has_records:
            return super().text(line)
        self.rule = "text"
        self._held.append(line)
        return ()

    def finish(self, ending: Ending) -> Sequence[Event]:
        if self._has_records or not self._held or ending.exit_code != 0 or ending.outcome is not None:
            return self._release()
        answer = "\n".join(self._held)
        return [Message(role="assistant", text=answer), Result(success=True, text=answer)]

    def _release(self) -> list[Event]:
        held, self._held = self._held, []
        return [Unknown(raw=line) for line in held]
