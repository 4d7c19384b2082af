"""The event stream: one JSON object per line, in the seven types that every agent is translated into.

Runs inside the run are told without their own `SessionStart` and `Result`. What the seven types
have no word for (reasoning, warnings, tasks, what nobody could read …) is in the log only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, cast

import msgspec

from harness.events import (
    AnyEvent,
    Compacted,
    Error,
    Event,
    Info,
    Message,
    ReasoningDelta,
    Relay,
    RelayReply,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    Steering,
    StepEnd,
    StepStart,
    TasksChanged,
    TextDelta,
    TextRetracted,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Unknown,
    Unrecognized,
    UsageDelta,
    Warning,
)
from harness.rendering.json_text import compact, encode_blocks
from harness.rendering.lineage import Lineage
from harness.rendering.usage_data import UsageData, computed, usage_data
from harness.stage import View, ViewOptions


class _Line(
    msgspec.Struct,
    gc=False,
    omit_defaults=True,
    tag_field="type",
    tag=lambda name: name.removesuffix("Line"),
):
    """Fields without a default are on every line of their type; the others only when there is something to say."""

    timestamp_ms: int


class SessionStartLine(_Line):
    session_id: str
    """The agent's own; where it has told none, the run's."""
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
    """Under which `harness sessions` knows it."""
    agent_session_id: str = ""
    """The same as `session_id`, but only where the agent has told it."""
    cost_source: str = ""
    """`computed`, where `total_cost_usd` was computed from prices; otherwise the agent has stated it."""


class ErrorLine(_Line):
    message: str
    code: str = ""


class UsageDeltaLine(_Line):
    usage: UsageData


class Stream:
    def __init__(self, options: ViewOptions) -> None:
        self._shows_usage = options.usage
        self._lineage = Lineage()
        self._start_of_run = SessionStart()

    def feed(self, event: Event, /) -> Sequence[bytes]:
        return self.feed_all((event,))

    def feed_all(self, events: Sequence[Event], /) -> Sequence[bytes]:
        lines = [
            # Without a detour: nine of ten events are this.
            TextDeltaLine(at_ms if (at_ms := event.timestamp_ms) > 0 else 0, event.text)
            if type(event) is TextDelta
            else self._line(cast("AnyEvent", event), max(0, event.timestamp_ms))
            for event in events
        ]
        return encode_blocks([line for line in lines if line is not None])

    def finish(self) -> Sequence[bytes]:
        return ()

    def _line(self, event: AnyEvent, at_ms: int) -> _Line | None:
        match event:
            case TextDelta():
                return TextDeltaLine(at_ms, event.text)
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
            case SessionStart():
                return self._start(event, at_ms)
            case Result():
                return self._result(event, at_ms)
            case Steering():
                self._lineage.see(event)
                return None
            case (
                ReasoningDelta()
                | ToolInputDelta()
                | ToolProgress()
                | TextRetracted()
                | TasksChanged()
                | Compacted()
                | StepStart()
                | StepEnd()
                | Relay()
                | RelayReply()
                | ReplInput()
                | ReplProgress()
                | ReplOutput()
                | Warning()
                | Info()
                | Unknown()
                | Unrecognized()
            ):
                return None
            case _:
                assert_never(event)

    def _start(self, event: SessionStart, at_ms: int) -> SessionStartLine | None:
        self._lineage.see(event)
        if not self._lineage.is_top(event):
            return None
        self._start_of_run = event
        return SessionStartLine(at_ms, event.session_id, event.agent, event.model, event.cwd)

    def _result(self, event: Result, at_ms: int) -> ResultLine | None:
        self._lineage.see(event)
        if not self._lineage.is_top(event):
            return None
        session_id = event.session_id or self._start_of_run.session_id
        return ResultLine(
            at_ms,
            event.success,
            event.text,
            session_id,
            event.duration_ms,
            event.total_cost_usd,
            usage_data(event.usage) if event.usage else None,
            event.log_id or self._lineage.log_id,
            "" if session_id == event.run_id else session_id,
            computed(event.usage),
        )


def open(options: ViewOptions) -> View:
    return Stream(options)
