"""A faster reading of the rollouts of Codex.

Contract: the result is that of reading the session whole, apart from times within a run and the ids of model calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.agents.codex.stored_items import PATCHED, SHELLS
from harness.contracts.history import StoredSession, StoredText, StoreScanner
from harness.contracts.reading import (
    LONGEST_PROMPT,
    CannotScan,
    Document,
    Reading,
    StoredRun,
    UsedTokens,
    masked,
)
from harness.events import Usage
from harness.formats.fields import (
    arguments_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
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
from harness.usage.prices import prompt_size

_matters = re.compile(
    rb'"type":"(?:session_meta|turn_context|thread_settings_applied|token_usage_record|token_count|user_message'
    rb"|agent_message|item_completed|task_complete|turn_aborted|error"
    rb'|function_call_output|function_call|custom_tool_call_output|custom_tool_call|local_shell_call)"'
).search
_message_type = re.compile(rb'"type":"(user_message|UserMessage|agent_message|AgentMessage)"').search


class _Counts(msgspec.Struct, gc=False):
    input_tokens: TokenCount | None = None
    cached_input_tokens: TokenCount | None = None
    cache_write_input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None
    reasoning_output_tokens: TokenCount | None = None


class _Info(msgspec.Struct, gc=False):
    total_token_usage: _Counts | None = None


class _Payload(msgspec.Struct, gc=False):
    """Of any record: the fields that count in one of them. Only counts must be what they should be."""

    type: Any = None
    message: Any = None
    role: Any = None
    info: _Info | None = None
    thread_id: Any = None
    response_id: str | None = None
    usage: _Counts | None = None
    name: Any = None
    call_id: Any = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    output: msgspec.Raw = msgspec.Raw()
    item: msgspec.Raw = msgspec.Raw()
    model: Any = None
    cwd: Any = None
    cli_version: Any = None
    source: Any = None
    parent_thread_id: Any = None
    history_mode: Any = None
    thread_settings: Any = None
    last_agent_message: Any = ""
    error: Any = None


class _Line(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: str = ""
    payload: _Payload = msgspec.field(default_factory=_Payload)


class _Asked(msgspec.Struct, gc=False):
    cmd: Any = None
    command: Any = None


class _AnyLine(msgspec.Struct, gc=False):
    timestamp: str = ""
    payload: dict[str, Any] = msgspec.field(default_factory=dict)


_decoder = msgspec.json.Decoder(_Line)
_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode = msgspec.json.Decoder(_AnyLine).decode
_Classes = tuple[int | None, int | None, int | None, int | None, int | None]
_ROLES = {
    b"user_message": "user",
    b"UserMessage": "user",
    b"agent_message": "assistant",
    b"AgentMessage": "assistant",
}
_WRAPPED = frozenset({"event_msg", "response_item"})
_RECORDS = frozenset(
    {
        "session_meta",
        "turn_context",
        "thread_settings_applied",
        "user_message",
        "item_completed",
        "task_complete",
        "turn_aborted",
        "error",
    }
)
_MINUTE = len("2026-11-15T19:13")
_NOTHING: _Classes = (None, None, None, None, None)


class _State(ScanState, kw_only=True, omit_defaults=True):
    model: str = ""
    total: _Classes = _NOTHING
    has_calls: bool = False
    """Whether each model call is counted: then the totals only repeat it."""
    has_items: bool = False
    """Whether commands and changes are items: then the calls of the model only repeat them."""


class _CodexScan(FileScan[_State]):
    def __init__(self, session: StoredSession, state: _State) -> None:
        super().__init__(session, state)
        self._used_tokens: list[UsedTokens] = []
        """Calls that have an id."""
        self._sums: dict[tuple[int, str, str], tuple[str, _Classes]] = {}
        """Run, minute and model → time and counts of the calls that have none."""

    def files(self) -> Iterator[tuple[str, str]]:
        yield "", self.session.path

    def feed(self, data: bytes, document: Document) -> None:
        for record in decoded_lines(_decoder, data, _matters):
            payload = record.payload
            match payload.type if record.type in _WRAPPED else record.type:
                case "token_count":
                    self._token_count(payload.info, record.timestamp)
                case "agent_message":
                    document.texts.append(_text_in(payload.message))
                case "function_call" | "custom_tool_call" | "local_shell_call":
                    if not self.state.has_items:
                        self._called(payload, document)
                case "function_call_output" | "custom_tool_call_output":
                    if self.state.commits:
                        self._answered(payload, document)
                case "token_usage_record":
                    self._usage_record(payload, record.timestamp)
                case "message":
                    if payload.role == "assistant" and not self.summary.runs:
                        raise CannotScan
                case str(kind) if kind in _RECORDS:
                    self._record(kind, payload, time_of(record.timestamp), document)
                case _:
                    pass

    def used(self) -> list[UsedTokens]:
        if not self.summary.runs:
            raise CannotScan
        tokens, sums = self._used_tokens, self._sums
        self._used_tokens, self._sums = [], {}
        for (run, _minute, model), (timestamp, counts) in sums.items():
            tokens.append(UsedTokens("", run, time_of(timestamp), model, (*counts, None, None)))
        self.summary.ended_ms = max([self.summary.ended_ms, *(part.at_ms for part in tokens)])
        return tokens

    def _record(self, kind: str, data: _Payload, at_ms: int, document: Document) -> None:
        summary, state = self.summary, self.state
        document.at_ms = document.at_ms or at_ms
        match kind:
            case "session_meta":
                self._meta(data)
            case "turn_context":
                state.model = str(data.model or state.model)
                summary.cwd = str(data.cwd or summary.cwd)
            case "thread_settings_applied":
                state.model = str((data.thread_settings or {}).get("model") or state.model)
            case "user_message":
                self._prompt(str(data.message or ""), at_ms, document)
            case "item_completed":
                self._item(record_of(msgspec.json.decode(data.item or b"{}")), at_ms, document)
            case "task_complete":
                is_answered = data.last_agent_message is not None
                has_failed = bool(data.error) or summary.outcome == "failed"
                summary.outcome = "failed" if has_failed else "completed" if is_answered else "unknown"
            case "turn_aborted":
                summary.outcome = "interrupted"
            case _:
                summary.outcome = "failed"
        if summary.runs:
            summary.ended_ms = max(summary.ended_ms, at_ms)

    def _meta(self, data: _Payload) -> None:
        summary, source = self.summary, record_of(data.source)
        summary.cwd = str(data.cwd or summary.cwd)
        summary.version = str(data.cli_version or summary.version)
        spawn = record_of(record_of(source.get("subagent")).get("thread_spawn"))
        summary.parent_id = str(data.parent_thread_id or spawn.get("parent_thread_id") or "")
        self.state.has_items = self.state.has_items or data.history_mode == "paginated"

    def _item(self, item: dict[str, Any], at_ms: int, document: Document) -> None:
        match item.get("type"):
            case "UserMessage":
                self._prompt(_text_of_parts(item), at_ms, document)
            case "AgentMessage":
                document.texts.append(_text_of_parts(item))
            case "CommandExecution":
                self._ran(item.get("command"), "", document)
                if self.state.commits:
                    self.state.commits.clear()
                    document.add_output(text_of(item.get("aggregated_output")))
            case "FileChange":
                for path in record_of(item.get("changes")):
                    document.files[f"w {path}"] = None
            case _:
                pass

    def _prompt(self, prompt: str, at_ms: int, document: Document) -> None:
        summary, state = self.summary, self.state
        summary.runs += 1
        summary.prompt = summary.prompt or masked(prompt[:LONGEST_PROMPT])
        summary.started_ms = summary.started_ms or at_ms
        summary.outcome, summary.model = "unknown", state.model or summary.model
        document.texts.append(prompt)
        self.runs.append(StoredRun(summary.runs, at_ms, prompt))

    def _called(self, call: _Payload, document: Document) -> None:
        if call.action is not None:
            self._ran(record_of(call.action).get("command"), call.call_id, document)
        elif call.name in SHELLS:
            arguments = _decode_asked(call.arguments)
            self._ran(arguments.command if arguments.cmd is None else arguments.cmd, call.call_id, document)
        elif call.name == "apply_patch":
            call_arguments = arguments_of(call.arguments if call.input is None else call.input)
            patch = (
                call_arguments
                if isinstance(call_arguments, str)
                else first_text(record_of(call_arguments), "input", "patch")
            )
            for _kind, path in PATCHED.findall(patch):
                document.files[f"w {path.strip()}"] = None

    def _ran(self, command: Any, call_id: str, document: Document) -> None:
        if isinstance(command, str):
            line = command
        else:
            words = [word for word in items_of(command) if isinstance(word, str)]
            line = words[-1] if words[1:2] == ["-lc"] else " ".join(words)
        if line and document.add_command(line):
            self.state.commits.append(call_id)

    def _answered(self, call: _Payload, document: Document) -> None:
        if call.call_id in self.state.commits:
            self.state.commits.remove(call.call_id)
            document.add_output(output_of(msgspec.json.decode(call.output or b'""')))

    def _usage_record(self, data: _Payload, timestamp: str) -> None:
        if data.thread_id in (None, "", self.session.session_id) and data.usage is not None:
            self.state.has_calls = True
            self._count(_classes_of(data.usage), timestamp, data.response_id or "")

    def _token_count(self, info: _Info | None, timestamp: str) -> None:
        if info is None or info.total_token_usage is None or self.state.has_calls or not self.summary.runs:
            return
        total, before = _classes_of(info.total_token_usage), self.state.total
        if not any(count is not None for count in total):
            return
        is_new = (total[0] or 0) < (before[0] or 0)
        self.state.total = total
        self._count(total if is_new else _minus(total, before), timestamp, "")

    def _count(self, counts: _Classes, timestamp: str, key: str) -> None:
        run, model = self.summary.runs, self.summary.model
        if not run or not any(counts):
            return
        if key:
            over = prompt_size(Usage(input=counts[0], cache_read=counts[2], cache_write=counts[3]))
            self._used_tokens.append(
                UsedTokens(key, run, time_of(timestamp), model, (*counts, None, None), over=over)
            )
            return
        where = run, timestamp[:_MINUTE], model
        before = self._sums.get(where)
        self._sums[where] = (timestamp, counts) if before is None else (before[0], _plus(before[1], counts))


def _text_in(message: Any) -> str:
    if not isinstance(message, str):
        raise CannotScan
    return message


def _text_of_parts(item: dict[str, Any]) -> str:
    return "".join(text_of(record_of(part).get("text")) for part in items_of(item.get("content")))


def _classes_of(counts: _Counts) -> _Classes:
    """Codex counts cached tokens into the input, and reasoning into the output."""
    cached, cache_writes = counts.cached_input_tokens, counts.cache_write_input_tokens
    reasoning, input, output = counts.reasoning_output_tokens, counts.input_tokens, counts.output_tokens
    return (
        None if input is None else max(0, input - (cached or 0) - (cache_writes or 0)),
        None if output is None else max(0, output - (reasoning or 0)),
        cached,
        cache_writes,
        reasoning,
    )


def _minus(total: _Classes, before: _Classes) -> _Classes:
    """A class that was not known before counts whole."""
    a, b, c, d, e = total
    f, g, h, i, j = before
    return _less(a, f), _less(b, g), _less(c, h), _less(d, i), _less(e, j)


def _less(count: int | None, before: int | None) -> int | None:
    return count if count is None or before is None else count - before if count > before else 0


def _plus(first: _Classes, right: _Classes) -> _Classes:
    a, b, c, d, e = first
    f, g, h, i, j = right
    return _more(a, f), _more(b, g), _more(c, h), _more(d, i), _more(e, j)


def _more(first: int | None, right: int | None) -> int | None:
    return right if first is None else first if right is None else first + right


def _scan(session: StoredSession, state: bytes) -> Iterator[Reading]:
    return scanned(_CodexScan, _State, session, state)


def _texts(
    session: StoredSession, _file: str, start: int, end: int, needles: Sequence[bytes]
) -> Iterator[StoredText]:
    for line in lines_between(session.path, start, end, needles):
        kind = _message_type(line[:HEAD_BYTES])
        if kind is None:
            continue
        try:
            record = _decode(line)
        except DECODE_ERRORS:
            continue
        item = record_of(record.payload.get("item"))
        text = _text_of_parts(item) if item else text_of(record.payload.get("message"))
        if text:
            yield StoredText(time_of(record.timestamp), _ROLES[kind[1]], text)


SCANNER = StoreScanner(_scan, _texts)
