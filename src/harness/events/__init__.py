"""The vocabulary: one closed union of small frozen structs; class name = `type` on the wire."""

from __future__ import annotations

from typing import TypeAlias

from harness.events.envelope import Event
from harness.events.notice import Error, Info, Unknown, Warning
from harness.events.operation import Operation
from harness.events.relay import Relay, RelayReply
from harness.events.repl import ReplInput, ReplOutput, ReplProgress
from harness.events.run import Compacted, Outcome, Result, SessionStart
from harness.events.step import StepEnd, StepStart
from harness.events.task import Task, TasksChanged
from harness.events.text import Message, ReasoningDelta, TextDelta, TextRetracted
from harness.events.tool import ToolEnd, ToolInputDelta, ToolProgress, ToolStart
from harness.events.unrecognized import Unrecognized
from harness.events.usage import Usage, UsageDelta

AnyEvent: TypeAlias = (
    SessionStart
    | Result
    | Compacted
    | StepStart
    | StepEnd
    | TextDelta
    | ReasoningDelta
    | TextRetracted
    | Message
    | ToolInputDelta
    | ToolStart
    | ToolProgress
    | ToolEnd
    | UsageDelta
    | TasksChanged
    | Relay
    | RelayReply
    | ReplInput
    | ReplProgress
    | ReplOutput
    | Error
    | Warning
    | Info
    | Unknown
    | Unrecognized
)

__all__ = [
    "AnyEvent",
    "Compacted",
    "Error",
    "Event",
    "Info",
    "Message",
    "Operation",
    "Outcome",
    "ReasoningDelta",
    "Relay",
    "RelayReply",
    "ReplInput",
    "ReplOutput",
    "ReplProgress",
    "Result",
    "SessionStart",
    "StepEnd",
    "StepStart",
    "Task",
    "TasksChanged",
    "TextDelta",
    "TextRetracted",
    "ToolEnd",
    "ToolInputDelta",
    "ToolProgress",
    "ToolStart",
    "Unknown",
    "Unrecognized",
    "Usage",
    "UsageDelta",
    "Warning",
]
