"""Goose: `~/.local/share/goose/sessions/sessions.db`, a SQLite database whose messages are those of the stream.

Tables that are read: `sessions`, `messages`. A turn that was interrupted is not stored beyond its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import count_of, decoded, items_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.database import opened, problem_of

_USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "total_tokens": "totalTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_write_input_tokens": "cacheWriteTokens",
}
_TABLES = {
    "sessions": (
        "id",
        "name",
        "session_type",
        "working_dir",
        "created_at",
        "updated_at",
        "model_config_json",
    ),
    "messages": ("id", "session_id", "role", "content_json", "created_timestamp", "metadata_json"),
}
_CALLS = frozenset({"toolRequest", "frontendToolRequest"})


class GooseRewording(Rewording):
    rules: ClassVar[dict[str, str]] = {"session": "_session", "user": "_user", "assistant": "_assistant"}

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self.arguments = ("--session-id", session.session_id)
        self._usage_before: dict[str, int] = {}

    def kind(self, record: Record) -> str:
        return text_of(record.get("role"))

    def opening(self) -> None:
        self._usage_before = {}

    def closing(self) -> None:
        if self._usage_before:
            self.put({"type": "complete", **self._usage_before})

    def _session(self, record: Record) -> None:
        config = record_of(decoded(text_of(record.get("model_config"))))
        self.model = text_of(config.get("model_name"))

    def _user(self, record: Record) -> None:
        metadata = record_of(record.get("metadata"))
        if metadata.get("turnContext") is True:
            self.counts["turn context"] += 1
            return
        blocks = [record_of(block) for block in items_of(record.get("content"))]
        texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        self.at(milliseconds(record.get("created")))
        if not texts or metadata.get("userVisible") is False:
            self.put({"type": "message", "message": record})
        else:
            self.begin("".join(texts), model=self.model)

    def _assistant(self, record: Record) -> None:
        self.at(milliseconds(record.get("created")))
        self.put({"type": "message", "message": record})
        usage = record_of(record_of(record.get("metadata")).get("usage"))
        for name, field in _USAGE.items():
            self._usage_before[name] = self._usage_before.get(name, 0) + (count_of(usage.get(field)) or 0)
        blocks = [record_of(block) for block in items_of(record.get("content"))]
        self.outcome = (
            "unknown" if any(text_of(block.get("type")) in _CALLS for block in blocks) else "completed"
        )


def place(home: Home) -> str:
    return home.data_folder("goose", "sessions", "sessions.db")


def find(home: Home) -> Iterator[StoredSession]:
    with opened(place(home)) as database:
        if database is None:
            return
        last = dict(database.rows("SELECT session_id, max(id) FROM messages GROUP BY session_id"))
        for session_id, name, kind, directory, created, updated in database.rows(
            "SELECT id, name, session_type, working_dir, created_at, updated_at FROM sessions"
        ):
            if is_log_id(text_of(session_id)):
                yield StoredSession(
                    agent="goose",
                    session_id=session_id,
                    path=place(home),
                    mark=f"{updated} {last.get(session_id)}",
                    changed_ms=milliseconds(updated) or 0,
                    cwd=text_of(directory),
                    started_ms=milliseconds(created) or 0,
                    title=text_of(name),
                    is_child=kind == "sub_agent",
                )


def problem(home: Home) -> str:
    return problem_of(place(home), _TABLES)


def records(session: StoredSession) -> Iterator[StoredRecord]:
    with opened(session.path) as database:
        if database is None:
            return
        for (config,) in database.rows(
            "SELECT model_config_json FROM sessions WHERE id = ?", (session.session_id,)
        ):
            yield {"role": "session", "model_config": config}
        for (number,) in database.rows(
            "SELECT id FROM messages WHERE session_id = ? ORDER BY id", (session.session_id,)
        ):
            for message_id, role, content, created, metadata in database.rows(
                "SELECT message_id, role, content_json, created_timestamp, metadata_json FROM messages"
                " WHERE id = ?",
                (number,),
            ):
                yield {
                    "id": message_id,
                    "role": role,
                    "created": created,
                    "content": decoded(text_of(content)),
                    "metadata": record_of(decoded(text_of(metadata))),
                }


HISTORY = AgentHistory(
    agent="goose",
    title="Goose",
    place=place,
    find=find,
    records=records,
    rewording=GooseRewording,
    problem=problem,
)
