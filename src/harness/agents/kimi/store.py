"""Kimi Code: `~/.kimi-code/sessions/<project>/<session>/agents/<agent>/wire.jsonl`; the main agent is called `main`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

from harness.contracts.history import AgentHistory, Home, StoredSession
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import output_of, record_of, text_of
from harness.log.ids import is_log_id
from harness.protocols.reading.store_files import document, file_records, folders_in, look_at

_MAIN = "main"
_STOPPED = frozenset({"cancelled", "interrupted", "aborted"})
_CONSUMED = (
    "file_history.checkpoint",
    "file_history.tracked",
    "agent.message.appended",
    "agent.turn.ended",
    "agent.turn.started",
    "forked",
    "llm.request",
    "llm.tools_snapshot",
    "metadata",
    "permission.set_mode",
    "plan_mode.cancel",
    "plugin.session_start",
    "profile.bind",
    "prompt.completed",
    "runtime.set_binding",
    "token_counting.measured",
    "token_counting.turn_recorded",
)


class KimiRewording(Rewording):
    waits_for_model = True
    time_key = "time"
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys(_CONSUMED, ""),
        "llm.request": "_request",
        "turn.prompt": "_prompt",
        "context.append_message": "_message",
        "turn.ended": "_turn_ended",
        "usage.record": "_usage",
        "step/step.begin": "_step_begin",
        "step/content.part": "_part",
        "step/tool.call": "_call",
        "step/tool.result": "_result",
        "step/step.end": "_step_end",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._prompt_text = ""
        self._is_answered = False
        self._parts: list[Any] = []
        self._calls: list[Record] = []
        self._step = ""
        """A fork begins with copies of the records, by which the same step is known."""

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        if kind == "context.append_loop_event":
            return f"step/{text_of(record_of(record.get('event')).get('type'))}"
        return kind

    def closing(self) -> None:
        self._flush()
        if self.outcome == "completed":
            self.put({"role": "meta", "type": "session.resume_hint", "session_id": self.session.session_id})

    def _request(self, record: Record) -> None:
        self.know_model(text_of(record.get("model")))

    def _prompt(self, record: Record) -> None:
        self._ask(output_of(record.get("input")))

    def _message(self, record: Record) -> None:
        """It repeats the prompt of a turn; in a session that came from elsewhere, it is the only record of it."""
        message = record_of(record.get("message"))
        text = output_of(message.get("content"))
        is_new = not self.is_open or self._is_answered or text != self._prompt_text
        if message.get("role") == "user" and is_new and not text.lstrip().startswith("<"):
            self._ask(text)

    def _ask(self, prompt: str) -> None:
        self._prompt_text, self._is_answered = prompt, False
        self.begin(prompt)

    def _turn_ended(self, record: Record) -> None:
        reason = text_of(record.get("reason"))
        self.outcome = "completed" if reason == "completed" else "unknown"
        if reason in _STOPPED:
            self.stop()

    def _usage(self, record: Record) -> None:
        self._flush()
        call = self._step or f"at {record.get('time')}"  # a summary of the conversation is no step
        about = {"usage": record.get("usage"), "model": self.model, "call": call}
        self.put({"role": "meta", "type": "usage.record", **about})

    def _step_begin(self, record: Record) -> None:
        self._step = text_of(record_of(record.get("event")).get("uuid"))

    def _part(self, record: Record) -> None:
        self._parts.append(record_of(record.get("event")).get("part"))

    def _call(self, record: Record) -> None:
        event = record_of(record.get("event"))
        arguments = msgspec.json.encode(event.get("args")).decode()
        function = {"name": event.get("name"), "arguments": arguments}
        self._calls.append({"type": "function", "id": event.get("toolCallId"), "function": function})

    def _result(self, record: Record) -> None:
        self._flush()
        event = record_of(record.get("event"))
        output = output_of(record_of(event.get("result")).get("output"))
        self.put({"role": "tool", "tool_call_id": event.get("toolCallId"), "content": output})

    def _step_end(self, _record: Record) -> None:
        self._flush()
        self._step = ""

    def _flush(self) -> None:
        """The stream has an answer as one record."""
        if self._parts or self._calls:
            self._is_answered = True
            self.put({"role": "assistant", "content": self._parts, "tool_calls": self._calls})
        self._parts, self._calls = [], []


def place(home: Home) -> str:
    return home.folder(".kimi-code", "sessions")


def find(home: Home) -> Iterator[StoredSession]:
    for _name, project in folders_in(place(home)):
        for session_id, folder in folders_in(project):
            about = document(os.path.join(folder, "state.json"))
            for agent, below in folders_in(os.path.join(folder, "agents")):
                file = look_at(os.path.join(below, "wire.jsonl"))
                is_main = agent == _MAIN
                own_id = session_id if is_main else f"{session_id}__{agent}"
                if file is None or not is_log_id(own_id):
                    continue
                yield file.session(
                    "kimi",
                    own_id,
                    cwd=text_of(about.get("cwd")),
                    started_ms=milliseconds(about.get("createdAt")) or 0,
                    title=text_of(about.get("title")) if is_main else "",
                    is_child=not is_main,
                    parent_id="" if is_main else session_id,
                )


HISTORY = AgentHistory(
    agent="kimi",
    title="Kimi Code",
    place=place,
    find=find,
    records=file_records,
    rewording=KimiRewording,
    differs=frozenset({"Result"}),
)
