"""What observational memory tells as it works."""

from __future__ import annotations

from typing import Any, Literal

from harness.views.session.event import HarnessEvent
from harness.views.session.parts import Noting


class OmStatus(HarnessEvent, frozen=True, kw_only=True):
    windows: dict[str, Any]
    record_id: str
    thread_id: str
    step_number: int
    generation_count: int


class OmObservationStart(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    operation_type: Noting
    tokens_to_observe: int
    timestamp: int | None = None
    """When it began, milliseconds since the epoch."""


class OmObservationEnd(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    duration_ms: int
    tokens_observed: int
    observation_tokens: int
    observations: str | None = None
    current_task: str | None = None
    suggested_response: str | None = None


class OmObservationFailed(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    error: str
    duration_ms: int


class OmReflectionStart(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    tokens_to_reflect: int
    timestamp: int | None = None


class OmReflectionEnd(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    duration_ms: int
    compressed_tokens: int
    observations: str | None = None


class OmReflectionFailed(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    error: str
    duration_ms: int


class OmBufferingStart(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    operation_type: Noting
    tokens_to_buffer: int


class OmBufferingEnd(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    operation_type: Noting
    tokens_buffered: int
    buffered_tokens: int
    observations: str | None = None


class OmBufferingFailed(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    operation_type: Noting
    error: str


class OmActivation(HarnessEvent, frozen=True, kw_only=True):
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


class OmModelChanged(HarnessEvent, frozen=True, kw_only=True):
    role: Literal["observer", "reflector"]
    model_id: str


class OmThreadTitleUpdated(HarnessEvent, frozen=True, kw_only=True):
    cycle_id: str
    thread_id: str
    old_title: str | None = None
    new_title: str
