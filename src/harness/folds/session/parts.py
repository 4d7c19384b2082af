"""The parts of a message. Each is also emitted as an event of its own: a piece of text as it is streamed, a call, a
result, a signal.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

from harness.events.memory import Noting
from harness.folds.session.event import HarnessEvent


class Part(HarnessEvent, frozen=True, kw_only=True):
    """Base of the parts; never emitted itself."""


class TextPart(Part, frozen=True, kw_only=True):
    """Text that the agent or the user wrote."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class ThinkingPart(Part, frozen=True, kw_only=True):
    """What the model reasoned before it answered."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str


class ToolCallPart(Part, frozen=True, kw_only=True):
    """A tool call that the model asked for."""

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    args: Any


class ToolResultPart(Part, frozen=True, kw_only=True):
    """The result of a tool call."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    id: str
    """That of the call."""
    name: str
    result: Any
    is_error: bool
    provider_metadata: dict[str, Any] | None = None


class ImagePart(Part, frozen=True, kw_only=True):
    """An image, in base64."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str


class FilePart(Part, frozen=True, kw_only=True):
    """A file, in base64."""

    type: ClassVar[Literal["file"]] = "file"
    data: str
    media_type: str
    filename: str = ""


class SystemReminderPart(Part, frozen=True, kw_only=True):
    """A reminder for the model that no user typed."""

    type: ClassVar[Literal["system_reminder"]] = "system_reminder"
    message: str
    reminder_type: str | None = None
    path: str | None = None
    precedes_message_id: str | None = None
    gap_text: str | None = None
    gap_ms: float | None = None
    timestamp: str | None = None
    goal_max_turns: int | None = None
    judge_model_id: str | None = None
    goal_evaluation: Any = None


class StateSignalPart(Part, frozen=True, kw_only=True):
    """The state of the application, whole or what changed, as the model sees it."""

    type: ClassVar[Literal["state_signal"]] = "state_signal"
    id: str | None = None
    state_id: str
    mode: Literal["snapshot", "delta"]
    cache_key: str | None = None
    version: int | None = None
    message: str


class ReactiveSignalPart(Part, frozen=True, kw_only=True):
    """A signal with a tag of its own, as the model sees it."""

    type: ClassVar[Literal["reactive_signal"]] = "reactive_signal"
    id: str | None = None
    tag_name: str
    message: str
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class NotificationSummaryPart(Part, frozen=True, kw_only=True):
    """Several notifications in one: how many, from which sources."""

    type: ClassVar[Literal["notification_summary"]] = "notification_summary"
    id: str | None = None
    message: str
    pending: int
    by_source: dict[str, Any]
    by_priority: dict[str, Any]
    notification_ids: list[str]


class NotificationPart(Part, frozen=True, kw_only=True):
    """One notification, as the model sees it."""

    type: ClassVar[Literal["notification"]] = "notification"
    id: str | None = None
    notification_id: str | None = None
    message: str
    source: str | None = None
    kind: str | None = None
    priority: str | None = None
    status: str | None = None
    attributes: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class OmObservationStartPart(Part, frozen=True, kw_only=True):
    """The observer began to make notes of old messages."""

    type: ClassVar[Literal["om_observation_start"]] = "om_observation_start"
    tokens_to_observe: int
    operation_type: Noting | None = None


class OmObservationEndPart(Part, frozen=True, kw_only=True):
    """The observer made notes of old messages."""

    type: ClassVar[Literal["om_observation_end"]] = "om_observation_end"
    tokens_observed: int
    observation_tokens: int
    duration_ms: int
    operation_type: Noting | None = None
    observations: str | None = None
    current_task: str | None = None
    suggested_response: str | None = None


class OmObservationFailedPart(Part, frozen=True, kw_only=True):
    """The observer failed; the messages stay as they are."""

    type: ClassVar[Literal["om_observation_failed"]] = "om_observation_failed"
    error: str
    tokens_attempted: int | None = None
    operation_type: Noting | None = None


class OmThreadTitleUpdatedPart(Part, frozen=True, kw_only=True):
    """The observer gave the thread another title."""

    type: ClassVar[Literal["om_thread_title_updated"]] = "om_thread_title_updated"
    thread_id: str
    old_title: str | None = None
    new_title: str


MessagePart: TypeAlias = (
    TextPart
    | ThinkingPart
    | ToolCallPart
    | ToolResultPart
    | ImagePart
    | FilePart
    | SystemReminderPart
    | StateSignalPart
    | ReactiveSignalPart
    | NotificationSummaryPart
    | NotificationPart
    | OmObservationStartPart
    | OmObservationEndPart
    | OmObservationFailedPart
    | OmThreadTitleUpdatedPart
)
SignalPart: TypeAlias = (
    SystemReminderPart | StateSignalPart | ReactiveSignalPart | NotificationSummaryPart | NotificationPart
)
