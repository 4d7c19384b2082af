"""Cline: `~/.cline/data/sessions/<session>/<session>.json` and `<session>.messages.json`.

Both are rewritten whole whenever the session grows. A sub-agent has a file of messages of its own there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from harness.contracts.history import Activity, AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import arguments_of, count_of, items_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.processes import is_running
from harness.protocols.reading.store_files import (
    StoreFile,
    document,
    files_in,
    folders_in,
    look_at,
)

_MESSAGES = ".messages.json"
_CHILD = "agent_"
_PROMPT = re.compile(r"\s*<user_input[^>]*>(.*)</user_input>\s*", re.DOTALL)
_USAGE = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


class ClineRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        "session": "_session",
        "user": "_user",
        "assistant": "_assistant",
        "end": "_end",
    }

    def kind(self, record: Record) -> str:
        return text_of(record.get("role"))

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._answer = ""
        self._is_last = False
        self._status = ""

    def opening(self) -> None:
        self._answer = ""
        self.put({"type": "run_start", "sessionId": self.session.session_id, "modelId": self.model})

    def closing(self) -> None:
        if self._status == "cancelled" and self._is_last:
            self.stop()
        elif self.outcome == "completed":
            self.put({"type": "run_result", "finishReason": "completed", "text": self._answer})

    def _session(self, record: Record) -> None:
        self._status = text_of(record.get("status"))
        self.model = text_of(record.get("model"))
        self.version = text_of(record.get("version"))

    def _end(self, _record: Record) -> None:
        self._is_last = True

    def _user(self, record: Record) -> None:
        self.at(milliseconds(record.get("ts")))
        blocks = [record_of(block) for block in items_of(record.get("content"))]
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            output = arguments_of(block.get("content"))
            end = {"toolCallId": block.get("tool_use_id"), "toolName": block.get("name"), "output": output}
            failure = {"error": _failure_of(output)} if block.get("is_error") is True else {}
            self._event({"type": "content_end", "contentType": "tool", **end, **failure})
        texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        if texts and not results:
            text = "\n".join(texts)
            typed = _PROMPT.fullmatch(text)
            self.begin(typed[1] if typed is not None else text)

    def _assistant(self, record: Record) -> None:
        self.at(milliseconds(record.get("ts")))
        self.know_model(text_of(record_of(record.get("modelInfo")).get("id")))
        self._usage(record_of(record.get("metrics")))
        self.outcome, texts = "completed", list[str]()
        for block in map(record_of, items_of(record.get("content"))):
            match block.get("type"):
                case "text":
                    texts.append(text_of(block.get("text")))
                    self._event({"type": "content_end", "contentType": "text", "text": texts[-1]})
                case "thinking":
                    thought = text_of(block.get("thinking"))
                    self._event({"type": "content_end", "contentType": "reasoning", "reasoning": thought})
                case "tool_use":
                    self.outcome = "unknown"
                    call = {"toolCallId": block.get("id"), "toolName": block.get("name")}
                    start = {
                        "type": "content_start",
                        "contentType": "tool",
                        **call,
                        "input": block.get("input"),
                    }
                    self._event(start)
                case _:
                    self.put(block)
        self._answer = "\n".join(texts) or self._answer

    def _usage(self, metrics: Record) -> None:
        """The stream says what came from the cache apart from the rest."""
        counts = {name: count_of(metrics.get(name)) or 0 for name in _USAGE}
        if any(counts.values()):
            self._event({"type": "usage", **counts})

    def _event(self, event: Record) -> None:
        self.put({"type": "agent_event", "event": event})


def _failure_of(output: Any) -> str:
    return output if isinstance(output, str) else "failed"


def place(home: Home) -> str:
    return home.folder(".cline", "data", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    for name, folder in folders_in(place(home)):
        main = look_at(os.path.join(folder, f"{name}{_MESSAGES}"))
        about = document(os.path.join(folder, f"{name}.json"))
        if main is not None and is_log_id(name):
            yield _session_of(main, name, about)
        for file in files_in(folder, _MESSAGES):
            child_id = f"{name}__{file.name.removesuffix(_MESSAGES)}"
            if file.name.startswith(_CHILD) and is_log_id(child_id):
                yield _session_of(file, child_id, about, parent_id=name)


def _session_of(file: StoreFile, session_id: str, about: Record, parent_id: str = "") -> StoredSession:
    return file.session(
        "cline",
        session_id,
        mark=f"{file.mark} {text_of(about.get('status'))}",
        cwd=text_of(about.get("cwd")),
        started_ms=milliseconds(about.get("started_at")) or 0,
        title="" if parent_id else text_of(record_of(about.get("metadata")).get("title")),
        is_child=bool(parent_id),
        parent_id=parent_id,
    )


def records(session: StoredSession) -> Iterator[StoredRecord]:
    folder = os.path.dirname(session.path)
    about = document(os.path.join(folder, f"{os.path.basename(folder)}.json"))
    messages = document(session.path)
    version = record_of(messages.get("origin")).get("version")
    status = "" if session.is_child else about.get("status")
    yield {"role": "session", "model": about.get("model"), "status": status, "version": version}
    yield from map(record_of, items_of(messages.get("messages")))
    yield {"role": "end"}


def live(home: Home) -> dict[str, Activity]:
    """The sessions that are running, says their file, in a process that runs."""
    by_name: dict[str, Activity] = {}
    for name, folder in folders_in(place(home)):
        about = document(os.path.join(folder, f"{name}.json"))
        if about.get("status") == "running" and is_running(count_of(about.get("pid"))):
            by_name[name] = "busy"
    return by_name


HISTORY = AgentHistory(
    agent="cline", title="Cline", place=place, find=find, records=records, rewording=ClineRewording, live=live
)
