"""Qwen Code: `~/.qwen/projects/<project>/chats/<session>.jsonl`, sub-agents in `subagents/<session>/`.

Claude's envelope around Gemini's messages. The stream has them in Claude's format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from harness.sources.formats.fields import count_of, items_of, record_of, text_of
from harness.sources.imports.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.sources.imports.rewording import Rewording
from harness.sources.imports.store_files import document, files_in, folders_in, json_lines, sessions_in
from harness.sources.imports.times import milliseconds
from harness.sources.translator import Record

_SUFFIX = ".jsonl"
_PARENT = "parent_tool_use_id"
_USAGE = {
    "input_tokens": "promptTokenCount",
    "output_tokens": "candidatesTokenCount",
    "cache_read_input_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
_COMMAND_OUTPUT = re.compile(r"Command: .*\nOutput: (.*)\nError: \(none\)\nExit Code: 0\n.*", re.DOTALL)
_CONSUMED = (
    "at_command",
    "attribution_snapshot",
    "chat_compression",
    "notification",
    "slash_command",
    "ui_telemetry",
)


class QwenRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys([f"system/{name}" for name in _CONSUMED], ""),
        "user": "_user",
        "assistant": "_assistant",
        "tool_result": "_tool_result",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._answer = ""

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        return f"system/{text_of(record.get('subtype'))}" if kind == "system" else kind

    def opening(self) -> None:
        self._answer = ""
        start = {"session_id": self.session.session_id, "cwd": self.cwd, "qwen_code_version": self.version}
        self.put({"type": "system", "subtype": "init", **start})

    def closing(self) -> None:
        self.put({"type": "result", "subtype": "success", "is_error": False, "result": self._answer})

    def _user(self, record: Record) -> None:
        self._note(record)
        parent, text = text_of(record.get(_PARENT)), _text_of_parts(record)
        if parent:
            self.put({"type": "user", "message": {"role": "user", "content": text}, _PARENT: parent})
        elif record.get("provenance") in (None, "real_user"):
            self.begin(text.rstrip())

    def _assistant(self, record: Record) -> None:
        self._note(record)
        parent, model = text_of(record.get(_PARENT)), text_of(record.get("model"))
        parts = [record_of(part) for part in _parts_of(record)]
        blocks = [block for part in parts if (block := _block_of(part)) is not None]
        used = record_of(record.get("usageMetadata"))
        usage = {name: count_of(used.get(field)) or 0 for name, field in _USAGE.items()} if used else {}
        message = {
            "id": record.get("uuid"),
            "role": "assistant",
            "model": model,
            "content": blocks,
            "usage": usage,
        }
        self.put({"type": "assistant", "message": message, _PARENT: parent or None})
        if parent:
            return
        self.know_model(model)
        self._answer = "".join(text_of(block.get("text")) for block in blocks)
        calls = any(block["type"] == "tool_use" for block in blocks)
        self.outcome = "unknown" if calls or not self._answer else "completed"

    def _tool_result(self, record: Record) -> None:
        self._note(record)
        detail = record_of(record.get("toolCallResult"))
        status, shown = text_of(detail.get("status")), detail.get("resultDisplay")
        for part in _parts_of(record):
            given = record_of(record_of(part).get("functionResponse"))
            response = record_of(given.get("response"))
            content = text_of(response.get("output")) or text_of(response.get("error"))
            block = {
                "type": "tool_result",
                "tool_use_id": given.get("id"),
                "is_error": "error" in response,
                "content": shown if isinstance(shown, str) and shown else _as_shown(content),
            }
            parent = text_of(record.get(_PARENT)) or None
            self.put({"type": "user", "message": {"role": "user", "content": [block]}, _PARENT: parent})
        if status == "cancelled" and not record.get(_PARENT):
            self.stop()

    def _note(self, record: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.version = text_of(record.get("version")) or self.version


def _parts_of(record: Record) -> list[Any]:
    return items_of(record_of(record.get("message")).get("parts"))


def _text_of_parts(record: Record) -> str:
    return "".join(text_of(record_of(part).get("text")) for part in _parts_of(record))


def _as_shown(output: str) -> str:
    """Of a command that succeeded, the stream shows only what it wrote."""
    found = _COMMAND_OUTPUT.fullmatch(output)
    return output if found is None else found[1]


def _block_of(part: Record) -> Record | None:
    call = record_of(part.get("functionCall"))
    if call:
        return {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": call.get("args")}
    text = text_of(part.get("text"))
    if not text:
        return None
    return (
        {"type": "thinking", "thinking": text}
        if part.get("thought") is True
        else {"type": "text", "text": text}
    )


def place(home: Home) -> str:
    return home.folder(".qwen", "projects")


def find(home: Home) -> Iterator[StoredSession]:
    for _name, folder in folders_in(place(home)):
        yield from sessions_in(os.path.join(folder, "chats"), _SUFFIX, "qwen")


def records(session: StoredSession) -> Iterator[StoredRecord]:
    """Those of sub-agents come before the result of the call that started them."""
    project = os.path.dirname(os.path.dirname(session.path))
    children: dict[str, str] = {}
    for file in files_in(os.path.join(project, "subagents", session.session_id), _SUFFIX):
        call_id = text_of(document(f"{file.path.removesuffix(_SUFFIX)}.meta.json").get("toolUseId"))
        if call_id:
            children[call_id] = file.path
    yield from _with_children(session.path, "", children)
    for call_id, path in list(children.items()):
        yield from _with_children(path, call_id, {})


def _with_children(path: str, parent: str, children: dict[str, str]) -> Iterator[StoredRecord]:
    for record in json_lines(path):
        if isinstance(record, str):
            yield record
            continue
        if children and record.get("type") == "tool_result":
            call_id = text_of(record_of(record.get("toolCallResult")).get("callId"))
            if (child := children.pop(call_id, None)) is not None:
                yield from _with_children(child, call_id, children)
        yield {**record, _PARENT: parent} if parent else record


HISTORY = AgentHistory(
    agent="qwen", title="Qwen Code", place=place, find=find, records=records, rewording=QwenRewording
)
