"""Codex in a two-way conversation: what `codex app-server` says of its threads.

thread/start, thread/resume (responses)   the session
turn/started … turn/completed             a turn; its status says how it ended
item/started … item/completed             what the agent says and does: the items of `codex exec`, with other names
item/…/delta                              pieces of messages, reasoning and outputs
thread/tokenUsage/updated                 after every model call: the total of the thread, and of the latest call

Sub-agents are threads of their own in the same stream. Requests and responses are the driver's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

import msgspec

from harness.agents.codex.items import (
    CallItem,
    CodexThreads,
    includes,
    stderr_events,
    success_of,
    usage_of,
)
from harness.agents.codex.limits import LIMITS, limit_code, stated_limits
from harness.agents.codex.thread_lines import (
    CALL_KINDS,
    CONSUMED,
    THREAD_CALLS,
    as_of_exec,
    message_pieces,
    spelled,
)
from harness.contracts.translator import NO_LINE, Ending, Record, Translator
from harness.events import (
    Compacted,
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
    TextRetracted,
    ToolEnd,
    ToolProgress,
    ToolStart,
    Unknown,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Operation
from harness.formats.error_messages import plain
from harness.formats.fields import (
    count_of,
    exit_code_of,
    first_text,
    items_of,
    output_of,
    record_of,
    text_of,
)
from harness.formats.json_lines import DECODE_ERRORS
from harness.formats.limit_windows import StatedWindows
from harness.log.raw import RawStart

_OUTCOMES: dict[str, Outcome] = {"completed": "completed", "interrupted": "interrupted"}
_STATUS: dict[str, Literal["in_progress", "completed"]] = {
    "completed": "completed",
    "inProgress": "in_progress",
}
_FIRST_OF_MODEL = frozenset(
    f"item/started/{kind}" for kind in ("agentMessage", "reasoning", "plan", *CALL_KINDS)
)
"""What shows that the model has been asked in this turn."""
_LOG_PREFIX = re.compile(r"\S+ +(?:ERROR|WARN) [\w:]+: ")


class CodexThreadTranslator(Translator):
    rules: ClassVar[dict[str, str]] = {
        "response": "_response",
        "turn/started": "_turn_started",
        "turn/completed": "_turn_completed",
        "turn/plan/updated": "_tasks",
        "thread/tokenUsage/updated": "_usage",
        LIMITS: "_limits",
        "error": "_error",
        "warning": "_warning",
        "configWarning": "_warning",
        "deprecationNotice": "_warning",
        "guardianWarning": "_warning",
        "model/rerouted": "_rerouted",
        "mcpServer/startupStatus/updated": "_mcp_status",
        "item/agentMessage/delta": "_text_piece",
        "item/plan/delta": "_text_piece",
        "item/reasoning/summaryTextDelta": "_reasoning_piece",
        "item/reasoning/summaryPartAdded": "_reasoning_part",
        "item/reasoning/textDelta": "_reasoning_piece",
        "item/commandExecution/outputDelta": "_output_piece",
        "item/mcpToolCall/progress": "_output_piece",
        "item/started/agentMessage": "_message_started",
        "item/completed/agentMessage": "_message",
        "item/started/plan": "",
        "item/completed/plan": "_message",
        "item/started/reasoning": "",
        "item/completed/reasoning": "_reasoning",
        "item/started/userMessage": "_user_message_started",
        "item/completed/userMessage": "_user_message",
        "item/started/contextCompaction": "",
        "item/completed/contextCompaction": "_compacted",
        "item/started/subAgentActivity": "",
        "item/completed/subAgentActivity": "_sub_agent",
        **{f"item/started/{kind}": "_call_started" for kind in CALL_KINDS},
        **{f"item/completed/{kind}": "_call_ended" for kind in CALL_KINDS},
        **dict.fromkeys(CONSUMED, ""),
    }

    def __init__(self) -> None:
        super().__init__()
        self._root = ""
        """The thread of the run itself."""
        self._asked_turns: set[str] = set()
        """Turns that were answered to a prompt."""
        self._turns: dict[str, str] = {}
        """Thread → its running turn."""
        self._ended_turns: set[str] = set()
        self._run_id = ""
        """Of the record that is being read."""
        self._children = CodexThreads()
        self._spawning = ""
        """The latest call that starts a sub-agent."""
        self._prompted: dict[str, str] = {}
        """Run of a sub-agent → its prompt, which its thread repeats."""
        self._limit_windows = StatedWindows()
        self._open: dict[tuple[str, str], list[Operation]] = {}
        """Calls that have started, with their operations."""
        self._unfinished: dict[str, Record] = {}
        """Unknown items: they are emitted when they have ended."""
        self._streamed: set[tuple[str, str]] = set()
        """(run, id) of messages and reasoning of which pieces were emitted, and not yet the whole."""
        self._totals: dict[str, Usage] = {}
        self._awaits_total = False
        """The thread was resumed, and its total of before has not been seen."""
        self._last_tasks: dict[str, list[Task]] = {}
        self._held_errors: dict[str, Error] = {}
        """Errors that the end of a turn is expected to repeat."""
        self._noticed: set[str] = set()
        self._message_key: tuple[str, str, str] | None = None
        self._prefix = NO_LINE

    def begin(self, start: RawStart) -> None:
        super().begin(start)
        self._root = start.session_id
        with suppress(msgspec.ValidationError):  # of another version of this program
            self._totals = msgspec.convert(start.carried.get("totals", {}), dict[str, Usage])
        request = start.request
        self._awaits_total = not start.session_id and bool(
            request.get("resume") or request.get("continue_last")
        )

    def carried(self) -> dict[str, Any]:
        """Older versions repeat the total of the turn before when a turn begins."""
        totals = {thread: msgspec.to_builtins(total) for thread, total in self._totals.items()}
        return {"totals": totals} if totals else {}

    # Which record it is, and whose

    def kind(self, record: Record) -> str:
        method = record.get("method")
        if not isinstance(method, str):
            return "response" if "id" in record else ""
        if method in ("item/started", "item/completed"):
            item = record_of(record_of(record.get("params")).get("item"))
            return f"{method}/{text_of(item.get('type'))}"
        return method

    def record(self, record: Record) -> Sequence[Event]:
        method, params = text_of(record.get("method")), record_of(record.get("params"))
        thread, turn_id = text_of(params.get("threadId")), text_of(params.get("turnId"))
        is_of_turn = method.startswith(("item/", "turn/plan/")) or method == "error"
        if is_of_turn and self._is_late(thread, turn_id):
            self.rule = "late"
            return ()
        out: list[Event] = []
        is_child = bool(thread) and thread != self._root
        if self._awaits_total and not is_child and self.kind(record) in _FIRST_OF_MODEL:
            self._awaits_total = False
        if is_child and is_of_turn:
            out = self._children.opened(thread, self._spawning)
        self._run_id = self._children.run_id(thread) if is_child else ""
        events = super().record(record)
        if self.rule == "unknown" and method in ("item/started", "item/completed"):
            events = self._unknown_item(method, record_of(params.get("item")))
        return [*out, *events] if out else events

    def _is_late(self, thread: str, turn_id: str) -> bool:
        """A turn that was interrupted may leave commands behind, whose ends come after its own."""
        if not turn_id:
            return False
        return turn_id in self._ended_turns or (thread == self._root and turn_id != self._turns.get(thread))

    def _unknown_item(self, method: str, item: Record) -> Sequence[Event]:
        item_id = text_of(item.get("id"))
        if item_id and method == "item/started":
            self.rule = method
            self._unfinished[item_id] = item
            return ()
        self._unfinished.pop(item_id, None)
        return [Unknown(raw=item, run_id=self._run_id)]

    def stderr(self, line: str) -> Sequence[Event]:
        self.rule, events = stderr_events(line)
        if self.rule == "stderr" and not self._is_new(_LOG_PREFIX.sub("", line, count=1)):
            self.rule = "repeated"
            return ()
        return events

    def _is_new(self, message: str) -> bool:
        """Some warnings are written to stdout and to stderr."""
        is_new = message not in self._noticed
        self._noticed.add(message)
        return is_new

    def finish(self, ending: Ending) -> Sequence[Event]:
        out: list[Event] = [Unknown(raw=item) for item in self._unfinished.values()]
        out += self._held_errors.values()
        is_seen = ending.exit_code is not None or ending.signal is not None
        if self._root in self._turns and is_seen and ending.outcome is None:
            how = f"exit code {ending.exit_code}" if ending.signal is None else f"signal {ending.signal}"
            out.append(Error(message=f"Codex ended in the middle of a turn ({how})", code="missing_end"))
        return out

    # Session and turns

    def _response(self, record: Record) -> Sequence[Event]:
        """Of a request of the driver: a thread that was opened, a turn that was started. Errors are the driver's."""
        result = record_of(record.get("result"))
        if turn_id := text_of(record_of(result.get("turn")).get("id")):
            self._asked_turns.add(turn_id)
        thread_id = text_of(record_of(result.get("thread")).get("id"))
        if not thread_id:
            return ()
        self._root = thread_id
        return [SessionStart(session_id=thread_id, agent="codex", model=text_of(result.get("model")))]

    def _turn_started(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        thread, turn_id = text_of(params.get("threadId")), text_of(record_of(params.get("turn")).get("id"))
        if not self._root and (turn_id in self._asked_turns or not self._asked_turns):
            self._root = thread
        self._turns[thread] = turn_id
        if thread != self._root:
            return self._children.opened(thread, self._spawning)
        return [SessionStart(session_id=thread, agent="codex")]

    def _turn_completed(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        thread, turn = text_of(params.get("threadId")), record_of(params.get("turn"))
        turn_id = text_of(turn.get("id"))
        self._ended_turns.add(turn_id)
        if not self._is_running(thread, turn_id):
            return ()
        self._turns.pop(thread, None)
        outcome = _OUTCOMES.get(text_of(turn.get("status")), "failed")
        error, message = self._held_errors.pop(thread, None), _message_of(record_of(turn.get("error")))
        is_other = error is not None and message not in ("", error.message)
        out: list[Event] = [error] if error is not None and is_other else []
        message = message or (error.message if error is not None else "")
        if thread != self._root:
            return [*out, *self._children.ended(thread, outcome, message)]
        if outcome == "failed":
            code = limit_code(record_of(turn.get("error"))) or "turn_failed"
            out.append(Error(message=message or "turn failed", code=code))
        return [*out, Result(success=outcome == "completed", outcome=outcome)]

    def _usage(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        thread, tokens = text_of(params.get("threadId")), record_of(params.get("tokenUsage"))
        total, before = _usage_of(tokens.get("total")), self._totals.get(thread)
        self._totals[thread] = total
        if self._is_of_before(thread) or not self._is_running(thread, text_of(params.get("turnId"))):
            return ()
        is_known = before is not None and includes(total, before)
        added = total.minus(before) if is_known and before is not None else _usage_of(tokens.get("last"))
        if not any((added.input, added.output, added.cache_read, added.cache_write, added.reasoning)):
            return ()
        return [UsageDelta(usage=added, run_id=self._run_id)]

    def _is_running(self, thread: str, turn_id: str) -> bool:
        """Of a sub-agent, the turn may have started in an earlier run."""
        unseen = "" if thread == self._root else turn_id
        return bool(turn_id) and self._turns.get(thread, unseen) == turn_id

    def _is_of_before(self, thread: str) -> bool:
        """Of a resumed thread the total comes once more, before the model is asked: that is none of this run's."""
        if thread != self._root or not self._awaits_total:
            return False
        self._awaits_total = False
        return True

    def _tasks(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        steps = [record_of(step) for step in items_of(params.get("plan"))]
        tasks = [
            Task(text=text_of(step.get("step")), status=_STATUS.get(text_of(step.get("status")), "pending"))
            for step in steps
        ]
        if tasks == self._last_tasks.get(self._run_id):
            return ()
        self._last_tasks[self._run_id] = tasks
        return [TasksChanged(tasks=tasks, run_id=self._run_id)]

    # Errors, warnings and limits

    def _limits(self, record: Record) -> Sequence[Event]:
        return self._limit_windows.take(stated_limits(record))

    def _error(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        error = record_of(params.get("error"))
        message = _message_of(error) or "Codex reported an error without a message"
        if params.get("willRetry") is True:
            details = plain(text_of(error.get("additionalDetails")))
            message = f"{message} ({details})" if details else message
            retry = Warning(message=message, code="retry", run_id=self._run_id)
            return [*self._take_back(), retry]
        code = limit_code(error) or "turn_failed"
        failure = Error(message=message, code=code, run_id=self._run_id)
        self._held_errors[text_of(params.get("threadId"))] = failure
        return ()

    def _take_back(self) -> list[Event]:
        """The model is asked again: its text so far is retracted."""
        void = [key for key in self._streamed if key[0] == self._run_id]
        self._streamed.difference_update(void)
        self._leave_message()
        return [TextRetracted(id=item_id, run_id=run_id) for run_id, item_id in sorted(void)]

    def _warning(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        message = first_text(params, "message", "summary") or "Codex warned without a message"
        if not self._is_new(message):
            return ()
        return [Warning(message=message, code="notice")]

    def _rerouted(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        message = f"Codex uses {text_of(params.get('toModel'))} instead of {text_of(params.get('fromModel'))}"
        return [Warning(message=message, code="model_rerouted", run_id=self._run_id)]

    def _mcp_status(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        if params.get("status") != "failed":
            return ()
        why = plain(text_of(params.get("error"))) or "it did not start"
        return [Warning(message=f"MCP server {text_of(params.get('name'))}: {why}", code="mcp_server")]

    # Messages

    @property
    def piece_prefix(self) -> bytes:
        return self._prefix

    def pieces(self, lines: Sequence[bytes]) -> Sequence[Event] | None:
        try:
            message_texts = message_pieces(lines)
        except DECODE_ERRORS:
            return None
        key = self._message_key
        texts = [
            text.params.delta
            for text in message_texts
            if (text.params.thread_id, text.params.turn_id, text.params.item_id) == key and text.params.delta
        ]
        if key is None or not len(texts) == len(message_texts) == len(lines):
            return None
        self.rule = "item/agentMessage/delta"
        return [TextDelta(id=key[2], text=text) for text in texts]

    def _message_started(self, record: Record) -> Sequence[Event]:
        """Nearly all lines that follow are pieces of this message: those of the run itself take the fast path."""
        params = record_of(record.get("params"))
        thread, turn_id = text_of(params.get("threadId")), text_of(params.get("turnId"))
        item_id = text_of(record_of(params.get("item")).get("id"))
        if thread == self._root and item_id:
            self._message_key = (thread, turn_id, item_id)
            self._streamed.add((self._run_id, item_id))
            self._prefix = b'{"method":"item/agentMessage/delta","params":{"threadId":"%b"' % thread.encode()
        return ()

    def _leave_message(self) -> None:
        self._message_key, self._prefix = None, NO_LINE

    def _text_piece(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        item_id, text = text_of(params.get("itemId")), text_of(params.get("delta"))
        self._streamed.add((self._run_id, item_id))
        return [TextDelta(id=item_id, text=text, run_id=self._run_id)] if text else ()

    def _message(self, record: Record) -> Sequence[Event]:
        """Of the agent; a plan is what it says in plan mode."""
        item = record_of(record_of(record.get("params")).get("item"))
        item_id, text = text_of(item.get("id")), text_of(item.get("text"))
        self._leave_message()
        self._streamed.discard((self._run_id, item_id))
        return [Message(role="assistant", text=text, id=item_id, run_id=self._run_id)] if text else ()

    def _user_message_started(self, _record: Record) -> Sequence[Event]:
        """A message that is given while the model writes may break its answer off."""
        return self._take_back()

    def _user_message(self, record: Record) -> Sequence[Event]:
        """Those of the run itself are in the log already: prompts, and messages that were taken."""
        if not self._run_id:
            return ()
        item = record_of(record_of(record.get("params")).get("item"))
        text = "".join(text_of(record_of(part).get("text")) for part in items_of(item.get("content")))
        if self._prompted.pop(self._run_id, None) == text:
            return ()
        return [Message(role="user", text=text, run_id=self._run_id)] if text else ()

    def _reasoning_piece(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        item_id, text = text_of(params.get("itemId")), text_of(params.get("delta"))
        if self.rule == "item/reasoning/textDelta":
            item_id = f"{item_id}:content"
        self._streamed.add((self._run_id, item_id))
        return [ReasoningDelta(id=item_id, text=text, run_id=self._run_id)] if text else ()

    def _reasoning_part(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        if not count_of(params.get("summaryIndex")):
            return ()
        return [ReasoningDelta(id=text_of(params.get("itemId")), text="\n", run_id=self._run_id)]

    def _reasoning(self, record: Record) -> Sequence[Event]:
        item = record_of(record_of(record.get("params")).get("item"))
        item_id = text_of(item.get("id"))
        keys = {(self._run_id, item_id), (self._run_id, f"{item_id}:content")}
        if keys & self._streamed:
            self._streamed -= keys
            return ()
        text = output_of(item.get("summary") or item.get("content"))
        return [ReasoningDelta(id=item_id, text=text, run_id=self._run_id)] if text else ()

    def _compacted(self, _record: Record) -> Sequence[Event]:
        return [Compacted(run_id=self._run_id)]

    # Calls

    def _call_of(self, record: Record) -> tuple[str, Record, CallItem | None]:
        item = as_of_exec(record_of(record_of(record.get("params")).get("item")))
        call = THREAD_CALLS[item["type"]](item, text_of(item.get("cwd")) or self.working_directory)
        if call is None:
            self.rule = "unknown"
            return "", item, None
        return text_of(item.get("id")) or call.tool_name, item, call

    def _call_started(self, record: Record) -> Sequence[Event]:
        call_id, item, call = self._call_of(record)
        if item.get("tool") == "spawn_agent":
            self._spawning = call_id
        # What is searched for is known only at the end, and a call without it would say nothing.
        if call is None or call.tool_name == "web_search":
            return ()
        return [self._start(call_id, call)]

    def _start(self, call_id: str, call: CallItem) -> ToolStart:
        self._open[self._run_id, call_id] = call.operations
        return ToolStart(
            call_id=call_id,
            tool_name=call.tool_name,
            input=call.input,
            operations=call.operations,
            run_id=self._run_id,
        )

    def _output_piece(self, record: Record) -> Sequence[Event]:
        params = record_of(record.get("params"))
        call_id, text = text_of(params.get("itemId")), first_text(params, "delta", "message")
        if not text or (self._run_id, call_id) not in self._open:
            return ()
        return [ToolProgress(call_id=call_id, text=text, run_id=self._run_id)]

    def _call_ended(self, record: Record) -> Sequence[Event]:
        call_id, item, call = self._call_of(record)
        if call is None:
            return ()
        key = (self._run_id, call_id)
        out: list[Event] = [] if key in self._open else [self._start(call_id, call)]
        children, operations = self._children.after(item, call_id)
        for event in children:
            if isinstance(event, Message):
                self._prompted[event.run_id] = event.text
        start = self._open.pop(key)
        operations = operations or call.operations
        end = ToolEnd(
            call_id=call_id,
            tool_name=call.tool_name,
            success=success_of(item),
            output=call.output,
            exit_code=exit_code_of(item.get("exit_code")),
            duration_ms=count_of(item.get("duration_ms")),
            operations=operations if operations != start else None,
            raw=call.raw,
            run_id=self._run_id,
        )
        return [*out, *children, end]

    def _sub_agent(self, record: Record) -> Sequence[Event]:
        """Newer multi-agent tools: a sub-agent began to work, was written to, or has ended."""
        item = record_of(record_of(record.get("params")).get("item"))
        thread = text_of(item.get("agentThreadId"))
        if not thread or item.get("kind") != "started":
            return ()
        return self._children.opened(thread, text_of(item.get("id")))


def _usage_of(data: Any) -> Usage:
    return usage_of({spelled(name): value for name, value in record_of(data).items()})


def _message_of(error: Record) -> str:
    return plain(text_of(error.get("message")))
