"""Codex: `codex exec --json`, from 0.50 on.

thread.started               the session; again, with the same id, when it is resumed
turn.started                 a turn begins: one per process, unless Codex continues by itself
item.started … completed     what the agent says and does; only to-do lists are also `item.updated`
error                        a retry, or what `turn.failed` says once more
turn.completed, turn.failed  the turn has ended; a process that dies before has been interrupted

What Codex shows on stderr only is a warning here: calls that it refused (`tools::router`), above all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import ClassVar

from harness.agents.codex.driver import CodexAppServer
from harness.agents.codex.items import (
    CALLS,
    CallItem,
    CodexThreads,
    includes,
    stderr_events,
    success_of,
    usage_of,
)
from harness.agents.codex.limits import LIMITS, limit_code, stated_limits
from harness.agents.codex.threads import CodexThreadTranslator
from harness.agents.codex.tools import CODEX
from harness.config.settings import to_toml
from harness.contracts.agent import Agent, CommandFiles, CommandLine, TwoWay, UserGrants, Version
from harness.contracts.command_line import argument_of, has, numbers_of
from harness.contracts.request import Request
from harness.contracts.translator import Ending, Record, own_share
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Operation
from harness.formats.error_messages import plain
from harness.formats.fields import (
    continuation,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.limit_windows import StatedWindows
from harness.log.raw import RawStart
from harness.protocols.plain_answer import PlainAnswer

_COUNTS_THREADS_SINCE: Version = (0, 78)
"""Until then the usage of a resumed run was its own; from then on it is that of the whole thread."""

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--dangerously-bypass-approvals-and-sandbox"],
    "read-only": ["--sandbox", "read-only"],
    "agent-default": [],
}


def _untrusted(request: Request) -> list[str]:
    """With full access it takes every folder for trusted, unless it is told otherwise."""
    if request.folder_settings != "none":
        return []
    return ["-c", f'projects={{{json.dumps(request.cwd)}={{trust_level="untrusted"}}}}']


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin. Options stand before `resume`, which itself knows few of them."""
    del version
    args = [
        "exec",
        "--json",
        "--skip-git-repo-check",
        *_untrusted(request),
        *_PERMISSIONS[request.permissions],
    ]
    if request.model:
        args += ["--model", request.model]
    if request.effort:
        args += ["--config", f"model_reasoning_effort={to_toml(request.effort)}"]
    args += request.extra_args
    if request.resume:
        args += ["resume", request.resume, "-"]
    elif request.continue_last:
        # Without a `-`, which 0.50 would take for the id of a session: stdin is read all the same.
        args += ["resume", "--last"]
    else:
        args.append("-")
    return CommandLine(args=tuple(args), stdin=request.prompt_bytes)


_CONVERSATION_SINCE: Version = (0, 130)


def conversation_command(request: Request, version: Version) -> CommandLine:
    """Everything else is sent in the conversation."""
    args = ("app-server", *_untrusted(request), *request.extra_args, *_without_unasked(request, version))
    return CommandLine(args=args)


_TERMINALS_SINCE: Version = (0, 154)
"""From then on, commands can run in the background without a terminal that can be written to."""
_ASKS_SINCE: Version = (0, 166)
"""The first that was seen to ask about everything. 0.147 still runs what it takes for reading by the last name of a program
(`./tools/cat`), and 0.146 shows images of anywhere: they are held neither to asking nor to reading.
"""


def _without_unasked(request: Request, version: Version) -> list[str]:
    """Where everything is to be asked about it has none of what it does without asking.

    It shows its model images of anywhere, has its provider search the web, and writes what it likes to a program that was
    allowed once, such as an interpreter.
    """
    if request.permissions not in ("ask", "read-only"):
        return []
    writing = "features.unified_exec_tty" if version >= _TERMINALS_SINCE else "features.unified_exec"
    settings = ("features.view_image=false", f"{writing}=false", 'web_search="disabled"')
    return [part for setting in settings for part in ("-c", setting)]


_RETRY = re.compile(r"Re-?connecting\b")
_COMPACTED = re.compile(r"Compact task completed|Heads up: Long \w+ and multiple compactions .*", re.DOTALL)
"""What older versions say when they have shortened the context: first as if the model had, later as a notice."""
_THREAD_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OWN_CODE = "agent_error"
"""Of an error that has no name."""
_ITEM_SYNONYMS = {"message": "agent_message", "command": "command_execution", "shell": "command_execution"}


class CodexTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "thread.started": "_thread_started",
        "thread.completed": "_thread_completed",
        "turn.started": "_turn_started",
        "turn.completed": "_turn_completed",
        "turn.failed": "_turn_failed",
        "error": "_error",
        LIMITS: "_limits",
        "item.completed/agent_message": "_message",
        "item.completed/context_compaction": "_compaction",
        "item.completed/reasoning": "_reasoning",
        "item.completed/error": "_notice",
        **{f"{step}/todo_list": "_tasks" for step in ("item.started", "item.updated", "item.completed")},
        **{f"item.started/{kind}": "_call_started" for kind in CALLS},
        **{f"item.updated/{kind}": "_call_updated" for kind in CALLS},
        **{f"item.completed/{kind}": "_call_ended" for kind in CALLS},
    }

    def __init__(self) -> None:
        super().__init__()
        self._is_turn_open = False
        self._held_error: Error | None = None
        """An error that `turn.failed` is expected to repeat."""
        self._open: dict[str, list[Operation]] = {}
        """Calls that have started, with their operations."""
        self._shown_output: dict[str, str] = {}
        """Call → its output, as far as it was emitted."""
        self._unfinished: dict[str, Record] = {}
        """Items that are emitted when they have ended: messages, and unknown ones."""
        self._children = CodexThreads()
        self._limit_windows = StatedWindows()
        self._last_tasks: list[Task] | None = None
        self._thread_id = ""
        self._asked_thread = ""
        """The thread to resume, if it was named."""
        self._thread_total = Usage()
        self._usage_so_far = Usage()

    def begin(self, start: RawStart) -> None:
        """Whether a run's usage includes earlier runs of its thread depends on how it was started."""
        super().begin(start)
        is_counted = has(numbers_of(start.version), _COUNTS_THREADS_SINCE)
        self.counts_whole_session = is_counted and not {"resume", "fork"}.isdisjoint(start.argv)
        resume_id = argument_of(start.argv, "resume")
        self._asked_thread = resume_id if _THREAD_ID.fullmatch(resume_id) else ""

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        if not kind.startswith("item."):
            return kind
        item_kind = text_of(record_of(record.get("item")).get("type"))
        step = "item.completed" if kind == "item.created" else kind
        return f"{step}/{_ITEM_SYNONYMS.get(item_kind, item_kind)}"

    def record(self, record: Record) -> Sequence[Event]:
        out: list[Event] = []
        if self._held_error is not None and record.get("type") != "turn.failed":
            out.append(self._held_error)
            self._held_error = None
        events = super().record(record)
        item = record.get("item")
        if isinstance(item, dict) and (self.rule == "unknown" or self._unfinished):
            events = self._item(text_of(record.get("type")), item, events)
        return [*out, *events] if out else events

    def _item(self, step: str, item: Record, events: Sequence[Event]) -> Sequence[Event]:
        """One that is not understood yet is emitted when it has ended, at the latest when the run has."""
        item_id = text_of(item.get("id"))
        if self.rule != "unknown":
            self._unfinished.pop(item_id, None)
            return events
        if item_id and step in ("item.started", "item.updated"):
            self.rule = step
            self._unfinished[item_id] = item
            return ()
        self._unfinished.pop(item_id, None)
        return [Unknown(raw=item)]

    def stderr(self, line: str) -> Sequence[Event]:
        self.rule, events = stderr_events(line)
        return events

    def finish(self, ending: Ending) -> Sequence[Event]:
        unfinished = [Unknown(raw=item) for item in self._unfinished.values()]
        return [*super().finish(ending), *unfinished, *self._share(ending), *self._how_it_ended(ending)]

    def _share(self, ending: Ending) -> list[Event]:
        """Of a resumed thread: what this run has added to it."""
        if not self.counts_whole_session or not self._thread_total.without_zeros():
            return []
        return own_share(self._thread_total, ending.earlier_usage, whole="Codex counts whole threads")

    def _how_it_ended(self, ending: Ending) -> Sequence[Event]:
        if self._held_error is not None:
            error, self._held_error = self._held_error, None
            return [_as_failure(error), Result(success=False, outcome="failed")]
        is_seen = ending.exit_code is not None or ending.signal is not None
        if not self._is_turn_open or not is_seen or ending.outcome is not None:
            return ()
        how = f"exit code {ending.exit_code}" if ending.signal is None else f"signal {ending.signal}"
        return [Error(message=f"Codex ended in the middle of a turn ({how})", code="missing_end")]

    def _thread_started(self, record: Record) -> Sequence[Event]:
        thread_id = text_of(record.get("thread_id"))
        if thread_id != self._thread_id:
            self._thread_total = Usage()
        if self._asked_thread and thread_id != self._asked_thread:
            self.counts_whole_session = False  # some versions begin a new one where there is none of that id
        self._thread_id = thread_id
        return [SessionStart(session_id=thread_id, agent="codex", model=text_of(record.get("model")))]

    def _thread_completed(self, record: Record) -> Sequence[Event]:
        self._is_turn_open = False
        return [
            Result(
                success=True, text=first_text(record, "summary", "result"), usage=self._usage_so_far or None
            )
        ]

    def _turn_started(self, _record: Record) -> Sequence[Event]:
        self._is_turn_open = True
        return ()

    def _turn_completed(self, record: Record) -> Sequence[Event]:
        self._is_turn_open = False
        return [
            *self._usage(record_of(record.get("usage"))),
            Result(success=True, usage=self._usage_so_far or None),
        ]

    def _usage(self, data: Record) -> list[Event]:
        """The total of the thread so far → what was added since the last record."""
        total = usage_of(data)
        if not total:
            return []
        if self.counts_whole_session:
            self._thread_total = total
            return []  # how much of it is this run's is known at the end
        added = total.minus(self._thread_total) if includes(total, self._thread_total) else total
        self._thread_total = total
        self._usage_so_far = self._usage_so_far.plus(added)
        if not any((added.input, added.output, added.cache_read, added.cache_write, added.reasoning)):
            return []
        return [UsageDelta(usage=added)]

    def _turn_failed(self, record: Record) -> Sequence[Event]:
        self._is_turn_open = False
        error = record_of(record.get("error"))
        message = plain(first_text(error, "message") or first_text(record, "error", "message"))
        earlier_error, self._held_error = self._held_error, None
        is_other = earlier_error is not None and message not in ("", earlier_error.message)
        limit = limit_code(error)
        code = limit or first_text(error, "code") or text_of(record.get("code"))
        if earlier_error is None or is_other:
            failure = Error(message=message or "turn failed", code=code or "turn_failed")
        else:
            failure = (
                Error(message=earlier_error.message, code=limit) if limit else _as_failure(earlier_error)
            )
        failed = Result(success=False, outcome="failed", usage=self._usage_so_far or None)
        return [*([earlier_error] if earlier_error is not None and is_other else []), failure, failed]

    def _error(self, record: Record) -> Sequence[Event]:
        message = plain(first_text(record, "message", "error")) or "Codex reported an error without a message"
        if _RETRY.match(message):
            return [Warning(message=message, code="retry")]
        self._held_error = Error(message=message, code=_code_of(record) or _OWN_CODE)
        return ()

    def _limits(self, record: Record) -> Sequence[Event]:
        """Only rollouts say it; the rewording writes it as `codex app-server` would."""
        return self._limit_windows.take(stated_limits(record))

    def _message(self, record: Record) -> Sequence[Event]:
        item = record_of(record.get("item"))
        text = _message_text(item)
        if text is None:
            self.rule = "unknown"
            return ()
        if not text:
            return ()
        match item.get("role"):
            case "user" | "system" as role:
                return [Message(role=role, text=text)]
            case _:
                message = Message(role="assistant", text=text)
                return [Compacted(), message] if _COMPACTED.fullmatch(text) else [message]

    def _reasoning(self, record: Record) -> Sequence[Event]:
        item = record_of(record.get("item"))
        text = first_text(item, "text") or output_of(item.get("summary") or item.get("content"))
        return [ReasoningDelta(id=text_of(item.get("id")), text=text)] if text else ()

    def _compaction(self, _record: Record) -> Sequence[Event]:
        return [Compacted()]

    def _notice(self, record: Record) -> Sequence[Event]:
        message = plain(first_text(record_of(record.get("item")), "message", "text"))
        notice = Warning(message=message or "Codex warned without a message", code="notice")
        return [Compacted(), notice] if _COMPACTED.fullmatch(message) else [notice]

    def _tasks(self, record: Record) -> Sequence[Event]:
        """The list comes once more when the turn ends; only a change is emitted."""
        items = [record_of(item) for item in items_of(record_of(record.get("item")).get("items"))]
        tasks = [
            Task(
                text=first_text(item, "text", "step"),
                status="completed" if item.get("completed") is True else "pending",
            )
            for item in items
        ]
        if tasks == self._last_tasks:
            return ()
        self._last_tasks = tasks
        return [TasksChanged(tasks=tasks)]

    def _call_of(self, record: Record) -> tuple[str, Record, CallItem | None]:
        item = record_of(record.get("item"))
        describe = CALLS[self.rule.partition("/")[2]]
        call = describe(item, self.working_directory)
        if call is None:
            self.rule = "unknown"
            return "", item, None
        return text_of(item.get("id")) or call.tool_name, item, call

    def _call_started(self, record: Record) -> Sequence[Event]:
        call_id, _item, call = self._call_of(record)
        # What is searched for is known only at the end, and a call without it would say nothing.
        if call is None or call.tool_name == "web_search":
            return ()
        return [self._start(call_id, call)]

    def _call_updated(self, record: Record) -> Sequence[Event]:
        call_id, _item, call = self._call_of(record)
        if call is None or call_id not in self._open:
            return ()
        before, self._shown_output[call_id] = self._shown_output.get(call_id, ""), call.output or ""
        new = continuation(before, call.output or "")
        return [ToolProgress(call_id=call_id, text=new)] if new else ()

    def _start(self, call_id: str, call: CallItem) -> ToolStart:
        self._open[call_id] = call.operations
        return ToolStart(
            call_id=call_id,
            tool_name=call.tool_name,
            input=call.input,
            operations=call.operations,
        )

    def _call_ended(self, record: Record) -> Sequence[Event]:
        call_id, item, call = self._call_of(record)
        if call is None:
            return ()
        out: list[Event] = [] if call_id in self._open else [self._start(call_id, call)]
        children, operations = self._children.after(item, call_id)
        out.extend(children)
        start = self._open.pop(call_id)
        operations = operations or call.operations
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.tool_name,
                success=success_of(item),
                output=call.output,
                exit_code=exit_code_of(item.get("exit_code")),
                operations=operations if operations != start else None,
                raw=call.raw,
            )
        )
        return out


def _code_of(record: Record) -> str:
    """The error's own name, where it has one."""
    return text_of(record.get("code")) or text_of(record_of(record.get("error")).get("code"))


def _as_failure(error: Error) -> Error:
    """What ended the turn."""
    return Error(message=error.message, code="turn_failed") if error.code == _OWN_CODE else error


def _message_text(item: Record) -> str | None:
    """None: the message has an unknown shape."""
    text = item.get("text", item.get("content", ""))
    if isinstance(text, list):
        return "".join(text_of(record_of(part).get("text")) for part in text)
    return text if isinstance(text, str) else None


_SUPPORTS = frozenset({"agent-default", "continue_last", "effort", "model", "read-only", "resume"})

AGENT = Agent(
    name="codex",
    title="Codex",
    aliases=("openai-codex",),
    binaries=("codex",),
    leaves_settings=True,
    grants=UserGrants(
        files=tuple(
            f"{folder}/{name}"
            for folder in ("$CODEX_HOME", "~/.codex", "/etc/codex", ".codex")
            for name in ("rules/*.rules", "policy/*.codexpolicy", "policy/*.execpolicy")
        ),
        rule=r"\b\w*rule\s*\(",
        harmless=r"decision\s*=\s*[\"'](?:prompt|forbidden)[\"']",
    ),
    homes=("~/.codex/", "$CODEX_HOME/"),
    command=command,
    translator=CodexTranslator,
    supports=_SUPPORTS,
    since={"read-only": _ASKS_SINCE},
    needs_version=True,
    command_files=(CommandFiles(folders=("~/.codex/prompts", "$CODEX_HOME/prompts"), is_taken=False),),
    screen_resume=("resume", "{id}"),
    two_way=TwoWay(
        command=conversation_command,
        driver=CodexAppServer,
        translator=CodexThreadTranslator,
        capabilities=CodexAppServer.capabilities
        - {"plan"},  # only its plan mode has them, which no request asks for
        tools=CODEX,
        supports=_SUPPORTS
        | {"append_system_prompt", "fork", "output_schema", "system_prompt", "tool_servers"},
        since=_CONVERSATION_SINCE,
        asks_since=_ASKS_SINCE,
        delta_keys=("delta",),
    ),
    key_variables=("CODEX_API_KEY", "OPENAI_API_KEY"),
    install="npm install -g @openai/codex",
    login="codex login",
    reveals={
        "deltas": "none: messages come whole",
        "reasoning": "summaries; never the reasoning itself",
        "tools": "commands, file changes, MCP calls and web searches; arguments and results of MCP calls since 0.58",
        "refused_calls": "on stderr only; a command that the sandbox stops at once is not shown at all",
        "compaction": "until about 0.98, and never how much",
        "hidden": "images that it looks at, goals, questions to the user, pauses",
        "files": "which ones changed and how; of a moved file only the old path; reads only as far as commands show them",
        "working_directory": "not stated per command: relative paths are seen from where the run began",
        "sub_agents": "begin, end and last words, when the main agent asks for them; nothing of those that code mode spawns",
        "usage": "per turn, without sub-agents; reasoning since 0.130, cache writes since 0.150; of a resumed "
        "session since 0.78 the total of all its runs, of which those recorded here are taken off",
        "cost": "never",
        "retries": "yes",
        "tasks": "done or not done",
    },
)
