"""What is shown of observational memory: how full it is, and what it is doing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import UNSET

from harness.views.session import events as wire
from harness.views.session.display_state import (
    BufferedObservations,
    BufferedReflection,
    Buffering,
    DisplayState,
    OmProgress,
)
from harness.views.session.events import HarnessEvent


def _state(state: DisplayState, event: wire.StateChanged) -> None:
    progress = state.om_progress
    given = {key: event.state.get(key) for key in event.changed_keys}
    threshold, reflection = (_number(given.get(f"{name}Threshold")) for name in ("observation", "reflection"))
    if threshold is not None:
        progress.threshold = threshold
    if reflection is not None:
        progress.reflection_threshold = reflection
    if threshold is not None or reflection is not None:
        _count_percents(progress)


def _om_status(state: DisplayState, event: wire.OmStatus) -> None:
    progress = state.om_progress
    active = _mapping(event.windows, "active")
    messages, observations = _mapping(active, "messages"), _mapping(active, "observations")
    progress.pending_tokens = _count(messages, "tokens")
    progress.threshold = _number(messages.get("threshold")) or 0
    progress.observation_tokens = _count(observations, "tokens")
    progress.reflection_threshold = _number(observations.get("threshold")) or 0
    _count_percents(progress)
    buffered = _mapping(event.windows, "buffered")
    chunks, reflection = _mapping(buffered, "observations"), _mapping(buffered, "reflection")
    progress.buffered.observations = BufferedObservations(
        status=_buffering(chunks),
        chunks=_count(chunks, "chunks"),
        message_tokens=_count(chunks, "messageTokens"),
        projected_message_removal=_count(chunks, "projectedMessageRemoval"),
        observation_tokens=_count(chunks, "observationTokens"),
    )
    progress.buffered.reflection = BufferedReflection(
        status=_buffering(reflection),
        input_observation_tokens=_count(reflection, "inputObservationTokens"),
        observation_tokens=_count(reflection, "observationTokens"),
    )
    progress.generation_count = event.generation_count
    progress.step_number = event.step_number
    state.buffering_messages = progress.buffered.observations.status == "running"
    state.buffering_observations = progress.buffered.reflection.status == "running"


def _observation_start(state: DisplayState, event: wire.OmObservationStart) -> None:
    _noting(state.om_progress, "observing", event)


def _observation_end(state: DisplayState, event: wire.OmObservationEnd) -> None:
    progress = state.om_progress
    _idle(state, event)
    progress.observation_tokens = event.observation_tokens
    progress.pending_tokens = 0
    _count_percents(progress)


def _reflection_start(state: DisplayState, event: wire.OmReflectionStart) -> None:
    progress = state.om_progress
    _noting(progress, "reflecting", event)
    progress.pre_reflection_tokens = progress.observation_tokens
    progress.observation_tokens = event.tokens_to_reflect
    _count_percents(progress)


def _reflection_end(state: DisplayState, event: wire.OmReflectionEnd) -> None:
    _idle(state, event)
    state.om_progress.observation_tokens = event.compressed_tokens
    _count_percents(state.om_progress)


def _noting(
    progress: OmProgress,
    status: Literal["observing", "reflecting"],
    event: wire.OmObservationStart | wire.OmReflectionStart,
) -> None:
    progress.status = status
    progress.cycle_id = event.cycle_id
    progress.start_time = UNSET if event.timestamp is None else event.timestamp


def _idle(state: DisplayState, event: HarnessEvent) -> None:
    del event
    progress = state.om_progress
    progress.status, progress.cycle_id, progress.start_time = "idle", UNSET, UNSET


def _buffering_start(state: DisplayState, event: wire.OmBufferingStart) -> None:
    _set_buffering(state, event.operation_type, is_buffering=True)


def _buffering_over(
    state: DisplayState, event: wire.OmBufferingEnd | wire.OmBufferingFailed | wire.OmActivation
) -> None:
    _set_buffering(state, event.operation_type, is_buffering=False)


def _set_buffering(state: DisplayState, operation: str, *, is_buffering: bool) -> None:
    if operation == "observation":
        state.buffering_messages = is_buffering
    else:
        state.buffering_observations = is_buffering


def _count_percents(progress: OmProgress) -> None:
    progress.threshold_percent = _percent(progress.pending_tokens, progress.threshold)
    progress.reflection_threshold_percent = _percent(
        progress.observation_tokens, progress.reflection_threshold
    )


def _percent(tokens: int, threshold: float) -> float:
    return tokens / threshold * 100 if threshold else 0


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: Mapping[str, Any], key: str) -> int:
    return int(_number(value.get(key)) or 0)


def _buffering(value: Mapping[str, Any]) -> Buffering:
    status = value.get("status")
    return status if status in ("running", "complete") else "idle"


MEMORY_RULES: Mapping[type[HarnessEvent], Callable[[DisplayState, Any], None]] = {
    wire.StateChanged: _state,
    wire.OmStatus: _om_status,
    wire.OmObservationStart: _observation_start,
    wire.OmObservationEnd: _observation_end,
    wire.OmObservationFailed: _idle,
    wire.OmReflectionStart: _reflection_start,
    wire.OmReflectionEnd: _reflection_end,
    wire.OmReflectionFailed: _idle,
    wire.OmBufferingStart: _buffering_start,
    wire.OmBufferingEnd: _buffering_over,
    wire.OmBufferingFailed: _buffering_over,
    wire.OmActivation: _buffering_over,
}
