"""Qwen Code: `qwen --output-format stream-json`, Claude's stream-json with records of its own.

One answer of the model comes as several `assistant` lines, each with an id of its own and only the last
with what the answer used; pieces (`stream_event`) count their blocks from 0 in each of them.
A failed request looks like text of the model (`[API Error: …]`), and once more by the result.
A run that reaches a limit ends without a result: stderr says why.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.agents.qwen.tools import QWEN, QWEN_BEFORE_0_21
from harness.contracts.agent import Agent, CommandFiles, CommandLine, HeldSettings, TrustingSettings, Version
from harness.contracts.command_line import flags_of, has, numbers_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset, tasks_of
from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    Result,
    TextRetracted,
    ToolEnd,
    ToolProgress,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.run import Task
from harness.formats.error_messages import NodeTraces
from harness.formats.fields import (
    besides,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.log.raw import RawStart
from harness.protocols.acp.calls import AcpCall
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator, usage_of
from harness.protocols.model_ledger import ModelLedger
from harness.protocols.stream_json import StreamJson


class SessionLedger(ModelLedger):
    """Results hold the usage of the whole session, earlier runs included: each adds the growth since the last.

    How much a resumed session had used before this run is not stated: of its first result only what
    this run's own calls have reported counts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_resumed = False
        self._session = Usage()

    def _news_of(self, record: dict[str, Any], main_model: str) -> dict[str, Usage]:
        total = usage_of_prompt(record_of(record.get("usage")))
        if not _includes(total, self._session):
            return {}
        growth, self._session = total.minus(self._session), total
        if self.is_resumed:
            self.is_resumed = False
            return dict(self._reported)
        return {main_model: growth} if growth else {}


def usage_of_prompt(data: dict[str, Any]) -> Usage:
    """Where `input_tokens` is the whole prompt, with what came from the cache.

    What a total has beyond prompt and answer is reasoning; some models count that into the answer.
    """
    prompt, output = count_of(data.get("input_tokens")), count_of(data.get("output_tokens"))
    cached, total = count_of(data.get("cache_read_input_tokens")), count_of(data.get("total_tokens"))
    reasoning = (total or 0) - (prompt or 0) - (output or 0)
    return Usage(
        input=besides(prompt, cached),
        output=output,
        cache_read=cached,
        reasoning=reasoning if reasoning > 0 else None,
    )


def _includes(total: Usage, earlier: Usage) -> bool:
    """Whether a total includes an earlier one; that of a failed sub-agent does not."""
    names = ("input", "output", "cache_read")
    return all((getattr(total, name) or 0) >= (getattr(earlier, name) or 0) for name in names)


_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--approval-mode", "yolo"],
    "read-only": ["--approval-mode", "plan"],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "max_turns": "--max-session-turns",
    "system_prompt": "--system-prompt",
    "append_system_prompt": "--append-system-prompt",
    "resume": "--resume",
    "continue_last": "--continue",
}
_FAILS_WITH_COMMANDS_SINCE: Version = (0, 21)
_RESUMING = frozenset({"--continue", "-c", "--resume", "-r"})


def _safe_mode(request: Request) -> list[str]:
    """By which it obeys nothing that the folder brings."""
    return ["--safe-mode"] if request.folder_settings == "none" else []


_FOLDER = __file__.removesuffix("agent.py")
# Both leave out its agent for memories: that runs what Qwen takes for a reading command, and asks nobody. `cat <<E > a` is one.
_ASK = f"{_FOLDER}ask.json"
"""By which it asks also about commands that it takes for reading."""
_READ = f"{_FOLDER}read.json"
"""For a run that only reads."""
_OF_THE_MACHINE = (
    "/etc/qwen-code/settings.json",
    "/Library/Application Support/QwenCode/settings.json",
)
"""Where Linux and macOS have its settings; on each the other's is not there."""


def _held_by(file: str) -> HeldSettings:
    """Settings of the system: those of the user, who may have turned on that agent, count less."""
    return HeldSettings(
        file=file,
        over=_over,
        theirs=_OF_THE_MACHINE,
        variable="QWEN_CODE_SYSTEM_SETTINGS_PATH",
        beside={"QWEN_CODE_SYSTEM_DEFAULTS_PATH": "system-defaults.json"},
    )


def _over(ours: dict[str, Any], machine: list[dict[str, Any]]) -> dict[str, Any]:
    """Of what form the machine's are, they say themselves."""
    settings = {name: value for name, value in ours.items() if name != "$version"}
    for theirs in machine:
        settings = _merged(theirs, settings)
    return settings


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        there = merged.get(name)
        if isinstance(value, dict) and isinstance(there, dict):
            merged[name] = _merged(there, value)
        elif isinstance(value, list) and isinstance(there, list):
            merged[name] = [*there, *(item for item in value if item not in there)]
        else:
            merged[name] = value
    return merged


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin."""
    del version
    held_by = _held_by(_READ) if request.permissions == "read-only" else None
    args = ["--output-format", "stream-json", "--include-partial-messages", *_safe_mode(request)]
    args += [*_PERMISSIONS[request.permissions], *flags_of(request, _FLAGS)]
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes, held_by=held_by)


_API_ERROR = "[API Error: "
_STATUS = re.compile(r"\[API Error: (\d{3})\b")
_FAILED_REQUEST = re.compile(r"\[API Error: .*\]", re.DOTALL)
_ANSWER = "structured_output"
"""Hands over the answer as data: the result of the run has it, and nothing else was done."""
_NEVER_RUN = "Skipped because the provider attempt was retried before execution."
_IN_BACKGROUND = "Background agent launched"
_DECLINED = re.compile(r'Qwen Code requires permission to use "[^"]+", but that permission was declined\.')
_CUT_RESULT = re.compile(
    r'\{"type":"result","subtype":"(\w+)",(?:"(?:uuid|session_id)":"[^"]*",)*"is_error":(true|false),'
)
"""The beginning of the last line: a long answer through a pipe may lose its end when Qwen exits."""

_LIMITS: dict[str, tuple[str, Outcome]] = {
    "Reached max session turns": ("max_turns", "limit_exceeded"),
    "Run aborted: tool-call budget": ("max_tool_calls", "limit_exceeded"),
    "Run aborted: wall-clock budget": ("max_wall_time", "timed_out"),
    "Run aborted: ": ("max_budget", "limit_exceeded"),
}
_BANNERS = ("Warning: running headless with --yolo",)
_RETRY = "Retrying provider attempt"
"""What `system/retry` says as well."""


class QwenTranslator(StreamJson):
    agent = "qwen"
    version_key = "qwen_code_version"
    tools = QWEN
    ledger: ClassVar[type[ModelLedger]] = SessionLedger
    rules: ClassVar[dict[str, str]] = {
        **StreamJson.rules,
        "system/session_start": "_init",
        "system/retry": "_retry",
        "system/model_fallback": "_model_fallback",
        "system/task_started": "_task_started",
        "system/task_progress": "",
        "system/task_notification": "_task_notification",
        "control_response": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._answer_id = ""
        """The message that is being streamed: all lines of the answer belong to it."""
        self._unanswered = ""
        """The text of the last answer, if it is an error and took no tokens: then it is not the model's."""
        self._denied: set[str] = set()
        self._limit: tuple[Error, Outcome] | None = None
        self._traces = NodeTraces()

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._know_version(start.version)
        if isinstance(self._ledger, SessionLedger):
            self._ledger.is_resumed = not _RESUMING.isdisjoint(start.argv)

    def record(self, record: Record) -> Sequence[Event]:
        return super().record(self._as_failure(record) if record.get("type") == "result" else record)

    def _as_failure(self, record: Record) -> Record:
        """Until 0.23 a request that failed for good is the answer of a success. Later versions write this instead."""
        answer = text_of(record.get("result"))
        if not answer or answer != self._unanswered or record.get("is_error") is True:
            return record
        failure = {"is_error": True, "error": {"message": answer}}
        return {**record, **failure, "result": None}

    def _init(self, record: Record) -> Sequence[Event]:
        self._know_version(text_of(record.get(self.version_key)))
        return super()._init(record)

    def _know_version(self, version: str) -> None:
        if version:
            is_new = has(numbers_of(version), _FAILS_WITH_COMMANDS_SINCE)
            self.calls.tools = QWEN if is_new else QWEN_BEFORE_0_21

    def remark(self, line: str) -> Sequence[Event] | None:
        cut = _CUT_RESULT.match(line)
        if cut is None:
            return super().remark(line)
        self.rule = "result/cut off"
        is_success = cut[1] == "success" and cut[2] == "false"
        notice = Warning(message="the agent exited before its last line was written", code="cut_off")
        outcome: Outcome = "completed" if is_success else "failed"
        return [*self._settled({}), notice, Result(success=is_success, outcome=outcome)]

    def stderr(self, line: str) -> Sequence[Event]:
        if line.startswith((*_BANNERS, _RETRY)):
            self.rule = "banner" if line.startswith(_BANNERS) else "retry"
            return ()
        if self._traces.takes(line):
            self.rule = "stack trace"
            return ()
        limit = next((limit_name for start, limit_name in _LIMITS.items() if line.startswith(start)), None)
        if limit is None:
            return super().stderr(line)
        self.rule = "limit"
        self._limit = (Error(message=line, code=limit[0]), limit[1])
        return ()

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = list(super().finish(ending))
        if self._limit is not None:
            error, outcome = self._limit
            out += [error, Result(success=False, outcome=outcome, usage=self._ledger.total or None)]
        return out

    def _stream_event(self, record: Record) -> Sequence[Event]:
        event = record_of(record.get("event"))
        match event.get("type"):
            case "goal_state" | "active_goal":
                self.rule = "stream_event/goal"
                return self._begin(record)
            case "tool_progress":
                return self._tool_progress(event)
            case "message_start" if not record.get("parent_tool_use_id"):
                self._answer_id = text_of(record_of(event.get("message")).get("id"))
            case "message_stop" if not record.get("parent_tool_use_id"):
                self._answer_id = ""
        return super()._stream_event(record)

    def _tool_progress(self, event: Record) -> Sequence[Event]:
        self.rule = "stream_event/tool_progress"
        call = self.calls.open.get(text_of(event.get("tool_use_id")))
        text = first_text(record_of(event.get("content")), "message", "output", "text")
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)] if call and text else ()

    def _assistant(self, record: Record) -> Sequence[Event]:
        message = record_of(record.get("message"))
        is_main = not record.get("parent_tool_use_id")
        if self._answer_id and is_main:
            record = {**record, "message": {**message, "id": self._answer_id}}
        out = list(super()._assistant(record))
        if self._answer_id and is_main:
            self._partial.offset += len(items_of(message.get("content")))
        usage = usage_of_prompt(record_of(message.get("usage")))
        if is_main:
            text = output_of(message.get("content"))
            is_free = not (usage.input or usage.output or usage.cache_read)
            self._unanswered = text if is_free and _FAILED_REQUEST.fullmatch(text) else ""
        if usage.input or usage.output or usage.cache_read:
            child = self.children.find(text_of(record.get("parent_tool_use_id")))
            delta = self._ledger.call(text_of(message.get("model")), usage, text_of(message.get("id")))
            out.append(replace(delta, run_id=child.run_id if child is not None else ""))
        if is_main and _API_ERROR in output_of(message.get("content")):
            self._pending.extend(out)
            return ()
        return out

    def amend(self, events: list[Event], record: Record) -> list[Event]:
        """What the model seemed to say may be the error that the result then states."""
        if record.get("type") == "stream_event":
            self._pending = events
            return []
        failure = text_of(record_of(record.get("error")).get("message"))
        if record.get("type") != "result" or not failure:
            return events
        out: list[Event] = []
        for event in events:
            if not isinstance(event, Message) or not event.text.endswith(failure):
                out.append(event)
            elif rest := event.text.removesuffix(failure):
                out.append(replace(event, text=rest))
            elif self._partial.message_id:
                out.append(TextRetracted(id=event.id))
        return out

    def _call(self, block: Record, run_id: str) -> list[Event] | None:
        """Tools that are not always there are called through another one."""
        tool_input = record_of(block.get("input"))
        if block.get("name") == "tool_call" and (name := text_of(tool_input.get("name"))):
            block = {**block, "name": name, "input": tool_input.get("arguments", {})}
        return super()._call(block, run_id)

    def _tool_result(self, block: Record, detail: Any, run_id: str) -> list[Event]:
        out = super()._tool_result(block, detail, run_id)
        output, end = output_of(block.get("content")), out[-1] if out else None
        if isinstance(end, ToolEnd) and (output == _NEVER_RUN or end.tool_name == _ANSWER):
            return [*out[:-1], replace(end, operations=[])]
        if isinstance(end, ToolEnd) and _DECLINED.match(output):
            return [*out, *self._permission_denied(end.call_id, end.tool_name, run_id)]
        return out

    def _permission_denied(self, call_id: str, name: str, run_id: str) -> list[Event]:
        if call_id in self._denied:
            return []
        self._denied.add(call_id)
        message = f"permission denied: {name or 'a tool'}"
        return [Warning(message=message, code="permission_denied", run_id=run_id)]

    def _spawned(self, call: PendingCall, block: Record, detail: Record) -> list[Event]:
        child = self.children.find(call.id)
        if child is not None and output_of(block.get("content")).startswith(_IN_BACKGROUND):
            child.is_background = True
        return super()._spawned(call, block, detail)

    def _task_started(self, record: Record) -> list[Event]:
        data = record_of(record.get("data"))
        call_id, task_id = text_of(data.get("tool_use_id")), text_of(data.get("task_id"))
        name = text_of(data.get("subagent_type"))
        return self.begin_child(call_id or task_id, name=name, task_id=task_id) if name and task_id else []

    def _task_notification(self, record: Record) -> list[Event]:
        data = record_of(record.get("data"))
        task_id, status = text_of(data.get("task_id")), text_of(data.get("status"))
        call_id = self.children.call_of_task(task_id) or text_of(data.get("tool_use_id"))
        if status in ("", "running", "pending") or self.children.find(call_id) is None:
            return []
        duration_ms = count_of(record_of(data.get("usage")).get("duration_ms"))
        return self.end_child(call_id, status, "", duration_ms)

    def _retry(self, record: Record) -> list[Event]:
        data = record_of(record.get("data"))
        discarded = count_of(data.get("discardedToolCalls"))
        message = "a request to the model failed and is sent again"
        if discarded:
            message += f"; {discarded} call{'s' if discarded > 1 else ''} of it will not be run"
        return [Warning(message=message, code="retry")]

    def _model_fallback(self, record: Record) -> list[Event]:
        data = record_of(record.get("data"))
        names = (text_of(data.get("fromModel")), text_of(data.get("toModel")))
        message = " → ".join(filter(None, names)) or "another model answers"
        return [Warning(message=message, code="model_fallback")]

    def _result(self, record: Record) -> Sequence[Event]:
        failure = text_of(record_of(record.get("error")).get("message"))
        status = _STATUS.match(failure)
        out: list[Event] = []
        if failure.startswith(_API_ERROR) and not self.has_failed:
            out = self._begin(record)
            out.append(Error(message=failure, code=f"http_{status[1]}" if status else "api_error"))
            self.has_failed = True
        out.extend(super()._result(record))
        for denial in map(record_of, items_of(record.get("permission_denials"))):
            call_id, name = text_of(denial.get("tool_use_id")), text_of(denial.get("tool_name"))
            out.extend(self._permission_denied(call_id, name, ""))
        return out


class QwenAcp(AcpTranslator):
    """Qwen Code over ACP: `qwen --acp`, from 0.24 on.

    Each answer of the model ends with an empty piece of text that has its usage. What a sub-agent says and does names the
    call that spawned it. A question to the user comes as one for permission, and a refused call ends the turn.
    After each batch of calls it asks for new messages of the user (`craft/drainMidTurnQueue`).
    """

    agent = "qwen"
    tools: ClassVar[Toolset] = QWEN
    extensions = (*AcpTranslator.extensions, "qwen/notify/")
    noise = re.compile(r"\[perf\] acp agent event loop stall: .*")

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return text_of(call.meta.get("toolName"))

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        del announced
        return text_of(record_of(tool_call.get("_meta")).get("toolName"))

    def run_of(self, params: Record, update: Record) -> str:
        del params
        spawn = text_of(record_of(update.get("_meta")).get("parentToolCallId"))
        child = self.children.find(spawn)
        return child.run_id if child is not None else spawn

    def progress_of(self, call: AcpCall, update: Record) -> str:
        """Of a sub-agent the progress is one word on what it does, which its own events show."""
        if record_of(update.get("_meta")).get("subagentProgress") is True:
            return ""
        return super().progress_of(call, update)

    def _text(self, record: Record) -> Sequence[Event]:
        out = super()._text(record)
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        usage = usage_of(record_of(record_of(update.get("_meta")).get("usage")))
        if not usage or self.rule == "history":
            return out
        run_id = self.run_of(params, update)
        if not run_id:
            self.turns = (self.turns or 0) + 1
        return [*out, *self.flush(run_id), UsageDelta(usage=usage, run_id=run_id)]

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return tasks_of(pending.input.get("todos")) if pending.name == "todo_write" else None


PROGRAM = AcpProgram(
    translator=QwenAcp,
    capabilities=frozenset({"approve", "ask", "files", "mode", "model", "plan", "steer"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    auth_method="openai",
    drains=True,
    ends_turn_on_reject=True,
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    mode = PROGRAM.modes.get(request.permissions)
    held_by = _held_by(_ASK) if request.permissions in ("ask", "read-only") else None
    # In safe mode it would not obey the settings by which it asks: a wall hides what the folder brings.
    args = ["--acp", *(() if held_by else _safe_mode(request)), *(("--approval-mode", mode) if mode else ())]
    args += flags_of(request, {"model": "--model"})
    return CommandLine(args=(*args, *request.extra_args), held_by=held_by)


_TRUSTING = TrustingSettings(
    files=(
        *_OF_THE_MACHINE,
        "$QWEN_CODE_SYSTEM_SETTINGS_PATH",
        "~/.qwen/settings.json",
        ".qwen/settings.json",
    ),
    pattern=r'"PermissionRequest"\s*:\s*\[\s*\{',
    what="a hook of PermissionRequest in {path} answers instead of you",
    reach_reading=True,
)
TWO_WAY = PROGRAM.two_way(acp_command, since=(0, 24), trusting=_TRUSTING)


AGENT = Agent(
    name="qwen",
    title="Qwen Code",
    aliases=("qwen-code",),
    binaries=("qwen",),
    homes=("~/.qwen/",),
    command=command,
    translator=QwenTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    command_files=(
        CommandFiles(folders=("~/.qwen/commands", ".qwen/commands"), suffix=".toml"),
        CommandFiles(folders=("~/.qwen/commands", ".qwen/commands")),
    ),
    screen_resume=("--resume", "{id}"),
    since={"system_prompt": (0, 15), "append_system_prompt": (0, 15)},
    needs_version=True,
    key_variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"),
    install="npm install -g @qwen-code/qwen-code",
    login="qwen, and in it /auth",
    delta_keys=("text", "partial_json", "thinking"),
    reveals={
        "deltas": "text, reasoning and tool input, of the main agent",
        "reasoning": "yes",
        "tools": "every call and result, the results in words for people; exit codes of commands that failed or wrote "
        "nothing; before 0.21 not whether a command that wrote something succeeded",
        "sub_agents": "begin and end; calls and results of those that the main agent waits for",
        "usage": "per model call of the main agent; in total with side requests and sub-agents, which a resumed "
        "session counts from its beginning on: then only the calls count",
        "cost": "never",
        "result": "success or error; nothing when it was stopped or reached a limit, which stderr says then",
    },
)
