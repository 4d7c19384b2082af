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
from harness.views.session.usage import TokenUsage

# Tool calls and sub-agents.


class ToolStart(HarnessEvent, frozen=True, kw_only=True):
    """A tool call begins; its arguments are complete."""

    tool_call_id: str
    tool_name: str
    args: Any


class ToolApprovalRequired(HarnessEvent, frozen=True, kw_only=True):
    """A tool call waits for permission: answer with `respond_to_tool_approval`."""

    tool_call_id: str
    tool_name: str
    args: Any
    options: list[dict[str, Any]] | None = None
    """The possible answers, each `{id, kind, label, grants}`. Only what a label says is ever granted."""
    category: str | None = None
    preview: list[dict[str, Any]] | None = None
    """The changes to files, each `{path, change, added, removed, diff, hiddenLines}`."""
    agent_type: str | None = None
    """The sub-agent that asks."""
    parent_tool_call_id: str | None = None
    """The call that started the sub-agent."""


class ToolSuspended(HarnessEvent, frozen=True, kw_only=True):
    """A tool waits for data, such as an answer: give it with `respond_to_tool_suspension`."""

    tool_call_id: str
    tool_name: str
    args: Any
    suspend_payload: Any
    resume_schema: Any = None
    agent_type: str | None = None
    parent_tool_call_id: str | None = None


class ToolSuspensionCancelled(HarnessEvent, frozen=True, kw_only=True):
    """A tool does not wait for data any more; `reason` says why."""

    tool_call_id: str
    tool_name: str
    reason: str


class ToolUpdate(HarnessEvent, frozen=True, kw_only=True):
    """A part of the result of a tool that is still running."""

    tool_call_id: str
    partial_result: Any


class ToolEnd(HarnessEvent, frozen=True, kw_only=True):
    """A tool call has ended, with its result."""

    tool_call_id: str
    result: Any
    is_error: bool
    provider_metadata: dict[str, Any] | None = None
    modified_paths: list[str] | None = None
    """Files that the call wrote, whatever the tool is called."""
    timestamp: int | None = None
    """When it ended, milliseconds since the epoch."""


class ToolInputStart(HarnessEvent, frozen=True, kw_only=True):
    """The model begins to write the arguments of a call."""

    tool_call_id: str
    tool_name: str


class ToolInputDelta(HarnessEvent, frozen=True, kw_only=True):
    """A piece of the arguments of a call."""

    tool_call_id: str
    args_text_delta: str
    tool_name: str | None = None


class ToolInputEnd(HarnessEvent, frozen=True, kw_only=True):
    """The arguments of a call are complete."""

    tool_call_id: str


class ShellOutput(HarnessEvent, frozen=True, kw_only=True):
    """A piece of what a command writes."""

    tool_call_id: str
    output: str
    stream: Literal["stdout", "stderr"]


class CommandExit(HarnessEvent, frozen=True, kw_only=True):
    """A command has ended."""

    tool_call_id: str
    exit_code: int
    success: bool


class SubagentStart(HarnessEvent, frozen=True, kw_only=True):
    """A sub-agent begins; `tool_call_id` is the call that started it."""

    tool_call_id: str
    agent_type: str
    task: str
    model_id: str
    forked: bool = False


class SubagentTextDelta(HarnessEvent, frozen=True, kw_only=True):
    """A piece of what a sub-agent says."""

    tool_call_id: str
    agent_type: str
    text_delta: str


class SubagentToolStart(HarnessEvent, frozen=True, kw_only=True):
    """A tool call of a sub-agent begins."""

    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_args: Any


class SubagentToolEnd(HarnessEvent, frozen=True, kw_only=True):
    """A tool call of a sub-agent has ended."""

    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_result: Any
    is_error: bool


class SubagentEnd(HarnessEvent, frozen=True, kw_only=True):
    """A sub-agent has ended; `result` is its answer."""

    tool_call_id: str
    agent_type: str
    result: str
    is_error: bool
    duration_ms: int


class SubagentModelChanged(HarnessEvent, frozen=True, kw_only=True):
    """Sub-agents use another model from now on: those of `agent_type`, or all."""

    model_id: str
    scope: str
    agent_type: str | None = None


# The session.


class ModeChanged(HarnessEvent, frozen=True, kw_only=True):
    """The session is in another mode."""

    mode_id: str
    previous_mode_id: str


class ModelChanged(HarnessEvent, frozen=True, kw_only=True):
    """The session, or one of its modes, uses another model."""

    model_id: str
    scope: Literal["global", "thread", "mode"] | None = None
    mode_id: str | None = None


class HarnessThread(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A thread as lists show it. Times are milliseconds since the epoch."""

    id: str
    resource_id: str
    title: str = ""
    created_at: int
    """Milliseconds since the epoch."""
    updated_at: int
    token_usage: TokenUsage | None = None
    metadata: dict[str, Any] | None = None


class ThreadChanged(HarnessEvent, frozen=True, kw_only=True):
    """Another thread is open."""

    thread_id: str
    previous_thread_id: str | None


class ThreadCreated(HarnessEvent, frozen=True, kw_only=True):
    """A thread was created, and is open."""

    thread: HarnessThread


class ThreadDeleted(HarnessEvent, frozen=True, kw_only=True):
    """A thread was deleted."""

    thread_id: str
    was_current: bool = False
    """It was the current thread; there is none now."""


class StateChanged(HarnessEvent, frozen=True, kw_only=True):
    """The state of the application has changed."""

    state: dict[str, Any]
    """The whole of it."""
    changed_keys: list[str]


class AgentStart(HarnessEvent, frozen=True, kw_only=True):
    """A run begins, or continues with an answer."""

    resumed_tool_call_ids: list[str] | None = None
    """The calls whose answers resumed the run."""


class AgentEnd(HarnessEvent, frozen=True, kw_only=True):
    """A run has ended, or waits for an answer (`suspended`)."""

    reason: Literal["complete", "aborted", "error", "suspended"] | None = None


class MessageStart(HarnessEvent, frozen=True, kw_only=True):
    """A message begins: of the user, or an answer that is still being written."""

    message: HarnessMessage


class MessageUpdate(HarnessEvent, frozen=True, kw_only=True):
    """A message has grown; `message` is the whole of it so far."""

    message: HarnessMessage


class MessageEnd(HarnessEvent, frozen=True, kw_only=True):
    """A message is complete."""

    message: HarnessMessage


class UsageUpdate(HarnessEvent, frozen=True, kw_only=True):
    """Tokens that a step has used."""

    usage: TokenUsage
    """Of this step alone."""
    total: TokenUsage | None = None
    """The new total of the thread, if the application has set it."""


class Info(HarnessEvent, frozen=True, kw_only=True):
    """A note for the user."""

    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as text for people."""

    message: str

    def __str__(self) -> str:
        return self.message


class Error(HarnessEvent, frozen=True, kw_only=True):
    """Something went wrong. The run continues if it can; its end is an `AgentEnd`."""

    error: Problem
    error_type: str | None = None
    retryable: bool | None = None
    retry_delay: int | None = None
    """Milliseconds."""


class FollowUpQueued(HarnessEvent, frozen=True, kw_only=True):
    """The number of messages that wait for the end of the run has changed."""

    count: int
    run_id: str | None = None


class SteeringQueued(HarnessEvent, frozen=True, kw_only=True):
    """Emitted when the message is accepted. When the run takes it, a message with the same id follows."""

    id: str
    text: str


class WorkspaceStatusChanged(HarnessEvent, frozen=True, kw_only=True):
    """The workspace is being prepared, is ready, failed, or was released."""

    status: Literal["pending", "initializing", "ready", "paused", "error", "destroying", "destroyed"]
    error: Problem | None = None


class WorkspaceReady(HarnessEvent, frozen=True, kw_only=True):
    """The workspace can be used."""

    workspace_id: str
    workspace_name: str


class WorkspaceError(HarnessEvent, frozen=True, kw_only=True):
    """The workspace failed; the harness continues without it."""

    error: Problem


class TaskUpdated(HarnessEvent, frozen=True, kw_only=True):
    """The agent's to-do list, as it is now."""

    tasks: list[TaskItem]


class GoalEvaluation(HarnessEvent, frozen=True, kw_only=True):
    """A judge has evaluated the goal; `payload` has its verdict."""

    payload: dict[str, Any]


class DisplayStateChanged(HarnessEvent, frozen=True, kw_only=True):
    """The display state has changed: draw it again."""

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
"""By name: events of sessions, tools and memory, and the parts of messages."""


def from_wire(data: Any) -> HarnessEvent:
    """An event from its data. Raises msgspec.ValidationError if it is not one."""
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
