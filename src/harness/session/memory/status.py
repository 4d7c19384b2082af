"""How full a memory is, and its record, as they are told."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from harness.events import MemoryStatus
from harness.session.memory.memory_state import Notebook
from harness.session.memory.record import Activity, MemoryRecord


def record_id(notebook: Notebook) -> str:
    """Each generation is a record of its own."""
    owner = notebook.resource_id if notebook.config.scope == "resource" else notebook.thread_id
    return f"{notebook.config.scope}:{owner}:{notebook.fold.known.generation}"


def status(notebook: Notebook, removable_tokens: int, step_number: int, model: str) -> MemoryStatus:
    known = notebook.fold.known
    reflection = known.reflection
    windows: dict[str, Any] = {
        "active": {
            "messages": {"tokens": notebook.pending, "threshold": notebook.threshold},
            "observations": {
                "tokens": known.observation_tokens,
                "threshold": notebook.reflection_threshold,
            },
        },
        "buffered": {
            "observations": {
                "status": _state(notebook, "buffering_observation", is_complete=bool(known.chunks)),
                "chunks": len(known.chunks),
                "messageTokens": sum(chunk.message_tokens for chunk in known.chunks),
                "projectedMessageRemoval": removable_tokens,
                "observationTokens": sum(chunk.token_count for chunk in known.chunks),
            },
            "reflection": {
                "status": _state(notebook, "buffering_reflection", is_complete=reflection is not None),
                "inputObservationTokens": reflection.input_tokens if reflection else 0,
                "observationTokens": reflection.tokens if reflection else 0,
            },
        },
    }
    return MemoryStatus(
        windows=windows,
        record_id=record_id(notebook),
        thread_id=notebook.thread_id,
        step_number=step_number,
        generation_count=known.generation,
        model=model,
    )


def _state(notebook: Notebook, activity: Activity, *, is_complete: bool) -> str:
    if notebook.fold.going_on(activity, notebook.live):
        return "running"
    return "complete" if is_complete else "idle"


def record(notebook: Notebook) -> MemoryRecord:
    known, progress, config = notebook.fold.known, notebook.progress, notebook.config
    reflection = known.reflection
    is_resource = config.scope == "resource"
    going_on = notebook.fold.going_on
    return MemoryRecord(
        id=record_id(notebook),
        scope=config.scope,
        thread_id=None if is_resource else notebook.thread_id,
        resource_id=notebook.resource_id,
        created_at=known.created_ms,
        updated_at=known.updated_ms,
        last_observed_at=max((one.last_observed_ms for one in known.threads.values()), default=0) or None,
        origin_type="reflection" if known.generation else "initial",
        generation_count=known.generation,
        active_observations=known.observations,
        buffered_observation_chunks=list(known.chunks),
        buffered_reflection=reflection.observations if reflection else None,
        buffered_reflection_tokens=reflection.tokens if reflection else None,
        buffered_reflection_input_tokens=reflection.input_tokens if reflection else None,
        reflected_observation_line_count=reflection.lines if reflection else None,
        observed_message_ids=list(known.observed_message_ids),
        observed_timezone=config.timezone,
        total_tokens_observed=known.total_tokens_observed,
        observation_token_count=known.observation_tokens,
        pending_message_tokens=notebook.pending,
        is_reflecting=going_on("reflecting", notebook.live),
        is_observing=going_on("observing", notebook.live),
        is_buffering_observation=going_on("buffering_observation", notebook.live),
        is_buffering_reflection=going_on("buffering_reflection", notebook.live),
        last_buffered_at_tokens=known.boundary_tokens,
        last_buffered_at_time=known.last_buffered_ms,
        config=to_builtins(config),
        metadata={
            "currentTask": progress.current_task,
            "suggestedResponse": progress.suggested_response,
            "threadTitle": progress.title,
        },
    )
