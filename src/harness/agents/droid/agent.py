"""Factory Droid: `droid exec --output-format stream-json`, from 0.200 on.

system/init              the session
message, reasoning       what is said and thought, whole; reasoning comes twice
tool_call, tool_result   a call and what it gave back
error                    why it failed; a second one only says that it did
completion               the end; missing when it failed or was stopped, the latter with exit code 0

A run that was stopped while a command ran continues without the command, and completes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.contracts.agent import (
    HOOK_FOLDER,
    OUR_PYTHON,
    Agent,
    CommandFiles,
    CommandLine,
    HeldSettings,
    TrustingSettings,
    Version,
)
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import (
    Input,
    KnownTool,
    PendingCall,
    ToolMapping,
    Toolset,
    consistent_exit_code,
    conversing,
    fetching,
    lines_of,
    listing,
    patching,
    reaching,
    reading,
    running,
    searching,
    spawning,
    tasks_of,
    tracking_tasks,
    unmatched_result,
    using_skill,
    writing,
)
from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    Result,
    SessionStart,
    TasksChanged,
    ToolEnd,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Operation, Read, Write
from harness.events.run import Task
from harness.formats.error_messages import code_of
from harness.formats.fields import (
    absolute,
    count_of,
    decoded,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.patches import changed_lines
from harness.protocols.acp.calls import ENDS, AcpCall, named_by_input
from harness.protocols.acp.driver import AcpProgram
from harness.protocols.acp.stream import AcpTranslator, CallEnd
from harness.protocols.child_runs import ChildRuns
from harness.protocols.plain_answer import PlainAnswer
from harness.protocols.stream_json import error_of, outcome_of

SHELL = "Execute"
SPAWNER = "Task"
TODO_LISTS = frozenset({"TodoWrite"})

_EXIT_CODE = re.compile(r"(?:\A|\n)\[Process exited with code (\d{1,9})\]\s*\Z")
_SHOWN_LINES = re.compile(r"\[Showing lines (\d{1,9})-(\d{1,9}) of \d+ total lines\]")
_TRAILER_LENGTH = 200
_TODO = re.compile(r"^\s*(?:\d+\.|[-*])?\s*\[(completed|in_progress|pending| |x)\]\s*(.+)$", re.MULTILINE)
_TODO_STATUSES = {"x": "completed", " ": "pending"}


_PATCH_TEXT = patching("input")


def _patch(arguments: Input, cwd: str) -> list[Operation] | None:
    """Models that were not made for it wrap the patch into JSON once more."""
    text = text_of(arguments.get("input"))
    inner = record_of(decoded(text)) if text.startswith("{") else {}
    return _PATCH_TEXT(inner or arguments, cwd)


_TOOLS: dict[str, ToolMapping] = {
    SHELL: running("command"),
    "Read": reading("file_path", "path"),
    "LS": listing("directory_path", "path"),
    "Edit": writing("file_path", "path", change="update"),
    "MultiEdit": writing("file_path", "path", change="update"),
    "Create": writing("file_path", "path", change="create"),
    "ApplyPatch": KnownTool(_patch, _PATCH_TEXT.use),
    "Grep": searching("pattern"),
    "Glob": searching("patterns", "pattern", paths=("folder", "path"), globs=("patterns", "pattern")),
    "Skill": using_skill("skill", "name"),
    SPAWNER: spawning("description", "prompt", names=("subagent_type",)),
    "WebSearch": fetching,
    "FetchUrl": fetching,
    **dict.fromkeys(TODO_LISTS, tracking_tasks),
    **dict.fromkeys(
        (
            "AskUser",
            "ExitMissionPlanning",
            "ExitSpecMode",
            "RecommendMission",
            "TaskOutput",
            "TaskStop",
            "ToolSearch",
        ),
        conversing,
    ),
    **dict.fromkeys(("ConnectorSearch", "GenerateImage"), reaching),
}


def exit_code_of(name: str, output: str, *, is_success: bool | None) -> int | None:
    return (
        consistent_exit_code(is_success, _EXIT_CODE.search(output[-_TRAILER_LENGTH:]))
        if name == SHELL
        else None
    )


def todo_list_of(arguments: Input) -> list[Task] | None:
    """A list, or text with a line per task."""
    todos = arguments.get("todos")
    if not isinstance(todos, str):
        return tasks_of(todos)
    items = [
        {"content": text.strip(), "status": _TODO_STATUSES.get(mark, mark)}
        for mark, text in _TODO.findall(todos)
    ]
    return tasks_of(items) if items else None


def _read_result(call: PendingCall, _detail: Input, output: str) -> list[Operation] | None:
    operation, match = call.operation, _SHOWN_LINES.search(output[-_TRAILER_LENGTH:])
    if match is None or not isinstance(operation, Read):
        return None
    return [replace(operation, start_line=int(match[1]), end_line=int(match[2]))]


def _edit_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    operation = call.operation
    lines = [record_of(line) for line in items_of(detail.get("diffLines"))]
    numbers = [
        number
        for line in lines
        if line.get("type") == "added" and (number := count_of(record_of(line.get("lineNumber")).get("new")))
    ]
    if not numbers or not isinstance(operation, Write):
        return None
    return [replace(operation, start_line=min(numbers), end_line=max(numbers))]


def _create_result(call: PendingCall, _detail: Input, _output: str) -> list[Operation] | None:
    operation = call.operation
    start, end = lines_of(text_of(call.input.get("content")))
    return [replace(operation, start_line=start, end_line=end)] if isinstance(operation, Write) else None


def _patch_result(call: PendingCall, detail: Input, _output: str) -> list[Operation] | None:
    operations: list[Operation] = []
    for item in items_of(detail.get("files")):
        file = record_of(item)
        path = absolute(text_of(file.get("file_path")), call.cwd)
        change = text_of(file.get("display_operation"))
        start, end = changed_lines(text_of(file.get("diff"))) or lines_of(text_of(file.get("content")))
        if path:
            operations.append(Write(path=path, start_line=start, end_line=end, change=change))
    return operations or None


DROID = Toolset(
    tools=_TOOLS,
    results={
        "Read": _read_result,
        "Edit": _edit_result,
        "MultiEdit": _edit_result,
        "Create": _create_result,
        "ApplyPatch": _patch_result,
    },
    spawners=frozenset({SPAWNER}),
)
"""Results are text; those of tools that change files hold JSON with the changed lines."""


_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--skip-permissions-unsafe"],
    # Without a flag it may only read.
    "read-only": [],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "append_system_prompt": "--append-system-prompt",
    "effort": "--reasoning-effort",
    "resume": "--session-id",
}
_REFUSED = "insufficient permission to proceed"
_ECHO = "Exec failed"
"""What the program says of itself after the error that ended its loop."""


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin: it may be long, and may begin with a dash."""
    del version
    args = ["exec", "--output-format", "stream-json", *_PERMISSIONS[request.permissions]]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt_bytes)


class DroidTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "system/init": "_init",
        "message": "_message",
        "reasoning": "_reasoning",
        "tool_call": "_tool_call",
        "tool_result": "_tool_result",
        "error": "_error",
        "completion": "_completion",
        # The one record of `--output-format json`.
        "result": "_result",
    }

    def __init__(self) -> None:
        super().__init__()
        self._children = ChildRuns("droid")
        self._calls: dict[str, PendingCall] = {}
        self._emitted_texts: set[tuple[str, str]] = set()
        self._failure = ""
        self._model = ""
        self._is_prompted = False

    def kind(self, record: Record) -> str:
        kind = text_of(record.get("type"))
        return f"system/{text_of(record.get('subtype'))}" if kind == "system" else kind

    def finish(self, ending: Ending) -> Sequence[Event]:
        events = super().finish(ending)
        return [*events, Result(success=False, outcome="failed")] if self._failure else events

    def _init(self, record: Record) -> Sequence[Event]:
        cwd = text_of(record.get("cwd"))
        self.working_directory = cwd or self.working_directory
        self._model = text_of(record.get("model"))
        return [
            SessionStart(
                agent="droid",
                session_id=text_of(record.get("session_id")),
                model=self._model,
                cwd=cwd,
            )
        ]

    def _message(self, record: Record) -> Sequence[Event]:
        text, message_id = record.get("text"), text_of(record.get("id"))
        if not isinstance(text, str):
            return [Unknown(raw=record)]
        match record.get("role"):
            case "assistant":
                is_new = text and self._is_new(message_id, text)
                return [Message(role="assistant", text=text, id=message_id)] if is_new else ()
            case "user":
                is_prompt, self._is_prompted = not self._is_prompted, True
                is_new = text and not is_prompt and self._is_new(message_id, text)
                return [Message(role="user", text=text, id=message_id)] if is_new else ()
            case "system":
                return [Message(role="system", text=text, id=message_id)] if text else ()
            case _:
                return [Unknown(raw=record)]

    def _is_new(self, name: str, text: str) -> bool:
        """Records are known by their ids; one that has none is always new."""
        if not name:
            return True
        count = len(self._emitted_texts)
        self._emitted_texts.add((name, text))
        return len(self._emitted_texts) > count

    def _reasoning(self, record: Record) -> Sequence[Event]:
        text, name = text_of(record.get("text")), f"{text_of(record.get('id'))}:reasoning"
        return [ReasoningDelta(id=name, text=text)] if text and self._is_new(name, text) else ()

    def _tool_call(self, record: Record) -> Sequence[Event]:
        call_id, name = text_of(record.get("id")), first_text(record, "toolName", "toolId")
        if not call_id:
            return [Unknown(raw=record)]
        call, start = DROID.start(call_id, name, record.get("parameters"), self.working_directory, record)
        self._calls[call_id] = call
        return [start, *self._begin_child(call)] if name in DROID.spawners and call.operations else [start]

    def _begin_child(self, call: PendingCall) -> list[Event]:
        name, prompt = text_of(call.input.get("subagent_type")), text_of(call.input.get("prompt"))
        return self._children.begin(call.id, name=name, prompt=prompt, cwd=call.cwd)

    def _tool_result(self, record: Record) -> Sequence[Event]:
        call = self._calls.pop(text_of(record.get("id")), None)
        if call is None:
            return [unmatched_result(record)]
        is_error = record.get("isError") is True or bool(record.get("error"))
        is_success = False if is_error else True if record.get("isError") is False else None
        output = _output_of(record)
        out: list[Event] = []
        if is_error and _REFUSED in output:
            message = f"permission denied: {call.name}: {output}"
            out.append(Warning(message=message, code="permission_denied"))
        if call.name in DROID.spawners and (is_error or call.input.get("await") is not False):
            out += self._children.end(call.id, "failed" if is_error else "completed", output)
        detail = decoded(output) if output.startswith("{") else {}
        out.append(
            ToolEnd(
                call_id=call.id,
                tool_name=call.name or "unknown",
                success=is_success,
                output=output,
                exit_code=exit_code_of(call.name, output, is_success=is_success),
                operations=None if is_error else DROID.operations_after(call, detail, output),
            )
        )
        tasks = todo_list_of(call.input) if call.name in TODO_LISTS and not is_error else None
        return out if tasks is None else [*out, TasksChanged(tasks=tasks)]

    def _error(self, record: Record) -> Sequence[Event]:
        words = record.get("message") or record_of(record.get("error")).get("message")
        message = text_of(words) or "Droid reports an error without a word"
        if self._failure and message in (_ECHO, self._failure):
            self.rule = "error/repeated"
            return ()
        self._failure = message
        code = code_of(message, text_of(record.get("source")) or "error")
        return [Error(message=message, code="permission_denied" if _REFUSED in message else code)]

    def _completion(self, record: Record) -> Sequence[Event]:
        self._failure = ""
        usage = _usage_of(record)
        return [
            *([UsageDelta(usage=usage, model=self._model)] if usage is not None else []),
            Result(
                success=True,
                text=text_of(record.get("finalText")),
                duration_ms=count_of(record.get("durationMs")),
                turns=count_of(record.get("numTurns")),
                usage=usage,
            ),
        ]

    def _result(self, record: Record) -> Sequence[Event]:
        self._failure = ""
        outcome = outcome_of(record, is_interrupted=False)
        error, text = error_of(record, outcome), text_of(record.get("result"))
        has_answer = outcome == "completed" and text
        return [
            SessionStart(agent="droid", session_id=text_of(record.get("session_id"))),
            *([error] if error is not None else []),
            *([Message(role="assistant", text=text)] if has_answer else []),
            Result(
                success=outcome == "completed",
                outcome=outcome,
                text=text if has_answer else "",
                duration_ms=count_of(record.get("duration_ms")),
                turns=count_of(record.get("num_turns")),
                usage=_usage_of(record),
            ),
        ]


def _output_of(record: Record) -> str:
    value, error = record.get("value"), record.get("error")
    if value is None:
        return text_of(record_of(error).get("message")) or output_of(error)
    return output_of(value)


def _usage_of(record: Record) -> Usage | None:
    data = record_of(record.get("usage"))
    usage = Usage(
        input=count_of(data.get("input_tokens")),
        output=count_of(data.get("output_tokens")),
        cache_read=count_of(data.get("cache_read_input_tokens")),
        cache_write=count_of(data.get("cache_creation_input_tokens")),
    )
    return usage or None


_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "Execute": ("command",),
    "Task": ("subagent_type", "prompt"),
    "TodoWrite": ("todos",),
    "Edit": ("file_path", "old_str"),
    "MultiEdit": ("file_path", "changes"),
    "Create": ("file_path", "content"),
    "Read": ("file_path",),
    "LS": ("directory_path",),
    "Grep": ("pattern",),
    "Glob": ("patterns",),
    "ApplyPatch": ("input",),
    "Skill": ("skill",),
    "FetchUrl": ("url",),
    "WebSearch": ("query",),
    "AskUser": ("questionnaire",),
}
"""Tool → the arguments that only it has, or the ones before it do not."""


class DroidAcp(AcpTranslator):
    """Factory Droid over ACP: `droid exec --output-format acp`, from 0.225 on.

    Tools have no names here: their arguments say which they are. Texts come whole. One question may be for several calls,
    of which it shows the last; a refused call ends the turn.
    """

    agent = "droid"
    tools: ClassVar[Toolset] = DROID

    @staticmethod
    def name_of(call: AcpCall) -> str:
        return named_by_input(_ARGUMENTS, call.input) or call.kind or call.title

    def _text(self, record: Record) -> Sequence[Event]:
        """Every text is a whole message."""
        params = record_of(record.get("params"))
        return [*super()._text(record), *self.flush(self.run_of(params, record_of(params.get("update"))))]

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        """Of a command that ran there is a terminal, whose output only an editor sees."""
        is_success = ENDS.get(call.status)
        value: Any = text_of(record_of(call.output).get("text")) or call.output
        output = call.text or output_of(value)
        has_output = bool(output) or pending.name != "Execute"
        detail = decoded(output) if output.startswith("{") else {}
        return CallEnd(
            is_success,
            output if has_output else None,
            exit_code_of(pending.name, output, is_success=is_success),
            DROID.operations_after(pending, detail, output) if is_success else None,
        )

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        del call
        return todo_list_of(pending.input) if pending.name in TODO_LISTS else None


PROGRAM = AcpProgram(
    translator=DroidAcp,
    capabilities=frozenset({"approve", "files", "mode", "model"}),
    modes={"ask": "normal", "read-only": "normal"},
    auth_method="factory-api-key",
    asks_for_all=True,
    ends_turn_on_reject=True,
)


_ASK = f"{__file__.removesuffix('agent.py')}ask.json"
"""Settings of this process alone, by which it asks also about commands that it takes for harmless and about reading
elsewhere, and loads no skill: over ACP no tool can be taken from the model, but a hook can refuse its calls."""


_ALLOWED, _ASKED = "commandAllowlist", "commandDenylist"


def _over(ours: dict[str, Any], users: list[dict[str, Any]]) -> dict[str, Any]:
    """It runs what its user has once allowed, unless it is also told to ask about that: then it asks."""
    asked = dict.fromkeys(text_of(item) for item in items_of(ours.get(_ASKED)))
    for settings in users:
        for text in map(text_of, items_of(settings.get(_ALLOWED))):
            asked |= dict.fromkeys(filter(None, (text, text.partition(" ")[0])))
        for rule in map(record_of, items_of(record_of(settings.get("permissionRules")).get("rules"))):
            first = next(iter(items_of(record_of(rule.get("match")).get("prefix"))), "")
            asked |= dict.fromkeys(filter(None, map(text_of, items_of(first) or [first])))
    return {**ours, _ASKED: list(asked)}


_HELD_BY = HeldSettings(
    file=_ASK,
    over=_over,
    theirs=tuple(
        f"{folder}.factory/{name}"
        for folder in ("~/", "")
        for name in ("settings.json", "settings.local.json")
    ),
)


def acp_command(request: Request, version: Version) -> CommandLine:
    del version
    args, env, held_by = ["exec", "--output-format", "acp"], {}, None
    if request.permissions in ("ask", "read-only"):
        args += ["--settings", _ASK]
        held_by = _HELD_BY
        env = {OUR_PYTHON: sys.executable, HOOK_FOLDER: request.cwd}
    if request.permissions == "full-access":
        args.append("--skip-permissions-unsafe")
    flags = {name: _FLAGS[name] for name in ("model", "effort")}
    args += [*flags_of(request, flags), *request.extra_args]
    return CommandLine(args=tuple(args), env=env, held_by=held_by)


_TAKEN = frozenset({"agent-default", "effort", "model", "read-only", "resume"})
_TRUSTING = TrustingSettings(
    files=_HELD_BY.theirs,
    pattern=r'"PreToolUse"\s*:\s*\[\s*\{',
    what="a hook of PreToolUse in {path} may allow calls, and nobody is asked about those",
    reach_reading=True,
)
TWO_WAY = PROGRAM.two_way(acp_command, since=(0, 225), supports=_TAKEN, trusting=_TRUSTING)


AGENT = Agent(
    name="droid",
    reads_unasked=True,
    title="Factory Droid",
    aliases=("factory", "factory-droid"),
    binaries=("droid",),
    homes=("~/.factory/", "~/.local/share/factory"),
    command=command,
    translator=DroidTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    command_files=(CommandFiles(folders=("~/.factory/commands", ".factory/commands"), is_taken=False),),
    screen_resume=("--resume", "{id}"),
    key_variables=("FACTORY_API_KEY",),
    install="npm install -g @factory/cli",
    login="droid, and in it /login",
    reveals={
        "deltas": "none: messages come whole",
        "reasoning": "yes, whole",
        "tools": "every call and result; changed lines; exit codes",
        "sub_agents": "begin, task, answer and end; not what they do",
        "usage": "in total, with the last record; reasoning is part of the output",
        "cost": "never in money: its own credits are not taken over",
        "result": "by the last record; without it when it failed, or was stopped (exit code 0)",
    },
)
