"""Otter: `~/.otter/sessions/<session>.jsonl`, what it wrote, with the prompts and a time in each record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.translator import Record
from harness.formats.fields import text_of
from harness.protocols.reading.store_files import file_records, sessions_in

_SUFFIX = ".jsonl"


class OtterRewording(Rewording):
    """The records are those of the stream, but for the prompts."""

    rules: ClassVar[dict[str, str]] = {"session": "_session", "user": "_prompt", "bye": "_bye"}
    time_key = "at"

    def kind(self, record: Record) -> str:
        return text_of(record.get("kind"))

    def opening(self) -> None:
        self.put({"kind": "hello", "session": self.session.session_id, "model": self.model})

    def _session(self, record: Record) -> None:
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.model = text_of(record.get("model"))

    def _prompt(self, record: Record) -> None:
        self.begin(text_of(record.get("text")), model=self.model)

    def _bye(self, record: Record) -> None:
        self.put(record)
        self.outcome = "completed"


def place(home: Home) -> str:
    return home.folder(".otter", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    return sessions_in(place(home), _SUFFIX, "otter", lambda name: name)


HISTORY = AgentHistory(
    agent="otter", title="Otter", place=place, find=find, records=file_records, rewording=OtterRewording
)
