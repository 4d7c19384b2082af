"""Factory Droid: `droid exec --output-format stream-json`, from 0.200 on.

system/init              the session
message, reasoning       what is said and thought, whole; reasoning comes twice
tool_call, tool_result   a call and what it gave back
error                    why it failed; a second one only says that it did
completion               the end; missing when it failed or was stopped, the latter with exit code 0

A run that was stopped while a command ran continues without the command, and completes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

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
from harness.sources.agent import Agent, CommandFiles, CommandLine, Version
from harness.sources.agents.droid.acp import TWO_WAY
from harness.sources.agents.droid.tools import DROID, TODO_LISTS, exit_code_of, todo_list_of
from harness.sources.formats.child_runs import ChildRuns
from harness.sources.formats.error_messages import code_of
from harness.sources.formats.fields import count_of, decoded, first_text, output_of, record_of, text_of
from harness.sources.formats.plain_answer import PlainAnswer
from harness.sources.formats.stream_json import error_of, outcome_of
from harness.sources.formats.toolset import PendingCall, flags_of, unmatched_result
from harness.sources.request import Request
from harness.sources.translator import Ending, Record

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--skip-permissions-unsafe"],
    # Without a flag it may only read.
    "read-only": [],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "append_system_prompt": "--append-system-prompt",
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
    return CommandLine(args=(*args, *request.extra_args), stdin=request.prompt.encode("utf-8", "replace"))


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
        found = super().finish(ending)
        return [*found, Result(success=False, outcome="failed")] if self._failure else found

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
        stated = record.get("message") or record_of(record.get("error")).get("message")
        message = text_of(stated) or "Droid reports an error without a word"
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
        is_said = outcome == "completed" and text
        return [
            SessionStart(agent="droid", session_id=text_of(record.get("session_id"))),
            *([error] if error is not None else []),
            *([Message(role="assistant", text=text)] if is_said else []),
            Result(
                success=outcome == "completed",
                outcome=outcome,
                text=text if is_said else "",
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


AGENT = Agent(
    name="droid",
    title="Factory Droid",
    aliases=("factory", "factory-droid"),
    binaries=("droid",),
    command=command,
    translator=DroidTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    command_files=(CommandFiles(folders=("~/.factory/commands", ".factory/commands"), is_taken=False),),
    screen_resume=("--resume", "{id}"),
    key_variables=("FACTORY_API_KEY",),
    install="npm install -g @factory/cli",
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
