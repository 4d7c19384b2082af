"""The Agent Client Protocol (v1 and v2) as events: what an agent notifies, asks and answers.

session/update                 pieces of text and reasoning, parts of tool calls, the plan, how full the context is
session/request_permission     the driver's; to the translator it may be the first record of a call
answer to session/prompt       the end of a turn; in v2 the update `state_update` with the state `idle`

Our own requests have ids that begin with their method (`session/prompt#3`), so that an answer says what it answers
also in the middle of a session. A session that is loaded repeats its history before the first prompt: it is no news.
What an agent does differently is in its own file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from harness.contracts.toolset import PendingCall, Toolset, tasks_of
from harness.contracts.translator import Ending, Record, Translator
from harness.events import (
    Error,
    Event,
    Info,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Task,
    TasksChanged,
    TextDelta,
    ToolEnd,
    ToolProgress,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Operation, Spawn
from harness.formats.error_messages import code_of, plain
from harness.formats.fields import (
    besides,
    continuation,
    count_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.log.raw import RawStart
from harness.protocols.acp.calls import (
    BY_KIND,
    ENDS,
    AcpCall,
    diffs_of,
    exit_code_in,
    text_of_content,
    texts_of,
    written,
)
from harness.protocols.child_runs import ChildRuns

AWAITS_HISTORY, ENDS_HISTORY = "_harness/await_history", "_harness/history_ended"
"""Requests of the driver to an agent that repeats the history of a session after the answer that opened it."""
_OPENS_SESSION = ("session/new", "session/load", "session/resume", "session/fork")
_ENDS: dict[str, Outcome] = {
    "end_turn": "completed",
    "cancelled": "interrupted",
    "max_turn_requests": "limit_exceeded",
}
"""Why a turn stopped → its outcome; other reasons, such as a refusal or the output limit, are failures."""
_REFUSED_REQUEST = "Error handling request {"
_VAGUE = ("Internal error", "Invalid params", "Resource not found")
"""Messages of JSON-RPC itself: what happened stands in the data of the error."""


class CallEnd(msgspec.Struct):
    """How a call ended."""

    success: bool | None
    output: str | None
    exit_code: int | None = None
    operations: list[Operation] | None = None


class _OpenText(msgspec.Struct):
    """The text or reasoning that one run is writing."""

    id: str
    native_id: str
    is_text: bool
    pieces: list[str]


class AcpTranslator(Translator):
    """Inherit for an agent: its name, its tools, and the methods under "what differs between agents"."""

    agent: ClassVar[str] = ""
    tools: ClassVar[Toolset] = BY_KIND
    announces_by_asking: ClassVar[bool] = True
    """Whether a question about an unknown call is about one whose updates follow."""
    shares_stream: ClassVar[bool] = False
    """Whether sub-agents write and act in the stream of the session without a mark of their own."""
    extensions: ClassVar[tuple[str, ...]] = ("_", "$")
    """How names of notifications begin that are not the protocol's own, and say nothing that is needed here."""
    repeats_history_late: ClassVar[bool] = False
    """Whether the history of a loaded session may come after the answer that opened it."""
    noise: ClassVar[re.Pattern[str] | None] = None
    """Lines of stderr that say nothing of the run."""
    rules: ClassVar[dict[str, str]] = {
        "update/agent_message_chunk": "_text",
        "update/agent_thought_chunk": "_text",
        "update/agent_message": "_whole_message",
        "update/tool_call": "_call",
        "update/tool_call_update": "_call",
        "update/tool_call_content_chunk": "_call_content",
        "update/plan": "_plan",
        "update/plan_update": "_plan",
        "update/usage_update": "_context",
        "update/state_update": "_state",
        "update/notice": "_notice",
        "request/session/request_permission": "_asked",
        "answer/session/prompt": "_prompt_answered",
        "answer/initialize": "_initialized",
        f"answer/{ENDS_HISTORY}": "_history_ended",
        **dict.fromkeys((f"answer/{method}" for method in _OPENS_SESSION), "_session_opened"),
        # A steered message is in the log from when it was taken; the driver knows when.
        **dict.fromkeys(("update/user_message", "update/user_message_chunk"), ""),
        **dict.fromkeys(
            (
                "update/available_commands_update",
                "update/config_option_update",
                "update/current_mode_update",
                "update/session_info_update",
                "update/terminal_output_chunk",
                "update/terminal_update",
                "request",
                "answer",
                "extension",
            ),
            "",
        ),
    }

    def __init__(self) -> None:
        super().__init__()
        self.children = ChildRuns(self.agent)
        self.calls: dict[str, AcpCall] = {}
        """Calls that have not ended, by their id."""
        self.session = ""
        self._has_started = False
        self.is_history = False
        self._open_texts: dict[str, _OpenText] = {}
        self._names: Counter[str] = Counter()
        self._ended_calls: set[str] = set()
        self._tasks: list[Task] | None = None
        self._version = ""
        self._depth = 0
        """How many braces are open in what stderr says of a request that was refused."""

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self.session = start.session_id or text_of(start.request.get("resume"))

    def kind(self, record: Record) -> str:
        method = record.get("method")
        if not isinstance(method, str):
            request_id = text_of(record.get("id")).partition("#")[0]
            return (
                f"answer/{request_id}"
                if f"answer/{request_id}" in self.rules
                else "answer"
                if "id" in record
                else ""
            )
        if method == "session/update":
            return f"update/{text_of(record_of(record_of(record.get('params')).get('update')).get('sessionUpdate'))}"
        if "id" in record:
            return f"request/{method}" if f"request/{method}" in self.rules else "request"
        return method if method in self.rules else "extension" if method.startswith(self.extensions) else ""

    def record(self, record: Record) -> Sequence[Event]:
        session = text_of(record_of(record.get("params")).get("sessionId"))
        self.session = self.session or session
        if session and not self.is_history and not self._has_started:
            return [*self._begin(), *super().record(record)]
        return super().record(record)

    def stderr(self, line: str) -> Sequence[Event]:
        if self._depth or line.startswith(_REFUSED_REQUEST):
            # The request and the error over many lines; the error is in the answer to the request.
            self._depth = max(0, self._depth + line.count("{") - line.count("}"))
            self.rule = "refused request"
            return ()
        if self.noise is not None and self.noise.fullmatch(line):
            self.rule = "noise"
            return ()
        return super().stderr(line)

    def finish(self, ending: Ending) -> Sequence[Event]:
        del ending
        return [*self._flush_all(), *self.children.end_all_known()]

    # What differs between agents

    @staticmethod
    def name_of(call: AcpCall) -> str:
        """The name of its tool, under which `tools` knows it."""
        return call.name or call.kind or call.title

    @staticmethod
    def input_of(call: AcpCall) -> Any:
        return call.input

    @staticmethod
    def stated_name(tool_call: Record, announced: AcpCall) -> str:
        """The exact name of the tool that a question is about, as the program itself states it; empty: it does not.

        `called` is the question's own record. What was announced under the same id counts only where it is the
        program's own word, and the question repeats the same arguments. Titles and kinds are for people.
        """
        del announced
        return text_of(tool_call.get("name"))

    @staticmethod
    def is_of_subagent(call: AcpCall, *, is_announced: bool) -> bool:
        """Whether a sub-agent asks, where the question does not name it."""
        del call, is_announced
        return False

    @staticmethod
    def stated_input(tool_call: Record) -> Any:
        """The arguments in a question, as the tool takes them; None: it does not repeat them."""
        return tool_call.get("rawInput")

    def is_announced(self, call: AcpCall) -> bool:
        """Whether what a call is to do is known, so that its `ToolStart` can be emitted."""
        return bool(call.input) or call.status in ("in_progress", *ENDS)

    def run_of(self, params: Record, update: Record) -> str:
        """The run that an update belongs to; "" is the run itself.

        Where nothing marks it: the main agent waits for the latest sub-agent that works.
        """
        del params, update
        if not self.shares_stream:
            return ""
        working = (child for call in reversed(self.calls.values()) if (child := self.children.find(call.id)))
        return next((child.run_id for child in working), "")

    def has_result(self, call: AcpCall) -> bool:
        """Whether a call has ended, and its result is complete."""
        return call.has_ended

    def progress_of(self, call: AcpCall, update: Record) -> str:
        """What a running call has written so far; what it is announced with describes it."""
        is_update = update.get("sessionUpdate") == "tool_call_update"
        return call.text if is_update and call.status == "in_progress" else ""

    def end_of(self, call: AcpCall, pending: PendingCall) -> CallEnd:
        """How a call ended, from its status, content and `rawOutput`."""
        is_success, output = ENDS.get(call.status), call.text
        if not output and not diffs_of(call, pending.cwd):
            output = output_of(call.output)
        exit_code = None
        if is_success is not None and self.tools.key(pending.name) in self.tools.shells:
            is_success, exit_code = self.tools.exit_status(pending, call.output, output, is_success)
            exit_code = exit_code_in(call.output) if exit_code is None else exit_code
        operations = self.tools.operations_after(pending, call.output, output) if is_success else None
        if operations is None and is_success:
            operations = written(call, pending.operations, pending.cwd)
        return CallEnd(is_success, output, exit_code, operations)

    def tasks_after(self, call: AcpCall, pending: PendingCall) -> list[Task] | None:
        """The to-do list after a call that succeeded; None where it says nothing of it."""
        del call, pending
        return None

    def child_answer(self, call: AcpCall, end: CallEnd) -> tuple[str, str]:
        """Of a call that ran a sub-agent: how that ended (`running`: it still works), and its answer."""
        del call
        return "failed" if end.success is False else "completed", end.output or ""

    def used(self, answer: Record) -> list[Event]:
        """What the turn has used, from the answer to its prompt."""
        usage = usage_of(record_of(answer.get("usage")))
        return [UsageDelta(usage=usage)] if usage else []

    # The session

    def _initialized(self, record: Record) -> Sequence[Event]:
        result = record_of(record.get("result"))
        info = record_of(result.get("agentInfo")) or record_of(result.get("info"))
        self._version, self.is_history = text_of(info.get("version")), True
        return ()

    def _session_opened(self, record: Record) -> Sequence[Event]:
        result = record_of(record.get("result"))
        if "error" in record:
            return ()  # the driver asks again, or says why it cannot
        self.session = text_of(result.get("sessionId")) or self.session
        self.is_history = self.repeats_history_late and "sessionId" not in result
        return self._begin(model_of(result))

    def _history_ended(self, record: Record) -> Sequence[Event]:
        del record
        self.is_history = False
        return ()

    def _begin(self, model: str = "") -> list[Event]:
        self._has_started = True
        return [SessionStart(session_id=self.session, agent=self.agent, model=model, version=self._version)]

    # Text

    def _text(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        if self.is_history:
            self.rule = "history"
            return ()
        content, run_id = record_of(update.get("content")), self.run_of(params, update)
        text = content.get("text")
        is_text = update.get("sessionUpdate") == "agent_message_chunk"
        if not isinstance(text, str):
            rendered = output_of([content]) if content else ""
            if not rendered:
                return [Unknown(raw=record)]
            return [
                *self.flush(run_id),
                Message(role="assistant", text=rendered, parts=[content], run_id=run_id),
            ]
        return self._piece(text, run_id, text_of(update.get("messageId")), is_text=is_text) if text else ()

    def _piece(self, text: str, run_id: str, native_id: str, *, is_text: bool) -> list[Event]:
        open_text, out = self._open_texts.get(run_id), list[Event]()
        if open_text is None or open_text.is_text != is_text or open_text.native_id != native_id:
            out += self.flush(run_id)
            open_text = _OpenText(self._named(native_id, is_text), native_id, is_text, [])
            self._open_texts[run_id] = open_text
        if is_text:
            open_text.pieces.append(text)
            return [*out, TextDelta(id=open_text.id, text=text, run_id=run_id)]
        return [*out, ReasoningDelta(id=open_text.id, text=text, run_id=run_id)]

    def _named(self, native_id: str, is_text: bool) -> str:
        """A message may be written in several parts, with calls between them: each has a name of its own."""
        name = native_id if native_id and is_text else f"{native_id}:thought" if native_id else ""
        self._names[name] += 1
        times = self._names[name]
        if not name:
            return f"{'text' if is_text else 'thought'}-{times}"
        return name if times == 1 else f"{name}#{times}"

    def flush(self, run_id: str) -> list[Event]:
        """Nothing says that a text is complete; it is when something else begins."""
        open_text = self._open_texts.pop(run_id, None)
        if open_text is None or not open_text.pieces:
            return []
        return [Message(role="assistant", text="".join(open_text.pieces), id=open_text.id, run_id=run_id)]

    def _flush_all(self) -> list[Event]:
        return [event for run_id in list(self._open_texts) for event in self.flush(run_id)]

    def _whole_message(self, record: Record) -> Sequence[Event]:
        """v2: what was streamed comes again whole, or nothing was streamed."""
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        run_id, native_id = self.run_of(params, update), text_of(update.get("messageId"))
        if self.is_history:
            return ()
        is_streamed = run_id in self._open_texts or native_id in self._names
        text = output_of(update.get("content") or None)
        if is_streamed or not text:
            return self.flush(run_id)
        return [*self.flush(run_id), Message(role="assistant", text=text, id=native_id, run_id=run_id)]

    # Calls

    def _call(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        update = record_of(params.get("update"))
        call_id = text_of(update.get("toolCallId"))
        is_new = update.get("sessionUpdate") == "tool_call"
        if self.is_history or (call_id in self._ended_calls and not is_new):
            self.rule = "history" if self.is_history else "call that has ended"
            return ()
        if not call_id:
            return [Unknown(raw=record)]
        return self._updated(params, update, record)

    def _updated(self, params: Record, update: Record, record: Record) -> Sequence[Event]:
        call_id = text_of(update.get("toolCallId"))
        call = self.calls.get(call_id)
        out: list[Event] = []
        if call is None:
            call = self.calls[call_id] = AcpCall(call_id, run_id=self.run_of(params, update))
            self._ended_calls.discard(call_id)
            out += self.flush(call.run_id)
        call.update(update)
        if call.pending is None and self.is_announced(call):
            out += self._start(call, record)
        if call.pending is not None and self.has_result(call):
            return [*out, *self._end(call, call.pending)]
        return [*out, *self._progress(call, update)]

    def _asked(self, record: Record) -> Sequence[Event]:
        """A question for permission: some agents announce a call with nothing else."""
        params = record_of(record.get("params"))
        tool_call = record_of(params.get("toolCall")) or record_of(
            record_of(params.get("subject")).get("toolCall")
        )
        call_id = text_of(tool_call.get("toolCallId"))
        call = self.calls.get(call_id)
        if not call_id or call_id in self._ended_calls or (call is None and not self.announces_by_asking):
            return ()
        if call is not None and call.pending is not None:
            return ()
        if call is None:
            call = self.calls[call_id] = AcpCall(call_id, run_id=self.run_of(params, tool_call))
        before = call.content
        call.update(tool_call)
        call.content = before or call.content
        return self._start(call, record)

    def _start(self, call: AcpCall, record: Record) -> list[Event]:
        name, tool_input = self.name_of(call), self.input_of(call)
        pending, start = self.tools.start(
            call.id, name, tool_input, self.working_directory, record, run_id=call.run_id
        )
        if not pending.operations and (diffs := diffs_of(call, self.working_directory)):
            pending.operations = diffs
            start = msgspec.structs.replace(start, operations=diffs, raw=None)
        call.pending = pending
        out: list[Event] = [*self.flush(call.run_id), start]
        spawn = pending.operation
        if isinstance(spawn, Spawn):
            prompt = first_text(pending.input, "prompt", "task", "instructions") or spawn.task
            out += self.children.begin(call.id, name=spawn.name, prompt=prompt, cwd=self.working_directory)
        return out

    def _progress(self, call: AcpCall, update: Record) -> list[Event]:
        progress = self.progress_of(call, update) if call.pending is not None else ""
        new = continuation(call.shown, progress) if progress else ""
        call.shown = progress or call.shown
        return [ToolProgress(call_id=call.id, text=new, run_id=call.run_id)] if new else []

    def _call_content(self, record: Record) -> Sequence[Event]:
        """v2: a piece of the content of a running call."""
        update = record_of(record_of(record.get("params")).get("update"))
        call = self.calls.get(text_of(update.get("toolCallId")))
        piece = update.get("content")
        if call is None or piece is None:
            return ()
        call.content = [*call.content, piece]
        text = text_of_content([piece])
        call.shown += text
        return [ToolProgress(call_id=call.id, text=text, run_id=call.run_id)] if text else ()

    def _end(self, call: AcpCall, pending: PendingCall) -> list[Event]:
        del self.calls[call.id]
        self._ended_calls.add(call.id)
        end = self.end_of(call, pending)
        out = self._end_child(call, end)
        out.append(
            ToolEnd(
                call_id=call.id,
                tool_name=pending.name or "unknown",
                success=end.success,
                output=end.output,
                exit_code=end.exit_code,
                operations=end.operations,
                changes=texts_of(call, pending.cwd) if end.success else None,
                run_id=call.run_id,
            )
        )
        tasks = self.tasks_after(call, pending) if end.success else None
        return out if tasks is None else [*out, *self._planned(tasks)]

    def _end_waiting(self) -> list[Event]:
        """Calls that have ended and whose results never came."""
        return [
            event
            for call in list(self.calls.values())
            if call.has_ended and call.pending is not None
            for event in self._end(call, call.pending)
        ]

    def _end_child(self, call: AcpCall, end: CallEnd) -> list[Event]:
        child = self.children.find(call.id)
        if child is None:
            return []
        status, text = self.child_answer(call, end)
        if status == "running":
            child.status = "completed"  # emitted when the turn has ended, not before
            return []
        return [*self.flush(child.run_id), *self.children.end(call.id, status, text)]

    # The rest

    def _plan(self, record: Record) -> Sequence[Event]:
        update = record_of(record_of(record.get("params")).get("update"))
        tasks = tasks_of(update.get("entries", record_of(update.get("plan")).get("entries")))
        return () if self.is_history or tasks is None else self._planned(tasks)

    def _planned(self, tasks: list[Task]) -> list[Event]:
        """Only a change is news: some agents show the list with the call and once more as a plan, others an empty one."""
        if [(each.text, each.status) for each in tasks] == [
            (each.text, each.status) for each in self._tasks or ()
        ]:
            return []
        self._tasks = tasks
        return [TasksChanged(tasks=tasks)]

    def _context(self, record: Record) -> Sequence[Event]:
        """How full the context is, and what the whole session has cost: neither is usage of this turn."""
        del record
        return ()

    def _notice(self, record: Record) -> Sequence[Event]:
        update = record_of(record_of(record.get("params")).get("update"))
        message = first_text(update, "title", "message", "description")
        severity = text_of(update.get("severity"))
        notice = Warning if severity in ("warning", "error") else Info
        return [notice(message=message, code=severity or "notice")] if message else [Unknown(raw=record)]

    def _state(self, record: Record) -> Sequence[Event]:
        """v2: the end of a turn is a state of the session."""
        update = record_of(record_of(record.get("params")).get("update"))
        if update.get("state") != "idle" or self.is_history:
            return ()
        return self._turn_ended(update)

    def _prompt_answered(self, record: Record) -> Sequence[Event]:
        error, result = record_of(record.get("error")), record_of(record.get("result"))
        if error:
            out = [*self._flush_all(), failure_of(error)]
            return [*out, Result(success=False, outcome="failed", session_id=self.session)]
        # v2 answers when it has taken the prompt.
        return self._turn_ended(result) if "stopReason" in result else ()

    def _turn_ended(self, answer: Record) -> Sequence[Event]:
        reason = text_of(answer.get("stopReason"))
        outcome = _ENDS.get(reason or "end_turn", "failed")
        out = [*self._flush_all(), *self._end_waiting(), *self.used(answer)]
        if outcome == "completed":
            out += self.children.end_all_known()
        return [*out, self.result(outcome, reason)]

    def result(self, outcome: Outcome, reason: str) -> Result:
        return Result(
            success=outcome == "completed", outcome=outcome, stop_reason=reason, session_id=self.session
        )


def usage_of(data: Record) -> Usage:
    """`inputTokens` includes what came from the cache, unless the total says otherwise."""
    prompt, output, total = (count_of(data.get(f"{key}Tokens")) for key in ("input", "output", "total"))
    cache_read, cache_write = count_of(data.get("cachedReadTokens")), count_of(data.get("cachedWriteTokens"))
    thought = count_of(data.get("thoughtTokens"))
    is_apart = total is not None and total == sum(
        part or 0 for part in (prompt, output, cache_read, cache_write)
    )
    return Usage(
        input=prompt if is_apart else besides(prompt, cache_read, cache_write),
        output=besides(output, thought),
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=thought,
    )


def model_of(session: Record) -> str:
    """The model of a session, as the answer that opens it says."""
    model_id = text_of(record_of(session.get("models")).get("currentModelId"))
    return model_id or text_of(config_option(session, "model").get("currentValue"))


def config_option(session: Record, name: str) -> Record:
    """An option of a session, with its value; v2 has another name for its id."""
    options = map(record_of, items_of(session.get("configOptions")))
    return next((option for option in options if first_text(option, "id", "configId") == name), {})


def failure_of(error: Record) -> Error:
    """The error of a turn: what the data of it says, where its message is only JSON-RPC's own."""
    message, data = text_of(error.get("message")), error.get("data")
    detail = data if isinstance(data, str) else first_text(record_of(data), "details", "message", "error")
    text = detail if detail and message.partition(":")[0] in _VAGUE else message
    text = plain(text) or "the agent reported an error without a message"
    number = error.get("code")
    http_code = f"http_{number}" if isinstance(number, int) and 400 <= number < 600 else ""
    return Error(message=text, code=http_code or code_of(text, "agent_error"))
