"""Claude Code: `claude --print --output-format stream-json`, from 1.0 on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from harness.agents.claude.driver import ENVIRONMENT, ClaudeControl
from harness.agents.claude.limits import limit_windows
from harness.contracts.agent import Agent, CommandFiles, CommandLine, TrustingSettings, TwoWay, Version
from harness.contracts.command_line import flags_of, has, numbers_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall
from harness.contracts.translator import Record
from harness.events import Error, Event, Info, RateLimits, ToolEnd, ToolProgress, Usage, Warning
from harness.events.operation import Operation, Skill
from harness.events.usage import CLASSES
from harness.formats.error_messages import retried
from harness.formats.fields import (
    amount_of,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.log.raw import RawStart
from harness.protocols.claude_tools import ANSWERS, CLAUDE, CLAUDE_1, SKILLS, SPAWNERS
from harness.protocols.model_ledger import usage_of_call
from harness.protocols.stream_json import StreamJson


class CountedCall(msgspec.Struct, frozen=True):
    model: str
    usage: Usage
    is_last: bool = False
    """It asked for no tool: the sub-agent has nothing more to do."""


class ChildUsage:
    """What sub-agents have used, by run.

    A line of a sub-agent holds the usage of its model's input; the output is not counted yet at that time. Only
    the result of the call that spawned it has the whole usage of its last model call. The rest is in the totals.
    """

    def __init__(self) -> None:
        self._calls: dict[str, dict[str, CountedCall]] = {}
        self._ends: dict[str, CountedCall] = {}

    def note_line(self, run_id: str, message: dict[str, Any]) -> None:
        usage = usage_of_call(record_of(message.get("usage")))
        message_id, calls = text_of(message.get("id")), self._calls.setdefault(run_id, {})
        if not message_id or not any(getattr(usage, name) for name in CLASSES):
            return
        asks = any(record_of(block).get("type") == "tool_use" for block in items_of(message.get("content")))
        entry = calls.get(message_id)
        asks = asks or (entry is not None and not entry.is_last)
        input_usage = replace(usage, output=None, reasoning=None)
        calls[message_id] = CountedCall(text_of(message.get("model")), input_usage, is_last=not asks)

    def note_end(self, run_id: str, detail: dict[str, Any]) -> None:
        usage = usage_of_call(record_of(detail.get("usage")))
        if any(getattr(usage, name) for name in CLASSES):
            self._ends[run_id] = CountedCall(text_of(detail.get("resolvedModel")), usage)

    def take(self, run_id: str) -> dict[str, CountedCall]:
        """Its model calls by their ids, the last one whole where that is known."""
        calls, end = self._calls.pop(run_id, {}), self._ends.pop(run_id, None)
        if end is None:
            return calls
        last_id, last = next(reversed(calls.items()), ("", CountedCall("", Usage())))
        model = end.model or last.model
        return {**calls, last_id if last.is_last else "": CountedCall(model, end.usage)}


_PARTIAL_MESSAGES_SINCE: Version = (2, 0)
_SUBAGENT_TEXT_SINCE: Version = (2, 1, 325)
_TASK_EVENTS_SINCE: Version = (2, 1)
_EXIT_CODES_SINCE: Version = (2, 0)
_MODEL_USAGE_SINCE: Version = (2, 0)

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--dangerously-skip-permissions"],
    # Its plan mode runs commands that it takes for reading. What follows the list of tools must be an option.
    "read-only": ["--disallowedTools", "Bash", "--permission-mode", "plan"],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "max_turns": "--max-turns",
    "max_budget_usd": "--max-budget-usd",
    "system_prompt": "--system-prompt",
    "append_system_prompt": "--append-system-prompt",
    "effort": "--effort",
    "resume": "--resume",
    "continue_last": "--continue",
}

_SINCE: dict[str, Version] = {"max_budget_usd": (2, 0), "effort": (2, 1, 74)}

_SYNTHETIC_MODEL = "<synthetic>"
_STATUS_IN_TEXT = re.compile(r"API Error: (\d{3})\b")
_LOCAL_COMMAND = re.compile(r"\s*<local-command-(stdout|stderr)>(.*)</local-command-\1>\s*", re.DOTALL)
_SKILL_DIRECTORY = re.compile(r"Base directory for this skill: ([^\n]+)")


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and other options would swallow it."""
    # What follows the files must be an option, or it would be taken for another file.
    servers = [*request.mcp, *(server.file for server in request.tool_servers)]
    args = ["--print", *(["--mcp-config", *servers] if servers else [])]
    args += ["--output-format", "stream-json", "--verbose"]
    if has(version, _PARTIAL_MESSAGES_SINCE):
        args.append("--include-partial-messages")
    if has(version, _SUBAGENT_TEXT_SINCE):
        args.append("--forward-subagent-text")
    flags = {name: flag for name, flag in _FLAGS.items() if has(version, _SINCE.get(name, ()))}
    args += [*_PERMISSIONS[request.permissions], *flags_of(request, flags)]
    if request.folder_settings == "none":
        args += ["--setting-sources", "user", "--strict-mcp-config"]
    args += [*(["--fork-session"] if request.fork else []), *request.extra_args]
    return CommandLine(args=tuple(args), stdin=request.prompt_bytes)


_CONVERSATION_SINCE: Version = (2, 1, 20)
"""Before it, a call that is to be asked about runs all the same."""
_ASKS_SINCE: Version = (2, 1, 197)
"""Seen up to 2.1.74: commands that it takes for reading (`git status`) run although they are to be asked about."""
_CONVERSATION_PERMISSIONS: dict[str, list[str]] = {
    **_PERMISSIONS,
    "ask": ["--permission-mode", "default"],
    # Commands are denied by the hook: after its plan was approved it needs them.
    "read-only": ["--permission-mode", "plan"],
}


def conversation_command(request: Request, version: Version) -> CommandLine:
    """Prompts and answers go through stdin, which stays open."""
    one_way = command(replace(request, permissions="agent-default"), version)
    args = [*one_way.args, "--input-format", "stream-json", "--permission-prompt-tool", "stdio"]
    args += ["--replay-user-messages", *_CONVERSATION_PERMISSIONS[request.permissions]]
    if request.output_schema is not None:
        args += ["--json-schema", msgspec.json.encode(request.output_schema).decode()]
    return CommandLine(args=tuple(args), env=ENVIRONMENT)


class ClaudeTranslator(StreamJson):
    agent = "claude"
    version_key = "claude_code_version"
    rules: ClassVar[dict[str, str]] = {
        **StreamJson.rules,
        "system/api_retry": "_api_retry",
        "system/background_tasks_changed": "",
        "system/hook_progress": "",
        "system/hook_response": "_hook_response",
        "system/hook_started": "",
        "system/informational": "_informational",
        "system/model_fallback": "_model_notice",
        "system/model_refusal_no_fallback": "_model_notice",
        "system/permission_denied": "_permission_denied",
        "system/post_turn_summary": "",
        "system/status": "",
        "system/task_notification": "_task_notification",
        "system/task_progress": "_task_progress",
        "system/task_started": "_task_started",
        "system/task_updated": "_task_updated",
        "system/thinking_tokens": "",
        "system/session_state_changed": "",
        "command_lifecycle": "",
        "control_cancel_request": "",
        "control_request": "_control_request",
        "control_response": "",
        "keep_alive": "",
        "rate_limit_event": "_rate_limit_event",
    }

    def __init__(self) -> None:
        super().__init__()
        self._denied: set[str] = set()
        """Calls whose denial was already emitted."""
        self._held_operations: list[Operation] = []
        self._child_usage = ChildUsage()
        self._states_models = False
        """Whether results include the usage of sub-agents: only then is it emitted separately."""
        self._ended_tasks: dict[str, tuple[str, str, int | None]] = {}
        """Sub-agents that have ended, and whose call is answered next: status, last words, duration."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._know_version(start.version)
        self._ledger.begin(start.carried)

    def _know_version(self, version: str) -> None:
        if version:
            self.calls.tools = CLAUDE if has(numbers_of(version), _EXIT_CODES_SINCE) else CLAUDE_1

    def _init(self, record: Record) -> Sequence[Event]:
        version = text_of(record.get(self.version_key))
        self._know_version(version)
        self.announces_tasks = numbers_of(version) >= _TASK_EVENTS_SINCE
        self._states_models = numbers_of(version) >= _MODEL_USAGE_SINCE
        return super()._init(record)

    def _assistant(self, record: Record) -> Sequence[Event]:
        message = record_of(record.get("message"))
        is_notice = message.get("model") == _SYNTHETIC_MODEL or record.get("is_api_error_message") is True
        text = output_of(message.get("content")) if is_notice else ""
        if not text:
            out = list(super()._assistant(record))
            child = self.children.find(text_of(record.get("parent_tool_use_id")))
            if child is not None:
                self._child_usage.note_line(child.run_id, message)
            return out
        out = self._begin(record)
        run_id = self._run_of(record, out)
        if "local_command_run" in record or "local_command_source" in record:
            return [*out, Info(message=text, code="local_command", run_id=run_id)]
        self.has_failed = self.has_failed or not run_id
        return [*out, Error(message=text, code=_error_code(record, text), run_id=run_id)]

    def _user(self, record: Record) -> Sequence[Event]:
        if record.get("isReplay") is True:
            record = _without_attachments(record)
        return super()._user(record)

    def _user_text(self, record: Record, text: str, run_id: str) -> list[Event]:
        output = _LOCAL_COMMAND.fullmatch(text)
        if output is not None and output[2]:
            return [Info(message=output[2], code="local_command", run_id=run_id)]
        if record.get("isReplay") is True:
            self.rule = "user/replay"
            return []
        return super()._user_text(record, text, run_id)

    def _tool_result(self, block: Record, detail: Any, run_id: str) -> list[Event]:
        call = self.calls.open.get(text_of(block.get("tool_use_id")))
        events = super()._tool_result(block, detail, run_id)
        if call is not None and call.name in SKILLS and block.get("is_error") is not True:
            self._pending.extend(events)
            self._held_operations = call.operations
            return []
        if call is not None and call.name in ANSWERS:
            return [
                replace(event, operations=[]) if isinstance(event, ToolEnd) else event for event in events
            ]
        return events

    def _spawned(self, call: PendingCall, block: Record, detail: Record) -> list[Event]:
        child = self.children.find(call.id)
        if child is not None:
            self._child_usage.note_end(child.run_id, detail)
        task_end = self._ended_tasks.pop(call.id, None)
        return (
            super()._spawned(call, block, detail) if task_end is None else self.end_child(call.id, *task_end)
        )

    def end_child(self, call_id: str, status: str, text: str, duration_ms: int | None = None) -> list[Event]:
        child = self.children.find(call_id)
        run_id = "" if child is None else child.run_id
        child_usage = self._child_usage.take(run_id) if run_id and self._states_models else {}
        events = [
            replace(self._ledger.call(call.model, call.usage, name), run_id=run_id)
            for name, call in child_usage.items()
        ]
        return [*events, *super().end_child(call_id, status, text, duration_ms)]

    def amend(self, events: list[Event], record: Record) -> list[Event]:
        """Where a skill lies is only in the text that it then puts into the conversation."""
        content = record_of(record.get("message")).get("content")
        match = _SKILL_DIRECTORY.match(output_of(content)) if record.get("type") == "user" else None
        if match is None:
            return events
        placed = _placed(self._held_operations, match[1].strip())
        return [
            replace(event, operations=placed) if isinstance(event, ToolEnd) else event for event in events
        ]

    def _result(self, record: Record) -> Sequence[Event]:
        out = list(super()._result(record))
        for item in items_of(record.get("permission_denials")):
            out.extend(self._permission_denied(record_of(item)))
        return out

    def _permission_denied(self, record: Record) -> list[Event]:
        call_id = text_of(record.get("tool_use_id"))
        if call_id in self._denied:
            return []
        self._denied.add(call_id)
        call = self.calls.open.get(call_id)
        name = text_of(record.get("tool_name")) or "a tool"
        reason = first_text(record, "message", "decision_reason")
        message = f"permission denied: {name}: {reason}" if reason else f"permission denied: {name}"
        run_id = call.run_id if call is not None else ""
        return [Warning(message=message, code="permission_denied", run_id=run_id)]

    def _control_request(self, record: Record) -> list[Event]:
        """A question for permission: the log has it and its answer, so that the denial is not repeated."""
        self._denied.add(text_of(record_of(record.get("request")).get("tool_use_id")))
        return []

    def _api_retry(self, record: Record) -> list[Event]:
        status, delay_ms = count_of(record.get("error_status")), amount_of(record.get("retry_delay_ms"))
        cause = text_of(record.get("error")) or "unknown"
        attempt, most = count_of(record.get("attempt")), count_of(record.get("max_retries"))
        failure = f"a request to the model failed ({cause}{f', HTTP {status}' if status else ''})"
        return retried(failure, attempt, most, delay_ms)

    def _model_notice(self, record: Record) -> list[Event]:
        names = (text_of(record.get("original_model")), text_of(record.get("fallback_model")))
        message = text_of(record.get("content")) or " → ".join(filter(None, names)) or "another model answers"
        return [Warning(message=message, code=text_of(record.get("subtype")))]

    def _informational(self, record: Record) -> list[Event]:
        notice = Info if record.get("level") in ("info", "suggestion") else Warning
        code = text_of(record.get("tag")) or "informational"
        return [notice(message=first_text(record, "content", "message"), code=code)]

    def _hook_response(self, record: Record) -> list[Event]:
        """Hooks are the user's own business, unless one breaks."""
        is_fine = record.get("exit_code") in (0, None) and record.get("outcome") in ("success", None)
        if is_fine:
            return []
        name = text_of(record.get("hook_name")) or "a hook"
        output = first_text(record, "stderr", "output", "stdout").strip()
        return [Warning(message=f"hook failed: {name}{f': {output}' if output else ''}", code="hook_failed")]

    def _rate_limit_event(self, record: Record) -> list[Event]:
        data = record_of(record.get("rate_limit_info"))
        status = text_of(data.get("status"))
        windows = limit_windows(data)
        out: list[Event] = [RateLimits(windows=windows)] if windows else []
        if status in ("", "allowed"):
            return out
        share_of_limit = amount_of(data.get("utilization"))
        parts = (
            text_of(data.get("rateLimitType")),
            "" if share_of_limit is None else f"{share_of_limit:.0%} used",
        )
        details = ", ".join(filter(None, parts))
        message = f"rate limit status: {status}{f' ({details})' if details else ''}"
        return [*out, Warning(message=message, code=f"rate_limit_{status}")]

    def carried(self) -> dict[str, Any]:
        return self._ledger.carried()

    def _task_started(self, record: Record) -> list[Event]:
        task_id, call_id = text_of(record.get("task_id")), text_of(record.get("tool_use_id"))
        is_agent = "agent" in text_of(record.get("task_type")) or bool(text_of(record.get("subagent_type")))
        if not is_agent or not (call_id or task_id):
            return []
        out = self.begin_child(
            call_id or task_id,
            name=text_of(record.get("subagent_type")),
            prompt=text_of(record.get("prompt")),
            parent_id=call_id or self.children.call_of_task(text_of(record.get("parent_task_id"))),
            task_id=task_id,
        )
        child = self.children.find(call_id or task_id)
        if child is not None:
            child.is_background = record.get("is_backgrounded") is True
            child.depth = count_of(record.get("spawn_depth")) or 1
        return out

    def _agent_of(self, record: Record) -> str:
        """The call whose sub-agent a task event is about; "" when it is about something else."""
        call_id = self.children.call_of_task(text_of(record.get("task_id"))) or text_of(
            record.get("tool_use_id")
        )
        call = self.calls.open.get(call_id)
        is_agent = self.children.has_started(call_id) or (call is not None and call.name in SPAWNERS)
        return call_id if is_agent else ""

    def _task_progress(self, record: Record) -> list[Event]:
        """What a sub-agent does is seen in its own lines; only one within another shows none."""
        call_id, text = self._agent_of(record), text_of(record.get("description"))
        child, call = self.children.find(call_id), self.calls.open.get(call_id)
        if child is None or child.depth < 2 or call is None or not text:
            return []
        return [ToolProgress(call_id=call_id, text=text, run_id=call.run_id)]

    def _task_updated(self, record: Record) -> list[Event]:
        patch = record_of(record.get("patch"))
        child = self.children.find(self._agent_of(record))
        if child is not None and text_of(patch.get("status")) not in ("", "running", "pending"):
            child.status, child.error = text_of(patch.get("status")), text_of(patch.get("error"))
        return []

    def _task_notification(self, record: Record) -> list[Event]:
        call_id, status = self._agent_of(record), text_of(record.get("status"))
        summary = text_of(record.get("summary"))
        if call_id:
            duration_ms = count_of(record_of(record.get("usage")).get("duration_ms"))
            out = [] if self.children.has_started(call_id) else self.begin_child(call_id)
            child = self.children.find(call_id)
            if child is not None and not child.is_background and call_id in self.calls.open:
                # Its total usage comes with the answer to its call, which is next.
                self._ended_tasks[call_id] = (status, summary, duration_ms)
                child.status, child.error = status, summary
                return out
            return [*out, *self.end_child(call_id, status, summary, duration_ms)]
        if record.get("output_file") == "":
            return []  # a command that was only slow: the answer to its call says how it ended
        notice = Info if status == "completed" else Warning
        message = summary if status in summary else f"{summary or 'background task'}: {status}"
        return [notice(message=message, code="background_task")]


def _error_code(record: Record, text: str) -> str:
    """The agent's own name for the error, else the status of the model's server."""
    name = text_of(record.get("error"))
    if name not in ("", "unknown"):
        return name
    status = count_of(record.get("api_error_status"))
    if status is not None:
        return f"http_{status}"
    matched = _STATUS_IN_TEXT.match(text)
    return f"http_{matched[1]}" if matched is not None else "api_error"


def _without_attachments(record: Record) -> Record:
    """A prompt that is repeated to us: its images are ours."""
    message = record_of(record.get("message"))
    if not isinstance(content := message.get("content"), list):
        return record
    texts = [block for block in content if record_of(block).get("type") not in ("image", "document")]
    return {**record, "message": {**message, "content": texts}}


def _placed(operations: list[Operation], directory: str) -> list[Operation]:
    return [
        replace(operation, path=f"{directory}/SKILL.md") if isinstance(operation, Skill) else operation
        for operation in operations
    ]


_SUPPORTS = frozenset({"agent-default", "fork", "mcp", "read-only", *_FLAGS})

_TRUSTING = TrustingSettings(
    files=(
        "/etc/claude-code/managed-settings.json",
        "$CLAUDE_CONFIG_DIR/settings.json",
        "~/.claude/settings.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
    ),
    pattern=r'"PermissionRequest"\s*:\s*\[\s*\{',
    what="a hook of PermissionRequest in {path} may answer before you do",
    reach_reading=True,
)
"""What such a hook allows is done, and the question is withdrawn."""


AGENT = Agent(
    name="claude",
    title="Claude Code",
    aliases=("claude-code", "claudecode"),
    binaries=("claude",),
    leaves_settings=True,
    homes=("~/.claude/", "~/.claude.json", "$CLAUDE_CONFIG_DIR/"),
    command=command,
    translator=ClaudeTranslator,
    supports=_SUPPORTS,
    command_files=(CommandFiles(folders=("~/.claude/commands", ".claude/commands")),),
    screen_resume=("--resume", "{id}"),
    two_way=TwoWay(
        command=conversation_command,
        driver=ClaudeControl,
        translator=ClaudeTranslator,
        capabilities=ClaudeControl.capabilities,
        tools=CLAUDE,
        supports=_SUPPORTS | {"output_schema", "tool_servers"},
        has_schema_at_start=True,
        since=_CONVERSATION_SINCE,
        asks_since=_ASKS_SINCE,
        trusting=_TRUSTING,
    ),
    since=_SINCE,
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    install="npm install -g @anthropic-ai/claude-code",
    login="claude, and in it /login",
    needs_version=True,
    delta_keys=("text", "partial_json", "thinking"),
    reveals={
        "deltas": "text, reasoning and tool input from 2.0 on; of the main agent only",
        "reasoning": "yes; of sub-agents from 2.1.325 on",
        "tools": "every call and result; exit codes of failed commands from 2.0 on",
        "files": "read and written line ranges from 2.0 on, files that a command changed from 2.1.325 on",
        "sub_agents": "calls and results; text from 2.1.325 on; of agents within agents only begin, progress and end",
        "usage": "per model call and per model from 2.0 on; of sub-agents what their models were given and the last "
        "answer of each, the answers before it count for who called them; before 2.0 in total, without "
        "sub-agents; reasoning from 2.1.201 on",
        "cost": "stated, of the whole run",
        "retries": "from 2.1 on",
        "permissions": "denials: live from 2.1.325 on, with the result from 2.0 on",
        "compaction": "from 2.0 on",
        "tasks": "whole lists until 2.0, single tasks from 2.1 on",
    },
)
