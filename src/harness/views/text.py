"""What the agent says, and nothing else: live where it is written live. Runs inside the run are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, cast

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
from harness.rendering.escapes import neutralised
from harness.rendering.lineage import Lineage
from harness.rendering.streamed import Streamed
from harness.stage import View, ViewOptions


class Text:
    def __init__(self) -> None:
        self._lineage = Lineage()
        self._streamed = Streamed()
        self._open_stream: str | None = None
        """The stream whose line has no end yet."""
        self._has_spoken = False

    def feed(self, event: Event, /) -> Sequence[bytes]:
        shown = self._shown(cast("AnyEvent", event))
        return (shown.encode(),) if shown else ()

    def finish(self) -> Sequence[bytes]:
        end = self._end_line()
        return (end.encode(),) if end else ()

    def _shown(self, event: AnyEvent) -> str:
        match event:
            case TextDelta():
                return self._delta(event) if self._lineage.is_top(event) else ""
            case Message():
                is_answer = event.role == "assistant" and self._lineage.is_top(event)
                return self._message(event) if is_answer else ""
            case TextRetracted():
                # What is printed cannot be taken back; the new answer begins on a line of its own.
                self._streamed.forget(event.run_id, event.id)
                return self._end_line() if event.id == self._open_stream else ""
            case SessionStart():
                return self._start(event)
            case ToolStart():
                self._lineage.see(event)
                return ""
            case Result():
                self._lineage.see(event)
                return self._result(event) if self._lineage.is_top(event) else ""
            case Steering():
                self._lineage.see(event)
                return ""
            case (
                ReasoningDelta()
                | ToolInputDelta()
                | ToolProgress()
                | ToolEnd()
                | UsageDelta()
                | TasksChanged()
                | Compacted()
                | StepStart()
                | StepEnd()
                | Relay()
                | RelayReply()
                | ReplInput()
                | ReplProgress()
                | ReplOutput()
                | Error()
                | Warning()
                | Info()
                | Unknown()
                | Unrecognized()
            ):
                return ""
            case _:
                assert_never(event)

    def _start(self, event: SessionStart) -> str:
        self._lineage.see(event)
        if not self._lineage.is_top(event):
            return ""
        self._has_spoken = False
        return self._end_line()

    def _delta(self, event: TextDelta) -> str:
        if not event.text:
            return ""
        end = "" if event.id == self._open_stream else self._end_line()
        self._streamed.add(event.run_id, event.id, event.text)
        self._has_spoken = True
        self._open_stream = None if event.text.endswith("\n") else event.id
        return end + neutralised(event.text)

    def _message(self, event: Message) -> str:
        rest = self._streamed.take_rest(event.run_id, event.id, event.text)
        if rest is None:
            return self._end_line() + self._whole(event.text)
        start = "" if event.id == self._open_stream else self._end_line()
        if rest:
            self._open_stream = None if rest.endswith("\n") else event.id
        return start + neutralised(rest) + self._end_line()

    def _result(self, event: Result) -> str:
        is_unheard = event.success and not self._has_spoken
        return self._end_line() + (self._whole(event.text) if is_unheard else "")

    def _whole(self, text: str) -> str:
        if not text:
            return ""
        self._has_spoken = True
        return neutralised(text) + ("" if text.endswith("\n") else "\n")

    def _end_line(self) -> str:
        if self._open_stream is None:
            return ""
        self._open_stream = None
        return "\n"


def open(options: ViewOptions) -> View:
    del options
    return Text()
