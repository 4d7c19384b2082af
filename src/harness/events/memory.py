"""Observational memory: notes on a conversation, so that the model need not read all of it again.

A cycle is one thing that the memory does; its events share `cycle_id`. The record of a memory is a fold of
these events alone, so each end says what it covers: `message_ids`, and up to which `seq` of the log.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from harness.events.steering import Steering

Noting: TypeAlias = Literal["observation", "reflection"]


class MemoryStatus(Steering, frozen=True, kw_only=True):
    """How full the windows of the memory are."""

    windows: dict[str, Any]
    record_id: str = ""
    thread_id: str = ""
    step_number: int = 0
    generation_count: int = 0
    model: str = ""
    """Of the step: whether it changed since the last run is seen by it."""


class ObservationStart(Steering, frozen=True, kw_only=True):
    """A model begins to take notes on messages."""

    cycle_id: str
    operation_type: Noting = "observation"
    tokens_to_observe: int = 0


class ObservationEnd(Steering, frozen=True, kw_only=True):
    """The notes are taken: `observations` replace the messages from here on."""

    cycle_id: str
    duration_ms: int = 0
    tokens_observed: int = 0
    observation_tokens: int = 0
    """Of all active observations, with these."""
    observations: str = ""
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""
    message_ids: list[str] | None = None
    observed_to_seq: int = -1
    """The last event of what was observed."""
    shown_from_seq: int = -1
    """From here on messages are still shown unchanged, though they are observed; -1: none of them."""
    last_observed_ms: int = 0
    range: str = ""
    """`first:last` message id, when the originals can be recalled by it."""
    thread_id: str = ""
    """The thread that was observed, when it is not the one of this log."""


class ObservationFailed(Steering, frozen=True, kw_only=True):
    """The notes could not be taken; the messages stay."""

    cycle_id: str
    error: str
    duration_ms: int = 0
    stopped: bool = False
    """Because the run was stopped or the thread was closed: nothing is wrong with the memory."""


class ReflectionStart(Steering, frozen=True, kw_only=True):
    """A model begins to shorten the notes."""

    cycle_id: str
    tokens_to_reflect: int = 0


class ReflectionEnd(Steering, frozen=True, kw_only=True):
    """The notes are shortened."""

    cycle_id: str
    duration_ms: int = 0
    compressed_tokens: int = 0
    observations: str = ""
    generation_count: int = 0


class ReflectionFailed(Steering, frozen=True, kw_only=True):
    """The notes could not be shortened; they stay as they were."""

    cycle_id: str
    error: str
    duration_ms: int = 0
    will_retry: bool = False
    """It was not short enough, and is tried again under another cycle id: nothing is lost yet."""
    stopped: bool = False


class BufferingStart(Steering, frozen=True, kw_only=True):
    """Notes are taken in the background, ahead of their use."""

    cycle_id: str
    operation_type: Noting = "observation"
    tokens_to_buffer: int = 0
    boundary_tokens: int = 0
    """How many tokens waited in all when it began: the next begins a whole interval later."""


class BufferingEnd(Steering, frozen=True, kw_only=True):
    """The notes are ready, but not used yet."""

    """A chunk of observations that waits to be activated, or a reflection that does."""

    cycle_id: str
    operation_type: Noting = "observation"
    tokens_buffered: int = 0
    buffered_tokens: int = 0
    observations: str = ""
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""
    message_ids: list[str] | None = None
    after_seq: int = -1
    """What lies up to here was covered before."""
    observed_to_seq: int = -1
    last_observed_ms: int = 0
    range: str = ""
    reflected_lines: int = 0
    """Of a reflection: how many lines of the active observations it replaces."""
    generation_count: int = 0
    """Of a reflection: the generation whose lines these are; in another one it is worth nothing."""


class BufferingFailed(Steering, frozen=True, kw_only=True):
    """The notes could not be taken ahead."""

    cycle_id: str
    error: str
    operation_type: Noting = "observation"
    will_retry: bool = False
    stopped: bool = False


class MemoryActivated(Steering, frozen=True, kw_only=True):
    """The chunk of that cycle is now what the model sees; or the reflection of that cycle, as a new generation."""

    cycle_id: str
    operation_type: Noting = "observation"
    chunks_activated: int = 0
    tokens_activated: int = 0
    observation_tokens: int = 0
    """Of the chunk; of a reflection: of the whole generation that begins with it."""
    messages_activated: int = 0
    generation_count: int = 0
    triggered_by: Literal["", "threshold", "ttl", "provider_change"] = ""
    last_activity_at: int | None = None
    ttl_expired_ms: int | None = None
    activate_after_idle: int | None = None
    previous_model: str = ""
    current_model: str = ""


class MemoryModelChanged(Steering, frozen=True, kw_only=True):
    """Another model observes or reflects from now on."""

    role: Literal["observer", "reflector"]
    model_id: str
