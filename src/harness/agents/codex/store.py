"""Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<thread>.jsonl`.

A thing is written up to three times: as what the model sees (`response_item`), as what happened (`item_completed`, in
older versions an event), and in a database that repeats both. What happened is read; calls that only the model's
items show (refused ones, plans) are taken from there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import ClassVar

from harness.agents.codex.limits import LIMITS, limit_windows
from harness.agents.codex.stored_items import as_started, as_streamed, item_of_call
from harness.contracts.history import Activity, AgentHistory, Home, StoredSession, StoreScanner
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import (
    count_of,
    first_text,
    items_of,
    record_of,
    text_of,
)
from harness.protocols.reading.store_files import file_records, files_in, folders_in, sessions_in
from harness.system.contract import system

_SUFFIX = ".jsonl"
_THREAD_ID = re.compile(r"rollout-.*?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_ABORTED = "aborted by user"
_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "total_tokens",
)
_CONSUMED = (
    "ghost_snapshot",
    "world_state",
    *(
        f"event_msg/{name}"
        for name in (
            "agent_reasoning_section_break",
            "context_compacted",
            "entered_review_mode",
            "exec_command_begin",
            "exec_command_end",
            "exited_review_mode",
            "item_started",
            "mcp_tool_call_begin",
            "mcp_tool_call_end",
            "patch_apply_begin",
            "patch_apply_end",
            "thread_name_updated",
            "thread_rolled_back",
            "web_search_begin",
            "web_search_end",
        )
    ),
    *(
        f"response_item/{name}"
        for name in ("additional_tools", "compaction", "compaction_summary", "ghost_snapshot", "reasoning")
    ),
)
"""What the model was shown of the world, and what other records repeat."""


class CodexRewording(Rewording):
    time_key = "timestamp"
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys(_CONSUMED, ""),
        "session_meta": "_session",
        "turn_context": "_context",
        "compacted": "_compacted",
        "token_usage_record": "_usage_of_call",
        "event_msg/thread_settings_applied": "_settings",
        "event_msg/task_started": "_turn_started",
        "event_msg/task_complete": "_turn_completed",
        "event_msg/turn_aborted": "_turn_aborted",
        "event_msg/error": "_failed",
        "event_msg/stream_error": "_retried",
        "event_msg/warning": "_warned",
        "event_msg/user_message": "_prompted",
        "event_msg/agent_message": "_agent_message",
        "event_msg/agent_reasoning": "_thought",
        "event_msg/token_count": "_token_count",
        "event_msg/item_completed": "_item_completed",
        "response_item/message": "_message",
        **{
            f"response_item/{kind}": "_called"
            for kind in ("function_call", "custom_tool_call", "local_shell_call")
        },
        **{f"response_item/{kind}_output": "_answered" for kind in ("function_call", "custom_tool_call")},
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._has_events = False
        """Whether what was said is written as events, so that the model's items only repeat it."""
        self._has_items = False
        """Whether calls and compactions are written as items, too."""
        self._is_ended = False
        self._is_failed = False
        self._is_answered = False
        self._prompt = ""
        self._calls: dict[str, Record] = {}
        """Calls that no item has shown yet."""
        self._usage_so_far = dict.fromkeys(_COUNTS, 0)
        self._total: dict[str, int] = {}
        self._total_before: dict[str, int] = {}

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        if kind not in ("event_msg", "response_item"):
            return kind
        return f"{kind}/{text_of(record_of(record.get('payload')).get('type'))}"

    def opening(self) -> None:
        self._is_ended = self._is_failed = False
        self._usage_so_far, self._total_before, self._calls = dict.fromkeys(_COUNTS, 0), self._total, {}
        self.put({"type": "thread.started", "thread_id": self.session.session_id})
        self.put({"type": "turn.started"})

    def closing(self) -> None:
        for call_id, call in self._calls.items():  # they were never answered
            self.put({"type": "item.started", "item": item_of_call(call_id, call, None)})
        self._calls = {}
        if not self._is_failed:
            self.put({"type": "turn.completed", "usage": self._usage()})
        if self._is_ended:
            self.outcome = "completed"

    def _session(self, record: Record) -> None:
        data = record_of(record.get("payload"))
        self.at(milliseconds(data.get("timestamp")))
        self.cwd = text_of(data.get("cwd")) or self.cwd
        self.version = text_of(data.get("cli_version")) or self.version
        self._has_items = self._has_items or data.get("history_mode") == "paginated"
        self._has_events = self._has_events or self._has_items
        spawned = record_of(record_of(record_of(data.get("source")).get("subagent")).get("thread_spawn"))
        self.parent_id = first_text(data, "parent_thread_id") or text_of(spawned.get("parent_thread_id"))

    def _context(self, record: Record) -> None:
        data = record_of(record.get("payload"))
        self.cwd = text_of(data.get("cwd")) or self.cwd
        self.model = text_of(data.get("model")) or self.model

    def _settings(self, record: Record) -> None:
        settings = record_of(record_of(record.get("payload")).get("thread_settings"))
        self.model = text_of(settings.get("model")) or self.model

    def _turn_started(self, _record: Record) -> None:
        self.end()  # what comes before its prompt belongs to the new turn

    def _turn_completed(self, record: Record) -> None:
        data = record_of(record.get("payload"))
        # Older versions write no error: a turn that ends without an answer may have failed.
        self._is_ended = data.get("last_agent_message", "") is not None
        error = record_of(data.get("error"))
        if error:
            self._fail(error)

    def _failed(self, record: Record) -> None:
        self._fail(record_of(record.get("payload")))

    def _fail(self, error: Record) -> None:
        if not self._is_failed:
            self._is_failed = True
            failure = {"message": text_of(error.get("message"))}
            if info := text_of(error.get("codex_error_info")):
                failure["codexErrorInfo"] = info
            self.put({"type": "turn.failed", "error": failure})

    def _retried(self, record: Record) -> None:
        self.put({"type": "error", "message": text_of(record_of(record.get("payload")).get("message"))})

    def _warned(self, record: Record) -> None:
        message = text_of(record_of(record.get("payload")).get("message"))
        self.put({"type": "item.completed", "item": {"type": "error", "message": message}})

    def _turn_aborted(self, _record: Record) -> None:
        self.stop()

    def _prompted(self, record: Record) -> None:
        self._has_events = True
        prompt = text_of(record_of(record.get("payload")).get("message"))
        if self._is_answered or not self.is_open or prompt != self._prompt:
            self._ask(prompt)

    def _ask(self, prompt: str) -> None:
        self._prompt, self._is_answered = prompt, False
        self.begin(prompt, model=self.model)

    def _agent_message(self, record: Record) -> None:
        self._has_events = True
        self._put_text(text_of(record_of(record.get("payload")).get("message")))

    def _put_text(self, text: str) -> None:
        self._is_answered = True
        self.put({"type": "item.completed", "item": {"type": "agent_message", "text": text}})

    def _thought(self, record: Record) -> None:
        text = text_of(record_of(record.get("payload")).get("text"))
        self.put({"type": "item.completed", "item": {"type": "reasoning", "text": text}})

    def _message(self, record: Record) -> None:
        """Only where nothing else says it: in a file that another program wrote."""
        data = record_of(record.get("payload"))
        text = "".join(text_of(record_of(part).get("text")) for part in items_of(data.get("content")))
        if self._has_events or not text:
            return
        if data.get("role") == "assistant":
            self._put_text(text)
        elif data.get("role") == "user" and not text.lstrip().startswith("<") and text != self._prompt:
            self._ask(text)

    def _compacted(self, _record: Record) -> None:
        if not self._has_items:
            self.put({"type": "item.completed", "item": {"type": "context_compaction"}})

    def _usage_of_call(self, record: Record) -> None:
        data = record_of(record.get("payload"))
        if text_of(data.get("thread_id")) in ("", self.session.session_id):
            usage = record_of(data.get("usage"))
            for name in _COUNTS:
                self._usage_so_far[name] += count_of(usage.get(name)) or 0
            self._count(self._usage_so_far)

    def _token_count(self, record: Record) -> None:
        payload = record_of(record.get("payload"))
        if self.is_open and limit_windows(limits := record_of(payload.get("rate_limits"))):
            self.put({"type": LIMITS, "params": {"rateLimits": limits}})
        info = record_of(payload.get("info"))
        total = record_of(info.get("total_token_usage"))
        if total:
            self._total = {name: count_of(total.get(name)) or 0 for name in _COUNTS}
            if not any(self._usage_so_far.values()):
                self._count(self._usage())

    def _count(self, usage: dict[str, int]) -> None:
        """What the run has used so far: the stream says it when a turn ends, of which a run may have several."""
        if self.is_open and not self._is_failed:
            self.put({"type": "turn.completed", "usage": usage})

    def _usage(self) -> dict[str, int]:
        """Of the run: the sum of its calls, or, in older versions, the growth of the thread's total."""
        if any(self._usage_so_far.values()):
            return self._usage_so_far
        return {name: max(0, count - self._total_before.get(name, 0)) for name, count in self._total.items()}

    def _item_completed(self, record: Record) -> None:
        self._has_events = True
        item = record_of(record_of(record.get("payload")).get("item"))
        if item.get("type") == "UserMessage":
            parts = [record_of(part) for part in items_of(item.get("content"))]
            self._ask("".join(text_of(part.get("text")) for part in parts))
            return
        self._calls.pop(text_of(item.get("id")), None)
        completed = as_streamed(item)
        start = as_started(completed)
        if start is not None:
            self.put({"type": "item.started", "item": start})
        self.put({"type": "item.completed", "item": completed})

    def _called(self, record: Record) -> None:
        call = record_of(record.get("payload"))
        call_id = first_text(call, "call_id", "id")
        if call_id and self.is_open:
            self._calls[call_id] = call

    def _answered(self, record: Record) -> None:
        data = record_of(record.get("payload"))
        call_id = text_of(data.get("call_id"))
        if text_of(data.get("output")).rstrip().endswith(_ABORTED):
            return  # what became of the call comes as an item, or is not known
        call = self._calls.pop(call_id, None)
        if call is not None:
            self.put({"type": "item.completed", "item": item_of_call(call_id, call, data.get("output"))})


def place(home: Home) -> str:
    return home.folder(".codex", variable="CODEX_HOME", below=("sessions",))


def find(home: Home) -> Iterator[StoredSession]:
    for _year, year in folders_in(place(home)):
        for _month, month in folders_in(year):
            for _day, day in folders_in(month):
                yield from sessions_in(day, _SUFFIX, "codex", _thread_id)
    archived = os.path.join(os.path.dirname(place(home)), "archived_sessions")
    yield from sessions_in(archived, _SUFFIX, "codex", _thread_id)


def _thread_id(name: str) -> str:
    match = _THREAD_ID.fullmatch(name)
    return "" if match is None else match[1]


def live(home: Home) -> dict[str, Activity]:
    """The threads whose lock some process holds."""
    locked = system.locked_inodes()
    folder = home.folder(".codex", variable="CODEX_HOME", below=("thread-writer-locks",))
    activities: dict[str, Activity] = {}
    for file in files_in(folder, ".lock"):
        if file.inode in locked:
            activities[file.name.removesuffix(".lock")] = "open"
    return activities


def scanner() -> StoreScanner:
    from harness.agents.codex.scan import SCANNER

    return SCANNER


HISTORY = AgentHistory(
    agent="codex",
    title="Codex",
    place=place,
    find=find,
    records=file_records,
    rewording=CodexRewording,
    live=live,
    scanner=scanner,
)
