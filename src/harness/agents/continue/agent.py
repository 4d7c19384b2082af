"""Continue: `cn --print --format json`, from 1.5 on. Best effort: it writes one object when it is done, and no events.

{"response": "…", "status": "success"}     what it said last
{"status": "error", "message": "…"}        on stderr, when it failed

An answer that is JSON itself is written as it is. The sessions that it stores have more: each entry of their history
comes as a record of its own.

{"type": "history", "message": {…}, "toolCallStates": […]}
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import (
    PendingCall,
    Toolset,
    fetching,
    listing,
    no_operation,
    reading,
    running,
    searching,
    writing,
)
from harness.contracts.translator import Record
from harness.events import Error, Event, Message, Result, ToolEnd, Usage, UsageDelta
from harness.formats.error_messages import code_of, plain
from harness.formats.fields import (
    arguments_of,
    besides,
    count_of,
    decoded,
    items_of,
    record_of,
    text_of,
)
from harness.protocols.plain_answer import PlainAnswer

_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--auto"],
    "read-only": ["--readonly"],
    "agent-default": [],
}
_FLAGS = {"append_system_prompt": "--rule", "continue_last": "--resume"}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt is an argument: stdin is not read everywhere."""
    del version
    args = ["--print", "--format", "json", *_PERMISSIONS[request.permissions]]
    args += flags_of(request, _FLAGS)
    return CommandLine(args=(*args, *request.extra_args, "--", request.prompt))


CONTINUE = Toolset(
    tools={
        "Read": reading("filepath"),
        "Write": writing("filepath"),
        "Edit": writing("file_path", "filepath", change="update"),
        "MultiEdit": writing("file_path", "filepath", change="update"),
        "Bash": running("command"),
        "List": listing("dirpath"),
        "Search": searching("pattern"),
        "Fetch": fetching,
        "Checklist": no_operation,
        "Status": no_operation,
    }
)
_STATES = {"done": True, "errored": False, "canceled": False}
"""Whether a call succeeded, where it has ended. A command that failed is `done`."""


class ContinueTranslator(PlainAnswer):
    announces_start = False

    def record(self, record: Record) -> Sequence[Event]:
        if record.get("type") == "history":
            self._has_records, self.rule = True, "history"
            return self._entry(record)
        released = self._release()
        self._has_records = True
        self.rule = "answer"
        answer = record.get("response")
        if record.get("status") == "error":
            return [*released, *self._failure(record)]
        text = answer if isinstance(answer, str) else msgspec.json.encode(record).decode()
        structured = None if isinstance(answer, str) else record
        return [
            *released,
            Message(role="assistant", text=text),
            Result(success=True, text=text, structured=structured),
        ]

    def _entry(self, record: Record) -> list[Event]:
        """An answer of the model, with its calls and their results."""
        message = record_of(record.get("message"))
        text, usage = text_of(message.get("content")), _usage_of(record_of(message.get("usage")))
        out: list[Event] = [Message(role="assistant", text=text)] if text else []
        states = [record_of(state) for state in items_of(record.get("toolCallStates"))]
        begun_calls: list[tuple[Record, PendingCall]] = []
        for state in states:
            function = record_of(record_of(state.get("toolCall")).get("function"))
            call_id, name = text_of(state.get("toolCallId")), text_of(function.get("name"))
            arguments = state.get("parsedArgs") or arguments_of(function.get("arguments"))
            call, start = CONTINUE.start(call_id, name, arguments, self.working_directory, state)
            begun_calls.append((state, call))
            out.append(start)
        for state, call in begun_calls:
            if (is_success := _STATES.get(text_of(state.get("status")))) is not None:
                output = "\n".join(
                    text_of(record_of(item).get("content")) for item in items_of(state.get("output"))
                )
                out.append(ToolEnd(call_id=call.id, tool_name=call.name, success=is_success, output=output))
        model = text_of(record_of(message.get("usage")).get("model"))
        return [*out, UsageDelta(usage=usage, model=model)] if usage else out

    def stderr(self, line: str) -> Sequence[Event]:
        data = record_of(decoded(line)) if line.startswith("{") else {}
        if data.get("status") != "error":
            return super().stderr(line)
        self.rule = "error"
        return self._failure(data)

    def _failure(self, data: Record) -> list[Event]:
        message = plain(text_of(data.get("message"))) or "Continue reported an error without a message"
        return [
            Error(message=message, code=code_of(message, "error")),
            Result(success=False, outcome="failed"),
        ]


def _usage_of(data: Record) -> Usage:
    cached = count_of(record_of(data.get("prompt_tokens_details")).get("cached_tokens"))
    reasoning = count_of(record_of(data.get("completion_tokens_details")).get("reasoning_tokens"))
    return Usage(
        input=besides(count_of(data.get("prompt_tokens")), cached),
        output=besides(count_of(data.get("completion_tokens")), reasoning),
        cache_read=cached,
        reasoning=reasoning,
    )


AGENT = Agent(
    name="continue",
    title="Continue",
    aliases=("cn", "continue-cn"),
    binaries=("cn",),
    homes=("~/.continue/",),
    command=command,
    translator=ContinueTranslator,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    key_variables=("CONTINUE_API_KEY", "ANTHROPIC_API_KEY"),
    install="npm install -g @continuedev/cli",
    reveals={
        "deltas": "none: one answer at the end",
        "reasoning": "never",
        "tools": "never",
        "sub_agents": "never",
        "usage": "never",
        "cost": "never",
        "result": "the answer and whether it succeeded",
    },
)
