"""Factory Droid: `~/.factory/sessions/<project>/<session>.jsonl`; model and usage in `<session>.settings.json`.

The usage is that of the whole session: it counts for its last run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import count_of, items_of, output_of, record_of, text_of
from harness.log.raw import RawEntry
from harness.protocols.reading.store_files import document, folders_in, json_lines, sessions_in

_SUFFIX = ".jsonl"
_USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadTokens",
    "cache_creation_input_tokens": "cacheCreationTokens",
}


class DroidRewording(Rewording):
    rules: ClassVar[dict[str, str]] = {
        "settings": "_settings",
        "session_start": "_session",
        "message": "_message",
        "agent_turn_outcome": "_turn_ended",
        "compaction_state": "",
        "todo_state": "",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._usage: dict[str, int] = {}
        self._is_last = False
        self._answer = ""

    def finish(self) -> Sequence[RawEntry]:
        self._is_last = True
        return super().finish()

    def opening(self) -> None:
        self._answer = ""
        start = {"session_id": self.session.session_id, "cwd": self.cwd, "model": self.model}
        self.put({"type": "system", "subtype": "init", **start})

    def closing(self) -> None:
        usage = {"usage": self._usage} if self._is_last and self._usage else {}
        if self.outcome == "completed" or usage:
            self.put({"type": "completion", "finalText": self._answer, **usage})

    def _settings(self, record: Record) -> None:
        self.model = text_of(record.get("model"))
        counts = record_of(record.get("tokenUsage"))
        self._usage = (
            {name: count_of(counts.get(field)) or 0 for name, field in _USAGE.items()} if counts else {}
        )

    def _session(self, record: Record) -> None:
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.title = text_of(record.get("title")) or self.title

    def _message(self, record: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        message = record_of(record.get("message"))
        blocks = [record_of(block) for block in items_of(message.get("content"))]
        if message.get("role") == "assistant":
            self._assistant(record, blocks)
            return
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            end = {"id": block.get("tool_use_id"), "isError": block.get("is_error")}
            self.put({"type": "tool_result", **end, "value": output_of(block.get("content"))})
        texts = [text_of(block.get("text")) for block in blocks if block.get("type") == "text"]
        # Words of the program itself name those who may see them.
        if texts and not results and "visibility" not in message:
            self.begin("\n".join(texts), model=self.model)

    def _assistant(self, record: Record, blocks: list[dict[str, Any]]) -> None:
        self.outcome, texts = "unknown", list[str]()
        for block in blocks:
            match block.get("type"):
                case "text":
                    texts.append(text_of(block.get("text")))
                    message = {"role": "assistant", "id": record.get("id"), "text": texts[-1]}
                    self.put({"type": "message", **message})
                case "thinking":
                    self.put({"type": "reasoning", "id": record.get("id"), "text": block.get("thinking")})
                case "tool_use":
                    call = {"id": block.get("id"), "toolName": block.get("name")}
                    self.put({"type": "tool_call", **call, "parameters": block.get("input")})
                case _:
                    self.put(block)
        self._answer = "\n".join(texts) or self._answer

    def _turn_ended(self, record: Record) -> None:
        reason = text_of(record.get("reason"))
        self.outcome = "completed" if reason == "completed" else "unknown"
        if reason in ("cancelled", "interrupted", "aborted"):
            self.stop()


def place(home: Home) -> str:
    return home.folder(".factory", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    for _name, folder in folders_in(place(home)):
        yield from sessions_in(folder, _SUFFIX, "droid")


def records(session: StoredSession) -> Iterator[StoredRecord]:
    settings = document(f"{session.path.removesuffix(_SUFFIX)}.settings.json")
    yield {"type": "settings", "model": settings.get("model"), "tokenUsage": settings.get("tokenUsage")}
    yield from json_lines(session.path)


HISTORY = AgentHistory(
    agent="droid", title="Factory Droid", place=place, find=find, records=records, rewording=DroidRewording
)
