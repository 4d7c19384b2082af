"""Qwen Code: `~/.qwen/projects/<project>/chats/<session>.jsonl`, sub-agents in `subagents/<session>/`.

Claude's envelope around Gemini's messages. The stream has them in Claude's format.

Its telemetry, among the messages, has every model call: those that no message is the answer of (it reads memories out
of the conversation, or compresses it) are known from there alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import count_of, items_of, record_of, text_of
from harness.protocols.reading.store_files import (
    document,
    files_in,
    folders_in,
    json_lines,
    sessions_in,
)

_SUFFIX = ".jsonl"
_CHILD = "agent-"
"""Before the id of a sub-agent in the name of its file."""
_PARENT = "parent_tool_use_id"
_USAGE = {
    "input_tokens": "promptTokenCount",
    "output_tokens": "candidatesTokenCount",
    "cache_read_input_tokens": "cachedContentTokenCount",
    "total_tokens": "totalTokenCount",
}
_COMMAND_OUTPUT = re.compile(r"Command: .*\nOutput: (.*)\nError: \(none\)\nExit Code: 0\n.*", re.DOTALL)
_TELEMETRY_USAGE = {
    "input_tokens": "input_token_count",
    "output_tokens": "output_token_count",
    "cache_read_input_tokens": "cached_content_token_count",
    "total_tokens": "total_token_count",
}
_CALL = "qwen-code.api_response"
_IS_STORED = "harness_is_stored"
"""Set in the telemetry of a call of a sub-agent that has a file of its own."""
_CONSUMED = ("at_command", "attribution_snapshot", "chat_compression", "notification", "slash_command")


class QwenRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys([f"system/{name}" for name in _CONSUMED], ""),
        "system/ui_telemetry": "_telemetry",
        "user": "_user",
        "assistant": "_assistant",
        "tool_result": "_tool_result",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._answer = ""
        self._calls: list[Record] = []
        """Model calls whose answers did not come yet, as messages with their usage."""

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        return f"system/{text_of(record.get('subtype'))}" if kind == "system" else kind

    def opening(self) -> None:
        self._answer = ""
        start = {"session_id": self.session.session_id, "cwd": self.cwd, "qwen_code_version": self.version}
        self.put({"type": "system", "subtype": "init", **start})

    def closing(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            self.put(call)
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
        counts = record_of(record.get("usageMetadata"))
        usage = _usage_of(counts, _USAGE)
        if usage and not parent:
            self._answered(usage)
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

    def _telemetry(self, record: Record) -> None:
        """A call is counted at the end of its run, unless its answer comes."""
        event = record_of(record_of(record.get("systemPayload")).get("uiEvent"))
        usage = _usage_of(event, _TELEMETRY_USAGE)
        if event.get("event.name") != _CALL or record.get(_IS_STORED) or not any(usage.values()):
            return
        self._note(record)
        about = {"id": record.get("uuid"), "role": "assistant", "model": text_of(event.get("model"))}
        message: Record = {**about, "content": [], "usage": usage}
        if text_of(event.get("subagent_id")):
            self.put({"type": "assistant", "message": message, _PARENT: None})
        else:
            self._calls.append({"type": "assistant", "message": message, _PARENT: None})

    def _answered(self, usage: Record) -> None:
        """The call with this usage has its answer; where none has exactly this, the last one."""
        same = [record for record in self._calls if record["message"]["usage"] == usage]
        if answered := same or self._calls[-1:]:
            self._calls.remove(answered[0])

    def _tool_result(self, record: Record) -> None:
        self._note(record)
        detail = record_of(record.get("toolCallResult"))
        status, display = text_of(detail.get("status")), detail.get("resultDisplay")
        for part in _parts_of(record):
            function_response = record_of(record_of(part).get("functionResponse"))
            response = record_of(function_response.get("response"))
            content = text_of(response.get("output")) or text_of(response.get("error"))
            block = {
                "type": "tool_result",
                "tool_use_id": function_response.get("id"),
                "is_error": "error" in response,
                "content": display if isinstance(display, str) and display else _as_shown(content),
            }
            parent = text_of(record.get(_PARENT)) or None
            self.put({"type": "user", "message": {"role": "user", "content": [block]}, _PARENT: parent})
        if status == "cancelled" and not record.get(_PARENT):
            self.stop()

    def _note(self, record: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.version = text_of(record.get("version")) or self.version


def _usage_of(counts: Record, fields: dict[str, str]) -> Record:
    return {name: count_of(counts.get(field)) or 0 for name, field in fields.items()} if counts else {}


def _parts_of(record: Record) -> list[Any]:
    return items_of(record_of(record.get("message")).get("parts"))


def _text_of_parts(record: Record) -> str:
    return "".join(text_of(record_of(part).get("text")) for part in _parts_of(record))


def _as_shown(output: str) -> str:
    """Of a command that succeeded, the stream shows only what it wrote."""
    match = _COMMAND_OUTPUT.fullmatch(output)
    return output if match is None else match[1]


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
    record_ids = set[str]()
    for file in files_in(os.path.join(project, "subagents", session.session_id), _SUFFIX):
        record_ids.add(file.name.removeprefix(_CHILD).removesuffix(_SUFFIX))
        call_id = text_of(document(f"{file.path.removesuffix(_SUFFIX)}.meta.json").get("toolUseId"))
        if call_id:
            children[call_id] = file.path
    for record in _with_children(session.path, "", children):
        is_stored = record_ids and not isinstance(record, str) and _sub_agent_of(record) in record_ids
        yield {**record, _IS_STORED: True} if is_stored and not isinstance(record, str) else record
    for call_id, path in list(children.items()):
        yield from _with_children(path, call_id, {})


def _sub_agent_of(record: Record) -> str:
    if record.get("subtype") != "ui_telemetry":
        return ""
    return text_of(record_of(record_of(record.get("systemPayload")).get("uiEvent")).get("subagent_id"))


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
