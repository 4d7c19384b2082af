"""A faster reading of the files of Claude Code.

Contract: the result is that of reading the session whole, apart from times within a run and the ids of model calls.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.agents.claude.compaction_calls import (
    SUB_AGENT_TOOLS,
    CompactionCall,
    CompactionCalls,
    Counts,
    plain_name,
)
from harness.agents.claude.stored_prompts import INTERRUPTION, UNFINISHED, prompt_of, words_of
from harness.contracts.history import StoredSession, StoredText, StoreScanner
from harness.contracts.reading import (
    LONGEST_PROMPT,
    CannotScan,
    Document,
    Reading,
    SessionSummary,
    StoredRun,
    UsedTokens,
    counts_of,
    masked,
)
from harness.events import Usage
from harness.formats.fields import output_of, speed_of
from harness.formats.json_lines import DECODE_ERRORS
from harness.protocols.reading.file_scan import (
    HEAD_BYTES,
    FileScan,
    ScanState,
    TokenCount,
    decoded_lines,
    lines_between,
    scanned,
    time_of,
)
from harness.protocols.reading.store_files import files_in
from harness.usage.prices import prompt_size

_TITLES = frozenset({"custom-title", "ai-title", "summary"})
_SYNTHETIC = "<synthetic>"


class _Thinking(msgspec.Struct, gc=False):
    thinking_tokens: TokenCount = 0


class _CacheWrites(msgspec.Struct, gc=False):
    ephemeral_1h_input_tokens: TokenCount = 0


class _Used(msgspec.Struct, gc=False):
    input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    output_tokens_details: _Thinking | None = None
    cache_creation: _CacheWrites | None = None
    speed: str | None = None


class _CallInput(msgspec.Struct, gc=False):
    command: Any = None
    file_path: Any = None
    notebook_path: Any = None


class _Block(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: _CallInput | None = None
    tool_use_id: str = ""
    content: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct, gc=False):
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    usage: _Used | None = None
    content: str | list[_Block] = ""


class _ModelTotals(msgspec.Struct, rename="camel", gc=False):
    """In a `cost-state`."""

    input_tokens: TokenCount = 0
    output_tokens: TokenCount = 0
    cache_read_input_tokens: TokenCount = 0
    cache_creation_input_tokens: TokenCount = 0
    thinking_tokens: TokenCount = 0
    cache_creation_ephemeral_1h_input_tokens: TokenCount = msgspec.field(
        default=0, name="cacheCreationEphemeral1hInputTokens"
    )


class _Line(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    subtype: str = ""
    uuid: str = ""
    timestamp: str = ""
    cwd: str = ""
    version: str = ""
    is_meta: bool = False
    is_compact_summary: bool = False
    message: _Message | None = None
    custom_title: str = ""
    ai_title: str = ""
    summary: str = ""
    cost_usd: float | None = msgspec.field(default=None, name="costUSD")
    model_usage: dict[str, _ModelTotals] | None = None


_decoder = msgspec.json.Decoder(_Line)
_matters = re.compile(rb'(?!\{"type":"api-request).*"(?:role|type)":"(?:assistant|user)"').match
_FILES = {
    "Read": "r ",
    "NotebookRead": "r ",
    "Write": "w ",
    "Edit": "w ",
    "MultiEdit": "w ",
    "NotebookEdit": "w ",
}


_SHELLS = ("Bash", "PowerShell")


class _State(ScanState, kw_only=True, omit_defaults=True):
    model: str = ""
    stop_reason: str = ""
    is_failed: bool = False
    is_interrupted: bool = False
    is_local: bool = False
    starts: list[int] = msgspec.field(default_factory=list)
    """When its runs began."""
    compactions: CompactionCalls = msgspec.field(default_factory=CompactionCalls)


class _ClaudeScan(FileScan[_State]):
    def __init__(self, session: StoredSession, state: _State) -> None:
        super().__init__(session, state)
        self._calls: dict[str, tuple[int, str, str, _Used, float | None]] = {}
        """Message → run, time, model, usage and cost, of several lines the last."""
        self._compacted: list[tuple[int, int, CompactionCall]] = []
        """With run and time."""
        self._since: dict[str, tuple[str, _Used]] = {}
        """Message → model and usage, since the last sum. They are added up where there was a compaction, or reading ends."""

    def files(self) -> Iterator[tuple[str, str]]:
        yield "", self.session.path
        for file in files_in(_folder_of_children(self.session), ".jsonl"):
            yield file.name, file.path

    def feed(self, data: bytes, document: Document) -> None:
        for record in decoded_lines(_decoder, data, _matters):
            message = record.message
            if record.type == "assistant":
                if message is not None:
                    self._answer(record, message, document)
            elif record.type == "user":
                if message is None:
                    continue
                content = message.content
                if not isinstance(content, str) and any(block.type == "tool_result" for block in content):
                    if self.state.commits:
                        self._result(content, document)
                else:
                    self._user(record, content, document)
            elif not document.file:
                self._other(record)

    def _other(self, record: _Line) -> None:
        """Of the session itself."""
        if record.type in _TITLES:
            title = record.custom_title or record.ai_title or record.summary
            self.summary.title = masked(title) or self.summary.title
        elif record.subtype == "compact_boundary":
            self.state.compactions.compact(record.uuid, is_first=not self.summary.runs)
        elif record.type == "cost-state":
            if self.state.compactions.boundary:
                self._add_up()
            self._since = {}
            totals = {
                model: _totals_of(usage_of_model)
                for model, usage_of_model in (record.model_usage or {}).items()
            }
            for call in self.state.compactions.state(totals):
                self._compacted.append((self.summary.runs, self.summary.ended_ms, call))

    def _add_up(self) -> None:
        for message_id, (model, usage) in self._since.items():
            self.state.compactions.answer(message_id, model, _counts_of_message(usage))
        self._since = {}

    def used(self) -> list[UsedTokens]:
        self._end_run()
        self._add_up()
        tokens = [
            _used_tokens(message_id, run, time_of(timestamp), model, usage, cost_usd)
            for message_id, (run, timestamp, model, usage, cost_usd) in self._calls.items()
        ]
        tokens += [_used_by_compaction(*compaction) for compaction in self._compacted]
        self._calls, self._compacted = {}, []
        self.summary.ended_ms = max([self.summary.ended_ms, *(compaction.at_ms for compaction in tokens)])
        return tokens

    def _answer(self, record: _Line, message: _Message, document: Document) -> None:
        runs = self.state.summary.runs
        if not runs:
            raise CannotScan
        if not document.at_ms:
            document.at_ms = time_of(record.timestamp)
        is_real = message.model != _SYNTHETIC
        if is_real and message.id and message.usage is not None:
            run = self._run_at(time_of(record.timestamp)) if document.file else runs
            call = run, record.timestamp, message.model, message.usage, record.cost_usd
            self._calls[message.id] = call
        if not document.file:
            if is_real and message.usage is not None:
                self._since[message.id] = message.model, message.usage
            state = self.state
            state.model = state.model or (message.model if is_real else "")
            state.stop_reason, state.is_failed = message.stop_reason or "", not is_real
        if isinstance(message.content, str):
            document.texts.append(message.content)
            return
        for block in message.content:
            if block.type == "text":
                document.texts.append(block.text)
            elif block.type == "tool_use" and block.input is not None:
                self._called(block.id, block.name, block.input, document)

    def _run_at(self, at_ms: int) -> int:
        """Files of sub-agents are read behind the whole session, and its last run may not be theirs."""
        return max(1, bisect_right(self.state.starts, at_ms)) if at_ms else self.summary.runs

    def _called(self, call_id: str, name: str, tool_input: _CallInput, document: Document) -> None:
        if mark := _FILES.get(name):
            path = tool_input.file_path or tool_input.notebook_path
            if isinstance(path, str):
                document.files[mark + path] = None
        elif (
            name in _SHELLS
            and isinstance(tool_input.command, str)
            and document.add_command(tool_input.command)
        ):
            self.state.commits.append(call_id)
        elif name in SUB_AGENT_TOOLS and not document.file:
            self.state.compactions.has_sub_agents = True

    def _result(self, content: list[_Block], document: Document) -> None:
        for block in content:
            if block.tool_use_id in self.state.commits:
                self.state.commits.remove(block.tool_use_id)
                document.add_output(output_of(msgspec.json.decode(block.content or b'""')))

    def _user(self, record: _Line, content: str | list[_Block], document: Document) -> None:
        if record.is_meta or record.is_compact_summary:
            return
        words = (
            content
            if isinstance(content, str)
            else [{"type": block.type, "text": block.text} for block in content]
        )
        prompt = prompt_of({}, words)
        if document.file:  # what a sub-agent was asked for
            document.texts.append(prompt or "")
            return
        state = self.state
        if prompt is None:
            text = words_of(words).lstrip()
            state.is_interrupted = state.is_interrupted or text.startswith(INTERRUPTION)
            state.is_local = state.is_local or text.startswith("<local-command-stdout>")
            return
        self._end_run()
        at_ms = time_of(record.timestamp)
        document.texts.append(prompt)
        document.at_ms = document.at_ms or at_ms
        _begin_run(self.summary, record, prompt, at_ms)
        self.runs.append(StoredRun(self.summary.runs, at_ms, prompt))
        state.starts.append(at_ms)
        state.model, state.stop_reason = "", ""
        state.is_failed = state.is_interrupted = state.is_local = False

    def _end_run(self) -> None:
        state, summary = self.state, self.summary
        if not summary.runs:
            return
        summary.model = state.model or summary.model
        is_done = state.stop_reason not in UNFINISHED or (state.is_local and not state.stop_reason)
        if state.is_interrupted:
            summary.outcome = "interrupted"
        elif state.is_failed:
            summary.outcome = "failed"
        else:
            summary.outcome = "completed" if is_done else "unknown"


def _folder_of_children(session: StoredSession) -> str:
    return os.path.join(session.path.removesuffix(".jsonl"), "subagents")


def _begin_run(summary: SessionSummary, record: _Line, prompt: str, at_ms: int) -> None:
    summary.runs += 1
    summary.prompt = summary.prompt or masked(prompt[:LONGEST_PROMPT])
    summary.cwd, summary.version = record.cwd or summary.cwd, record.version or summary.version
    summary.started_ms = summary.started_ms or at_ms
    summary.ended_ms = max(summary.ended_ms, at_ms)


def _used_tokens(
    message_id: str, run: int, at_ms: int, model: str, message_usage: _Used, cost_usd: float | None
) -> UsedTokens:
    """As the model API writes it, which counts thinking as output."""
    details, output = message_usage.output_tokens_details, message_usage.output_tokens
    thinking = None if details is None else details.thinking_tokens
    if output is not None and thinking:
        output = max(0, output - thinking)
    usage = Usage(
        input=message_usage.input_tokens,
        output=output,
        cache_read=message_usage.cache_read_input_tokens,
        cache_write=message_usage.cache_creation_input_tokens,
        reasoning=thinking,
        cache_write_1h=(
            message_usage.cache_creation and message_usage.cache_creation.ephemeral_1h_input_tokens
        )
        or None,
        cost_usd=cost_usd,
    )
    speed = speed_of(message_usage.speed)
    return UsedTokens(message_id, run, at_ms, plain_name(model), counts_of(usage), speed, prompt_size(usage))


def _counts_of_message(usage: _Used) -> Counts:
    return (
        usage.input_tokens or 0,
        usage.output_tokens or 0,
        usage.cache_read_input_tokens or 0,
        usage.cache_creation_input_tokens or 0,
        usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0,
        usage.cache_creation.ephemeral_1h_input_tokens if usage.cache_creation else 0,
    )


def _totals_of(usage: _ModelTotals) -> Counts:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_input_tokens,
        usage.cache_creation_input_tokens,
        usage.thinking_tokens,
        usage.cache_creation_ephemeral_1h_input_tokens,
    )


def _used_by_compaction(run: int, at_ms: int, call: CompactionCall) -> UsedTokens:
    input_tokens, output, cache_read, cache_write, thinking, for_an_hour = call.counts
    usage = _Used(
        input_tokens, output, cache_read, cache_write, _Thinking(thinking), _CacheWrites(for_an_hour)
    )
    return _used_tokens(call.id, run, at_ms, call.model, usage, None)


def _scan(session: StoredSession, state: bytes) -> Iterator[Reading]:
    return scanned(_ClaudeScan, _State, session, state)


def _texts(
    session: StoredSession, file: str, start: int, end: int, needles: Sequence[bytes]
) -> Iterator[StoredText]:
    path = os.path.join(_folder_of_children(session), file) if file else session.path
    for line in lines_between(path, start, end, needles):
        if b'"role":"' not in line[:HEAD_BYTES] and b'"type":"' not in line[:HEAD_BYTES]:
            continue
        try:
            record = _decoder.decode(line)
        except DECODE_ERRORS:
            continue
        message = record.message
        if record.type in ("user", "assistant") and message is not None and not record.is_meta:
            content = message.content
            texts = [content] if isinstance(content, str) else [block.text for block in content]
            for text in filter(None, texts):
                yield StoredText(time_of(record.timestamp), record.type, text)


SCANNER = StoreScanner(_scan, _texts)
