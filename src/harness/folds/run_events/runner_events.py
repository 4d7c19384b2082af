"""A run as a sandbox runner reports it: six kinds of events that any reader understands, each with the log's own event.

`run.started`, `assistant.delta`, `tool.started`, `tool.completed`, `run.completed`, `run.error`; whatever is none of
these is called `log`. `events` are the events of the log that it represents, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.events import (
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.log.codec import to_builtins
from harness.log.run_tree import RunTree

_CALM = ("completed", "interrupted")


class RunnerEvent(NamedTuple):
    id: int
    """Counts from 1 without gaps."""
    name: str
    data: dict[str, Any]


class RunnerTranslation:
    """Stage: event of a log → runner event, one each."""

    def __init__(self, prompt: str = "") -> None:
        self._tree = RunTree()
        self._prompt = prompt
        self._error = ""

    def feed(self, event: Event, /) -> Sequence[RunnerEvent]:
        run = self._tree.feed(event)
        name, data = ("log", {}) if run.depth else self._translated(event)
        return (RunnerEvent(event.seq + 1, name, {**data, "events": [to_builtins(event)]}),)

    def finish(self) -> Sequence[RunnerEvent]:
        return ()

    def _translated(self, event: Event) -> tuple[str, dict[str, Any]]:
        match event:
            case SessionStart():
                return "run.started", {"runId": event.run_id, "prompt": self._prompt}
            case TextDelta():
                return "assistant.delta", {"text": event.text}
            case Message(role="assistant"):
                rest = self._tree.rest(event)
                text = event.text if rest is None else rest
                return ("assistant.delta", {"text": text}) if text else ("log", {})
            case ToolStart():
                return "tool.started", {"id": event.call_id, "name": event.tool_name, "input": event.input}
            case ToolEnd():
                completed = {"id": event.call_id, "isError": event.success is False, "output": event.output}
                return "tool.completed", completed
            case Error():
                self._error = event.message
                return "log", {}
            case Result(success=is_good, outcome=outcome):
                if is_good or outcome in _CALM:
                    return "run.completed", {"outcome": outcome}
                return "run.error", {"message": self._error or outcome, "outcome": outcome}
            case _:
                return "log", {}
