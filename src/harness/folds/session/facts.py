"""Facts of a thread that are emitted unchanged: one stateless function for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.events import (
    Briefed,
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    Compacted,
    Event,
    FollowUpsChanged,
    Info,
    MemoryActivated,
    MemoryModelChanged,
    MemoryStatus,
    ModeChanged,
    ModelChanged,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
    SteeringQueued,
    SubagentModelChanged,
    Warning,
    WorkspaceChanged,
)
from harness.folds.session import events as wire
from harness.folds.session.events import HarnessEvent
from harness.formatting.amounts import tokens
from harness.formatting.approval import briefing_words


def _mode(event: ModeChanged) -> Sequence[HarnessEvent]:
    return (wire.ModeChangedEvent(mode_id=event.mode_id, previous_mode_id=event.previous_mode_id),)


def _model(event: ModelChanged) -> Sequence[HarnessEvent]:
    changed = wire.ModelChangedEvent(
        model_id=event.model_id, scope=event.scope or None, mode_id=event.mode_id or None
    )
    return (changed,)


def _subagent_model(event: SubagentModelChanged) -> Sequence[HarnessEvent]:
    changed = wire.SubagentModelChangedEvent(
        model_id=event.model_id, scope=event.scope, agent_type=event.agent_type or None
    )
    return (changed,)


def _follow_ups(event: FollowUpsChanged) -> Sequence[HarnessEvent]:
    return (wire.FollowUpQueuedEvent(count=len(event.pending), run_id=event.taken_by or None),)


def _steering(event: SteeringQueued) -> Sequence[HarnessEvent]:
    return (wire.SteeringQueuedEvent(id=event.id, text=event.text),)


def _briefed(event: Briefed) -> Sequence[HarnessEvent]:
    return (wire.InfoEvent(message=briefing_words(event)),)


def _workspace(event: WorkspaceChanged) -> Sequence[HarnessEvent]:
    problem = wire.Problem(message=event.error) if event.error else None
    changed = wire.WorkspaceStatusChangedEvent(status=event.status, error=problem)
    if event.status == "ready":
        ready = wire.WorkspaceReadyEvent(workspace_id=event.workspace_id, workspace_name=event.workspace_name)
        return (changed, ready)
    if event.status == "error":
        return (changed, wire.WorkspaceErrorEvent(error=problem or wire.Problem(message="unknown")))
    return (changed,)


def _memory_status(event: MemoryStatus) -> Sequence[HarnessEvent]:
    status = wire.OmStatusEvent(
        windows=event.windows,
        record_id=event.record_id,
        thread_id=event.thread_id,
        step_number=event.step_number,
        generation_count=event.generation_count,
    )
    return (status,)


def _observation_start(event: ObservationStart) -> Sequence[HarnessEvent]:
    start = wire.OmObservationStartEvent(
        cycle_id=event.cycle_id,
        operation_type=event.operation_type,
        tokens_to_observe=event.tokens_to_observe,
        timestamp=_moment(event),
    )
    return (start,)


def _observation_end(event: ObservationEnd) -> Sequence[HarnessEvent]:
    end = wire.OmObservationEndEvent(
        cycle_id=event.cycle_id,
        duration_ms=event.duration_ms,
        tokens_observed=event.tokens_observed,
        observation_tokens=event.observation_tokens,
        observations=event.observations or None,
        current_task=event.current_task or None,
        suggested_response=event.suggested_response or None,
    )
    return (end,)


def _reflection_start(event: ReflectionStart) -> Sequence[HarnessEvent]:
    start = wire.OmReflectionStartEvent(
        cycle_id=event.cycle_id, tokens_to_reflect=event.tokens_to_reflect, timestamp=_moment(event)
    )
    return (start,)


def _reflection_end(event: ReflectionEnd) -> Sequence[HarnessEvent]:
    end = wire.OmReflectionEndEvent(
        cycle_id=event.cycle_id,
        duration_ms=event.duration_ms,
        compressed_tokens=event.compressed_tokens,
        observations=event.observations or None,
    )
    return (end,)


def _buffering_start(event: BufferingStart) -> Sequence[HarnessEvent]:
    start = wire.OmBufferingStartEvent(
        cycle_id=event.cycle_id,
        operation_type=event.operation_type,
        tokens_to_buffer=event.tokens_to_buffer,
    )
    return (start,)


def _buffering_end(event: BufferingEnd) -> Sequence[HarnessEvent]:
    end = wire.OmBufferingEndEvent(
        cycle_id=event.cycle_id,
        operation_type=event.operation_type,
        tokens_buffered=event.tokens_buffered,
        buffered_tokens=event.buffered_tokens,
        observations=event.observations or None,
    )
    return (end,)


def _activation(event: MemoryActivated) -> Sequence[HarnessEvent]:
    activation = wire.OmActivationEvent(
        cycle_id=event.cycle_id,
        operation_type=event.operation_type,
        chunks_activated=event.chunks_activated,
        tokens_activated=event.tokens_activated,
        observation_tokens=event.observation_tokens,
        messages_activated=event.messages_activated,
        generation_count=event.generation_count,
        triggered_by=event.triggered_by or None,
        last_activity_at=event.last_activity_at,
        ttl_expired_ms=event.ttl_expired_ms,
        activate_after_idle=event.activate_after_idle,
        previous_model=event.previous_model or None,
        current_model=event.current_model or None,
    )
    return (activation,)


def _memory_model(event: MemoryModelChanged) -> Sequence[HarnessEvent]:
    return (wire.OmModelChangedEvent(role=event.role, model_id=event.model_id),)


_EMITTED_WITH_THE_STEP = frozenset({"length", "refusal"})
"""Reasons why an answer was cut off. Its step ends with the same reason, which is emitted as an error."""


def _notice(event: Warning | Info) -> Sequence[HarnessEvent]:
    if not event.message or event.code in _EMITTED_WITH_THE_STEP:
        return ()
    return (wire.InfoEvent(message=event.message),)


def _compacted(event: Compacted) -> Sequence[HarnessEvent]:
    sizes = [tokens(size) for size in (event.before_tokens, event.after_tokens) if size is not None]
    detail = f" ({' → '.join(sizes)} tokens)" if sizes else ""
    return (wire.InfoEvent(message=f"context compacted{detail}"),)


def memory_failure(
    event: ObservationFailed | ReflectionFailed | BufferingFailed,
) -> tuple[HarnessEvent, str]:
    """The event to emit, and the text of the error."""
    if isinstance(event, BufferingFailed):
        failed: HarnessEvent = wire.OmBufferingFailedEvent(
            cycle_id=event.cycle_id, operation_type=event.operation_type, error=event.error
        )
        what = f"{event.operation_type} buffering"
    elif isinstance(event, ReflectionFailed):
        failed = wire.OmReflectionFailedEvent(
            cycle_id=event.cycle_id, error=event.error, duration_ms=event.duration_ms
        )
        what = "reflection run"
    else:
        failed = wire.OmObservationFailedEvent(
            cycle_id=event.cycle_id, error=event.error, duration_ms=event.duration_ms
        )
        what = "observation run"
    return failed, f"Observational memory {what} failed: {event.error}"


def _moment(event: Event) -> int | None:
    return event.timestamp_ms if event.timestamp_ms >= 0 else None


FACTS: Mapping[type[Event], Callable[[Any], Sequence[HarnessEvent]]] = {
    ModeChanged: _mode,
    ModelChanged: _model,
    SubagentModelChanged: _subagent_model,
    FollowUpsChanged: _follow_ups,
    SteeringQueued: _steering,
    Briefed: _briefed,
    WorkspaceChanged: _workspace,
    MemoryStatus: _memory_status,
    ObservationStart: _observation_start,
    ObservationEnd: _observation_end,
    ReflectionStart: _reflection_start,
    ReflectionEnd: _reflection_end,
    BufferingStart: _buffering_start,
    BufferingEnd: _buffering_end,
    MemoryActivated: _activation,
    MemoryModelChanged: _memory_model,
    Warning: _notice,
    Info: _notice,
    Compacted: _compacted,
}
