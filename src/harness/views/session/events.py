"""The events that listeners of a session get: names and keys exactly as the Harness class has them.

In Python the keys are spelled as Python spells them (`tool_call_id`), on the wire as `toolCallId`. What is optional
is absent, never null, but for the few keys whose null means something.

`to_wire` and `encode` write them, `from_wire` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from harness.views.session.display_state import DisplayState, TaskItem
from harness.views.session.encoding import encode, read, to_wire
from harness.views.session.event import HarnessEvent
from harness.views.session.memory_events import (
    OmActivation,
    OmBufferingEnd,
    OmBufferingFailed,
    OmBufferingStart,
    OmModelChanged,
    OmObservationEnd,
    OmObservationFailed,
    OmObservationStart,
    OmReflectionEnd,
    OmReflectionFailed,
    OmReflectionStart,
    OmStatus,
    OmThreadTitleUpdated,
)
from harness.views.session.messages import HarnessMessage
from harness.views.session.parts import (
    FilePart,
    ImagePart,
    MessagePart,
    NotificationPart,
    NotificationSummaryPart,
    ReactiveSignalPart,
    StateSignalPart,
    SystemReminderPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from harness.views.session.tool_events import (
    CommandExit,
    ShellOutput,
    SubagentEnd,
    SubagentModelChanged,
    SubagentStart,
    SubagentTextDelta,
    SubagentToolEnd,
    SubagentToolStart,
    ToolApprovalRequired,
    ToolEnd,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolStart,
    ToolSuspended,
    ToolSuspensionCancelled,
    ToolUpdate,
)
from harness.views.session.usage import TokenUsage


class ModeChanged(HarnessEvent, frozen=True, kw_only=True):
    mode_id: str
    previous_mode_id: str


class ModelChanged(HarnessEvent, frozen=True, kw_only=True):
    model_id: str
    scope: Literal["global", "thread", "mode"] | None = None
    mode_id: str | None = None


class HarnessThread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    id: str
    resource_id: str
    title: str = ""
    created_at: int
    """Milliseconds since the epoch."""
    updated_at: int
    token_usage: TokenUsage | None = None
    metadata: dict[str, Any] | None = None


class ThreadChanged(HarnessEvent, frozen=True, kw_only=True):
    thread_id: str
    previous_thread_id: str | None


class ThreadCreated(HarnessEvent, frozen=True, kw_only=True):
    thread: HarnessThread


class ThreadDeleted(HarnessEvent, frozen=True, kw_only=True):
    thread_id: str
    was_current: bool = False
    """It was the one in hand, and there is none now."""


class StateChanged(HarnessEvent, frozen=True, kw_only=True):
    state: dict[str, Any]
    """The whole of it."""
    changed_keys: list[str]


class AgentStart(HarnessEvent, frozen=True, kw_only=True):
    resumed_tool_call_ids: list[str] | None = None
    """The calls that waited and have their answer, when that is why it goes on."""


class AgentEnd(HarnessEvent, frozen=True, kw_only=True):
    reason: Literal["complete", "aborted", "error", "suspended"] | None = None


class MessageStart(HarnessEvent, frozen=True, kw_only=True):
    message: HarnessMessage


class MessageUpdate(HarnessEvent, frozen=True, kw_only=True):
    message: HarnessMessage


class MessageEnd(HarnessEvent, frozen=True, kw_only=True):
    message: HarnessMessage


class UsageUpdate(HarnessEvent, frozen=True, kw_only=True):
    usage: TokenUsage
    """Of this step alone."""
    total: TokenUsage | None = None
    """What the thread has used from here on, where the application has set it."""


class Info(HarnessEvent, frozen=True, kw_only=True):
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong."""

    message: str

    def __str__(self) -> str:
        return self.message


class Error(HarnessEvent, frozen=True, kw_only=True):
    error: Problem
    error_type: str | None = None
    retryable: bool | None = None
    retry_delay: int | None = None
    """Milliseconds."""


class FollowUpQueued(HarnessEvent, frozen=True, kw_only=True):
    count: int
    run_id: str | None = None


class SteeringQueued(HarnessEvent, frozen=True, kw_only=True):
    """Told when it is accepted; when the run takes it, as a message of the same id."""

    id: str
    text: str


class WorkspaceStatusChanged(HarnessEvent, frozen=True, kw_only=True):
    status: Literal["pending", "initializing", "ready", "paused", "error", "destroying", "destroyed"]
    error: Problem | None = None


class WorkspaceReady(HarnessEvent, frozen=True, kw_only=True):
    workspace_id: str
    workspace_name: str


class WorkspaceError(HarnessEvent, frozen=True, kw_only=True):
    error: Problem


class TaskUpdated(HarnessEvent, frozen=True, kw_only=True):
    tasks: list[TaskItem]


class GoalEvaluation(HarnessEvent, frozen=True, kw_only=True):
    payload: dict[str, Any]


class DisplayStateChanged(HarnessEvent, frozen=True, kw_only=True):
    display_state: DisplayState
    """The state itself, not a copy."""


SessionEvent: TypeAlias = (
    OmStatus
    | OmObservationStart
    | OmObservationEnd
    | OmObservationFailed
    | OmReflectionStart
    | OmReflectionEnd
    | OmReflectionFailed
    | OmBufferingStart
    | OmBufferingEnd
    | OmBufferingFailed
    | OmActivation
    | OmModelChanged
    | OmThreadTitleUpdated
    | ToolStart
    | ToolApprovalRequired
    | ToolSuspended
    | ToolSuspensionCancelled
    | ToolUpdate
    | ToolEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | ShellOutput
    | CommandExit
    | SubagentStart
    | SubagentTextDelta
    | SubagentToolStart
    | SubagentToolEnd
    | SubagentEnd
    | SubagentModelChanged
    | ModeChanged
    | ModelChanged
    | ThreadChanged
    | ThreadCreated
    | ThreadDeleted
    | StateChanged
    | AgentStart
    | AgentEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | UsageUpdate
    | Info
    | Error
    | FollowUpQueued
    | SteeringQueued
    | WorkspaceStatusChanged
    | WorkspaceReady
    | WorkspaceError
    | TaskUpdated
    | GoalEvaluation
    | DisplayStateChanged
    | TextPart
    | ThinkingPart
    | ToolCallPart
    | ToolResultPart
    | ImagePart
    | FilePart
    | SystemReminderPart
    | StateSignalPart
    | ReactiveSignalPart
    | NotificationPart
    | NotificationSummaryPart
)
"""Any of them."""

EVENTS: Mapping[str, type[HarnessEvent]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(SessionEvent)
}
"""By their names: those of sessions, of tools, of memory, and the parts of messages as they come."""


def from_wire(data: Any) -> HarnessEvent:
    """An event from its data. Raises msgspec.ValidationError for what is none."""
    kind = EVENTS.get(data.get("type", "")) if isinstance(data, dict) else None
    if kind is None:
        raise msgspec.ValidationError("not an event of a session: an object with a known type was expected")
    return read(data, kind)


__all__ = [
    "EVENTS",
    "AgentEnd",
    "AgentStart",
    "CommandExit",
    "DisplayState",
    "DisplayStateChanged",
    "Error",
    "FilePart",
    "FollowUpQueued",
    "GoalEvaluation",
    "HarnessEvent",
    "HarnessMessage",
    "HarnessThread",
    "ImagePart",
    "Info",
    "MessageEnd",
    "MessagePart",
    "MessageStart",
    "MessageUpdate",
    "ModeChanged",
    "ModelChanged",
    "NotificationPart",
    "NotificationSummaryPart",
    "OmActivation",
    "OmBufferingEnd",
    "OmBufferingFailed",
    "OmBufferingStart",
    "OmModelChanged",
    "OmObservationEnd",
    "OmObservationFailed",
    "OmObservationStart",
    "OmReflectionEnd",
    "OmReflectionFailed",
    "OmReflectionStart",
    "OmStatus",
    "OmThreadTitleUpdated",
    "Problem",
    "ReactiveSignalPart",
    "SessionEvent",
    "ShellOutput",
    "StateChanged",
    "StateSignalPart",
    "SteeringQueued",
    "SubagentEnd",
    "SubagentModelChanged",
    "SubagentStart",
    "SubagentTextDelta",
    "SubagentToolEnd",
    "SubagentToolStart",
    "SystemReminderPart",
    "TaskItem",
    "TaskUpdated",
    "TextPart",
    "ThinkingPart",
    "ThreadChanged",
    "ThreadCreated",
    "ThreadDeleted",
    "TokenUsage",
    "ToolApprovalRequired",
    "ToolCallPart",
    "ToolEnd",
    "ToolInputDelta",
    "ToolInputEnd",
    "ToolInputStart",
    "ToolResultPart",
    "ToolStart",
    "ToolSuspended",
    "ToolSuspensionCancelled",
    "ToolUpdate",
    "UsageUpdate",
    "WorkspaceError",
    "WorkspaceReady",
    "WorkspaceStatusChanged",
    "encode",
    "from_wire",
    "to_wire",
]
