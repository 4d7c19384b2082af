"""The short way to a summary of the two largest stores, Claude's and Codex's.

Most bytes of these files are prompts of the program, schemas and outputs of tools, which no summary needs. So a line is
looked at by its beginning, and only the few that say something are decoded, and of these only the fields that count.

Contract: a skim gives what `summarize` gives by reading the session whole (times within a run, and the ids of model
calls, apart), or None where a file is not as expected; then it is read whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from harness.events import Usage
from harness.sources.imports.history import StoredSession
from harness.sources.imports.store_files import files_in, lines
from harness.sources.imports.summary import SessionSummary, UsedTokens
from harness.sources.imports.times import milliseconds
from harness.sources.translation.json_lines import DECODE_ERRORS

_HEAD_BYTES = 320
_RESULT_BYTES = 700
"""Where a line with the result of a tool shows that it is one."""


_SPACED = re.compile(rb'\s*\{\s*"\w+"\s*:\s')


class _Odd(Exception):
    """The file is not as expected."""


class _ClaudeMessage(msgspec.Struct):
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    content: Any = None


class _ClaudeLine(msgspec.Struct, rename="camel"):
    type: str = ""
    timestamp: str = ""
    request_id: str = ""
    cwd: str = ""
    version: str = ""
    is_meta: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    message: _ClaudeMessage | None = None
    custom_title: str = ""
    ai_title: str = ""
    summary: str = ""


_decode_claude = msgspec.json.Decoder(_ClaudeLine).decode
_TITLES = (b'{"type":"custom-title"', b'{"type":"ai-title"', b'{"type":"summary"')
_INTERRUPTION = "[Request interrupted by user"
_SYNTHETIC = "<synthetic>"


class _ClaudeSkim:
    def __init__(self) -> None:
        self.summary = SessionSummary()
        self._calls: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
        """Message and request → time, model and usage, of several lines the last."""
        self._model = ""
        self._stop_reason = ""
        self._is_failed = self._is_interrupted = self._is_local = False

    def read(self, path: str, *, is_child: bool = False) -> None:
        for line in _whole_lines(path):
            head = line[:_HEAD_BYTES]
            if head.startswith(b'{"type":"api-request'):
                continue
            if b'"role":"assistant"' in head or b'"type":"assistant"' in head:
                self._answer(_decode_claude(line), is_child=is_child)
            elif is_child:
                continue
            elif b'"role":"user"' in head or b'"type":"user"' in head:
                if b'"tool_result"' not in line[:_RESULT_BYTES]:
                    self._user(_decode_claude(line))
            elif head.startswith(_TITLES):
                record = _decode_claude(line)
                title = record.custom_title or record.ai_title or record.summary
                self.summary.title = title or self.summary.title

    def finish(self) -> SessionSummary:
        from harness.sources.formats.model_ledger import usage_of_call

        summary = self.summary
        self._end_run()
        for key, (at, model, stated) in self._calls.items():
            if usage := usage_of_call(stated):
                summary.used.append(UsedTokens(":".join(key), milliseconds(at) or 0, model, usage))
        summary.ended_ms = max([summary.ended_ms, *(used.at_ms for used in summary.used)])
        return summary

    def _answer(self, record: _ClaudeLine, *, is_child: bool) -> None:
        message = record.message
        if record.type != "assistant" or message is None:
            return
        if not self.summary.runs:
            raise _Odd
        is_real = message.model != _SYNTHETIC
        if is_real and message.id:
            self._calls[message.id, record.request_id] = record.timestamp, message.model, message.usage
        if not is_child:
            self._model = self._model or (message.model if is_real else "")
            self._stop_reason, self._is_failed = message.stop_reason or "", not is_real

    def _user(self, record: _ClaudeLine) -> None:
        from harness.sources.imports.stores.claude import prompt_of, words_of

        if record.type != "user" or record.message is None or record.is_meta or record.is_compact_summary:
            return
        content = record.message.content
        prompt = prompt_of({}, content)
        words = words_of(content).lstrip()
        if prompt is None:
            self._is_interrupted = self._is_interrupted or words.startswith(_INTERRUPTION)
            self._is_local = self._is_local or words.startswith("<local-command-stdout>")
            return
        self._end_run()
        summary = self.summary
        summary.runs += 1
        summary.prompt = summary.prompt or prompt
        summary.cwd, summary.version = record.cwd or summary.cwd, record.version or summary.version
        at_ms = milliseconds(record.timestamp) or 0
        summary.started_ms = summary.started_ms or at_ms
        summary.ended_ms = max(summary.ended_ms, at_ms)
        self._model, self._stop_reason = "", ""
        self._is_failed = self._is_interrupted = self._is_local = False

    def _end_run(self) -> None:
        from harness.sources.imports.stores.claude import UNFINISHED

        if not self.summary.runs:
            return
        self.summary.model = self._model or self.summary.model
        is_done = self._stop_reason not in UNFINISHED or (self._is_local and not self._stop_reason)
        if self._is_interrupted:
            self.summary.outcome = "interrupted"
        elif self._is_failed:
            self.summary.outcome = "failed"
        else:
            self.summary.outcome = "completed" if is_done else "unknown"


def skim_claude(session: StoredSession) -> SessionSummary | None:
    skim = _ClaudeSkim()
    try:
        skim.read(session.path)
        folder = os.path.join(session.path.removesuffix(".jsonl"), "subagents")
        for file in files_in(folder, ".jsonl"):
            skim.read(file.path, is_child=True)
    except (_Odd, *DECODE_ERRORS):
        return None
    return skim.finish()


class _CodexLine(msgspec.Struct):
    type: str = ""
    timestamp: str = ""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


_decode_codex = msgspec.json.Decoder(_CodexLine).decode
_says_something = re.compile(
    rb'"type":"(?:session_meta|turn_context|thread_settings_applied|token_usage_record|token_count|user_message'
    rb'|UserMessage|task_complete|turn_aborted|error)"'
).search


class _CodexSkim:
    def __init__(self, session: StoredSession) -> None:
        self.summary = SessionSummary()
        self._session_id = session.session_id
        self._model = ""
        self._total = Usage()
        self._usage_of = _codex_usage()
        self._has_calls = False
        """Whether each model call is counted: then the totals only repeat it."""

    def read(self, path: str) -> None:
        for line in _whole_lines(path):
            head = line[:_HEAD_BYTES]
            if _says_something(head):
                self._record(_decode_codex(line))
            elif b'"role":"assistant"' in head and not self.summary.runs:
                raise _Odd

    def _record(self, record: _CodexLine) -> None:
        data, summary = record.payload, self.summary
        at_ms = milliseconds(record.timestamp) or 0
        kind = record.type if record.type != "event_msg" else str(data.get("type"))
        match kind:
            case "session_meta":
                self._meta(data)
            case "turn_context":
                self._model = str(data.get("model") or self._model)
                summary.cwd = str(data.get("cwd") or summary.cwd)
            case "thread_settings_applied":
                self._model = str((data.get("thread_settings") or {}).get("model") or self._model)
            case "user_message":
                self._prompt(str(data.get("message") or ""), at_ms)
            case "item_completed":
                item = data.get("item") or {}
                if item.get("type") == "UserMessage":
                    self._prompt("".join(part.get("text") or "" for part in item.get("content") or ()), at_ms)
            case "token_usage_record":
                if data.get("thread_id") in (None, "", self._session_id):
                    self._has_calls = True
                    self._count(self._usage_of(data.get("usage") or {}), at_ms)
            case "token_count":
                self._token_count(data, at_ms)
            case "task_complete":
                is_answered = data.get("last_agent_message", "") is not None
                has_failed = bool(data.get("error")) or summary.outcome == "failed"
                summary.outcome = "failed" if has_failed else "completed" if is_answered else "unknown"
            case "turn_aborted":
                summary.outcome = "interrupted"
            case "error":
                summary.outcome = "failed"
            case _:
                pass
        if summary.runs:
            summary.ended_ms = max(summary.ended_ms, at_ms)

    def _meta(self, data: dict[str, Any]) -> None:
        summary, source = self.summary, data.get("source")
        summary.cwd = str(data.get("cwd") or summary.cwd)
        summary.version = str(data.get("cli_version") or summary.version)
        spawned = source.get("subagent") if isinstance(source, dict) else None
        spawn = spawned.get("thread_spawn") if isinstance(spawned, dict) else None
        parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
        summary.parent_id = str(data.get("parent_thread_id") or parent or "")

    def _prompt(self, prompt: str, at_ms: int) -> None:
        summary = self.summary
        summary.runs += 1
        summary.prompt = summary.prompt or prompt
        summary.started_ms = summary.started_ms or at_ms
        summary.outcome, summary.model = "unknown", self._model or summary.model

    def _token_count(self, data: dict[str, Any], at_ms: int) -> None:
        total = self._usage_of((data.get("info") or {}).get("total_token_usage") or {})
        if self._has_calls or not total or not self.summary.runs:
            return
        is_new = (total.input or 0) < (self._total.input or 0)
        added, self._total = total if is_new else total.minus(self._total), total
        self._count(added, at_ms)

    def _count(self, usage: Usage, at_ms: int) -> None:
        if self.summary.runs and usage.without_zeros():
            key = f"{self._session_id}#{len(self.summary.used)}"
            self.summary.used.append(UsedTokens(key, at_ms, self.summary.model, usage))


def _codex_usage() -> Callable[[dict[str, Any]], Usage]:
    """Imported when a session is read, as it brings the agent's whole translator."""
    from harness.sources.agents.codex.usage import usage_of

    return usage_of


def skim_codex(session: StoredSession) -> SessionSummary | None:
    skim = _CodexSkim(session)
    try:
        skim.read(session.path)
    except (
        _Odd,
        AttributeError,
        TypeError,
        *DECODE_ERRORS,
    ):  # of odd values in the few records that are decoded
        return None
    return skim.summary if skim.summary.runs else None


def _whole_lines(path: str) -> Iterator[bytes]:
    """Raises _Odd where the first has spaces after its keys: no agent writes it so, and nothing would be found."""
    is_first = True
    for line in lines(path):
        if isinstance(line, bytes) and line.endswith(b"\n"):
            if is_first and _SPACED.match(line):
                raise _Odd
            is_first = False
            yield line
