"""Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, whose records are those of the stream."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import Activity, AgentHistory, Home, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.translator import Record
from harness.formats.fields import besides, count_of, items_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.processes import is_running
from harness.protocols.reading.store_files import file_records, files_in, folders_in, look_at

_EVENTS = "events.jsonl"
_LOCK_BEGINS, _LOCK_ENDS = "inuse.", ".lock"
_CONSUMED = ("session.permissions_changed", "session.shutdown", "system.message")


class CopilotRewording(Rewording):
    time_key = "timestamp"
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys(_CONSUMED, ""),
        "session.start": "_session",
        "session.resume": "_session",
        "session.usage_record": "_usage",
        "user.message": "_user",
        "assistant.message": "_message",
        "abort": "_abort",
    }

    def opening(self) -> None:
        start = {"sessionId": self.session.session_id, "selectedModel": self.model}
        self.put({"type": "session.start", "data": start})

    def closing(self) -> None:
        self.put({"type": "result", "sessionId": self.session.session_id, "exitCode": 0, "usage": {}})

    def _session(self, record: Record) -> None:
        data = record_of(record.get("data"))
        self.model = text_of(data.get("selectedModel")) or self.model
        self.version = text_of(data.get("copilotVersion")) or self.version
        self.cwd = text_of(record_of(data.get("context")).get("cwd")) or self.cwd

    def _user(self, record: Record) -> None:
        if not record.get("agentId"):
            self.begin(text_of(record_of(record.get("data")).get("content")), model=self.model)
        self.put(record)

    def _message(self, record: Record) -> None:
        self.put(record)
        if not record.get("agentId"):
            calls = items_of(record_of(record.get("data")).get("toolRequests"))
            self.outcome = "unknown" if calls else "completed"

    def _abort(self, record: Record) -> None:
        self.put(record)
        self.stop()

    def _usage(self, record: Record) -> None:
        """The stream has it under another name, without what came from the cache."""
        usage = record_of(record_of(record.get("data")).get("usage"))
        own = besides(
            count_of(usage.get("inputTokens")),
            count_of(usage.get("cacheReadTokens")),
            count_of(usage.get("cacheWriteTokens")),
        )
        self.put({**record, "type": "assistant.usage", "data": {**usage, "inputTokens": own}})


def place(home: Home) -> str:
    return home.folder(".copilot", variable="COPILOT_HOME", below=("session-state",))


def find(home: Home) -> Iterator[StoredSession]:
    for session_id, folder in folders_in(place(home)):
        file = look_at(os.path.join(folder, _EVENTS))
        if file is not None and is_log_id(session_id):
            yield file.session("copilot", session_id)


def live(home: Home) -> dict[str, Activity]:
    """The sessions in whose folder lies `inuse.<pid>.lock` of a process that runs."""
    by_name: dict[str, Activity] = {}
    for session_id, folder in folders_in(place(home)):
        for file in files_in(folder, _LOCK_ENDS):
            pid = file.name.removeprefix(_LOCK_BEGINS).removesuffix(_LOCK_ENDS)
            if file.name.startswith(_LOCK_BEGINS) and pid.isdecimal() and is_running(int(pid)):
                by_name[session_id] = "open"
    return by_name


HISTORY = AgentHistory(
    agent="copilot",
    title="GitHub Copilot CLI",
    place=place,
    find=find,
    records=file_records,
    rewording=CopilotRewording,
    live=live,
    differs=frozenset({"Result"}),
)
