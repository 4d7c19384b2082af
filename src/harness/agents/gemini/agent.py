"""Gemini CLI: `gemini --output-format stream-json`, and what earlier versions give instead: one object, or text.

init          the session
message       the prompt; then the answer in pieces, without a mark of their end
tool_use      a call; its `tool_result` says little more than whether it ran
error         a warning, or why the answer came to nothing
result        the end, with the usage of all models

A command that failed is a success here, and a run that stopped itself as well; the exit code is the
status of the model's server, as far as it fits into eight bits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from harness.contracts.agent import (
    Agent,
    CommandFiles,
    CommandLine,
    NewSessionFile,
    TrustingSettings,
    Version,
)
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, Toolset, tasks_of, unmatched_result
from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    Result,
    SessionStart,
    TasksChanged,
    TextDelta,
    ToolEnd,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Spawn
from harness.formats.error_messages import NodeTraces
from harness.formats.fields import count_of, items_of, output_of, record_of, text_of
from harness.protocols.acp.calls import ENDS, AcpCall, written
from harness.protocols.acp.driver import SUPPORTS, AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd
from harness.protocols.child_runs import ChildRuns
from harness.protocols.gemini_tools import APPROVED, GEMINI, exit_status_of
from harness.protocols.plain_answer import PlainAnswer

_FAILURES: dict[str, tuple[str, Outcome]] = {
    "FatalTurnLimitedError": ("max_turns", "limit_exceeded"),
    "FatalCancellationError": ("cancelled", "interrupted"),
    "FatalAuthenticationError": ("authentication", "failed"),
    "FatalInputError": ("bad_input", "failed"),
    "FatalToolExecutionError": ("tool_error", "failed"),
}
"""Type of the error that ended a run → its code, and what became of the run."""
STOPS: dict[str, tuple[str, Outcome]] = {
    "Loop detected, stopping execution": ("loop_detected", "failed"),
    "Maximum session turns exceeded": ("max_turns", "limit_exceeded"),
}
"""Remarks with which a run ends by itself, whatever its result says then."""

_STATUS_IN_MESSAGE = re.compile(r'"code": ?(\d{3})\b')
_STATUS_EXITS = range(144, 256)
"""What is left of the statuses from 400 on in an exit code."""


def outcome_of(kind: str) -> Outcome:
    return _FAILURES.get(kind, ("", "failed"))[1]


def error_code(kind: str, message: str, exit_code: int | None) -> str:
    """The status of the model's server, from the message or from what the exit code has left of it."""
    if kind in _FAILURES:
        return _FAILURES[kind][0]
    status = _STATUS_IN_MESSAGE.search(message)
    if status is not None:
        return f"http_{status[1]}"
    if exit_code is not None and exit_code in _STATUS_EXITS:
        return f"http_{exit_code + 256}"
    if message.startswith("[API Error"):
        return "api_error"
    return kind if kind not in ("", "unknown") else "error"


def usage_of(data: Record) -> Usage:
    """`input_tokens` includes what came from the cache. Reasoning is not named, but it is in the total."""
    prompt, output, cached = (count_of(data.get(key)) for key in ("input_tokens", "output_tokens", "cached"))
    fresh, total = count_of(data.get("input")), count_of(data.get("total_tokens"))
    reasoning = None
    if prompt is not None and output is not None and total is not None:
        reasoning = max(0, total - prompt - output)
    return Usage(
        input=fresh if fresh is not None else prompt, output=output, cache_read=cached, reasoning=reasoning
    )


def usage_of_tokens(data: Record) -> Usage:
    """The same, as it is counted where the whole run is one object."""
    return Usage(
        input=count_of(data.get("input")),
        output=count_of(data.get("candidates")),
        cache_read=count_of(data.get("cached")),
        reasoning=count_of(data.get("thoughts")),
    )


def is_any(usage: Usage) -> bool:
    return any((usage.input, usage.output, usage.cache_read, usage.reasoning))


_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--approval-mode", "yolo"],
    "read-only": ["--approval-mode", "plan"],
    "agent-default": [],
}


def trust_variable(request: Request) -> dict[str, str]:
    """It is told to trust a folder only if the user does, or if there is nothing to trust.

    No mode holds in a folder that is not trusted; without a mode it judges by its own settings.
    """
    if request.folder_settings == "none":
        return {"GEMINI_CLI_TRUST_WORKSPACE": "false"}
    is_told = request.folder_settings == "use" and request.permissions != "agent-default"
    return {"GEMINI_CLI_TRUST_WORKSPACE": "true"} if is_told else {}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin. No mode holds in a folder that is not trusted, and there is no one to ask."""
    del version
    args = ["--output-format", "stream-json", *_PERMISSIONS[request.permissions]]
    if request.model:
        args += ["--model", request.model]
    if request.resume or request.continue_last:
        args += ["--resume", request.resume or "latest"]
    return CommandLine(
        args=(*args, *request.extra_args),
        env=trust_variable(request),
        stdin=request.prompt_bytes,
    )


_BANNERS = (
    "YOLO mode is enabled.",
    "Warning: 256-color support not detected.",
    "Warning: Basic terminal detected",
    "[STARTUP] ",
    "Loaded cached credentials.",
)
_TOOL_ERROR = "Error executing tool "
"""What the result of the call says as well."""
_STATUSES = {"success": True, "error": False}
_RETRY = re.compile(r"Attempt \d+ failed\b.*\bRetrying with backoff\.\.\..*")
_USAGE_ERROR = re.compile(
    r"Unknown arguments?: .*|Invalid values:|Not enough .* arguments.*|Missing required .*"
)
_HELP = "Usage: gemini "


class GeminiTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "init": "_init",
        "message": "_message",
        "tool_use": "_tool_use",
        "tool_result": "_tool_result",
        "error": "_error",
        "result": "_result",
        "": "_untyped",
    }

    def __init__(self) -> None:
        super().__init__()
        self._children = ChildRuns("gemini")
        self._calls: dict[str, PendingCall] = {}
        self._pieces: list[str] = []
        self._text_id = ""
        self._texts = 0
        self._is_prompted = False
        self._outcome: Outcome = "completed"
        self._failure: tuple[str, str] | None = None
        """Type and message of the error that ended the run: its code waits for the exit code."""
        self._traces = NodeTraces()
        self._is_help = False

    def record(self, record: Record) -> Sequence[Event]:
        if self._waiting_lines and "type" not in record:
            # A part of one object that is printed over many lines.
            self.rule = "text"
            self._waiting_lines.append(msgspec.json.encode(record).decode())
            return ()
        return super().record(record)

    def stderr(self, line: str) -> Sequence[Event]:
        if self._is_help or line.startswith(_HELP):
            self._is_help, self.rule = True, "help"
            return ()
        if _USAGE_ERROR.fullmatch(line):
            self.rule = "usage error"
            return [Error(message=line, code="bad_arguments")]
        if self._traces.takes(line):
            self.rule = "stack trace"
            return ()
        if line.startswith(_BANNERS) or line.startswith(_TOOL_ERROR):
            self.rule = "banner" if line.startswith(_BANNERS) else "tool error"
            return ()
        if _RETRY.fullmatch(line):
            self.rule = "retry"
            return [Warning(message=line, code="retry")]
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = self._flush()
        if self._failure is not None:
            kind, message = self._failure
            out.append(Error(message=message, code=error_code(kind, message, ending.exit_code)))
        printed = self.printed_object()
        return [*out, *(super().finish(ending) if printed is None else self._untyped(printed))]

    def _flush(self) -> list[Event]:
        """The end of a text is not announced; it is complete when something else begins."""
        text, self._pieces = "".join(self._pieces), []
        return [Message(role="assistant", text=text, id=self._text_id)] if text else []

    def _init(self, record: Record) -> Sequence[Event]:
        session_id, model = text_of(record.get("session_id")), text_of(record.get("model"))
        return [SessionStart(session_id=session_id, agent="gemini", model=model)]

    def _message(self, record: Record) -> Sequence[Event]:
        text = record.get("content")
        match record.get("role"):
            case _ if not isinstance(text, str):
                return [Unknown(raw=record)]
            case "assistant" if record.get("delta") is True:
                return self._piece(text)
            case "assistant":
                return [*self._flush(), Message(role="assistant", text=text)] if text else self._flush()
            case "user":
                is_prompt, self._is_prompted = not self._is_prompted, True
                return [] if is_prompt or not text else [*self._flush(), Message(role="user", text=text)]
            case _:
                return [Unknown(raw=record)]

    def _piece(self, text: str) -> Sequence[Event]:
        if not text:
            return ()
        if not self._pieces:
            self._texts += 1
            self._text_id = f"text-{self._texts}"
        self._pieces.append(text)
        return (TextDelta(id=self._text_id, text=text),)

    def _tool_use(self, record: Record) -> Sequence[Event]:
        call_id, name = text_of(record.get("tool_id")), text_of(record.get("tool_name"))
        if not call_id:
            return [*self._flush(), Unknown(raw=record)]
        call, start = GEMINI.start(call_id, name, record.get("parameters"), self.working_directory, record)
        self._calls[call_id] = call
        return [*self._flush(), start, *self._begin_child(call)]

    def _begin_child(self, call: PendingCall) -> list[Event]:
        spawn = call.operation
        if not isinstance(spawn, Spawn):
            return []
        return self._children.begin(call.id, name=spawn.name, prompt=spawn.task, cwd=call.cwd)

    def _tool_result(self, record: Record) -> Sequence[Event]:
        out = self._flush()
        call = self._calls.pop(text_of(record.get("tool_id")), None)
        if call is None:
            return [*out, unmatched_result(record)]
        error = record.get("error")
        output = (
            text_of(record_of(error).get("message")) or output_of(error) or output_of(record.get("output"))
        )
        is_success = _STATUSES.get(text_of(record.get("status")), False if error else None)
        exit_code = None
        if is_success and call.name in GEMINI.shells:
            is_success, exit_code = exit_status_of(call, output if "output" in record else None)
        if call.name in GEMINI.spawners:
            out += self._children.end(call.id, "failed" if is_success is False else "completed", output)
        out.append(
            ToolEnd(
                call_id=call.id,
                tool_name=call.name or "unknown",
                success=is_success,
                # An empty answer is an answer.
                output=output if "output" in record or error or is_success is None else None,
                exit_code=exit_code,
                operations=None if is_success is False else GEMINI.operations_after(call, {}, output),
            )
        )
        kind = text_of(record_of(error).get("type"))
        if kind == "policy_violation" or (kind == "tool_not_registered" and call.name in APPROVED):
            out.append(Warning(message=f"permission denied: {call.name}", code="permission_denied"))
        tasks = tasks_of(call.input.get("todos")) if is_success and call.name == "write_todos" else None
        return out if tasks is None else [*out, TasksChanged(tasks=tasks)]

    def _error(self, record: Record) -> Sequence[Event]:
        message = text_of(record.get("message")) or "Gemini reported an error without a message"
        code, outcome = STOPS.get(message, ("invalid_answer", "failed"))
        if record.get("severity") == "warning" and message not in STOPS:
            return [*self._flush(), Warning(message=message, code="notice")]
        self._outcome = outcome
        return [*self._flush(), Error(message=message, code=code)]

    def _result(self, record: Record) -> Sequence[Event]:
        out = self._flush()
        error, stats = record_of(record.get("error")), record_of(record.get("stats"))
        kind, message = text_of(record_of(error).get("type")), text_of(error.get("message"))
        if record.get("status") != "success":
            is_explained = self._outcome != "completed"
            self._outcome = outcome_of(kind) if not is_explained else self._outcome
            if message or not is_explained:
                self._failure = (kind, message or "the run failed, and Gemini does not say why")
        by_model = {name: usage_of(record_of(data)) for name, data in record_of(stats.get("models")).items()}
        out += self._used(by_model or {"": usage_of(stats)})
        out.append(self._ended(count_of(stats.get("duration_ms")), by_model or {"": usage_of(stats)}))
        return out

    def _used(self, by_model: dict[str, Usage]) -> list[Event]:
        return [UsageDelta(usage=usage, model=name) for name, usage in by_model.items() if is_any(usage)]

    def _ended(self, duration_ms: int | None, by_model: dict[str, Usage], text: str = "") -> Result:
        total = Usage()
        for usage in by_model.values():
            total = total.plus(usage)
        is_success = self._outcome == "completed"
        return Result(
            success=is_success,
            outcome=self._outcome,
            text=text,
            # A run that failed says that it took no time and used nothing.
            duration_ms=duration_ms or None,
            usage=total if is_any(total) or (is_success and total) else None,
        )

    def _untyped(self, record: Record) -> Sequence[Event]:
        """The one object that `--output-format json` gives at the end."""
        stats, error = record_of(record.get("stats")), record_of(record.get("error"))
        if not stats and not error and "response" not in record:
            self.rule = "unknown"
            return [Unknown(raw=record)]
        text = text_of(record.get("response"))
        out: list[Event] = [SessionStart(session_id=text_of(record.get("session_id")), agent="gemini")]
        out += [Message(role="assistant", text=text)] if text else []
        if error:
            kind, message = (
                text_of(record_of(error).get("type")),
                text_of(error.get("message")) or "the run failed",
            )
            self._outcome = outcome_of(kind)
            out.append(Error(message=message, code=error_code(kind, message, count_of(error.get("code")))))
        by_model = {
            name: usage_of_tokens(record_of(record_of(data).get("tokens")))
            for name, data in record_of(stats.get("models")).items()
        }
        return [*out, *self._used(by_model), self._ended(None, by_model, text)]


_MODE_UPDATE = "[MODE_UPDATE] "
"""What it says in the place of the model when its mode was set."""
_TITLES: dict[str, str] = {
    "run_shell_command": "command",
    "google_web_search": "query",
    "web_fetch": "prompt",
    "activate_skill": "name",
}
"""Tools whose title is the value of this argument."""
_WITH_PLACES = ("read_file__", "replace__", "write_file__")
"""Tools on one file, which a question about them states."""
_SEARCHES = frozenset({"glob", "grep_search", "search_file_content"})
_QUERY = re.compile(r"'(.*?)'(?: (?:in \S+ )?within (.*))?(?: .*)?", re.DOTALL)
_AGENT = re.compile(r"Delegating to agent '(.*)'")


class GeminiAcp(AcpTranslator):
    """Gemini CLI over ACP: `gemini --acp`, from 0.61 on.

    The input of a call is never shown: it is concluded from the call's id, which begins with the name of the tool, its
    title and its places. Results of commands are not shown either. A session can be loaded from the next minute on:
    until then its file has the same name as that of the process which loads it, and is written over. A call that is
    asked about is announced by the question alone, and nothing follows for one that was refused.
    """

    agent = "gemini"
    tools: ClassVar[Toolset] = GEMINI
    repeats_history_late = True
    noise = re.compile(r"Ripgrep is not available\..*|\[STARTUP\] .*|Loaded cached credentials\.")

    @staticmethod
    def name_of(call: AcpCall) -> str:
        name, mark, _ = call.id.partition("__")
        return name if mark else call.kind

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        """Gemini itself puts the tool's name before the id of a call, whoever made the rest of it."""
        del announced
        name, mark, _ = text_of(tool_call.get("toolCallId")).partition("__")
        return name if mark else ""

    @staticmethod
    def stated_input(tool_call: Record) -> Any:
        """It has no arguments: of an edit there are the differences, of a read the place."""
        contents = [record_of(item) for item in items_of(tool_call.get("content"))]
        files = [text_of(item.get("path")) for item in contents if item.get("type") == "diff"]
        places = [text_of(record_of(item).get("path")) for item in items_of(tool_call.get("locations"))]
        paths = {*files, *places}
        is_certain = text_of(tool_call.get("toolCallId")).startswith(_WITH_PLACES) and len(paths) == 1
        return {"file_path": paths.pop()} if is_certain else None

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        name, title = GeminiAcp.name_of(call), call.title
        if name in _TITLES:
            return {_TITLES[name]: title}
        if name in _SEARCHES:
            match = _QUERY.fullmatch(title)
            return {"pattern": title} if match is None else {"pattern": match[1], "path": match[2] or ""}
        if (agent := _AGENT.fullmatch(title)) is not None:
            return {"agent_name": agent[1]}
        if call.path:
            return {"file_path": call.path}
        return {"path": title} if name in ("read_file", "list_directory") else {"title": title}

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        """Commands show no output, and are completed whatever became of them."""
        is_success, output = ENDS.get(call.status), call.text
        if is_success and pending.name in GEMINI.shells:
            is_success = None
        operations = written(call, pending.operations, pending.cwd) if is_success else None
        return CallEnd(is_success, output, operations=operations)

    def _text(self, record: Record) -> Sequence[Event]:
        content = record_of(record_of(record_of(record.get("params")).get("update")).get("content"))
        if text_of(content.get("text")).startswith(_MODE_UPDATE):
            self.rule = "mode"
            return ()
        return super()._text(record)

    def used(self, answer: Record) -> list[Event]:
        quota = record_of(record_of(answer.get("_meta")).get("quota"))
        out: list[Event] = []
        for item in map(record_of, items_of(quota.get("model_usage"))):
            counts = record_of(item.get("token_count"))
            prompt, output = (count_of(counts.get(f"{key}_tokens")) for key in ("input", "output"))
            if prompt or output:
                usage = Usage(input=prompt, output=output)
                out.append(UsageDelta(usage=usage, model=text_of(item.get("model"))))
        return out


PROGRAM = AcpProgram(
    translator=GeminiAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"full-access": "yolo", "ask": "default", "read-only": "plan"},
    auth_method="gemini-api-key",
)


_ASK = f"{__file__.removesuffix('agent.py')}ask.toml"
"""Rules over those of the user: it asks about everything but reading below its folder."""
_TRUSTING = TrustingSettings(
    files=(
        "$GEMINI_CLI_SYSTEM_SETTINGS_PATH",
        "/etc/gemini-cli/settings.json",
        "$GEMINI_CLI_HOME/.gemini/settings.json",
        "~/.gemini/settings.json",
        ".gemini/settings.json",
    ),
    pattern=r'"trust"\s*:\s*true',
    what='it calls tools of the MCP servers that have "trust": true in {path}',
)
"""Tools of such a server are called without asking, whatever its rules say."""


_NEW_SESSION = NewSessionFile(
    folders=("$GEMINI_CLI_HOME/.gemini", "~/.gemini"), name="tmp/*/chats/session-{minute}-{id}.jsonl"
)


def acp_command(request: Request, version: Version) -> CommandLine:
    """It starts itself once more unless it is asked not to. A session that is to be loaded is named here, too: when it
    starts, it deletes all files of each session that was continued from the command line and is not the one it is started
    with, because such a session has a file without a message.
    """
    del version
    mode = PROGRAM.modes.get(request.permissions)
    args = ["--acp", *(("--approval-mode", mode) if mode else ()), *flags_of(request, {"model": "--model"})]
    if request.permissions in ("ask", "read-only"):
        args += ["--policy", _ASK]
    if request.resume:
        args += ["--resume", request.resume]
    env = {"GEMINI_CLI_NO_RELAUNCH": "true", **trust_variable(request)}
    return CommandLine(args=(*args, *request.extra_args), env=env)


TWO_WAY = msgspec.structs.replace(
    PROGRAM.two_way(acp_command, since=(0, 61), supports=SUPPORTS | {"tool_servers"}, trusting=_TRUSTING),
    new_session_file=_NEW_SESSION,
)


AGENT = Agent(
    name="gemini",
    reads_unasked=True,
    title="Gemini CLI",
    aliases=("gemini-cli",),
    binaries=("gemini",),
    leaves_settings=True,
    homes=("~/.gemini/",),
    command=command,
    translator=GeminiTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "continue_last", "model", "read-only", "resume"}),
    command_files=(CommandFiles(folders=("~/.gemini/commands", ".gemini/commands"), suffix=".toml"),),
    screen_resume=("--resume", "{id}"),
    since={"read-only": (0, 26)},
    needs_version=True,
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    install="npm install -g @google/gemini-cli",
    login="gemini, and in it /auth",
    delta_keys=("content",),
    reveals={
        "deltas": "text",
        "reasoning": "never, only how many tokens it took",
        "tools": "every call, and whether it ran; what it gave back in a few words; "
        "exit codes only of commands that failed and wrote nothing; of other commands not whether they succeeded",
        "sub_agents": "begin, task and end; not what they do or say",
        "usage": "at the end, per model, with sub-agents",
        "cost": "never",
        "result": "success or error; a run that stopped in a loop is called a success, and more than "
        "64 KB at once through a pipe may cut off the end",
    },
)
