"""The session events of the observational memory: notes of old messages are made, condensed, and used in their place.

observation   messages become notes
reflection    notes become fewer notes
buffering     either of them in advance, while the agent works; an activation puts the result to use
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from harness.events.memory import Noting
from harness.folds.session.event import HarnessEvent


class OmStatusEvent(HarnessEvent, frozen=True, kw_only=True):
    """How full the observational memory is; emitted after each step."""

    type: ClassVar[Literal["om_status"]] = "om_status"
    windows: dict[str, Any]
    record_id: str
    thread_id: str
    step_number: int
    generation_count: int


class OmObservationStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """The observer begins to make notes of old messages."""

    type: ClassVar[Literal["om_observation_start"]] = "om_observation_start"
    cycle_id: str
    operation_type: Noting
    tokens_to_observe: int
    timestamp: int | None = None
    """When it began, milliseconds since the epoch."""


class OmObservationEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """The observer has made notes, which replace the messages for the model."""

    type: ClassVar[Literal["om_observation_end"]] = "om_observation_end"
    cycle_id: str
    duration_ms: int
    tokens_observed: int
    observation_tokens: int
    observations: str | None = None
    current_task: str | None = None
    suggested_response: str | None = None


class OmObservationFailedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The observer failed; the messages stay as they are."""

    type: ClassVar[Literal["om_observation_failed"]] = "om_observation_failed"
    cycle_id: str
    error: str
    duration_ms: int


class OmReflectionStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """The reflector begins to condense the notes."""

    type: ClassVar[Literal["om_reflection_start"]] = "om_reflection_start"
    cycle_id: str
    tokens_to_reflect: int
    timestamp: int | None = None


class OmReflectionEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """The reflector has condensed the notes."""

    type: ClassVar[Literal["om_reflection_end"]] = "om_reflection_end"
    cycle_id: str
    duration_ms: int
    compressed_tokens: int
    observations: str | None = None


class OmReflectionFailedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The reflector failed; the notes stay as they are."""

    type: ClassVar[Literal["om_reflection_failed"]] = "om_reflection_failed"
    cycle_id: str
    error: str
    duration_ms: int


class OmBufferingStartEvent(HarnessEvent, frozen=True, kw_only=True):
    """Notes are being prepared in advance, while the agent works."""

    type: ClassVar[Literal["om_buffering_start"]] = "om_buffering_start"
    cycle_id: str
    operation_type: Noting
    tokens_to_buffer: int


class OmBufferingEndEvent(HarnessEvent, frozen=True, kw_only=True):
    """Notes are prepared; the model sees them once they are activated."""

    type: ClassVar[Literal["om_buffering_end"]] = "om_buffering_end"
    cycle_id: str
    operation_type: Noting
    tokens_buffered: int
    buffered_tokens: int
    observations: str | None = None


class OmBufferingFailedEvent(HarnessEvent, frozen=True, kw_only=True):
    """Preparing notes failed; it is tried again later."""

    type: ClassVar[Literal["om_buffering_failed"]] = "om_buffering_failed"
    cycle_id: str
    operation_type: Noting
    error: str


class OmActivationEvent(HarnessEvent, frozen=True, kw_only=True):
    """Prepared notes replace the messages from now on; `triggered_by` says why now."""

    type: ClassVar[Literal["om_activation"]] = "om_activation"
    cycle_id: str
    operation_type: Noting
    chunks_activated: int
    tokens_activated: int
    observation_tokens: int
    messages_activated: int
    generation_count: int
    triggered_by: Literal["threshold", "ttl", "provider_change"] | None = None
    last_activity_at: int | None = None
    ttl_expired_ms: int | None = None
    activate_after_idle: int | None = None
    previous_model: str | None = None
    current_model: str | None = None


class OmModelChangedEvent(HarnessEvent, frozen=True, kw_only=True):
    """Another model observes or reflects from now on."""

    type: ClassVar[Literal["om_model_changed"]] = "om_model_changed"
    role: Literal["observer", "reflector"]
    model_id: str


class OmThreadTitleUpdatedEvent(HarnessEvent, frozen=True, kw_only=True):
    """The observer gave the thread another title."""

    type: ClassVar[Literal["om_thread_title_updated"]] = "om_thread_title_updated"
    cycle_id: str
    thread_id: str
    old_title: str | None = None
    new_title: str
