"""The event stream: one JSON object per line, in the seven types that every agent is translated into.

A run that waits for a person has two more: `Relay`, which asks, and `RelayReply`, which ends the wait; what the rules
answer by themselves is not there. Runs inside the run are written without their own `SessionStart` and `Result`. What
has no equivalent in these types (reasoning, warnings, tasks, unreadable output …) is in the log only.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from harness.events import (
    Error,
    Event,
    Message,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
    UsageDelta,
)
from harness.folds.refused_calls import RefusedCalls
from harness.formatting.amounts import UsageData, computed, usage_data
from harness.formatting.json_text import compact, encode_blocks
from harness.log.run_tree import RunNode, RunTree
from harness.stage import View, ViewOptions


class _Line(
    msgspec.Struct,
    gc=False,
    omit_defaults=True,
    tag_field="type",
    tag=lambda name: name.removesuffix("Line"),
):
    """Fields without a default are on every line of their type; the others only when they have a value."""

    timestamp_ms: int


class SessionStartLine(_Line):
    session_id: str
    """The agent's own session id; the run's id if the agent has reported none."""
    agent: str
    model: str = ""
    cwd: str = ""


class TextDeltaLine(_Line):
    text: str


class MessageLine(_Line):
    role: str
    text: str


class ToolStartLine(_Line):
    call_id: str
    tool_name: str
    input: str | None = None
    """JSON text."""


class ToolEndLine(_Line):
    call_id: str
    tool_name: str
    success: bool
    output: str | None = None


class ResultLine(_Line):
    success: bool
    text: str
    session_id: str
    duration_ms: int | None = None
    total_cost_usd: float | None = None
    usage: UsageData | None = None
    log_id: str = ""
    """The id in `harness sessions`."""
    agent_session_id: str = ""
    """The same as `session_id`, but only if the agent has reported it."""
    cost_source: str = ""
    """`computed` if `total_cost_usd` was computed from prices; otherwise the agent has stated it."""


class ErrorLine(_Line):
    message: str
    code: str = ""


class RelayLine(_Line):
    id: str
    kind: str
    """`permission`, `question`, `plan` or `tool`."""
    log_id: str
    """The id for `harness attach`, where it is answered."""
    question: str = ""
    options: list[str] | None = None
    call_id: str = ""
    tool_name: str = ""
    input: str | None = None
    """JSON text."""
    subagent: str = ""


class RelayReplyLine(_Line):
    id: str
    approved: bool
    by: str
    """`person`, `policy` or `timeout`."""
    reason: str = ""
    answer: str | None = None
    """JSON text."""


class UsageDeltaLine(_Line):
    usage: UsageData


class StreamView:
    def __init__(self, options: ViewOptions) -> None:
        self._shows_usage = options.usage
        self._tree = RunTree()
        self._refused = RefusedCalls()
        self._session_id = ""
        self._open_questions: set[str] = set()
        """Questions that wait for an answer."""

    def feed(self, event: Event, /) -> Sequence[bytes]:
        return self.feed_all((event,))

    def feed_all(self, events: Sequence[Event], /) -> Sequence[bytes]:
        lines: list[_Line] = []
        tree = self._tree
        for event in events:
            at_ms = max(0, event.timestamp_ms)
            if type(event) is TextDelta:
                # Fast path: nine of ten events. The tree needs no text of a run that it knows.
                if event.run_id != tree.run.id or not tree.run.top:
                    tree.feed(event)
                lines.append(TextDeltaLine(at_ms, event.text))
                continue
            refusal = self._refused.seen(event)
            line = self._line(refusal, at_ms, tree.feed(refusal))
            if line is not None:
                lines.append(line)
        return encode_blocks(lines)

    def finish(self) -> Sequence[bytes]:
        return ()

    def _line(self, event: Event, at_ms: int, run: RunNode) -> _Line | None:
        match event:
            case ToolStart():
                arguments = None if event.input is None else compact(event.input)
                return ToolStartLine(at_ms, event.call_id, event.tool_name, arguments)
            case ToolEnd():
                return ToolEndLine(at_ms, event.call_id, event.tool_name, not event.has_failed, event.output)
            case Message():
                return MessageLine(at_ms, event.role, event.text)
            case UsageDelta():
                is_shown = self._shows_usage and event.counted is None
                return UsageDeltaLine(at_ms, usage_data(event.usage)) if is_shown else None
            case Error():
                return ErrorLine(at_ms, event.message, event.code)
            case Relay():
                return self._question(event, at_ms)
            case RelayReply():
                return self._answer(event, at_ms)
            case SessionStart():
                return None if run.depth else self._start(event, at_ms)
            case Result():
                return None if run.depth else self._result(event, at_ms)
            case _:
                return None

    def _question(self, event: Relay, at_ms: int) -> RelayLine:
        self._open_questions.add(event.id)
        return RelayLine(
            at_ms,
            event.id,
            event.kind,
            self._tree.log_id,
            event.question,
            event.options,
            event.call_id,
            event.tool_name,
            None if event.input is None else compact(event.input),
            event.subagent,
        )

    def _answer(self, event: RelayReply, at_ms: int) -> RelayReplyLine | None:
        if event.id not in self._open_questions:
            return None  # by a rule, which asked nobody
        self._open_questions.remove(event.id)
        answer = None if event.answer is None else compact(event.answer)
        return RelayReplyLine(at_ms, event.id, event.approved, event.by, event.reason, answer)

    def _start(self, event: SessionStart, at_ms: int) -> SessionStartLine:
        self._session_id = event.session_id
        return SessionStartLine(at_ms, event.session_id, event.agent, event.model, event.cwd)

    def _result(self, event: Result, at_ms: int) -> ResultLine:
        session_id = event.session_id or self._session_id
        return ResultLine(
            at_ms,
            event.success,
            event.text,
            session_id,
            event.duration_ms,
            event.total_cost_usd,
            usage_data(event.usage) if event.usage else None,
            event.log_id or self._tree.log_id,
            "" if session_id == event.run_id else session_id,
            computed(event.usage),
        )


def open(options: ViewOptions) -> View:
    return StreamView(options)
