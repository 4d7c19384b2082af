"""Translator base for agents whose output may be something else than records: plain text, or one object over many
lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.contracts.translator import Ending, Record, Translator
from harness.events import Event, Message, Result, Unknown
from harness.formats.fields import decoded
from harness.formats.json_lines import pieces

_JSON = ("{", "[")


class PlainAnswer(Translator):
    """A line of text before the first record is held back until it is clear which of these it is."""

    keeps_layout = True

    def __init__(self) -> None:
        super().__init__()
        self._has_records = False
        self._waiting_lines: list[str] = []

    def record(self, record: Record) -> Sequence[Event]:
        self._has_records = True
        if self._waiting_lines:
            return [*self._release(), *super().record(record)]
        return super().record(record)

    def text(self, line: str) -> Sequence[Event]:
        if self._waiting_lines and self._waiting_lines[0].startswith(_JSON):
            return self._hold(line)
        records = _records_in(line)
        if not records:
            return self._words(line)
        return [
            event
            for piece in records
            for event in (self.record(piece) if isinstance(piece, dict) else self._words(piece))
        ]

    def remark(self, line: str) -> Sequence[Event] | None:
        """What a line says that is no part of any answer; None: it is not such a line."""
        del line
        return None

    def finish(self, ending: Ending) -> Sequence[Event]:
        is_answer = bool(self._waiting_lines) and not self._waiting_lines[0].startswith(_JSON)
        if not is_answer or self._has_records or ending.exit_code != 0 or ending.outcome is not None:
            return self._release()
        answer, self._waiting_lines = "\n".join(self._waiting_lines).strip("\n"), []
        return [Message(role="assistant", text=answer), Result(success=True, text=answer)]

    def printed_object(self) -> Record | None:
        """The one object that was written instead of records, if it was."""
        if self._has_records or not self._waiting_lines or not self._waiting_lines[0].startswith("{"):
            return None
        value = decoded("\n".join(self._waiting_lines))
        if not isinstance(value, dict):
            return None
        self._waiting_lines = []
        return value

    def _words(self, line: str) -> Sequence[Event]:
        stripped = line.strip()
        if not stripped and not self._waiting_lines:
            self.rule = "blank"
            return ()
        events = self.remark(stripped) if stripped else None
        if events is not None:
            return events
        return super().text(stripped) if self._has_records else self._hold(line)

    def _hold(self, line: str) -> Sequence[Event]:
        self.rule = "text"
        self._waiting_lines.append(line)
        return ()

    def _release(self) -> list[Event]:
        lines, self._waiting_lines = self._waiting_lines, []
        return [Unknown(raw=line.strip()) for line in lines if line.strip()]


def _records_in(line: str) -> list[Any]:
    """Records that stand on a line with something else, and what that is; nothing if there is none."""
    if line.lstrip().startswith("["):
        value = decoded(line)
        is_array = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        return value if is_array else []
    records = pieces(line.encode("utf-8", "backslashreplace")) if "{" in line else []
    return records if any(isinstance(piece, dict) for piece in records) else []
