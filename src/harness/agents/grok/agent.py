"""Grok Build: `grok --output-format streaming-json`, from 1.0 on.

text, thought      pieces of an answer
usage              what the answer used: it is complete
tool_call          a call that it asked for
tool_call_update   output so far, or the end of a call
plan               the to-do list
max_turns_reached, end, error   how the run went

With `streaming-messages-json` it writes Claude's stream-json instead, with `json` it writes one object at the
end. What sub-agents say and do stands between the lines of the main agent, in every format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from harness.agents.grok.acp import TWO_WAY
from harness.agents.grok.tools import (
    GROK,
    is_failure,
    output_of_call,
    subagent_of,
    todos_of,
    total_of,
    usage_of,
    without_unknown_cost,
)
from harness.contracts.agent import Agent, CommandLine, Version
from harness.contracts.command_line import flags_of
from harness.contracts.request import Request
from harness.contracts.toolset import PendingCall, tasks_of
from harness.contracts.translator import Ending, Record
from harness.events import (
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.formats.error_messages import plain
from harness.formats.fields import continuation, count_of, decoded, items_of, record_of, text_of
from harness.protocols.child_runs import ChildRuns
from harness.protocols.model_ledger import usage_of_call
from harness.protocols.stream_json import StreamJson


class Speakers:
    """Which run a line belongs to: lines of sub-agents stand between those of the main agent, without a mark.

    An agent that waits for the results of calls writes no text. So while an agent has calls open and one sub-agent
    works, the text is that one's; while several work it is not known, and counts as the agent's own.
    A model answers in one go: text, usage, and then the calls that it asks for.
    """

    def __init__(self, children: ChildRuns) -> None:
        self._children = children
        self._spawners: dict[str, str] = {}
        """Call that spawned a sub-agent → the run that made it."""

    @property
    def working(self) -> list[str]:
        """Calls whose sub-agents have not ended, as far as is known."""
        return list(self._spawners)

    def spawned(self, call: PendingCall) -> None:
        self._spawners[call.id] = call.run_id

    def ended(self, call_id: str) -> None:
        self._spawners.pop(call_id, None)

    def now(self, open_calls: Iterable[PendingCall]) -> str:
        """The run whose model answers now, from the calls that are open."""
        waiting = {call.run_id for call in open_calls}
        run_id = ""
        while run_id in waiting:
            working = [call_id for call_id, spawner in self._spawners.items() if spawner == run_id]
            child = self._children.find(working[0]) if len(working) == 1 else None
            if child is None or child.run_id == run_id:
                break
            run_id = child.run_id
        return run_id


_PERMISSIONS: dict[str, list[str]] = {
    "full-access": ["--always-approve"],
    # Whatever else it has, a tool of an MCP server for one, it would have to ask for, and no one answers.
    "read-only": [
        *("--tools", "read_file,list_dir,grep,todo_write"),
        *("--deny", "Bash", "--deny", "Edit", "--deny", "Write"),
    ],
    "agent-default": [],
}
_FLAGS = {
    "model": "--model",
    "max_turns": "--max-turns",
    "system_prompt": "--system-prompt-override",
    "append_system_prompt": "--rules",
    "effort": "--reasoning-effort",
    "resume": "--resume",
    "continue_last": "--continue",
}


def command(request: Request, version: Version) -> CommandLine:
    """The prompt goes through stdin, as a file: it may be long, and may begin with a dash."""
    del version
    args = ["--output-format", "streaming-json", "--no-auto-update", *_PERMISSIONS[request.permissions]]
    return CommandLine(
        args=(*args, *flags_of(request, _FLAGS), *request.extra_args, "--prompt-file", "/dev/stdin"),
        stdin=request.prompt_bytes,
    )


_STATUS = re.compile(r"\((\d{3})\)")
_REFUSED = re.compile(r"User cancelled the execution for tool|Tool `[^`]*` was not executed: Denied")
_REFUSAL = Error(
    message="the agent stopped: it asked for a permission that nobody could give", code="permission_denied"
)
_ENDS: dict[str, Outcome] = {"end_turn": "completed", "": "completed", "cancelled": "interrupted"}
"""Other reasons, such as a model that refuses or reaches its output limit, are failures."""


class GrokTranslator(StreamJson):
    agent = "grok"
    version_key = "grok_version"
    tools = GROK
    rules: ClassVar[dict[str, str]] = {
        **StreamJson.rules,
        "available_commands": "_begin",
        "text": "_text_piece",
        "thought": "_thought",
        "usage": "_usage",
        "tool_call": "_tool_call",
        "tool_call_update": "_tool_update",
        "plan": "_plan",
        "max_turns_reached": "_max_turns",
        "end": "_end",
        "error": "_error",
    }

    def __init__(self) -> None:
        super().__init__()
        self._speakers = Speakers(self.children)
        self._speaker = ""
        self._pieces: list[str] = []
        self._count = 0
        self._stream_id = ""
        """The stretch of text or reasoning that is being written."""
        self._shown_output: dict[str, str] = {}
        """Call → its output in the last update."""
        self._usage_so_far = Usage()
        self._tasks: list[Task] | None = None
        self._error_lines: frozenset[str] = frozenset()
        """What stderr repeats."""
        self._limit: Outcome | None = None
        self._was_refused = False

    def kind(self, record: Record) -> str:
        # The one object of `--output-format json` has no type.
        return "end" if "type" not in record and "stopReason" in record else super().kind(record)

    def stderr(self, line: str) -> Sequence[Event]:
        if line in self._error_lines:
            self.rule = "repeated"
            return ()
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        printed = self.printed_object()
        if printed is not None:
            return self._end(printed) if "stopReason" in printed else [Unknown(raw=printed)]
        return [*self._flush(), *super().finish(ending)]

    def _flush(self) -> list[Event]:
        """The text that came in pieces is complete."""
        pieces, self._pieces = self._pieces, []
        stream_id, self._stream_id = self._stream_id, ""
        if not pieces:
            return []
        text = "".join(pieces)
        return [Message(role="assistant", text=text, id=stream_id, run_id=self._speaker)]

    def _open_stream(self, kind: str) -> list[Event]:
        """A piece comes: it continues the current stretch, or begins one of another speaker or kind."""
        speaker = self._speakers.now(self.calls.open.values())
        if self._stream_id.startswith(kind) and speaker == self._speaker:
            return []
        out = self._flush()
        self._speaker = speaker
        self._count += 1
        self._stream_id = f"{kind}-{self._count}"
        return out

    def _text_piece(self, record: Record) -> Sequence[Event]:
        text = record.get("data")
        if type(text) is not str:
            return [Unknown(raw=record)]
        out = [*self._begin(record), *self._open_stream("text")]
        if text:
            self._pieces.append(text)
            out.append(TextDelta(id=self._stream_id, text=text, run_id=self._speaker))
        return out

    def _thought(self, record: Record) -> Sequence[Event]:
        text = record.get("data")
        if type(text) is not str:
            return [Unknown(raw=record)]
        out = [*self._begin(record), *self._open_stream("thought")]
        return [*out, ReasoningDelta(id=self._stream_id, text=text, run_id=self._speaker)] if text else out

    def _usage(self, record: Record) -> Sequence[Event]:
        out = [*self._begin(record), *self._flush()]
        self._speaker = self._speakers.now(self.calls.open.values())
        usage = usage_of(record_of(record.get("usage")))
        if not self._speaker:
            self.turns = (self.turns or 0) + 1
        self._usage_so_far = self._usage_so_far.plus(usage)
        return [*out, UsageDelta(usage=usage, run_id=self._speaker)] if usage else out

    def _tool_call(self, record: Record) -> Sequence[Event]:
        out = [*self._begin(record), *self._flush()]
        name = text_of(record.get("toolName")) or text_of(record.get("title"))
        block = {"id": record.get("toolCallId"), "name": name, "input": record.get("rawInput")}
        events = self._call(block, self._speaker)
        if events is None:
            return [*out, Unknown(raw=record)]
        if isinstance(start := events[0], ToolStart) and start.raw is not None:
            events[0] = replace(start, raw=record)
        return [*out, *events]

    def _call(self, block: Record, run_id: str) -> list[Event] | None:
        out = super()._call(block, run_id)
        call = self.calls.open.get(text_of(block.get("id")))
        if out is not None and call is not None and call.name in self.tools.spawners:
            self._speakers.spawned(call)
        return out

    def _tool_update(self, record: Record) -> Sequence[Event]:
        call = self.calls.open.get(text_of(record.get("toolCallId")))
        raw, text = record_of(record.get("rawOutput")), _text_of_content(record.get("content"))
        match record.get("status"):
            case None | "pending":
                return ()
            case "in_progress":
                return self._progress(call, text) if call is not None else ()
            case "completed" | "failed" as status if call is not None:
                block = {"tool_use_id": call.id, "content": text, "is_error": status == "failed"}
                return [*self._flush(), *self._tool_result(block, raw, call.run_id)]
            case _:
                return [Unknown(raw=record)]

    def _progress(self, call: PendingCall, text: str) -> Sequence[Event]:
        text_before, self._shown_output[call.id] = self._shown_output.get(call.id, ""), text
        new = continuation(text_before, text)
        return [ToolProgress(call_id=call.id, text=new, run_id=call.run_id)] if new else ()

    def _tool_result(self, block: Record, detail: Any, run_id: str) -> list[Event]:
        call_id, text = text_of(block.get("tool_use_id")), text_of(block.get("content"))
        raw = record_of(detail)
        if detail is None and text.startswith("{"):
            # Claude's stream-json has no other place for the tool's own object.
            raw, text = record_of(decoded(text)), ""
        call = self.calls.open.get(call_id)
        self._shown_output.pop(call_id, None)
        output = output_of_call(raw, text)
        is_error = block.get("is_error") is True or is_failure(raw)
        out: list[Event] = []
        if is_error and call is not None and _REFUSED.match(output):
            self._was_refused = True
            message = f"permission denied: {call.name}: {output}"
            out.append(Warning(message=message, code="permission_denied", run_id=call.run_id))
        details = {**raw, "backgroundTaskId": raw.get("task_id"), **todos_of(raw)}
        out += super()._tool_result({**block, "content": output, "is_error": is_error}, details, run_id)
        for event in out:
            self._tasks = event.tasks if isinstance(event, TasksChanged) else self._tasks
        return out

    def _spawned(self, call: PendingCall, block: Record, detail: Record) -> list[Event]:
        output = text_of(block.get("content"))
        agent_id = subagent_of(detail, output)
        out = self.begin_child(call.id, task_id=agent_id)
        if block.get("is_error") is not True and detail.get("type") != "SubagentCompleted":
            return out  # it works in the background
        self._speakers.ended(call.id)
        status = "failed" if block.get("is_error") is True else "completed"
        text = text_of(detail.get("output")) or output
        return [*out, *self.end_child(call.id, status, text, count_of(detail.get("duration_ms")))]

    def _plan(self, record: Record) -> Sequence[Event]:
        """The list comes with the call and once more by itself; only a change is news."""
        tasks = tasks_of(record.get("entries"))
        if tasks is None or tasks == self._tasks:
            return ()
        self._tasks = tasks
        return [TasksChanged(tasks=tasks)]

    def _run_of(self, record: Record, out: list[Event]) -> str:
        """In Claude's stream-json: the field for it is always empty."""
        if record.get("parent_tool_use_id"):
            return super()._run_of(record, out)
        event = record_of(record.get("event"))
        if record.get("type") == "assistant" or event.get("type") == "message_start":
            self._speaker = self._speakers.now(self.calls.open.values())
        return self._speaker

    def _assistant(self, record: Record) -> Sequence[Event]:
        message = record_of(record.get("message"))
        out = list(super()._assistant(record))
        message_id, usage = text_of(message.get("id")), usage_of_call(record_of(message.get("usage")))
        partial = self._partials.get(self._speaker)
        is_streamed = partial is not None and partial.message_id == message_id and bool(message_id)
        if usage and not is_streamed:
            delta = self._ledger.call(text_of(message.get("model")), usage, message_id)
            out.append(replace(delta, run_id=self._speaker))
        return out

    def _result(self, record: Record) -> Sequence[Event]:
        failures = [text for text in items_of(record.get("errors")) if isinstance(text, str)]
        out = [*self._begin(record), *self._failure("\n".join(failures))] if failures else []
        return [*out, *super()._result(without_unknown_cost(record))]

    def _max_turns(self, _record: Record) -> Sequence[Event]:
        self._limit = "limit_exceeded"
        self._error_lines = frozenset({"Error: max turns reached"})
        return [Error(message="the agent reached its maximum number of turns", code="max_turns")]

    def _end(self, record: Record) -> Sequence[Event]:
        out = [*self._begin(record), *self._flush()]
        reason, session_id = text_of(record.get("stopReason")), text_of(record.get("sessionId"))
        if text := text_of(record.get("text")):
            out.append(Message(role="assistant", text=text))
        outcome: Outcome = _ENDS.get(reason, "failed")
        if outcome != "completed":
            outcome = self._limit or outcome
        if outcome == "interrupted" and self._was_refused:
            outcome = "failed"
            out.append(_REFUSAL)
        if outcome == "completed":
            out.extend(self._end_idle_children())
        return [
            *out,
            SessionStart(agent="grok", session_id=session_id),
            self._native_result(record, outcome, reason, session_id),
        ]

    def _end_idle_children(self) -> list[Event]:
        """No record says when one in the background is done; one that waits for nothing at the end is."""
        busy = {call.run_id for call in self.calls.open.values()}
        for call_id in self._speakers.working:
            child = self.children.find(call_id)
            if child is not None and child.run_id not in busy:
                child.status = "completed"
        return self.children.end_all_known()

    def _native_result(self, record: Record, outcome: Outcome, reason: str, session_id: str = "") -> Result:
        usage = total_of(record, self._usage_so_far)
        return Result(
            success=outcome == "completed",
            outcome=outcome,
            stop_reason=reason,
            turns=count_of(record.get("num_turns")),
            total_cost_usd=usage.cost_usd,
            usage=usage or None,
            session_id=session_id,
        )

    def _error(self, record: Record) -> Sequence[Event]:
        out = [*self._begin(record), *self._flush()]
        message = text_of(record.get("message")) or "Grok reported an error without a message"
        return [*out, *self._failure(message), self._native_result(record, "failed", "error")]

    def _failure(self, message: str) -> list[Event]:
        self.has_failed = True
        self._error_lines = frozenset(line.strip() for line in f"Error: {message}".split("\n"))
        text = message.removeprefix("Internal error: ")
        inner = decoded(text) if text.startswith('"') else None
        text = plain(inner if isinstance(inner, str) else text).partition("\n\n")[0]
        status = _STATUS.search(text)
        return [Error(message=text, code=f"http_{status[1]}" if status is not None else "error")]


def _text_of_content(content: Any) -> str:
    texts = [text_of(record_of(record_of(item).get("content")).get("text")) for item in items_of(content)]
    return "\n".join(text for text in texts if text)


AGENT = Agent(
    name="grok",
    title="Grok Build",
    aliases=("grok-build", "grok-cli"),
    binaries=("grok",),
    leaves_settings=True,
    homes=("~/.grok/", "$GROK_HOME/"),
    command=command,
    translator=GrokTranslator,
    two_way=TWO_WAY,
    supports=frozenset({"agent-default", "read-only", *_FLAGS}),
    screen_resume=("--resume", "{id}"),
    key_variables=("XAI_API_KEY", "GROK_API_KEY"),
    install="npm install -g @xai-official/grok",
    login="grok login",
    delta_keys=("data", "text", "thinking", "partial_json"),
    reveals={
        "deltas": "text and reasoning",
        "reasoning": "yes",
        "tools": "every call, live output and result; changed lines; exit codes",
        "sub_agents": "what they say and do, without a mark: attributed while one works and the main agent waits",
        "usage": "per model call, with sub-agents; the model's name only in total",
        "cost": "stated in total, where the server has it",
        "result": "by the last record; none when it was stopped; retries are not shown",
    },
)
