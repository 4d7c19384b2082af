"""Pi: `~/.pi/agent/sessions/--<directory>--/<time>_<session>.jsonl`, a tree of entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import first_text, items_of, output_of, record_of, text_of
from harness.protocols.reading.store_files import file_records, folders_in, sessions_in

_SUFFIX = ".jsonl"
_RESULT_FIELDS = ("content", "details", "structuredContent")
_ENDINGS = frozenset({"stop", "length"})


class PiRewording(Rewording):
    rules: ClassVar[dict[str, str]] = {
        "session": "_session",
        "session_info": "_named",
        "model_change": "_model_changed",
        "message": "_message",
        "compaction": "_compacted",
        "context_edit": "_edited",
        "branch_summary": "",
        "custom": "",
        "label": "",
        "thinking_level_change": "",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._head: Record = {}
        self._failed: Record = {}
        """The last answer, if it failed: it may be taken back and tried again."""

    def opening(self) -> None:
        for record in (self._head, {"type": "agent_start"}, {"type": "turn_start"}):
            if record:
                self.put(record)

    def closing(self) -> None:
        self.put({"type": "agent_end", "messages": [], "willRetry": False})
        self.put({"type": "agent_settled", "aborted": False})

    def _session(self, record: Record) -> None:
        self._head = record
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.at(milliseconds(record.get("timestamp")))

    def _named(self, record: Record) -> None:
        self.title = text_of(record.get("name")) or self.title

    def _model_changed(self, record: Record) -> None:
        self.model = text_of(record.get("modelId")) or self.model

    def _message(self, record: Record) -> None:
        message = record_of(record.get("message"))
        self.at(milliseconds(message.get("timestamp")) or milliseconds(record.get("timestamp")))
        match message.get("role"):
            case "user":
                self.begin(output_of(message.get("content")), model=self.model)
                self.put({"type": "message_end", "message": message})
            case "assistant":
                self._answer(record, message)
            case "toolResult":
                result = {name: message[name] for name in _RESULT_FIELDS if name in message}
                end = {
                    name: message.get(name) for name in ("toolCallId", "toolName", "isError", "durationMs")
                }
                self.put({"type": "tool_execution_end", **end, "result": result})
            case _:
                self.put({"type": "message_end", "message": message})

    def _answer(self, record: Record, message: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        self.put({"type": "message_start", "message": {**message, "content": []}})
        self.put({"type": "message_end", "message": message})
        for item in items_of(message.get("content")):
            block = record_of(item)
            if block.get("type") == "toolCall":
                call = {"toolCallId": block.get("id"), "toolName": block.get("name")}
                self.put({"type": "tool_execution_start", **call, "args": block.get("arguments")})
        reason = text_of(message.get("stopReason"))
        self._failed = record if reason == "error" else {}
        self.outcome = "completed" if reason in _ENDINGS else "unknown"
        if reason == "aborted":
            self.stop()

    def _edited(self, record: Record) -> None:
        """A failed answer that is taken back was tried again."""
        if self._failed and record.get("targetId") == self._failed.get("id"):
            message = record_of(self._failed.get("message"))
            self.put({"type": "auto_retry_start", "errorMessage": message.get("errorMessage")})
            self._failed = {}

    def _compacted(self, record: Record) -> None:
        result = {"tokensBefore": record.get("tokensBefore")}
        self.put({"type": "compaction_end", "reason": first_text(record, "reason"), "result": result})


def place(home: Home) -> str:
    return home.folder(".pi", "agent", variable="PI_CODING_AGENT_DIR", below=("sessions",))


def find(home: Home) -> Iterator[StoredSession]:
    for _name, folder in folders_in(place(home)):
        yield from sessions_in(folder, _SUFFIX, "pi", lambda name: name.rpartition("_")[2])


HISTORY = AgentHistory(
    agent="pi", title="Pi", place=place, find=find, records=file_records, rewording=PiRewording
)
