"""The database of OpenCode, which Kilo has too: sessions, messages, and parts that are exactly those of the stream.

Tables that are read: `session`, `message`, `part`. Others hold credentials.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import decoded, items_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.database import opened, problem_of

_KINDS = {
    "step-start": "step_start",
    "step-finish": "step_finish",
    "text": "text",
    "reasoning": "reasoning",
    "tool": "tool_use",
}
"""Kind of part → kind of record in the stream."""
_CONSUMED = frozenset({"patch", "snapshot", "file", "agent", "retry", "subtask"})
_TABLES = {
    "session": ("id", "directory", "title", "parent_id", "time_created", "time_updated", "version"),
    "message": ("id", "session_id", "data", "time_created"),
    "part": ("id", "message_id", "data", "time_updated"),
}
_ABORTED = "MessageAbortedError"
_FINISHED = frozenset({"stop", "length", "content-filter", "other"})


class OpencodeRewording(Rewording):
    rules: ClassVar[dict[str, str]] = {"session": "_session", "user": "_user", "assistant": "_assistant"}

    def kind(self, record: Record) -> str:
        return text_of(record.get("role"))

    def _session(self, record: Record) -> None:
        self.version = text_of(record.get("version"))

    def _user(self, record: Record) -> None:
        parts = [record_of(part) for part in items_of(record.get("parts"))]
        texts = [text_of(part.get("text")) for part in parts if part.get("type") == "text"]
        if any(part.get("type") == "compaction" for part in parts):
            self.put(self._record("text", {"type": "text", "text": "", "synthetic": True, **_COMPACTION}))
            return
        if texts and all(part.get("synthetic") is True for part in parts if part.get("type") == "text"):
            return  # the agent's own words, after a compaction
        self.at(milliseconds(record.get("time_ms")))
        model = record_of(record.get("model"))
        name = "/".join(filter(None, (text_of(model.get("providerID")), text_of(model.get("modelID")))))
        self.begin("".join(texts), model=name)

    def _assistant(self, record: Record) -> None:
        self.at(milliseconds(record.get("time_ms")))
        times = record_of(record.get("time"))
        completed_ms = milliseconds(times.get("completed"))
        for number, item in enumerate(items_of(record.get("parts"))):
            part = record_of(item)
            if completed_ms is not None:
                # A fork has copies under new ids, written later. Their model calls are known by the times alone.
                part = {**part, "time_ms": min(milliseconds(part.get("time_ms")) or 0, completed_ms)}
                if part.get("type") == "step-finish":
                    part["id"] = f"{times.get('created')}-{completed_ms}-{number}"
            self._part(part)
        error = record_of(record.get("error"))
        if error.get("name") == _ABORTED:
            self.stop()
        elif error:
            self.put({**self._record("error", {}), "error": error})
        self.outcome = "completed" if text_of(record.get("finish")) in _FINISHED else "unknown"

    def _part(self, part: Record) -> None:
        kind = text_of(part.get("type"))
        self.at(milliseconds(part.get("time_ms")))
        if kind in _CONSUMED:
            self.counts[f"part {kind}"] += 1
            return
        state = record_of(part.get("state"))
        if kind == "tool" and state.get("status") not in ("completed", "error"):
            # The stream shows a call when it ends. One that did not is a call without a result.
            part = {**part, "state": {**state, "status": "running"}}
        self.put(self._record(_KINDS.get(kind, kind), part))

    def _record(self, kind: str, part: Record) -> Record:
        return {"type": kind, "timestamp": self.now_ms, "sessionID": self.session.session_id, "part": part}


_COMPACTION: dict[str, Any] = {"metadata": {"compaction_continue": True}}


def opencode_history(agent: str, title: str) -> AgentHistory:
    """The history of an agent with this database, `AGENT/AGENT.db` in the folder for programs' data."""

    def place(home: Home) -> str:
        return home.data_folder(agent, f"{agent}.db")

    return AgentHistory(
        agent=agent,
        title=title,
        place=place,
        find=lambda home: _sessions(agent, place(home)),
        records=_records,
        rewording=OpencodeRewording,
        problem=lambda home: problem_of(place(home), _TABLES),
        copies_are_new=True,
    )


def _sessions(agent: str, path: str) -> Iterator[StoredSession]:
    with opened(path) as database:
        if database is None:
            return
        for session_id, directory, title, parent_id, created, updated in database.rows(
            "SELECT id, directory, title, parent_id, time_created, time_updated FROM session"
        ):
            if is_log_id(text_of(session_id)):
                yield StoredSession(
                    agent=agent,
                    session_id=session_id,
                    path=path,
                    mark=str(updated),
                    changed_ms=milliseconds(updated) or 0,
                    cwd=text_of(directory),
                    started_ms=milliseconds(created) or 0,
                    title=text_of(title),
                    is_child=bool(parent_id),
                    parent_id=text_of(parent_id),
                )


def _records(session: StoredSession) -> Iterator[StoredRecord]:
    """Message after message, each with its parts."""
    with opened(session.path) as database:
        if database is None:
            return
        for (version,) in database.rows("SELECT version FROM session WHERE id = ?", (session.session_id,)):
            yield {"role": "session", "version": version}
        for (message_id,) in database.rows(
            "SELECT id FROM message WHERE session_id = ? ORDER BY time_created, id", (session.session_id,)
        ):
            for data, created in database.rows(
                "SELECT data, time_created FROM message WHERE id = ?", (message_id,)
            ):
                parts = database.rows(
                    "SELECT id, data, time_updated FROM part WHERE message_id = ? ORDER BY id", (message_id,)
                )
                yield {
                    **record_of(decoded(text_of(data))),
                    "id": message_id,
                    "time_ms": created,
                    "parts": [
                        {
                            **record_of(decoded(text_of(part))),
                            "id": part_id,
                            "messageID": message_id,
                            "sessionID": session.session_id,
                            "time_ms": changed,
                        }
                        for part_id, part, changed in parts
                    ],
                }
