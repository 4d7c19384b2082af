"""Continue: `~/.continue/sessions/<session>.json`, one document that is rewritten. It holds no times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import items_of, output_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.store_files import array, document, files_in

_SUFFIX = ".json"
_LIST = "sessions.json"


class ContinueRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        "session": "_session",
        "system": "",
        "user": "_user",
        "assistant": "_assistant",
    }

    def kind(self, record: Record) -> str:
        return text_of(record.get("kind")) or text_of(record_of(record.get("message")).get("role"))

    def _session(self, record: Record) -> None:
        self.cwd = text_of(record.get("workspaceDirectory")) or self.cwd
        self.title = text_of(record.get("title")) or self.title

    def _user(self, record: Record) -> None:
        self.begin(output_of(record_of(record.get("message")).get("content")))

    def _assistant(self, record: Record) -> None:
        message = record_of(record.get("message"))
        self.put({**record, "type": "history"})
        self.know_model(text_of(record_of(message.get("usage")).get("model")))
        self.outcome = (
            "unknown" if record.get("toolCallStates") or not message.get("content") else "completed"
        )


def place(home: Home) -> str:
    return home.folder(".continue", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    folder = place(home)
    entries = map(record_of, array(os.path.join(folder, _LIST)))
    names_of_sessions = {text_of(entry.get("sessionId")): entry for entry in entries}
    for file in files_in(folder, _SUFFIX):
        session_id = file.name.removesuffix(_SUFFIX)
        if file.name == _LIST or not is_log_id(session_id):
            continue
        entry = names_of_sessions.get(session_id, {})
        created = text_of(entry.get("dateCreated"))
        started_ms = milliseconds(int(created)) if created.isdecimal() else milliseconds(created)
        yield file.session(
            "continue",
            session_id,
            cwd=text_of(entry.get("workspaceDirectory")),
            started_ms=started_ms or file.changed_ms,
            title=text_of(entry.get("title")),
        )


def records(session: StoredSession) -> Iterator[StoredRecord]:
    session_document = document(session.path)
    yield {
        "kind": "session",
        "title": session_document.get("title"),
        "workspaceDirectory": session_document.get("workspaceDirectory"),
    }
    yield from map(record_of, items_of(session_document.get("history")))


HISTORY = AgentHistory(
    agent="continue", title="Continue", place=place, find=find, records=records, rewording=ContinueRewording
)
