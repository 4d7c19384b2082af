"""Claude's stream-json format, as far as several agents write it.

system/init      a session begins (again, before every turn)
system/…         remarks, of which the agents have different ones
stream_event     pieces of an answer (`partial_messages`)
assistant        whole blocks of an answer: text, thinking, tool calls
user             results of tools; and texts, which the agent put into the conversation by itself
result           a turn has ended; the last one says how the run went

A line with `parent_tool_use_id` belongs to the sub-agent that this call spawned. Several records
may come as one JSON array, and a run that was asked for plain text has no records at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from harness.contracts.toolset import PendingCall, Toolset
from harness.contracts.translator import NO_LINE, Ending, Record
from harness.events import (
    Compacted,
    Error,
    Event,
    Message,
    Outcome,
    ReasoningDelta,
    Result,
    SessionStart,
    Unknown,
)
from harness.formats.fields import count_of, items_of, output_of, record_of, text_of, with_one_text
from harness.protocols.child_runs import ChildRuns
from harness.protocols.claude_tools import CLAUDE, ClaudeCalls
from harness.protocols.model_ledger import ModelLedger
from harness.protocols.partial_messages import PartialMessage
from harness.protocols.plain_answer import PlainAnswer

# The `result` line of Claude's stream-json: how a turn ended.
#
# Neither of its flags can be trusted alone: an API error is `success` with `is_error`, and older
# versions call a run that hit a limit no error. A turn succeeded only if both say so.


_LIMITS = {
    "error_max_turns": ("max_turns", "the agent reached its maximum number of turns"),
    "max_turns": ("max_turns", "the agent reached its maximum number of turns"),
    "error_max_budget_usd": ("max_budget", "the agent reached its maximum budget"),
    "budget_exhausted": ("max_budget", "the agent reached its maximum budget"),
}


_CUT_ANSWERS = {
    "max_tokens": "the answer was cut off: the model reached its output limit",
    "model_context_window_exceeded": "the answer was cut off: the model's context was full",
    "refusal": "the model refused to answer",
}
"""Why a model stopped that did not come to its end."""


def outcome_of(record: dict[str, Any], *, is_interrupted: bool) -> Outcome:
    """`is_interrupted`: the turn was seen to be stopped, which older versions do not repeat here."""
    subtype, reason = text_of(record.get("subtype")), text_of(record.get("terminal_reason"))
    if record.get("is_error") is not True and subtype in ("success", ""):
        return "failed" if text_of(record.get("stop_reason")) in _CUT_ANSWERS else "completed"
    if subtype in _LIMITS or reason in _LIMITS:
        return "limit_exceeded"
    if reason.startswith("aborted") or (is_interrupted and not reason):
        return "interrupted"
    return "failed"


def error_of(record: dict[str, Any], outcome: Outcome) -> Error | None:
    """The error that a failed turn ends with; an interruption is none."""
    if outcome not in ("failed", "limit_exceeded"):
        return None
    subtype, reason = text_of(record.get("subtype")), text_of(record.get("terminal_reason"))
    code, default = _LIMITS.get(subtype) or _LIMITS.get(reason) or ("", "")
    if not code and (stop := text_of(record.get("stop_reason"))) in _CUT_ANSWERS:
        return Error(message=_CUT_ANSWERS[stop], code=stop)
    if not code:
        code = reason or (subtype if subtype != "success" else "") or "error"
        default = f"the agent ended with {code}"
    message = "\n".join(text for text in items_of(record.get("errors")) if isinstance(text, str) and text)
    message = (
        message or text_of(record_of(record.get("error")).get("message")) or text_of(record.get("error"))
    )
    return Error(message=message or text_of(record.get("result")) or default, code=code)


def stop_reason_of(record: dict[str, Any]) -> str:
    reason = text_of(record.get("terminal_reason"))
    if reason not in ("", "completed"):
        return reason
    stop, subtype = text_of(record.get("stop_reason")), text_of(record.get("subtype"))
    return stop or (subtype if subtype != "success" else "")


_CALL_BLOCKS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_INTERRUPTION = "[Request interrupted by user"


class StreamJson(PlainAnswer):
    """Inherit, and add the rules for what only one agent says."""

    agent: ClassVar[str]
    version_key: ClassVar[str]
    """The field of `system/init` that holds the agent's version."""
    tools: ClassVar[Toolset] = CLAUDE
    ledger: ClassVar[type[ModelLedger]] = ModelLedger
    rules: ClassVar[dict[str, str]] = {
        "system/init": "_init",
        "system/compact_boundary": "_compact_boundary",
        "stream_event": "_stream_event",
        "assistant": "_assistant",
        "user": "_user",
        "result": "_result",
    }

    def __init__(self) -> None:
        super().__init__()
        self.cwd = ""
        self.model = ""
        self.announces_tasks = False
        """Whether the agent says when a sub-agent begins; if not, it begins with its call."""
        self.calls = ClaudeCalls(self.tools)
        self.children = ChildRuns(self.agent)
        self.has_failed = False
        """An error was emitted since the last result, which would only repeat it."""
        self._is_interrupted = False
        self._is_begun = False
        self._pending: list[Event] = []
        """What the next line may still change."""
        self._ledger = self.ledger()
        self._ordinals: dict[str, tuple[str, int]] = {}
        """Run → the message that it was given last, and how many of its blocks."""
        self._partial = PartialMessage("", self._ledger)
        self._partials = {"": self._partial}
        self._stop_reason = ""
        self._results = 0
        self._turns: int | None = None

    def kind(self, record: Record) -> str:
        kind = record.get("type")
        if kind == "system":
            return f"system/{text_of(record.get('subtype'))}"
        return kind if isinstance(kind, str) else ""

    @property
    def piece_prefix(self) -> bytes:
        return NO_LINE if self._partial.text_index < 0 else b'{"type":"stream_event"'

    def pieces(self, lines: Sequence[bytes]) -> Sequence[Event] | None:
        events = self._partial.text_pieces(lines)
        if events is not None:
            self.rule = "stream_event"
        return events

    def record(self, record: Record) -> Sequence[Event]:
        if self._pending:
            return [*self._settled(record), *super().record(record)]
        return super().record(record)

    def remark(self, line: str) -> Sequence[Event] | None:
        if not self._pending:
            return None
        self.rule = "unknown"
        return [*self._settled({}), Unknown(raw=line)]

    def finish(self, ending: Ending) -> Sequence[Event]:
        out = [*super().finish(ending), *self._settled({})]
        for partial in self._partials.values():
            out.extend(partial.close())
        out.extend(self.children.end_all_known())
        return out

    def amend(self, events: list[Event], record: Record) -> list[Event]:
        """What was held back, in the light of the line that came after it."""
        del record
        return events

    def _settled(self, record: Record) -> list[Event]:
        pending, self._pending = self._pending, []
        return self.amend(pending, record) if pending else pending

    def _init(self, record: Record) -> Sequence[Event]:
        self._is_begun = True
        self._settle_in(text_of(record.get("cwd")))
        self.model = text_of(record.get("model"))
        return [
            SessionStart(
                session_id=text_of(record.get("session_id")),
                agent=self.agent,
                model=self.model,
                cwd=self.cwd,
                version=text_of(record.get(self.version_key)),
            )
        ]

    def _begin(self, record: Record) -> list[Event]:
        """A session without `system/init`."""
        if self._is_begun:
            return []
        self._is_begun = True
        self._settle_in("")
        return [SessionStart(session_id=text_of(record.get("session_id")), agent=self.agent)]

    def _settle_in(self, cwd: str) -> None:
        self.cwd = cwd or self.working_directory
        self.calls.settle_in(self.cwd)

    def _run_of(self, record: Record, out: list[Event]) -> str:
        """The run that a line belongs to; a child's first line begins it."""
        call_id = text_of(record.get("parent_tool_use_id"))
        if not call_id:
            return ""
        name, task_id = text_of(record.get("subagent_type")), text_of(record.get("agent_id"))
        out.extend(self.begin_child(call_id, name=name, task_id=task_id))
        child = self.children.find(call_id)
        return child.run_id if child is not None else ""

    def begin_child(
        self, call_id: str, *, name: str = "", prompt: str = "", parent_id: str = "", task_id: str = ""
    ) -> list[Event]:
        call = self.calls.open.get(call_id)
        arguments = call.input if call is not None else {}
        return self.children.begin(
            call_id,
            name=name or text_of(arguments.get("subagent_type")),
            prompt=prompt or text_of(arguments.get("prompt")),
            parent_id=parent_id,
            task_id=task_id,
            cwd=self.cwd,
        )

    def end_child(self, call_id: str, status: str, text: str, duration_ms: int | None = None) -> list[Event]:
        child = self.children.find(call_id)
        if child is None:
            return []
        out: list[Event] = []
        for call in self.calls.forget(child.run_id):
            inner = self.children.find(call.id)
            if inner is not None and not inner.is_background:
                out.extend(self.end_child(call.id, "", ""))
        self._ordinals.pop(child.run_id, None)
        partial = self._partials.pop(child.run_id, None)
        out.extend(partial.close() if partial is not None else [])
        return [*out, *self.children.end(call_id, status, text, duration_ms)]

    def _stream_event(self, record: Record) -> Sequence[Event]:
        out = self._begin(record)
        run_id = self._run_of(record, out)
        partial = self._partials.get(run_id)
        if partial is None:
            partial = self._partials[run_id] = PartialMessage(run_id, self._ledger)
        out.extend(partial.feed(record))
        return out

    def _assistant(self, record: Record) -> Sequence[Event]:
        message = record_of(record.get("message"))
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            return [Unknown(raw=record)]
        out = self._begin(record)
        run_id = self._run_of(record, out)
        message_id = text_of(message.get("id"))
        if not run_id:
            self._stop_reason = text_of(message.get("stop_reason"))
        partial = self._partials.get(run_id)
        is_streamed = bool(message_id) and partial is not None and partial.message_id == message_id
        for item in content if is_streamed else with_one_text(content):
            ordinal = self._ordinal_of(run_id, message_id, is_alone=len(content) == 1)
            partial = self._partials.get(run_id)
            is_emitted = partial is not None and partial.confirm(message_id, ordinal)
            block_id = f"{message_id}:{ordinal}" if message_id else ""
            events = self._block(record_of(item), run_id, block_id, is_emitted=is_emitted)
            out.extend([Unknown(raw=item, run_id=run_id)] if events is None else events)
        return out

    def _ordinal_of(self, run_id: str, message_id: str, *, is_alone: bool) -> int:
        """Which block of its message this is: the one that is being written, else the next."""
        partial = self._partials.get(run_id)
        if is_alone and partial is not None and partial.index >= 0 and partial.message_id == message_id:
            ordinal = partial.offset + partial.index
        else:
            last_id, count = self._ordinals.get(run_id, ("", 0))
            ordinal = count if last_id == message_id else 0
        self._ordinals[run_id] = (message_id, ordinal + 1)
        return ordinal

    def _block(self, block: Record, run_id: str, block_id: str, *, is_emitted: bool) -> list[Event] | None:
        """None: a block of an unknown kind."""
        kind = text_of(block.get("type"))
        if kind in _CALL_BLOCKS:
            return self._call(block, run_id)
        if kind.endswith("tool_result"):
            return self._tool_result(block, block.get("content"), run_id)
        match kind:
            case "text" if isinstance(text := block.get("text"), str):
                message = Message(role="assistant", text=text, id=block_id, run_id=run_id)
                return [message] if text else []
            case "thinking" if isinstance(text := block.get("thinking"), str):
                is_new = text and not is_emitted
                return [ReasoningDelta(id=block_id, text=text, run_id=run_id)] if is_new else []
            case "redacted_thinking":
                self.rule = "assistant/redacted_thinking"
                return []
            case _:
                return None

    def _call(self, block: Record, run_id: str) -> list[Event] | None:
        start = self.calls.start(block, run_id)
        if start is None:
            return None
        if start.tool_name in self.tools.spawners and not self.announces_tasks:
            return [start, *self.begin_child(start.call_id)]
        return [start]

    def _user(self, record: Record) -> Sequence[Event]:
        content = record_of(record.get("message")).get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            return [Unknown(raw=record)]
        out = self._begin(record)
        run_id = self._run_of(record, out)
        kinds = [text_of(record_of(item).get("type")) for item in content]
        results = [kind for kind in kinds if kind.endswith("tool_result")]
        detail = record.get("tool_use_result") if len(results) == 1 else None
        for item, kind in zip(content, kinds, strict=True):
            block = record_of(item)
            text = block.get("text")
            if kind in results:
                out.extend(self._tool_result(block, detail, run_id))
            elif kind == "text" and isinstance(text, str):
                out.extend(self._user_text(record, text, run_id))
            else:
                out.append(Unknown(raw=item, run_id=run_id))
        return out

    def _user_text(self, record: Record, text: str, run_id: str) -> list[Event]:
        """Text that the agent itself put into the conversation is no message; a child's task is."""
        if text.startswith(_INTERRUPTION):
            self._is_interrupted = self._is_interrupted or not run_id
            self.rule = "user/interruption"
            return []
        if record.get("isSynthetic") is True:
            self.rule = "user/synthetic"
            return []
        self.rule = "user/text"
        return self.children.ask(text_of(record.get("parent_tool_use_id")), text)

    def _tool_result(self, block: Record, detail: Any, run_id: str) -> list[Event]:
        call = self.calls.open.get(text_of(block.get("tool_use_id")))
        events = self.calls.end(block, detail, run_id)
        if call is None or call.name not in self.tools.spawners:
            return events
        return [*self._spawned(call, block, record_of(detail)), *events]

    def _spawned(self, call: PendingCall, block: Record, detail: Record) -> list[Event]:
        """The call that spawned a child has a result: the child is done, unless it works in the background."""
        is_failed = block.get("is_error") is True
        out: list[Event] = []
        if not self.children.has_started(call.id):
            if is_failed:
                return []
            out = self.children.begin(
                call.id,
                name=text_of(call.input.get("subagent_type")),
                prompt=text_of(call.input.get("prompt")),
                task_id=text_of(detail.get("agentId")),
                cwd=self.cwd,
            )
        child = self.children.find(call.id)
        is_background = detail.get("isAsync") is True or detail.get("status") == "async_launched"
        if child is None or child.is_background or is_background:
            return out
        text = output_of(detail.get("content")) or output_of(block.get("content"))
        status = "failed" if is_failed else "completed"
        return [*out, *self.end_child(call.id, status, text, count_of(detail.get("totalDurationMs")))]

    def _compact_boundary(self, record: Record) -> list[Event]:
        data = record_of(record.get("compact_metadata"))
        return [
            Compacted(
                trigger=text_of(data.get("trigger")),
                before_tokens=count_of(data.get("pre_tokens")),
                after_tokens=count_of(data.get("post_tokens")),
            )
        ]

    def _result(self, record: Record) -> Sequence[Event]:
        out = self._begin(record)
        for partial in self._partials.values():
            out.extend(partial.close())
        outcome = outcome_of(record, is_interrupted=self._is_interrupted)
        error = None if self.has_failed else error_of(record, outcome)
        if error is not None:
            out.append(error)
        out.extend(self._ledger.result(record, self.model))
        usage = self._ledger.total
        self._results += 1
        turns = count_of(record.get("num_turns"))
        self._turns = self._turns if turns is None else turns + (self._turns or 0)
        structured = record.get("structured_output", record.get("structured_result"))
        out.append(
            Result(
                success=outcome == "completed",
                outcome=outcome,
                text=text_of(record.get("result")) if outcome == "completed" else "",
                # Of several turns, only the clock knows how long they took together.
                duration_ms=count_of(record.get("duration_ms")) if self._results == 1 else None,
                total_cost_usd=usage.cost_usd,
                usage=usage or None,
                stop_reason=stop_reason_of(record) or self._stop_reason,
                turns=self._turns,
                structured=structured,
            )
        )
        self.has_failed = self._is_interrupted = False
        return out
