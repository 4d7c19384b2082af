"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<minute>-<id>.jsonl`, sub-agents in `chats/<session>/`.

A message is written again whenever it grows: its last version counts, and the time of its first. A session that is resumed continues in its
file, or in another one that begins with the same id. How a run ended is never written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import count_of, items_of, record_of, text_of
from harness.formats.json_lines import DECODE_ERRORS, decode
from harness.log.ids import is_log_id
from harness.protocols.reading.store_files import (
    StoreFile,
    document,
    files_in,
    first_line,
    folders_in,
    json_lines,
)

_SUFFIX = ".jsonl"
_FIRST = "session-"
_OWN_WORDS = "<session_context>"
_COUNTS = {"total_tokens": "total", "input_tokens": "input", "output_tokens": "output", "cached": "cached"}


class GeminiRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        "header": "_header",
        "user": "_user",
        "gemini": "_answer",
        "error": "_error",
        "info": "",
        "warning": "",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._usage_before: dict[str, dict[str, int]] = {}
        self._has_header = False

    def opening(self) -> None:
        self._usage_before = {}
        self.put({"type": "init", "session_id": self.session.session_id})

    def closing(self) -> None:
        models = {
            model: {**counts, "input": max(0, counts["input_tokens"] - counts["cached"])}
            for model, counts in self._usage_before.items()
        }
        self.put({"type": "result", "status": "success", "stats": {"models": models}})

    def _header(self, record: Record) -> None:
        """That of a resumed session has the time of the resume, and what is older comes behind it."""
        if not self._has_header:
            self.at(milliseconds(record.get("startTime")))
        self._has_header = True
        self.cwd = self.cwd or next(map(text_of, items_of(record.get("directories"))), "")

    def _user(self, record: Record) -> None:
        text = _text_of_parts(record.get("content"))
        self.at(milliseconds(record.get("timestamp")))
        if text and not text.startswith(_OWN_WORDS):
            self.begin(text)
            self.put({"type": "message", "role": "user", "content": text})

    def _error(self, record: Record) -> None:
        self.put({"type": "error", "severity": "error", "message": _text_of_parts(record.get("content"))})

    def _answer(self, record: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        model = text_of(record.get("model"))
        self.know_model(model)
        tokens = record_of(record.get("tokens"))
        counts = self._usage_before.setdefault(model, dict.fromkeys(_COUNTS, 0))
        for name, field in _COUNTS.items():
            counts[name] += count_of(tokens.get(field)) or 0
        if text := _text_of_parts(record.get("content")):
            self.put({"type": "message", "role": "assistant", "content": text})
        calls = [record_of(call) for call in items_of(record.get("toolCalls"))]
        for call in calls:
            self.put(
                {
                    "type": "tool_use",
                    "tool_name": call.get("name"),
                    "tool_id": call.get("id"),
                    "parameters": call.get("args"),
                }
            )
        for call in calls:
            self.at(milliseconds(call.get("timestamp")))
            self.put(_result_of(call))


def _result_of(call: Record) -> Record:
    function_response = record_of(next(iter(items_of(call.get("result"))), None))
    response = record_of(record_of(function_response.get("functionResponse")).get("response"))
    display = call.get("resultDisplay")
    output = display if isinstance(display, str) else text_of(response.get("output"))
    result = {"type": "tool_result", "tool_id": call.get("id"), "output": output}
    if call.get("status") == "success":
        return {**result, "status": "success"}
    return {**result, "status": "error", "error": {"message": text_of(response.get("error")) or output}}


def _text_of_parts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(text_of(record_of(part).get("text")) for part in items_of(content))


def place(home: Home) -> str:
    return home.folder(".gemini", "tmp")


def find(home: Home) -> Iterator[StoredSession]:
    roots = {
        name: path
        for path, name in record_of(document(home.folder(".gemini", "projects.json")).get("projects")).items()
    }
    for project, folder in folders_in(place(home)):
        cwd = first_line(os.path.join(folder, ".project_root")) or text_of(roots.get(project))
        chats = os.path.join(folder, "chats")
        main: dict[str, StoredSession] = {}
        for file in sorted(files_in(chats, _SUFFIX), key=lambda file: file.name):
            session = _session_of(file, cwd)
            if session is None or not file.name.startswith(_FIRST):
                continue
            entry = main.get(session.session_id)
            main[session.session_id] = session if entry is None else _joined(entry, session)
        yield from main.values()
        for parent_id, below in folders_in(chats):
            for file in files_in(below, _SUFFIX):
                if (child := _session_of(file, cwd, parent_id)) is not None:
                    yield child


def _session_of(file: StoreFile, cwd: str, parent_id: str = "") -> StoredSession | None:
    header = _header_of(file.path)
    session_id = text_of(header.get("sessionId"))
    if not is_log_id(session_id):
        return None
    return file.session(
        "gemini",
        session_id,
        cwd=cwd,
        started_ms=milliseconds(header.get("startTime")) or 0,
        is_child=bool(parent_id),
        parent_id=parent_id,
    )


def _joined(first: StoredSession, more: StoredSession) -> StoredSession:
    """A session in two files."""
    return replace(
        first,
        mark=f"{first.mark} / {more.mark}",
        changed_ms=max(first.changed_ms, more.changed_ms),
        size=first.size + more.size,
    )


def _header_of(path: str) -> Record:
    try:
        return record_of(decode(first_line(path).encode("utf-8", "surrogateescape")))
    except DECODE_ERRORS:
        return {}


def records(session: StoredSession) -> Iterator[StoredRecord]:
    """The last version of each message, in the order in which they began."""
    messages: dict[str, StoredRecord] = {}
    for path in _files_of(session):
        for number, record in enumerate(json_lines(path)):
            if isinstance(record, str):
                messages[f"{path} {number}"] = record
            elif "sessionId" in record and "id" not in record:
                yield {**record, "type": "header"}
            elif "$set" in record:
                _add_missing(messages, record_of(record["$set"]).get("messages"))
            else:
                message_id = text_of(record.get("id")) or f"{path} {number}"
                messages[message_id] = _with_first_time(record, messages.get(message_id))
    yield from messages.values()


def _with_first_time(record: StoredRecord, earlier: StoredRecord | None) -> StoredRecord:
    """A message that is written again may have the time of that."""
    if not isinstance(record, dict) or not isinstance(earlier, dict) or "timestamp" not in earlier:
        return record
    return {**record, "timestamp": earlier["timestamp"]}


def _add_missing(messages: dict[str, StoredRecord], items: Any) -> None:
    """`$set` may hold the whole context. It has less than the messages themselves, which are history."""
    for item in map(record_of, items_of(items)):
        if message_id := text_of(item.get("id")):
            messages.setdefault(message_id, item)


def _files_of(session: StoredSession) -> list[str]:
    if session.is_child:
        return [session.path]
    ending = f"-{session.session_id[:8]}{_SUFFIX}"
    beside = sorted(file.path for file in files_in(os.path.dirname(session.path), ending))
    return [path for path in beside if text_of(_header_of(path).get("sessionId")) == session.session_id]


HISTORY = AgentHistory(
    agent="gemini",
    title="Gemini CLI",
    place=place,
    find=find,
    records=records,
    rewording=GeminiRewording,
    differs=frozenset({"ToolEnd", "Result"}),
    takes_stored_model=True,
)
