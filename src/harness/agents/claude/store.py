"""Claude Code: `~/.claude/projects/<project>/<session>.jsonl`, sub-agents in `<session>/subagents/`.

A file is a tree of records that grows by whole lines. Its order is taken, not the tree's: parallel results hang each
on its own call, so that a chain of parents would lose calls.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.agents.claude.compaction_calls import SUB_AGENT_TOOLS, CompactionCalls, Counts
from harness.agents.claude.stored_prompts import INTERRUPTION, UNFINISHED, prompt_of, words_of
from harness.contracts.history import (
    Activity,
    AgentHistory,
    Home,
    StoredRecord,
    StoredSession,
    StoreScanner,
)
from harness.contracts.rewording import Rewording
from harness.contracts.stored_times import milliseconds
from harness.contracts.translator import Record
from harness.formats.fields import count_of, first_text, items_of, record_of, text_of
from harness.log.raw import RawEntry
from harness.protocols.reading.processes import is_same_process
from harness.protocols.reading.store_files import (
    document,
    files_in,
    folders_in,
    json_lines,
    sessions_in,
)

_SUFFIX = ".jsonl"
_SIDECHAIN = "agent-"
"""How older versions name the file of a sub-agent, beside its session's."""
_PARENT = "parent_tool_use_id"
_CAVEAT = "<local-command-caveat>"
_SYNTHETIC_MODEL = "<synthetic>"
_SHELL_OUTPUT = re.compile(
    r"\s*<bash-stdout>(.*?)</bash-stdout>(?:<bash-stderr>(.*?)</bash-stderr>)?\s*", re.DOTALL
)
_COUNTS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_input_tokens",
    "cacheCreationInputTokens": "cache_creation_input_tokens",
}
_STATED = (*_COUNTS, "thinkingTokens", "cacheCreationEphemeral1hInputTokens")
_CONSUMED = (
    "agent-name",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "attachment",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "progress",
    "queue-operation",
    "system/away_summary",
    "system/local_command",
    "system/stop_hook_summary",
    "system/turn_duration",
    "tools-used",
)
"""What was put into the prompt, what the screen needs, and what other records repeat."""


class ClaudeRewording(Rewording):
    waits_for_model = True
    rules: ClassVar[dict[str, str]] = {
        **dict.fromkeys(_CONSUMED, ""),
        "ai-title": "_titled",
        "custom-title": "_titled",
        "summary": "_titled",
        "assistant": "_assistant",
        "user": "_user",
        "system/api_error": "_api_error",
        "system/compact_boundary": "_compacted",
        "cost-state": "_cost_stated",
    }

    def __init__(self, session: StoredSession) -> None:
        super().__init__(session)
        self._last: dict[str, Any] = {}
        """The model's last answer, as far as it is known."""
        self._usage: dict[tuple[str, str], tuple[str, Record]] = {}
        """Message and request → model and usage; of several lines of a message the last counts."""
        self._counted_usage: dict[tuple[str, str], Record] = {}
        self._message = ("", "")
        self._boundary: Record | None = None
        self._is_interrupted = False
        self._compactions = CompactionCalls()

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        return f"system/{text_of(record.get('subtype'))}" if kind == "system" else kind

    def opening(self) -> None:
        self._last, self._usage, self._counted_usage = {}, {}, {}
        self._message, self._is_interrupted = ("", ""), False
        self.put(
            {
                "type": "system",
                "subtype": "init",
                "session_id": self.session.session_id,
                "cwd": self.cwd,
                "claude_code_version": self.version,
            }
        )
        if self._boundary is not None:
            self.put(self._boundary)
            self._boundary = None

    def finish(self) -> Sequence[RawEntry]:
        if self._boundary is not None:
            self.put(self._boundary)
        return super().finish()

    def closing(self) -> None:
        self._end_message()
        is_failed = self._last.get("model") == _SYNTHETIC_MODEL
        stop_reason = text_of(self._last.get("stop_reason"))
        if stop_reason not in UNFINISHED and not self._is_interrupted:
            self.outcome = "completed"
        blocks = [record_of(block) for block in items_of(self._last.get("content"))]
        self.put(
            {
                "type": "result",
                "subtype": "error_during_execution" if self._is_interrupted else "success",
                "is_error": is_failed,
                "result": "".join(text_of(block.get("text")) for block in blocks),
                "session_id": self.session.session_id,
                "stop_reason": stop_reason,
                "modelUsage": self._totals(),
            }
        )

    def _titled(self, record: Record) -> None:
        self.title = first_text(record, "customTitle", "aiTitle", "summary") or self.title

    def _assistant(self, record: Record) -> None:
        message = record_of(record.get("message"))
        model, parent = text_of(message.get("model")), text_of(record.get(_PARENT))
        key = (text_of(message.get("id")), text_of(record.get("requestId")))
        if not parent and key != self._message:
            self._end_message()
            self._message = key
        self._note(record)
        line: Record = {"type": "assistant", "message": message, _PARENT: parent or None}
        if record.get("isApiErrorMessage") is True:
            line |= {"is_api_error_message": True, "error": record.get("error")}
        if agent_id := text_of(record.get("agentId")):
            line |= {"agent_id": agent_id, "subagent_type": record.get("attributionAgent")}
        self.put(line)
        if model != _SYNTHETIC_MODEL:
            self._usage[key] = model, record_of(message.get("usage"))
            if not parent:
                self.know_model(model)
                self._compactions.answer(key[0], model, _counts_of(record_of(message.get("usage"))))
                if any(
                    record_of(block).get("name") in SUB_AGENT_TOOLS
                    for block in items_of(message.get("content"))
                ):
                    self._compactions.has_sub_agents = True
        if not parent:
            self._last = message

    def _user(self, record: Record) -> None:
        parent = text_of(record.get(_PARENT))
        if not parent:
            self._end_message()
        self._note(record)
        content = record_of(record.get("message")).get("content")
        prompt = None if parent else prompt_of(record, content)
        if prompt is not None:
            self.begin(prompt)
            return
        text = "" if parent else words_of(content).lstrip()
        if record.get("isCompactSummary") is True or text.startswith(_CAVEAT):
            return  # for the model alone
        self._is_interrupted = self._is_interrupted or text.startswith(INTERRUPTION)
        if text.startswith("<local-command-stdout>") and not self._last:
            self.outcome = "completed"  # a command that needs no model
        line: Record = {
            "type": "user",
            "message": {"role": "user", "content": _as_shown(content)},
            _PARENT: parent or None,
        }
        if "toolUseResult" in record:
            line["tool_use_result"] = record["toolUseResult"]
        if record.get("isMeta") is True:
            line["isSynthetic"] = True
        self.put(line)

    def _api_error(self, record: Record) -> None:
        self._note(record)
        error = record_of(record.get("error"))
        self.put(
            {
                "type": "system",
                "subtype": "api_retry",
                "attempt": record.get("retryAttempt"),
                "max_retries": record.get("maxRetries"),
                "retry_delay_ms": record.get("retryInMs"),
                "error_status": error.get("status"),
                "error": error.get("formatted") or error.get("message"),
            }
        )

    def _compacted(self, record: Record) -> None:
        """A command of the user leads to it, and is written after it: it belongs to the run that comes then."""
        self._end_message()
        self._note(record)
        self._compactions.compact(text_of(record.get("uuid")), is_first=not self.is_open)
        data = record_of(record.get("compactMetadata"))
        line = {
            "type": "system",
            "subtype": "compact_boundary",
            "compact_metadata": {
                "trigger": data.get("trigger"),
                "pre_tokens": data.get("preTokens"),
                "post_tokens": data.get("postTokens"),
            },
        }
        if data.get("trigger") == "manual":
            self._boundary = line
        else:
            self.put(line)

    def _cost_stated(self, record: Record) -> None:
        totals = {
            model: _totals_of(record_of(usage))
            for model, usage in record_of(record.get("modelUsage")).items()
        }
        for call in self._compactions.state(totals):
            self._end_message()
            usage = _usage_of(call.counts)
            self._usage[call.id, ""] = call.model, usage
            self._put_usage(call.id, call.model, usage)

    def _note(self, record: Record) -> None:
        self.at(milliseconds(record.get("timestamp")))
        self.cwd = text_of(record.get("cwd")) or self.cwd
        self.version = text_of(record.get("version")) or self.version

    def _end_message(self) -> None:
        """The usage of an answer, when it is complete, as its stream has it.

        The results of its first calls may come before its last call: only what is new is counted then.
        """
        message_id, _request_id = key = self._message
        model, usage = self._usage.get(key, ("", {}))
        before, self._counted_usage[key] = self._counted_usage.get(key, {}), usage
        if not message_id or not usage or usage == before:
            return
        if before:
            usage = {
                name: (count_of(usage.get(name)) or 0) - (count_of(before.get(name)) or 0)
                for name in _COUNTS.values()
            }
        self._put_usage(message_id, model, usage)

    def _put_usage(self, message_id: str, model: str, usage: Record) -> None:
        start = {"id": message_id, "model": model, "usage": usage}
        self.put({"type": "stream_event", "event": {"type": "message_start", "message": start}})
        self.put({"type": "stream_event", "event": {"type": "message_stop"}})

    def _totals(self) -> dict[str, dict[str, int]]:
        totals: dict[str, dict[str, int]] = {}
        for model, usage in self._usage.values():
            counts = totals.setdefault(model, dict.fromkeys(_COUNTS, 0))
            for name, field in _COUNTS.items():
                counts[name] += count_of(usage.get(field)) or 0
        return totals


def _counts_of(usage: Record) -> Counts:
    """Of the usage of a message."""
    details, writes = record_of(usage.get("output_tokens_details")), record_of(usage.get("cache_creation"))
    return (
        count_of(usage.get("input_tokens")) or 0,
        count_of(usage.get("output_tokens")) or 0,
        count_of(usage.get("cache_read_input_tokens")) or 0,
        count_of(usage.get("cache_creation_input_tokens")) or 0,
        count_of(details.get("thinking_tokens")) or 0,
        count_of(writes.get("ephemeral_1h_input_tokens")) or 0,
    )


def _usage_of(counts: Counts) -> Record:
    """As the usage of a message."""
    input_tokens, output, cache_read, cache_write, thinking, for_an_hour = counts
    return {
        "input_tokens": input_tokens,
        "output_tokens": output,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_write,
        "output_tokens_details": {"thinking_tokens": thinking},
        "cache_creation": {"ephemeral_1h_input_tokens": for_an_hour},
    }


def _totals_of(usage: Record) -> Counts:
    """Of one model in a `cost-state`."""
    input_tokens, output, cache_read, cache_write, thinking, for_an_hour = (
        count_of(usage.get(name)) or 0 for name in _STATED
    )
    return input_tokens, output, cache_read, cache_write, thinking, for_an_hour


def _as_shown(content: Any) -> Any:
    """The output of a command that the user ran, as that of the agent's own commands."""
    shell = _SHELL_OUTPUT.fullmatch(content) if isinstance(content, str) else None
    if shell is None:
        return content
    output = "\n".join(filter(None, (shell[1], shell[2])))
    return f"<local-command-stdout>{output}</local-command-stdout>"


def place(home: Home) -> str:
    return home.folder(".claude", variable="CLAUDE_CONFIG_DIR", below=("projects",))


def find(home: Home) -> Iterator[StoredSession]:
    for _name, folder in folders_in(place(home)):
        for session in sessions_in(folder, _SUFFIX, "claude"):
            is_child = session.session_id.startswith(_SIDECHAIN)
            yield replace(session, is_child=True) if is_child else session


def records(session: StoredSession) -> Iterator[StoredRecord]:
    """Those of sub-agents come before the result of the call that started them, and say which call that was."""
    children = _children(session.path.removesuffix(_SUFFIX))
    yield from _with_children(session.path, "", children)
    for path, call_id in list(children.values()):  # they have not answered yet
        yield from _with_children(path, call_id, {})


def current_records(session: StoredSession) -> Iterator[StoredRecord]:
    """Without prompts that were taken back, up to the next prompt."""
    rewound = _rewound_prompts(session)
    is_left_out = False
    for record in records(session):
        if not isinstance(record, str) and not record.get(_PARENT) and _is_prompt(record):
            is_left_out = text_of(record.get("uuid")) in rewound
        if not is_left_out:
            yield record


def rewound(session: StoredSession) -> int:
    return len(_rewound_prompts(session))


def _rewound_prompts(session: StoredSession) -> frozenset[str]:
    """The prompts from which no chain of parents leads to the last record.

    Where the chain ends at a record that is no prompt, such as a summary, nothing is known of what is older.
    """
    above: dict[str, str] = {}
    prompts: list[str] = []
    last = ""
    for record in json_lines(session.path):
        if isinstance(record, str) or record.get("isSidechain") is True:
            continue
        record_id = text_of(record.get("uuid"))
        if not record_id:
            continue
        above[record_id] = first_text(record, "parentUuid", "logicalParentUuid")
        if _is_prompt(record):
            prompts.append(record_id)
        if record.get("type") in ("user", "assistant"):
            last = record_id
    chain: dict[str, None] = {}
    while last in above and last not in chain:
        chain[last] = None
        last = above[last]
    first = next(reversed(chain), "")
    order = {record_id: number for number, record_id in enumerate(above)}
    oldest = 0 if first in prompts else order.get(first, 0)
    return frozenset(prompt for prompt in prompts if prompt not in chain and order[prompt] >= oldest)


def _is_prompt(record: Record) -> bool:
    content = record_of(record.get("message")).get("content")
    return record.get("type") == "user" and prompt_of(record, content) is not None


def _children(folder: str) -> dict[str, tuple[str, str]]:
    """Call, or id of the sub-agent → its file and the call."""
    by_name: dict[str, tuple[str, str]] = {}
    for file in files_in(os.path.join(folder, "subagents"), _SUFFIX):
        stem = file.path.removesuffix(_SUFFIX)
        call_id = text_of(document(f"{stem}.meta.json").get("toolUseId"))
        agent_id = file.name.removeprefix(_SIDECHAIN).removesuffix(_SUFFIX)
        by_name[call_id or agent_id] = file.path, call_id
    return by_name


def _with_children(path: str, parent: str, children: dict[str, tuple[str, str]]) -> Iterator[StoredRecord]:
    for record in json_lines(path):
        if isinstance(record, str):
            yield record
            continue
        if children and record.get("type") == "user":
            for call_id, agent_id in _answered(record):
                child = children.pop(call_id, None) or children.pop(agent_id, None)
                if child is not None:
                    yield from _with_children(child[0], call_id, children)
        yield {**record, _PARENT: parent} if parent else record


def _answered(record: Record) -> Iterator[tuple[str, str]]:
    """The calls that a record has the results of, and the sub-agents that they started."""
    agent_id = text_of(record_of(record.get("toolUseResult")).get("agentId"))
    for item in items_of(record_of(record.get("message")).get("content")):
        block = record_of(item)
        if call_id := text_of(block.get("tool_use_id")):
            yield call_id, agent_id


_ACTIVITIES: dict[str, Activity] = {"busy": "busy", "shell": "busy", "waiting": "waiting", "idle": "idle"}


def live(home: Home) -> dict[str, Activity]:
    """`~/.claude/sessions/<pid>.json` of each process that has a session open."""
    by_name: dict[str, Activity] = {}
    folder = home.folder(".claude", variable="CLAUDE_CONFIG_DIR", below=("sessions",))
    for file in files_in(folder, ".json"):
        entry = document(file.path)
        session_id = text_of(entry.get("sessionId"))
        if session_id and is_same_process(count_of(entry.get("pid")), entry.get("procStart")):
            status = text_of(entry.get("status"))
            by_name[session_id] = _ACTIVITIES.get(status, "open")
    return by_name


def deleted_after_days(home: Home) -> int | None:
    """The setting `cleanupPeriodDays`; 30 where it is not set."""
    path = home.folder(".claude", variable="CLAUDE_CONFIG_DIR", below=("settings.json",))
    days = count_of(document(path).get("cleanupPeriodDays"))
    return 30 if days is None else days


def scanner() -> StoreScanner:
    from harness.agents.claude.scan import SCANNER

    return SCANNER


HISTORY = AgentHistory(
    agent="claude",
    title="Claude Code",
    place=place,
    find=find,
    records=records,
    rewording=ClaudeRewording,
    live=live,
    deleted_after_days=deleted_after_days,
    scanner=scanner,
    rewound=rewound,
    current=current_records,
)
