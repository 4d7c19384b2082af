"""Pi: `pi --mode json --print`, from 0.73 on, under its old package name and under its new one; two-way, `pi --mode rpc`.

Its exit code says nothing: it is 0 also when the model could not be reached at all. What counts is
how the last answer stopped, and whether the agent says that it was aborted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.agents.pi.answers import Answers
from harness.agents.pi.driver import ANNOUNCEMENTS, CAPABILITIES, DIALOGS, GATE, QUESTION, PiRpc
from harness.approvals.tool_table import reads, runs, searches
from harness.contracts.agent import Agent, CommandLine, TwoWay, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import (
    DIRECTORIES,
    PATHS,
    QUERIES,
    Input,
    KnownTool,
    PendingCall,
    Toolset,
    consistent_exit_code,
    conversing,
    globbing,
    lines_asked,
    listing,
    no_operation,
    starting,
    unmatched_result,
    writing,
)
from harness.contracts.translator import Ending, Record
from harness.events import (
    Compacted,
    Error,
    Event,
    Info,
    Message,
    Outcome,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Warning,
)
from harness.events.operation import Operation, Read, Search, Skill, Write
from harness.formats.error_messages import code_of, retried
from harness.formats.fields import (
    absolute,
    amount_of,
    continuation,
    count_of,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.shell import operations_of
from harness.log.raw import RawStart
from harness.protocols.plain_answer import PlainAnswer

_SHELLS = frozenset({"bash", "shell", "powershell"})
_SKILL_FILE = "/SKILL.md"
_EXIT_CODE = re.compile(r"(?:\A|\n)Command exited with code (-?\d{1,9})\s*\Z")
_SHOWN_LINES = re.compile(r"\[Showing lines (\d{1,9})-(\d{1,9}) of \d+[^\]]*\]\s*$")
_NEXT_LINE = re.compile(r"\[\d+ more lines in file\. Use offset=(\d{1,9}) to continue\.\]\s*$")
_CHANGED_LINE = re.compile(r"^([+-]) *(\d{1,9}) ", re.MULTILINE)
_TRAILER_LENGTH = 200
"""Remarks of a tool stand at the end of what it gave back, which may be long."""


def _read(arguments: Input, cwd: str) -> list[Operation] | None:
    path = absolute(first_text(arguments, *PATHS), cwd)
    return [_reading(path, *lines_asked(arguments))] if path else None


def _reading(path: str, start: int | None, end: int | None) -> Read | Skill:
    if path.endswith(_SKILL_FILE):
        name = path.removesuffix(_SKILL_FILE).rpartition("/")[2]
        return Skill(path=path, name=name, start_line=start, end_line=end)
    return Read(path=path, start_line=start, end_line=end)


def _search(arguments: Input, cwd: str) -> list[Operation] | None:
    query, path = first_text(arguments, *QUERIES), absolute(first_text(arguments, *DIRECTORIES), cwd)
    return [Search(query=query, path=path)] if query else None


def _run(arguments: Input, cwd: str) -> list[Operation] | None:
    command = first_text(arguments, "command", "cmd", "script")
    return operations_of(command, cwd) if command else None


def _read_result(call: PendingCall, _result: Input, output: str) -> list[Operation] | None:
    operation = call.operation
    if not isinstance(operation, Read | Skill):
        return None
    lines = _lines_read(operation.start_line, output)
    return None if lines is None else [replace(operation, start_line=lines[0], end_line=lines[1])]


def _lines_read(start: int | None, output: str) -> tuple[int, int] | None:
    """Known only when the file is longer than what was read."""
    trailer = output[-_TRAILER_LENGTH:]
    if (match := _SHOWN_LINES.search(trailer)) is not None:
        return int(match[1]), int(match[2])
    if (following := _NEXT_LINE.search(trailer)) is not None:
        return start or 1, int(following[1]) - 1
    return None


def _edit_result(call: PendingCall, result: Input, _output: str) -> list[Operation] | None:
    operation, lines = call.operation, _lines_changed(record_of(result.get("details")))
    if not isinstance(operation, Write) or lines is None:
        return None
    return [replace(operation, start_line=lines[0], end_line=lines[1])]


def _lines_changed(details: Input) -> tuple[int, int] | None:
    """Added lines, and of what was only taken out the line where it stood."""
    first = count_of(details.get("firstChangedLine")) or None
    changed = _CHANGED_LINE.findall(text_of(details.get("diff")))
    added = [int(number) for mark, number in changed if mark == "+"]
    start = first or min(added, default=None)
    return None if start is None else (start, max([start, *added]))


PI = Toolset(
    tools={
        "read": KnownTool(_read, reads(*PATHS)),
        "write": writing(*PATHS),
        "edit": writing(*PATHS, change="update"),
        "grep": KnownTool(_search, searches(*DIRECTORIES)),
        "find": KnownTool(_search, globbing(*QUERIES, paths=DIRECTORIES)),
        "ls": listing(*DIRECTORIES),
        # Of extensions, which may look for something else, elsewhere: shown as what they are called, and asked about.
        **dict.fromkeys(("search", "glob"), KnownTool(_search, no_operation.use)),
        "list": KnownTool(listing(*DIRECTORIES).operations, no_operation.use),
        **dict.fromkeys(_SHELLS, KnownTool(_run, runs("command", "cmd", "script"))),
        # A script that calls other tools: each of those calls has records of its own.
        "codemode": starting,
        "ask_user": conversing,
    },
    results={"read": _read_result, "edit": _edit_result},
    shells=_SHELLS,
    key=str.lower,
    shell_memory="fresh",
)
"""Names are matched without regard to case. There is no tool for skills: a model reads the `SKILL.md` of one."""


def output_of_result(result: Any) -> str:
    """What a call gave back; some tools have it as data alone."""
    if not isinstance(result, dict):
        return output_of(result)
    structured = result.get("structuredContent")
    output = record_of(structured).get("output", structured)
    return output_of(result.get("content")) or output_of(output)


def exit_code_of_call(name: str, result: Input, output: str, *, is_success: bool | None) -> int | None:
    """Of a command: stated from 1.5 on, before that only in words, and only for failures."""
    if name.lower() not in PI.shells:
        return None
    exit_code = exit_code_of(record_of(result.get("structuredContent")).get("exit_code"))
    if exit_code is not None or is_success is not False:
        return exit_code
    return consistent_exit_code(False, _EXIT_CODE.search(output[-_TRAILER_LENGTH:]))


_FAILURES: dict[str, Outcome] = {"error": "failed", "length": "failed", "aborted": "interrupted"}
"""How a last answer stops that does not end the work, and what has become of the run then."""
_ENDED_WELL = frozenset({"completed", "success", "done", "ok"})
_ENDED_BADLY = frozenset({"error", "failed", "failure", "cancelled", "canceled", "aborted"})
"""How a call may say that it has ended, where it has no flag for that."""


class PiTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "session": "_session",
        "agent_start": "_agent_start",
        "agent_end": "_agent_end",
        "agent_settled": "_agent_settled",
        "turn_start": "",
        "turn_end": "",
        "message_start": "_message_start",
        "message_update": "_message_update",
        "message_end": "_message_end",
        "tool_execution_start": "_tool_start",
        "tool_execution_update": "_tool_update",
        "tool_execution_end": "_tool_end",
        "auto_retry_start": "_retry_start",
        "auto_retry_end": "_retry_end",
        "compaction_start": "",
        "compaction_end": "_compaction_end",
        "auto_compaction_start": "",
        "auto_compaction_end": "_compaction_end",
        "entry_appended": "",
        "queue_update": "",
        "session_info_changed": "",
        "thinking_level_changed": "",
    }

    def __init__(self) -> None:
        super().__init__()
        self._answers = Answers()
        self._failure = ""
        """Why the last answer failed, until it is known whether the model is asked again."""
        self._is_retrying = False
        self._is_prompted = False
        self._has_ended = False
        self._is_aborted = False
        self._calls: dict[str, PendingCall] = {}
        self._shown_output: dict[str, str] = {}
        """Call → its output in the last update."""
        self._unnamed = 0

    def record(self, record: Record) -> Sequence[Event]:
        if record.get("type") == "message_update":
            event = record.get("assistantMessageEvent")
            # Nearly every line of a long run is a piece of the text that is being written: the fast path.
            if type(event) is dict and event.get("type") == "text_delta":
                answers, text = self._answers, event.get("delta")
                if event.get("contentIndex") == answers.text_index and type(text) is str and text:
                    self.rule = "message_update"
                    answers.latest = record
                    return (TextDelta(id=answers.text_id, text=text),)
        return super().record(record)

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = [*super().finish(ending), *self._answers.break_off(), *self._give_up()]
        if self._has_ended:
            out.append(self._result())
        return out

    def _result(self) -> Result:
        reason, turns = self._answers.stop_reason, self._answers.count
        outcome = "interrupted" if self._is_aborted else _FAILURES.get(reason, "completed")
        return Result(success=outcome == "completed", outcome=outcome, stop_reason=reason, turns=turns)

    def _session(self, record: Record) -> list[Event]:
        cwd = text_of(record.get("cwd"))
        self.working_directory = cwd or self.working_directory
        session_id = first_text(record, "id", "sessionId", "session_id")
        return [SessionStart(session_id=session_id, agent="pi", cwd=cwd)]

    def _agent_start(self, _record: Record) -> list[Event]:
        self._has_ended = False
        return self._give_up()

    def _agent_end(self, record: Record) -> Sequence[Event]:
        """Versions that do not say whether they will try again have ended until they do."""
        self._has_ended = record.get("willRetry") is not True
        return self._give_up() if record.get("willRetry") is False else ()

    def _agent_settled(self, record: Record) -> list[Event]:
        self._has_ended = True
        self._is_aborted = record.get("aborted") is True
        return self._give_up()

    def _give_up(self) -> list[Event]:
        """The model is not asked again: what failed has failed."""
        out = self._answers.stand()
        if self._failure:
            out.append(Error(message=self._failure, code=code_of(self._failure, "api_error")))
            self._failure, self._is_retrying = "", False
        return out

    def _retry_start(self, record: Record) -> list[Event]:
        self._has_ended = False
        self._failure, self._is_retrying = "", True
        attempt, most = count_of(record.get("attempt")), count_of(record.get("maxAttempts"))
        delay_ms = amount_of(record.get("delayMs"))
        failure = f"a request to the model failed: {text_of(record.get('errorMessage')) or 'unknown error'}"
        return [*self._answers.take_back(), *retried(failure, attempt, most, delay_ms)]

    def _retry_end(self, record: Record) -> list[Event]:
        out = self._give_up()
        if record.get("success") is False and self._is_retrying:
            final = text_of(record.get("finalError")) or "all retries failed"
            out.append(Error(message=final, code=code_of(final, "api_error")))
        self._is_retrying = False
        return out

    def _message_start(self, record: Record) -> list[Event]:
        if record_of(record.get("message")).get("role") != "assistant":
            return []
        out = self._give_up()
        self._answers.open()
        return out

    def _message_update(self, record: Record) -> Sequence[Event]:
        events = self._answers.update(record)
        return [Unknown(raw=record)] if events is None else events

    def _message_end(self, record: Record) -> Sequence[Event]:
        message = record_of(record.get("message")) or record_of(
            record_of(record.get("assistantMessageEvent")).get("message")
        )
        match message.get("role"):
            case "assistant":
                out = [*self._give_up(), *self._answers.end(message)]
                if self._answers.stop_reason == "error":
                    self._failure = text_of(message.get("errorMessage")) or "the model's answer failed"
                return out
            case "user":
                return self._user_message(output_of(message.get("content")))
            case "custom":
                text = output_of(message.get("content"))
                return [Info(message=text, code=text_of(message.get("customType")) or "custom")]
            case "system" | "toolResult":
                return ()
            case _:
                return [Unknown(raw=record)]

    def _user_message(self, text: str) -> Sequence[Event]:
        is_prompt, self._is_prompted = not self._is_prompted, True
        return [Message(role="user", text=text)] if text and not is_prompt else ()

    def _tool_start(self, record: Record) -> list[Event]:
        call_id, arguments = text_of(record.get("toolCallId")), _asked(record)
        if not call_id:
            return [Unknown(raw=record)]
        return [self._begin_call(call_id, arguments, record)]

    def _begin_call(self, call_id: str, arguments: Any, record: Record) -> ToolStart:
        name = first_text(record, "toolName", "tool_name", "tool", "name")
        self._calls[call_id], start = PI.start(call_id, name, arguments, self.working_directory, record)
        return start

    def _tool_update(self, record: Record) -> Sequence[Event]:
        """It repeats all output so far, or the end of it; only what is new is emitted."""
        call_id = text_of(record.get("toolCallId"))
        call = self._calls.get(call_id)
        text = output_of(record_of(record.get("partialResult")).get("content"))
        if call is None or not text:
            return ()
        text_before, self._shown_output[call_id] = self._shown_output.get(call_id, ""), text
        new = continuation(text_before, text)
        return (ToolProgress(call_id=call_id, text=new),) if new else ()

    def _tool_end(self, record: Record) -> list[Event]:
        call_id, arguments = text_of(record.get("toolCallId")), _asked(record)
        out: list[Event] = []
        if call_id not in self._calls and isinstance(arguments, dict):
            # All that is to be known of a call may come at its end; it may even have no id then.
            self._unnamed += not call_id
            call_id = call_id or f"call-{self._unnamed}"
            out = [self._begin_call(call_id, arguments, record)]
        call = self._calls.pop(call_id, None)
        self._shown_output.pop(call_id, None)
        if call is None:
            return [unmatched_result(record)]
        result = record_of(record.get("result"))
        output = output_of_result(record.get("result")) or output_of(record.get("error"))
        is_success = _is_success(record)
        out.append(
            ToolEnd(
                call_id=call_id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code_of_call(call.name, result, output, is_success=is_success),
                duration_ms=count_of(record.get("durationMs")),
                operations=PI.operations_after(call, result, output) if is_success else None,
            )
        )
        return out

    def _compaction_end(self, record: Record) -> list[Event]:
        result = record_of(record.get("result"))
        if result and record.get("aborted") is not True:
            before = count_of(result.get("tokensBefore"))
            return [Compacted(trigger=text_of(record.get("reason")), before_tokens=before)]
        failure = text_of(record.get("errorMessage")) or "the context was not compacted"
        return [Warning(message=failure, code="compaction_failed")]


def _asked(record: Record) -> Any:
    return next(
        (record[name] for name in ("args", "input", "arguments", "toolInput") if name in record), None
    )


def _is_success(record: Record) -> bool | None:
    if isinstance(is_error := record.get("isError"), bool):
        return not is_error
    if record.get("error") is not None:
        return False
    if "result" in record:
        return True
    status = first_text(record, "status", "state").lower()
    return True if status in _ENDED_WELL else False if status in _ENDED_BADLY else None


_NOTIFICATIONS: dict[str, type[Info | Warning | Error]] = {"info": Info, "warning": Warning, "error": Error}


class PiRpcTranslator(PiTranslator):
    """What Pi writes in a conversation (`--mode rpc`): the records of a run, responses to commands, and dialogs.

    Rules
    1. What the driver acts on says nothing here: responses, dialogs, and steering messages, which the log has from
       where they were taken.
    2. A stream may begin in the middle of a session: the session is known from the response to `get_state`, which is
       asked for in every run.
    """

    rules: ClassVar[dict[str, str]] = {
        **PiTranslator.rules,
        "queue_update": "_queue_update",
        "response": "_response",
        "extension_ui_request": "_extension_ui",
        "extension_error": "_extension_error",
    }

    def __init__(self) -> None:
        super().__init__()
        self._session_id: str | None = None
        self._wanted_model = ""
        self._awaits_prompt = False
        self._queued: list[str] = []
        """Texts that wait in Pi's queue."""
        self._steered: list[str] = []
        """Those of them that the driver sent."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._wanted_model = start.model

    def _response(self, record: Record) -> Sequence[Event]:
        data, is_success = record_of(record.get("data")), record.get("success") is True
        is_handled = data.get("disposition") == "handled"
        match record.get("command"):
            case "get_state":
                return self._state(text_of(data.get("sessionId")), record_of(data.get("model")))
            case "prompt":
                self._awaits_prompt = is_success and not is_handled
                self._has_ended = is_success and is_handled
            case "steer" if is_success and not is_handled:
                self._steered += self._queued[-1:]
        return ()

    def _state(self, session_id: str, model: Record) -> Sequence[Event]:
        if session_id == self._session_id:
            return ()
        self._session_id = session_id
        name, provider = text_of(model.get("id")), text_of(model.get("provider"))
        # A model that Pi does not have is not switched to: the one before answers.
        is_wanted = not self._wanted_model or self._wanted_model in (name, f"{provider}/{name}")
        return [
            SessionStart(
                session_id=session_id,
                agent="pi",
                cwd=self.working_directory,
                model="" if is_wanted else name,
            )
        ]

    def _queue_update(self, record: Record) -> Sequence[Event]:
        self._queued = [text for text in items_of(record.get("steering")) if isinstance(text, str)]
        return ()

    def _user_message(self, text: str) -> Sequence[Event]:
        if self._awaits_prompt:
            self._awaits_prompt = False
            return ()
        if text in self._steered:
            self._steered.remove(text)
            return ()
        return [Message(role="user", text=text)] if text else ()

    def _agent_end(self, record: Record) -> Sequence[Event]:
        """Whether the last answer failed or was aborted is known when it has settled."""
        self._has_ended = record.get("willRetry") is not True
        return ()

    def _agent_settled(self, record: Record) -> list[Event]:
        if record.get("aborted") is True:
            self._failure = ""
        return super()._agent_settled(record)

    def _extension_ui(self, record: Record) -> Sequence[Event]:
        method = text_of(record.get("method"))
        if method == "notify":
            event = _NOTIFICATIONS.get(text_of(record.get("notifyType")), Info)
            return [event(message=output_of(record.get("message")), code="extension")]
        return () if method in DIALOGS | ANNOUNCEMENTS else [Unknown(raw=record)]

    def _extension_error(self, record: Record) -> Sequence[Event]:
        path, error = text_of(record.get("extensionPath")), text_of(record.get("error")) or "unknown error"
        return [Warning(message=f"an extension failed: {path}: {error}", code="extension_error")]


_READING_TOOLS = "read,grep,find,ls"
_FLAGS = {
    "model": "--model",
    "system_prompt": "--system-prompt",
    "append_system_prompt": "--append-system-prompt",
    "effort": "--thinking",
    "resume": "--session",
    "continue_last": "--continue",
}


def _approval(request: Request) -> list[str]:
    """By itself it asks, where it can, whether a folder's settings are obeyed."""
    return ["--no-approve"] if request.folder_settings == "none" else []


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and may begin with a dash or an @."""
    del version
    args = ["--mode", "json", "--print", *_approval(request)]
    if request.permissions == "read-only":
        args += ["--tools", _READING_TOOLS]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes)


def rpc_command(request: Request, version: Version) -> CommandLine:
    """Calls are asked about by an extension; what only reads has no tool that could do more."""
    del version
    args = ["--mode", "rpc", "--extension", QUESTION, *_approval(request)]
    if request.permissions in ("ask", "read-only"):
        args += ["--extension", GATE]
    if request.permissions == "read-only":
        args += ["--tools", f"{_READING_TOOLS},ask_user"]
    args += flags_of(request, {**_FLAGS, "session_id": "--session-id"})
    return CommandLine(args=(*args, *request.extra_args))


AGENT = Agent(
    name="pi",
    title="Pi",
    aliases=("pi-coding-agent",),
    binaries=("pi",),
    leaves_settings=True,
    homes=("~/.pi/", "$PI_CODING_AGENT_DIR/"),
    command=command,
    translator=PiTranslator,
    two_way=TwoWay(
        command=rpc_command,
        driver=PiRpc,
        translator=PiRpcTranslator,
        capabilities=CAPABILITIES,
        tools=PI,
        since=(0, 99),
    ),
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    screen_resume=("--session", "{id}"),
    key_variables=(
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_OAUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "XAI_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
    ),
    install="npm install -g @earendil-works/pi-coding-agent",
    login="pi, and in it /login",
    delta_keys=("delta",),
    reveals={
        "deltas": "text, reasoning and tool input",
        "reasoning": "yes",
        "tools": "every call, live output and result; exit codes stated from 1.5 on, before that only of failures",
        "sub_agents": "none: Pi has none; calls that a script makes (codemode) are shown from 1.5 on",
        "usage": "per model call; reasoning apart from 0.87 on",
        "cost": "stated, per model call",
        "result": "how the last answer stopped; whether the run was aborted from 1.5 on; the exit code is 0 on failures too",
    },
)
