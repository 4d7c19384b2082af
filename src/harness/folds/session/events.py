"""The events that listeners of a session get: names and keys exactly as the Harness class has them.

In Python the keys are spelled as Python spells them (`tool_call_id`), on the wire as `toolCallId`. What is optional
is absent, never null, but for the few keys whose null means something.

`to_wire` and `encode` write them, `from_wire` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec

from harness.folds.session.display_state import DisplayState, TaskItem
from harness.folds.session.encoding import encode, read, to_wire
from harness.folds.session.event import HarnessEvent
from harness.folds.session.memory_events import (
    OmActivationEvent,
    OmBufferingEndEvent,
    OmBufferingFailedEvent,
    OmBufferingStartEvent,
    OmModelChangedEvent,
    OmObservationEndEvent,
    OmObservationFailedEvent,
    OmObservationStartEvent,
    OmReflectionEndEvent,
    OmReflectionFailedEvent,
    OmReflectionStartEvent,
    OmStatusEvent,
    OmThreadTitleUpdatedEvent,
)
from harness.folds.session.messages import HarnessMessage
from harness.folds.session.parts import (
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
from harness.folds.session.question_events import Question, ToolApprovalRequiredEvent, ToolSuspendedEvent
from harness.folds.session.usage import TokenUsage
from harness.formatting.question_data import GrantData, PreviewedFile, QuestionedCall, QuestionOption

# Tool calls and sub-agents.


class ToolStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """A tool call begins; its arguments are complete."""

    type: ClassVar[Literal["tool_start"]] = "tool_start"
    tool_call_id: str
    tool_name: str
    args: Any


class ToolSuspensionCancelledEvent(HarnessEvent, frozen=True, kw_only=True):
    """A tool does not wait for data any more; `reason` says why."""

    type: ClassVar[Literal["tool_suspension_cancelled"]] = "tool_suspension_cancelled"
    tool_call_id: str
    tool_name: str
    reason: str


class ToolUpdateEvent(HarnessEvent, frozen=True, kw_only=True):
    """A part of the result of a tool that is still running."""

    type: ClassVar[Literal["tool_update"]] = "tool_update"
    tool_call_id: str
    partial_result: Any


class ToolEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """A tool call has ended, with its result."""

    type: ClassVar[Literal["tool_end"]] = "tool_end"
    tool_call_id: str
    result: Any
    is_error: bool
    provider_metadata: dict[str, Any] | None = None
    modified_paths: list[str] | None = None
    """Files that the call wrote, whatever the tool is called."""
    timestamp: int | None = None
    """When it ended, milliseconds since the epoch."""


class ToolInputStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """The model begins to write the arguments of a call."""

    type: ClassVar[Literal["tool_input_start"]] = "tool_input_start"
    tool_call_id: str
    tool_name: str


class ToolInputDeltaEvent(HarnessEvent, frozen=True, kw_only=True):
    """A piece of the arguments of a call."""

    type: ClassVar[Literal["tool_input_delta"]] = "tool_input_delta"
    tool_call_id: str
    args_text_delta: str
    tool_name: str | None = None


class ToolInputEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """The arguments of a call are complete."""

    type: ClassVar[Literal["tool_input_end"]] = "tool_input_end"
    tool_call_id: str


class ShellOutputEvent(HarnessEvent, frozen=True, kw_only=True):
    """A piece of what a command writes."""

    type: ClassVar[Literal["shell_output"]] = "shell_output"
    tool_call_id: str
    output: str
    stream: Literal["stdout", "stderr"]


class CommandExitEvent(HarnessEvent, frozen=True, kw_only=True):
    """A command has ended."""

    type: ClassVar[Literal["command_exit"]] = "command_exit"
    tool_call_id: str
    exit_code: int
    success: bool


class SubagentStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """A sub-agent begins; `tool_call_id` is the call that started it."""

    type: ClassVar[Literal["subagent_start"]] = "subagent_start"
    tool_call_id: str
    agent_type: str
    task: str
    model_id: str
    forked: bool = False


class SubagentTextDeltaEvent(HarnessEvent, frozen=True, kw_only=True):
    """A piece of what a sub-agent says."""

    type: ClassVar[Literal["subagent_text_delta"]] = "subagent_text_delta"
    tool_call_id: str
    agent_type: str
    text_delta: str


class SubagentToolStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """A tool call of a sub-agent begins."""

    type: ClassVar[Literal["subagent_tool_start"]] = "subagent_tool_start"
    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_args: Any


class SubagentToolEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """A tool call of a sub-agent has ended."""

    type: ClassVar[Literal["subagent_tool_end"]] = "subagent_tool_end"
    tool_call_id: str
    agent_type: str
    sub_tool_name: str
    sub_tool_result: Any
    is_error: bool


class SubagentEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """A sub-agent has ended; `result` is its answer."""

    type: ClassVar[Literal["subagent_end"]] = "subagent_end"
    tool_call_id: str
    agent_type: str
    result: str
    is_error: bool
    duration_ms: int


class SubagentModelChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """Sub-agents use another model from now on: those of `agent_type`, or all."""

    type: ClassVar[Literal["subagent_model_changed"]] = "subagent_model_changed"
    model_id: str
    scope: str
    agent_type: str | None = None


# The session.


class ModeChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The session is in another mode."""

    type: ClassVar[Literal["mode_changed"]] = "mode_changed"
    mode_id: str
    previous_mode_id: str


class ModelChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The session, or one of its modes, uses another model."""

    type: ClassVar[Literal["model_changed"]] = "model_changed"
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
    activity: Literal["", "running", "waiting"] = ""
    """Whether it has a run, or one that waits for an answer; of a process that died, the last value."""
    token_usage: TokenUsage | None = None
    metadata: dict[str, Any] | None = None


class ThreadChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """Another thread is open."""

    type: ClassVar[Literal["thread_changed"]] = "thread_changed"
    thread_id: str
    previous_thread_id: str | None


class ThreadCreatedEvent(HarnessEvent, frozen=True, kw_only=True):
    """A thread was created, and is open."""

    type: ClassVar[Literal["thread_created"]] = "thread_created"
    thread: HarnessThread


class ThreadDeletedEvent(HarnessEvent, frozen=True, kw_only=True):
    """A thread was deleted."""

    type: ClassVar[Literal["thread_deleted"]] = "thread_deleted"
    thread_id: str
    was_current: bool = False
    """It was the current thread; there is none now."""


class StateChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The state of the application has changed."""

    type: ClassVar[Literal["state_changed"]] = "state_changed"
    state: dict[str, Any]
    """The whole state."""
    changed_keys: list[str]


class AgentStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """A run begins, or continues with an answer."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"
    resumed_tool_call_ids: list[str] | None = None
    """The calls whose answers resumed the run."""


class AgentEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """A run has ended, or waits for an answer (`suspended`)."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    reason: Literal["complete", "aborted", "error", "suspended"] | None = None


class MessageStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """A message begins: of the user, or an answer that is still being written."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: HarnessMessage


class MessageUpdateEvent(HarnessEvent, frozen=True, kw_only=True):
    """A message has grown; `message` is the whole message so far."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    message: HarnessMessage


class MessageEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """A message is complete."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: HarnessMessage


class UsageUpdateEvent(HarnessEvent, frozen=True, kw_only=True):
    """Tokens that a step has used."""

    type: ClassVar[Literal["usage_update"]] = "usage_update"
    usage: TokenUsage
    """Of this step alone."""
    total: TokenUsage | None = None
    """The new total of the thread, if the application has set it."""


class InfoEvent(HarnessEvent, frozen=True, kw_only=True):
    """A note for the user."""

    type: ClassVar[Literal["info"]] = "info"
    message: str


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, as text for people."""

    message: str

    def __str__(self) -> str:
        return self.message


class ErrorEvent(HarnessEvent, frozen=True, kw_only=True):
    """Something went wrong. The run continues if it can; its end is an `AgentEnd`."""

    type: ClassVar[Literal["error"]] = "error"
    error: Problem
    error_type: str | None = None
    retryable: bool | None = None
    retry_delay: int | None = None
    """Milliseconds."""


class FollowUpQueuedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The number of messages that wait for the end of the run has changed."""

    type: ClassVar[Literal["follow_up_queued"]] = "follow_up_queued"
    count: int
    run_id: str | None = None


class SteeringQueuedEvent(HarnessEvent, frozen=True, kw_only=True):
    """Emitted when the message is accepted. When the run takes it, a message with the same id follows."""

    type: ClassVar[Literal["steering_queued"]] = "steering_queued"
    id: str
    text: str


class WorkspaceStatusChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The workspace is being prepared, is ready, failed, or was released."""

    type: ClassVar[Literal["workspace_status_changed"]] = "workspace_status_changed"
    status: Literal["pending", "initializing", "ready", "paused", "error", "destroying", "destroyed"]
    error: Problem | None = None


class WorkspaceReadyEvent(HarnessEvent, frozen=True, kw_only=True):
    """The workspace can be used."""

    type: ClassVar[Literal["workspace_ready"]] = "workspace_ready"
    workspace_id: str
    workspace_name: str


class WorkspaceErrorEvent(HarnessEvent, frozen=True, kw_only=True):
    """The workspace failed; the harness continues without it."""

    type: ClassVar[Literal["workspace_error"]] = "workspace_error"
    error: Problem


class TaskUpdatedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The agent's to-do list, as it is now."""

    type: ClassVar[Literal["task_updated"]] = "task_updated"
    tasks: list[TaskItem]


class GoalEvaluationEvent(HarnessEvent, frozen=True, kw_only=True):
    """A judge has evaluated the goal; `payload` has its verdict."""

    type: ClassVar[Literal["goal_evaluation"]] = "goal_evaluation"
    payload: dict[str, Any]


class DisplayStateChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The display state has changed: draw it again."""

    type: ClassVar[Literal["display_state_changed"]] = "display_state_changed"
    display_state: DisplayState
    """The state itself, not a copy."""


SessionEvent: TypeAlias = (
    OmStatusEvent
    | OmObservationStartEvent
    | OmObservationEndEvent
    | OmObservationFailedEvent
    | OmReflectionStartEvent
    | OmReflectionEndEvent
    | OmReflectionFailedEvent
    | OmBufferingStartEvent
    | OmBufferingEndEvent
    | OmBufferingFailedEvent
    | OmActivationEvent
    | OmModelChangedEvent
    | OmThreadTitleUpdatedEvent
    | ToolStartEvent
    | ToolApprovalRequiredEvent
    | ToolSuspendedEvent
    | ToolSuspensionCancelledEvent
    | ToolUpdateEvent
    | ToolEndEvent
    | ToolInputStartEvent
    | ToolInputDeltaEvent
    | ToolInputEndEvent
    | ShellOutputEvent
    | CommandExitEvent
    | SubagentStartEvent
    | SubagentTextDeltaEvent
    | SubagentToolStartEvent
    | SubagentToolEndEvent
    | SubagentEndEvent
    | SubagentModelChangedEvent
    | ModeChangedEvent
    | ModelChangedEvent
    | ThreadChangedEvent
    | ThreadCreatedEvent
    | ThreadDeletedEvent
    | StateChangedEvent
    | AgentStartEvent
    | AgentEndEvent
    | MessageStartEvent
    | MessageUpdateEvent
    | MessageEndEvent
    | UsageUpdateEvent
    | InfoEvent
    | ErrorEvent
    | FollowUpQueuedEvent
    | SteeringQueuedEvent
    | WorkspaceStatusChangedEvent
    | WorkspaceReadyEvent
    | WorkspaceErrorEvent
    | TaskUpdatedEvent
    | GoalEvaluationEvent
    | DisplayStateChangedEvent
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
    "AgentEndEvent",
    "AgentStartEvent",
    "CommandExitEvent",
    "DisplayState",
    "DisplayStateChangedEvent",
    "ErrorEvent",
    "FilePart",
    "FollowUpQueuedEvent",
    "GoalEvaluationEvent",
    "GrantData",
    "HarnessEvent",
    "HarnessMessage",
    "HarnessThread",
    "ImagePart",
    "InfoEvent",
    "MessageEndEvent",
    "MessagePart",
    "MessageStartEvent",
    "MessageUpdateEvent",
    "ModeChangedEvent",
    "ModelChangedEvent",
    "NotificationPart",
    "NotificationSummaryPart",
    "OmActivationEvent",
    "OmBufferingEndEvent",
    "OmBufferingFailedEvent",
    "OmBufferingStartEvent",
    "OmModelChangedEvent",
    "OmObservationEndEvent",
    "OmObservationFailedEvent",
    "OmObservationStartEvent",
    "OmReflectionEndEvent",
    "OmReflectionFailedEvent",
    "OmReflectionStartEvent",
    "OmStatusEvent",
    "OmThreadTitleUpdatedEvent",
    "PreviewedFile",
    "Problem",
    "Question",
    "QuestionOption",
    "QuestionedCall",
    "ReactiveSignalPart",
    "SessionEvent",
    "ShellOutputEvent",
    "StateChangedEvent",
    "StateSignalPart",
    "SteeringQueuedEvent",
    "SubagentEndEvent",
    "SubagentModelChangedEvent",
    "SubagentStartEvent",
    "SubagentTextDeltaEvent",
    "SubagentToolEndEvent",
    "SubagentToolStartEvent",
    "SystemReminderPart",
    "TaskItem",
    "TaskUpdatedEvent",
    "TextPart",
    "ThinkingPart",
    "ThreadChangedEvent",
    "ThreadCreatedEvent",
    "ThreadDeletedEvent",
    "TokenUsage",
    "ToolApprovalRequiredEvent",
    "ToolCallPart",
    "ToolEndEvent",
    "ToolInputDeltaEvent",
    "ToolInputEndEvent",
    "ToolInputStartEvent",
    "ToolResultPart",
    "ToolStartEvent",
    "ToolSuspendedEvent",
    "ToolSuspensionCancelledEvent",
    "ToolUpdateEvent",
    "UsageUpdateEvent",
    "WorkspaceErrorEvent",
    "WorkspaceReadyEvent",
    "WorkspaceStatusChangedEvent",
    "encode",
    "from_wire",
    "to_wire",
]
