"""The vocabulary: everything that can happen in a run or a conversation, as small frozen structs.

`AnyEvent` is the closed union: a type checker knows whether a `match` over it is complete. Import events from here;
the modules group them by subject:

    run        SessionStart, Result, steps, to-do list, compaction
    text       messages and their pieces
    tool       tool calls, code in a REPL       operation  what a call means (a read, a command, …)
    relay      questions to a person            usage      tokens and money
    notice     errors, warnings, unreadable     steering   what was decided around the agent
    memory     observational memory             fleet      many runs, planned and compared
    envelope   what every event carries
"""

from __future__ import annotations

from typing import TypeAlias

from harness.events.envelope import Event
from harness.events.fleet import (
    BudgetReached,
    CaseLost,
    CaseScored,
    CaseSession,
    CaseStarted,
    FleetEnded,
    FleetPlanned,
    ProviderLimited,
)
from harness.events.memory import (
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    MemoryActivated,
    MemoryModelChanged,
    MemoryStatus,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
)
from harness.events.notice import Error, Info, Unknown, Unrecognized, Warning
from harness.events.operation import Operation
from harness.events.relay import Grant, Relay, RelayCall, RelayChoice, RelayReply
from harness.events.run import (
    Compacted,
    ModelCall,
    Outcome,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    Task,
    TasksChanged,
)
from harness.events.steering import (
    Briefed,
    FollowUpsChanged,
    Forked,
    GoalChanged,
    GoalEvaluated,
    ModeChanged,
    ModelChanged,
    NotificationChanged,
    Parked,
    Resumed,
    Signal,
    StateChanged,
    Steering,
    SteeringQueued,
    SubagentModelChanged,
    Suspended,
    ThreadCreated,
    ThreadRenamed,
    Unparked,
    WorkspaceChanged,
)
from harness.events.text import Message, ReasoningDelta, TextDelta, TextRetracted
from harness.events.tool import (
    FileTexts,
    ReplInput,
    ReplOutput,
    ReplProgress,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
)
from harness.events.usage import BudgetExtended, LimitWindow, RateLimits, Usage, UsageDelta

AnyEvent: TypeAlias = (
    SessionStart
    | Result
    | Compacted
    | ModelCall
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
    | RateLimits
    | BudgetExtended
    | TasksChanged
    | Relay
    | RelayReply
    | ReplInput
    | ReplProgress
    | ReplOutput
    | ThreadCreated
    | ThreadRenamed
    | ModeChanged
    | ModelChanged
    | SubagentModelChanged
    | StateChanged
    | FollowUpsChanged
    | SteeringQueued
    | Briefed
    | Suspended
    | Parked
    | Unparked
    | Resumed
    | Forked
    | WorkspaceChanged
    | Signal
    | NotificationChanged
    | GoalChanged
    | GoalEvaluated
    | MemoryStatus
    | ObservationStart
    | ObservationEnd
    | ObservationFailed
    | ReflectionStart
    | ReflectionEnd
    | ReflectionFailed
    | BufferingStart
    | BufferingEnd
    | BufferingFailed
    | MemoryActivated
    | MemoryModelChanged
    | FleetPlanned
    | CaseStarted
    | CaseSession
    | CaseScored
    | CaseLost
    | ProviderLimited
    | BudgetReached
    | FleetEnded
    | Error
    | Warning
    | Info
    | Unknown
    | Unrecognized
)

__all__ = [
    "AnyEvent",
    "Briefed",
    "BudgetExtended",
    "BudgetReached",
    "BufferingEnd",
    "BufferingFailed",
    "BufferingStart",
    "CaseLost",
    "CaseScored",
    "CaseSession",
    "CaseStarted",
    "Compacted",
    "Error",
    "Event",
    "FileTexts",
    "FleetEnded",
    "FleetPlanned",
    "FollowUpsChanged",
    "Forked",
    "GoalChanged",
    "GoalEvaluated",
    "Grant",
    "Info",
    "LimitWindow",
    "MemoryActivated",
    "MemoryModelChanged",
    "MemoryStatus",
    "Message",
    "ModeChanged",
    "ModelCall",
    "ModelChanged",
    "NotificationChanged",
    "ObservationEnd",
    "ObservationFailed",
    "ObservationStart",
    "Operation",
    "Outcome",
    "Parked",
    "ProviderLimited",
    "RateLimits",
    "ReasoningDelta",
    "ReflectionEnd",
    "ReflectionFailed",
    "ReflectionStart",
    "Relay",
    "RelayCall",
    "RelayChoice",
    "RelayReply",
    "ReplInput",
    "ReplOutput",
    "ReplProgress",
    "Result",
    "Resumed",
    "SessionStart",
    "Signal",
    "StateChanged",
    "Steering",
    "SteeringQueued",
    "StepEnd",
    "StepStart",
    "SubagentModelChanged",
    "Suspended",
    "Task",
    "TasksChanged",
    "TextDelta",
    "TextRetracted",
    "ThreadCreated",
    "ThreadRenamed",
    "ToolEnd",
    "ToolInputDelta",
    "ToolProgress",
    "ToolStart",
    "Unknown",
    "Unparked",
    "Unrecognized",
    "Usage",
    "UsageDelta",
    "Warning",
    "WorkspaceChanged",
]
