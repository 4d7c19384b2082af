"""Grok Build: `~/.grok/sessions/<directory, as in a URL>/<session>/`.

`updates.jsonl` has what the stream has, with times. `chat_history.jsonl` has what the model saw: it is read where the
other has fewer prompts, as in a session that came from elsewhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import ClassVar

from harness.contracts.history import AgentHistory, Home, StoredRecord, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import (
    arguments_of,
    besides,
    count_of,
    first_text,
    items_of,
    record_of,
    text_of,
)
from harness.log.ids import is_log_id
from harness.protocols.reading.store_files import document, folders_in, json_lines, look_at

_UPDATES, _CHAT = "updates.jsonl", "chat_history.jsonl"
_QUERY = re.compile(r"\s*<user_query>\s*(.*?)\s*</user_query>\s*", re.DOTALL)
_SUB_AGENTS = "subagents"


class GrokRewording(Rewording):
    time_key = "time_ms"
    rules: ClassVar[dict[str, str]] = {
        "session": "_session",
        "chat/system": "",
        "chat/user": "_asked",
        "chat/assistant": "_answered",
        "chat/tool_result": "_result",
        "available_commands_update": "",
        "background_tasks": "",
        "current_mode_update": "",
        "user_message_chunk": "_prompt",
        "agent_message_chunk": "_text",
        "agent_thought_chunk": "_thought",
        "tool_call": "_call",
        "tool_call_update": "_pass",
        "plan": "_pass",
        "turn_completed": "_completed",
    }

    def kind(self, record: Record) -> str:
        return text_of(record.get("sessionUpdate")) or text_of(record.get("kind"))

    def _session(self, record: Record) -> None:
        self.model = text_of(record.get("current_model_id"))

    def _prompt(self, record: Record) -> None:
        self._begin(text_of(record_of(record.get("content")).get("text")))

    def _begin(self, prompt: str) -> None:
        self.begin(prompt, model=self.model)
        self.put({"type": "available_commands", "session_id": self.session.session_id})

    def _text(self, record: Record) -> None:
        self.put({"type": "text", "data": text_of(record_of(record.get("content")).get("text"))})

    def _thought(self, record: Record) -> None:
        self.put({"type": "thought", "data": text_of(record_of(record.get("content")).get("text"))})

    def _call(self, record: Record) -> None:
        meta = record_of(record_of(record.get("_meta")).get("x.ai/tool"))
        name = text_of(meta.get("name")) or record.get("title")
        self.put({**record, "type": "tool_call", "toolName": name})

    def _pass(self, record: Record) -> None:
        self.put({**record, "type": record.get("sessionUpdate")})

    def _completed(self, record: Record) -> None:
        counts = record_of(record.get("usage"))
        cached, cache_write = (
            count_of(counts.get("cachedReadTokens")),
            count_of(counts.get("cacheCreationTokens")),
        )
        usage = {
            "input_tokens": besides(count_of(counts.get("inputTokens")), cached, cache_write),
            "output_tokens": counts.get("outputTokens"),
            "reasoning_tokens": counts.get("reasoningTokens"),
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": cache_write,
        }
        reason = text_of(record.get("stop_reason"))
        if not self.session.is_child:  # else it is in the usage of the session that has started it
            self.put({"type": "usage", "usage": usage})
        self._put_end(reason)
        self.outcome = "completed" if reason == "end_turn" else "unknown"

    def _asked(self, record: Record) -> None:
        prompt = _query_of(record)
        if prompt is not None:
            self._begin(prompt)

    def _answered(self, record: Record) -> None:
        if text := text_of(record.get("content")):
            self.put({"type": "text", "data": text})
        calls = [record_of(call) for call in items_of(record.get("tool_calls"))]
        for call in calls:
            arguments = arguments_of(call.get("arguments"))
            tool_call = {"toolCallId": call.get("id"), "toolName": call.get("name"), "rawInput": arguments}
            self.put({"type": "tool_call", **tool_call})
        self.outcome = "unknown" if calls else "completed"
        if not calls:
            self._put_end("end_turn")

    def _result(self, record: Record) -> None:
        content = [{"type": "content", "content": {"type": "text", "text": text_of(record.get("content"))}}]
        end = {"toolCallId": record.get("tool_call_id"), "status": "completed", "content": content}
        self.put({"type": "tool_call_update", **end})

    def _put_end(self, reason: str) -> None:
        self.put({"type": "end", "stopReason": reason, "sessionId": self.session.session_id})


def place(home: Home) -> str:
    return home.folder(".grok", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    for _name, project in folders_in(place(home)):
        folders = list(folders_in(project))
        parents = {
            child_id: session_id
            for session_id, folder in folders
            for child_id, _folder in folders_in(os.path.join(folder, _SUB_AGENTS))
        }
        for session_id, folder in folders:
            looks = [look_at(os.path.join(folder, name)) for name in (_CHAT, _UPDATES)]
            files = [file for file in looks if file is not None]
            about = document(os.path.join(folder, "summary.json"))
            if files and is_log_id(session_id):
                yield StoredSession(
                    agent="grok",
                    session_id=session_id,
                    path=files[0].path,
                    mark=" / ".join(file.mark for file in files),
                    changed_ms=max(file.changed_ms for file in files),
                    size=sum(file.size for file in files),
                    cwd=text_of(record_of(about.get("info")).get("cwd")),
                    started_ms=milliseconds(about.get("created_at")) or 0,
                    title=first_text(about, "generated_title", "session_summary"),
                    is_child=session_id in parents,
                    parent_id=parents.get(session_id, ""),
                )


def records(session: StoredSession) -> Iterator[StoredRecord]:
    folder = os.path.dirname(session.path)
    yield {"kind": "session", **document(os.path.join(folder, "summary.json"))}
    prompts_of_chat, prompts_of_updates = (_prompts(os.path.join(folder, name)) for name in (_CHAT, _UPDATES))
    if prompts_of_chat > prompts_of_updates:
        for record in json_lines(os.path.join(folder, _CHAT)):
            yield (
                record
                if isinstance(record, str)
                else {**record, "kind": f"chat/{text_of(record.get('type'))}"}
            )
        return
    for record in json_lines(os.path.join(folder, _UPDATES)):
        if isinstance(record, str):
            yield record
            continue
        params = record_of(record.get("params"))
        at_ms = record_of(params.get("_meta")).get("agentTimestampMs") or record.get("timestamp")
        yield {**record_of(params.get("update")), "time_ms": at_ms}


def _prompts(path: str) -> int:
    """How many prompts a file of a session has."""
    count = 0
    for record in json_lines(path):
        if not isinstance(record, str):
            update = record_of(record_of(record.get("params")).get("update"))
            count += update.get("sessionUpdate") == "user_message_chunk"
            count += record.get("type") == "user" and _query_of(record) is not None
    return count


def _query_of(record: Record) -> str | None:
    texts = [text_of(record_of(part).get("text")) for part in items_of(record.get("content"))]
    match = _QUERY.fullmatch("\n".join(texts) or text_of(record.get("content")))
    return None if match is None else match[1]


HISTORY = AgentHistory(
    agent="grok", title="Grok Build", place=place, find=find, records=records, rewording=GrokRewording
)
