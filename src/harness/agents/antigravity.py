"""Antigravity: `agy --output-format stream-json` from 1.1.8 on, before that the plain `agy --print`.

init           the conversation, once
step_update    a step is ACTIVE, then DONE or ERROR: an answer, a tool, sub-agents
result         the end of a turn, with the tokens of the whole conversation

Written from what is public of it. Its own SUCCESS holds also for a turn that did nothing because it was
denied a permission, and for one that ran into `--print-timeout`: only stderr shows the latter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of, has
from harness.contracts.request import Request
from harness.contracts.toolset import (
    Input,
    ToolMapping,
    Toolset,
    lines_of,
    listing,
    no_operation,
    running,
    searching,
    spawning,
)
from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Outcome,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Fetch, Operation, Read, Spawn, Write
from harness.formats.fields import (
    absolute,
    amount_of,
    besides,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.log.raw import RawStart
from harness.protocols.child_runs import ChildRuns
from harness.protocols.plain_answer import PlainAnswer

SHELL = "run_command"

_PATHS = ("AbsolutePath", "TargetFile", "File", "FilePath", "Path", "path")


def _path_of(arguments: Input, cwd: str) -> str:
    return absolute(first_text(arguments, *_PATHS).removeprefix("file://"), cwd)


def _view(arguments: Input, cwd: str) -> list[Operation] | None:
    path = _path_of(arguments, cwd)
    start, end = (count_of(arguments.get(name)) or None for name in ("StartLine", "EndLine"))
    return [Read(path=path, start_line=start, end_line=end)] if path else None


def _write(arguments: Input, cwd: str) -> list[Operation] | None:
    path = _path_of(arguments, cwd)
    start, end = lines_of(text_of(arguments.get("CodeContent")))
    return [Write(path=path, start_line=start, end_line=end)] if path else None


def _replace(arguments: Input, cwd: str) -> list[Operation] | None:
    """One place of a file, or several (`ReplacementChunks`), of which the range then spans all."""
    path = _path_of(arguments, cwd)
    chunks = [record_of(chunk) for chunk in items_of(arguments.get("ReplacementChunks"))] or [arguments]
    starts, ends = (
        [number for chunk in chunks if (number := count_of(chunk.get(name)))]
        for name in ("StartLine", "EndLine")
    )
    start, end = min(starts, default=None), max(ends, default=None)
    return [Write(path=path, start_line=start, end_line=end, change="update")] if path else None


def _fetch(arguments: Input, _cwd: str) -> list[Operation] | None:
    url, query = first_text(arguments, "Url", "url"), first_text(arguments, "query", "Query")
    return [Fetch(url=url, query=query)] if url or query else None


_TOOLS: dict[str, ToolMapping] = {
    "browser_subagent": spawning("Task", "TaskSummary", names=("TaskName",)),
    "codebase_search": searching("Query", paths=("TargetDirectories",)),
    "find_by_name": searching("Pattern", paths=("SearchDirectory",)),
    "grep_search": searching("Query", "query", paths=("SearchPath",)),
    "list_dir": listing("DirectoryPath", "AbsolutePath", "path"),
    "multi_replace_file_content": _replace,
    "read_url_content": _fetch,
    "replace_file_content": _replace,
    SHELL: running("CommandLine", "command", directory="Cwd"),
    "search_web": _fetch,
    "view_code_item": _view,
    "view_file": _view,
    "view_file_outline": _view,
    "write_to_file": _write,
    **dict.fromkeys(
        (
            "command_status",
            "generate_image",
            "list_resources",
            "notify_user",
            "read_resource",
            "read_terminal",
            "send_command_input",
            "task_boundary",
        ),
        no_operation,
    ),
}

ANTIGRAVITY = Toolset(tools=_TOOLS)
"""Parameters are named like `AbsolutePath`."""


_RECORDS_SINCE: Version = (1, 1, 8)
_FLAGS = {"model": "--model", "resume": "--conversation", "continue_last": "--continue"}
_DENIED = re.compile(r"denied permission|permission check failed|auto-denied")
_EXIT_STATUS = re.compile(r"exit status (\d{1,9})\b")
_ERROR_CODE = re.compile(r'AGY_ERROR:.*"short_error"\s*:\s*"([A-Za-z_]+)')
_PRINT_TIMEOUT = re.compile(r"\[agy\] print timeout\b")
_SUBAGENTS = "invoke_subagent"
_ENDED = ("DONE", "ERROR")


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is the value of a flag; `=` keeps it from being taken for another one."""
    args: list[str] = []
    if has(version, _RECORDS_SINCE):
        args += ["--output-format", "stream-json"]
    if request.permissions == "full-access":
        args.append("--dangerously-skip-permissions")
    args += flags_of(request, _FLAGS)
    # Its own limit of five minutes would end a turn in the middle and call that a success.
    args += ["--print-timeout", "24h", *request.extra_args, f"--print={request.prompt}"]
    return CommandLine(args=tuple(args))


class AntigravityTranslator(PlainAnswer):
    rules: ClassVar[dict[str, str]] = {
        "init": "_init",
        "step_update/agent_response": "_response",
        "step_update/checkpoint": "_bookkeeping",
        "step_update/subagent": "_subagents",
        "step_update/system_message": "_bookkeeping",
        "step_update/tool": "_tool",
        "step_update/user_input": "",
        "result": "_result",
    }

    def __init__(self) -> None:
        super().__init__()
        self._model = ""
        self._is_continued = False
        self._speaking: int | None = None
        """The step whose text is being written."""
        self._pieces: list[str] = []
        self._calls: dict[str, list[Operation]] = {}
        self._ended_calls: set[str] = set()
        self._children = ChildRuns("antigravity")
        self._children_begun: list[str] = []
        self._is_denied = False
        self._errors: list[str] = []
        """Errors that are emitted at the end, when their code is known."""
        self._error_code = ""
        self._has_timed_out = False
        self._is_cut = False
        self._last: Record | None = None

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._is_continued = not {"--conversation", "--continue", "-c"}.isdisjoint(start.argv)

    def kind(self, record: Record) -> str:
        event = text_of(record.get("event"))
        step = record.get("step_update")
        return f"{event}/{text_of(record_of(step).get('step_type'))}" if event == "step_update" else event

    def record(self, record: Record) -> Sequence[Event]:
        step = record.get("step_update")
        # Nearly every line of a long run is a piece of the text that is being written: the fast path.
        if type(step) is dict and self._speaking is not None and step.get("step_index") == self._speaking:
            piece = step.get("text_delta")
            if type(piece) is str and piece and step.get("state") == "ACTIVE":
                self.rule = "step_update/agent_response"
                self._pieces.append(piece)
                return (TextDelta(id=f"step-{self._speaking}", text=piece),)
        return super().record(record)

    def stderr(self, line: str) -> Sequence[Event]:
        code = _ERROR_CODE.match(line)
        if code is not None:
            self.rule = "error code"
            self._error_code = code[1].lower()
            return ()
        message = line.removeprefix("error: ")
        if any(message in error or error in message for error in self._errors):
            self.rule = "repeated error"
            return ()
        if _PRINT_TIMEOUT.match(line):
            self.rule = "print timeout"
            self._has_timed_out = True
            return [Error(message=line, code="print_timeout")]
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        if not self._has_records:
            if self._waiting_lines or ending.exit_code != 0 or ending.outcome is not None:
                return super().finish(ending)
            message = "agy wrote nothing: before 1.0.7 it writes its answer to a terminal only"
            return [Error(message=message, code="no_output"), Result(success=False, outcome="failed")]
        out = self._finish_text()
        out += [Error(message=error, code=self._code_of(error)) for error in self._errors]
        if self._is_cut and not self._has_timed_out and ending.outcome is None:
            out.append(Error(message="the turn ended in the middle of an answer", code="missing_end"))
        if self._last is not None:
            out.append(self._final(self._last))
        return out

    def _final(self, data: Record) -> Result:
        seconds = amount_of(data.get("duration_seconds"))
        outcome = self._outcome(data)
        total = _usage_of(record_of(data.get("usage")))
        # What a conversation used before this run is in the total too; and zeros only mean "not counted".
        is_total = not self._is_continued and bool(total.without_zeros())
        return Result(
            success=outcome == "completed",
            outcome=outcome,
            text=text_of(data.get("response")),
            duration_ms=None if seconds is None else round(seconds * 1000),
            usage=total if is_total else None,
            stop_reason=text_of(data.get("status")),
            structured=data.get("structured_output"),
        )

    def _outcome(self, data: Record) -> Outcome:
        if self._has_timed_out:
            return "timed_out"
        if data.get("status") != "SUCCESS":
            return "interrupted" if "CANCEL" in text_of(data.get("status")) else "failed"
        is_without_answer = self._is_denied and not data.get("response")
        return "failed" if self._is_cut or is_without_answer else "completed"

    def _code_of(self, error: str) -> str:
        return self._error_code or ("authentication" if "authentication" in error.lower() else "agent_error")

    def _init(self, record: Record) -> list[Event]:
        data = record_of(record.get("init"))
        cwd, self._model = text_of(data.get("cwd")), text_of(data.get("model"))
        self.working_directory = cwd or self.working_directory
        session_id = text_of(record.get("conversation_id"))
        return [SessionStart(session_id=session_id, agent="antigravity", model=self._model, cwd=cwd)]

    def _response(self, record: Record) -> Sequence[Event]:
        step = record_of(record.get("step_update"))
        index, state, piece = count_of(step.get("step_index")), step.get("state"), step.get("text_delta")
        if index is None:
            return [Unknown(raw=record)]
        out: list[Event] = []
        if index != self._speaking:
            out += self._finish_text()
        if f"step-{index}" not in self._calls and f"step-{index}" not in self._ended_calls:
            self._calls[f"step-{index}"] = []
            self.turns = (self.turns or 0) + 1
            # The model is asked again: what went wrong before was not the end.
            out += [Warning(message=error, code="retry") for error in self._errors]
            self._errors.clear()
        if isinstance(piece, str) and piece:
            self._speaking = index
            self._pieces.append(piece)
            out.append(TextDelta(id=f"step-{index}", text=piece))
        if state in _ENDED:
            out += [*self._finish_text(), *self._used(step, f"step-{index}")]
            self._end_step(f"step-{index}")
        if state == "ERROR":
            self._errors.append(_error_of(step) or "the model's answer failed")
        return out

    def _finish_text(self) -> list[Event]:
        if self._speaking is None:
            return []
        name, whole = f"step-{self._speaking}", "".join(self._pieces)
        self._speaking, self._pieces = None, []
        return [Message(role="assistant", text=whole, id=name)]

    def _end_step(self, name: str) -> list[Operation]:
        self._ended_calls.add(name)
        return self._calls.pop(name, [])

    def _used(self, step: Record, name: str) -> list[Event]:
        usage = _usage_of(record_of(step.get("usage")))
        is_news = usage.without_zeros() and name not in self._ended_calls
        return [UsageDelta(usage=usage, model=self._model, id=name)] if is_news else []

    def _tool(self, record: Record) -> Sequence[Event]:
        step = record_of(record.get("step_update"))
        info, index = record_of(step.get("tool_info")), count_of(step.get("step_index"))
        name = text_of(info.get("name")) or text_of(step.get("tool_name"))
        if index is None or not name:
            return [Unknown(raw=record)]
        call_id, arguments = f"step-{index}", info.get("parameters")
        if call_id in self._ended_calls:
            return ()
        operations = ANTIGRAVITY.operations(name, arguments, self.working_directory)
        raw = step if operations is None else None
        out = self._start(call_id, name, arguments, operations or [], raw)
        if step.get("state") in _ENDED:
            out += self._end(step, call_id, name)
        return out

    def _start(
        self, call_id: str, name: str, arguments: Any, operations: list[Operation], raw: Any
    ) -> list[Event]:
        out = self._finish_text()
        if call_id in self._calls:
            return out
        self._calls[call_id] = operations
        return [
            *out,
            ToolStart(call_id=call_id, tool_name=name, input=arguments, operations=operations, raw=raw),
        ]

    def _end(
        self, step: Record, call_id: str, name: str, operations: list[Operation] | None = None
    ) -> list[Event]:
        info, error = record_of(step.get("tool_info")), _error_of(step)
        output, seconds = info.get("output"), amount_of(step.get("duration_seconds"))
        status = _EXIT_STATUS.search(error) if name == SHELL else None
        usage_fields = self._used(step, call_id)
        operations_before = self._end_step(call_id)
        out: list[Event] = [
            ToolEnd(
                call_id=call_id,
                tool_name=name,
                success=step.get("state") == "DONE" and not error,
                output=output_of(output) if output is not None else error or None,
                exit_code=int(status[1]) if status is not None else None,
                duration_ms=None if seconds is None else round(seconds * 1000),
                operations=None if operations == operations_before else operations,
            ),
            *usage_fields,
        ]
        if _DENIED.search(error):
            self._is_denied = True
            out.append(Warning(message=f"permission denied: {name}: {error}", code="permission_denied"))
        return out

    def _subagents(self, record: Record) -> Sequence[Event]:
        """What sub-agents do is not shown, nor when they end: the run that asked them has their answers."""
        step = record_of(record.get("step_update"))
        index = count_of(step.get("step_index"))
        if index is None:
            return [Unknown(raw=record)]
        call_id, name = f"step-{index}", text_of(step.get("tool_name")) or _SUBAGENTS
        if call_id in self._ended_calls:
            return ()
        data = record_of(step.get("subagent_info"))
        spawned = [_spawn_of(record_of(agent)) for agent in items_of(data.get("subagents"))]
        out = self._start(call_id, name, data or None, [*spawned], None)
        if step.get("state") not in _ENDED:
            return out
        for spawn in spawned:
            if agent_id := spawn.agent_id:
                out += self._children.begin(
                    agent_id, name=spawn.name, prompt=spawn.task, parent_id=call_id, task_id=agent_id
                )
                self._children_begun.append(agent_id)
        return [*out, *self._end(step, call_id, name, [*spawned])]

    def _bookkeeping(self, record: Record) -> Sequence[Event]:
        step = record_of(record.get("step_update"))
        name, message = f"step-{count_of(step.get('step_index'))}", first_text(step, "text_delta", "message")
        out: list[Event] = [Info(message=message, code=text_of(step.get("step_type")))] if message else []
        if step.get("state") == "DONE":
            out += self._used(step, name)
            self._end_step(name)
        return out

    def _result(self, record: Record) -> Sequence[Event]:
        data = self._last = record_of(record.get("result"))
        is_success, error = data.get("status") == "SUCCESS", text_of(data.get("error"))
        is_counted = bool(_usage_of(record_of(data.get("usage"))).without_zeros())
        self._is_cut = is_success and self._speaking is not None and not is_counted
        out = self._finish_text()
        if is_success:
            out += [Warning(message=failure, code="retry") for failure in self._errors]
            out += [
                event
                for agent in self._children_begun
                for event in self._children.end(agent, "completed", "")
            ]
            self._errors.clear()
        else:
            earlier = [failure for failure in self._errors if failure.rstrip(".") not in error]
            self._errors = [*earlier, error] if error else earlier
        actions = [record_of(action) for action in items_of(data.get("denied_actions"))]
        if actions and not self._is_denied:
            self._is_denied = True
            names = (first_text(action, "display_name", "action") or "a tool" for action in actions)
            out += [Warning(message=f"permission denied: {name}", code="permission_denied") for name in names]
        return out


def _spawn_of(agent: Record) -> Spawn:
    return Spawn(
        agent_id=text_of(agent.get("conversation_id")),
        name=first_text(agent, "role", "type_name"),
        task=text_of(agent.get("initial_prompt")),
    )


def _error_of(step: Record) -> str:
    error = step.get("error") or record_of(step.get("tool_info")).get("error")
    return text_of(error) or first_text(record_of(error), "message", "type")


def _usage_of(data: Record) -> Usage:
    """Thinking is counted into the output; what is read from the cache is not counted into the input."""
    output, thinking = count_of(data.get("output_tokens")), count_of(data.get("thinking_tokens"))
    return Usage(
        input=count_of(data.get("input_tokens")),
        output=besides(output, thinking),
        cache_read=count_of(data.get("cache_read_tokens")),
        reasoning=thinking,
    )


AGENT = Agent(
    name="antigravity",
    title="Antigravity",
    aliases=("agy",),
    binaries=("agy",),
    homes=("~/.gemini/", "~/.antigravity"),
    command=command,
    translator=AntigravityTranslator,
    supports=frozenset({"agent-default", *_FLAGS}),
    screen_resume=("--conversation", "{id}"),
    install="see antigravity.google; it needs a Google account",
    needs_version=True,
    delta_keys=("text_delta",),
    reveals={
        "deltas": "text from 1.1.8 on; before that the answer alone, at the end",
        "reasoning": "never, only how many tokens it took",
        "tools": "every call and result from 1.1.8 on; exit codes of failed commands",
        "sub_agents": "begin and task; not what they do, nor when they end",
        "usage": "per model call and in total from 1.1.8 on; the total of a resumed conversation is that of all "
        "its runs",
        "cost": "never",
        "result": "stated from 1.1.8 on; a success also when a permission was denied or its own time limit ran out",
    },
    derived=True,
)
