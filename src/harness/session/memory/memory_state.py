"""The state shared by all parts of one memory: its configuration, its record, and access to the log; also how
full it is, and what may activate it before it is full (a long pause, another model).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from harness.contracts.model import UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Event, MemoryStatus, ThreadRenamed
from harness.log.clock import new_clock
from harness.log.ids import new_run_id
from harness.session.memory.config import Idle, MemoryConfig, idle_ms
from harness.session.memory.record import Activity, MemoryRecord, RecordFold, ThreadProgress
from harness.session.memory.thresholds import maximum, message_threshold, retention_floor
from harness.session.memory.tokens import TokenCounter, TokenWindow, estimated_tokens

Append: TypeAlias = Callable[[Event], Event | None]
"""Appends an event to the log of the thread at once; may return it as it was logged."""

_SHORTEST_TITLE = 3


class MemoryState:
    def __init__(
        self,
        config: MemoryConfig,
        fold: RecordFold,
        append: Append,
        *,
        thread_id: str = "",
        resource_id: str = "",
        clock_ms: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        count: TokenCounter = estimated_tokens,
    ) -> None:
        self.config = config
        self.fold = fold
        self.thread_id = thread_id
        self.resource_id = resource_id
        self.clock_ms: Callable[[], int] = clock_ms or new_clock()
        self.count = count
        self.window: TokenWindow = TokenWindow(count)
        self.live: set[str] = set()
        """Cycles that are running in this process."""
        self.extra_tokens = 0
        """Unobserved tokens in the other threads of the resource."""
        self._append = append
        self._new_id = new_id or (lambda: new_run_id(self.clock_ms()))

    @property
    def key(self) -> str:
        """The key of this thread in the record."""
        return self.thread_id if self.config.scope == "resource" else ""

    @property
    def progress(self) -> ThreadProgress:
        return self.fold.progress(self.key)

    @property
    def pending(self) -> int:
        """The number of unobserved tokens."""
        if not self.window.length:
            return self.progress.pending_tokens
        return self.window.tokens_after(self.progress.observed_seq) + self.extra_tokens

    @property
    def threshold(self) -> int:
        return message_threshold(self.config.message_threshold, self.fold.known.observation_tokens)

    @property
    def reflection_threshold(self) -> int:
        return maximum(self.config.reflection.observation_tokens)

    @property
    def floor(self) -> float:
        return retention_floor(self.config.observation.buffer_activation, self.threshold)

    def begin(self) -> str:
        """Start a new cycle; returns its id."""
        cycle_id = self._new_id()
        self.live.add(cycle_id)
        return cycle_id

    def put(self, event: Event) -> None:
        """Append an event to the log, and apply it to the record."""
        stamped = self._append(event)
        if stamped is None:
            stamped = replace(event, timestamp_ms=self.clock_ms())
        self.fold.feed(stamped, thread_id=self.key)

    def end(self, cycle_id: str, event: Event) -> None:
        self.live.discard(cycle_id)
        self.put(event)

    def rename(self, title: str, cycle_id: str) -> None:
        """Set the thread's title, if there is one and it differs."""
        title = " ".join(title.split())
        old = self.progress.title
        if len(title) >= _SHORTEST_TITLE and title != old:
            self.put(ThreadRenamed(title=title, old_title=old, cycle_id=cycle_id))


def record_id(state: MemoryState) -> str:
    """The id of the record: each generation has its own."""
    owner = state.resource_id if state.config.scope == "resource" else state.thread_id
    return f"{state.config.scope}:{owner}:{state.fold.known.generation}"


def status(state: MemoryState, removable_tokens: int, step_number: int, model: str) -> MemoryStatus:
    knowledge = state.fold.known
    reflection = knowledge.reflection
    windows: dict[str, Any] = {
        "active": {
            "messages": {"tokens": state.pending, "threshold": state.threshold},
            "observations": {
                "tokens": knowledge.observation_tokens,
                "threshold": state.reflection_threshold,
            },
        },
        "buffered": {
            "observations": {
                "status": _state(state, "buffering_observation", is_complete=bool(knowledge.chunks)),
                "chunks": len(knowledge.chunks),
                "messageTokens": sum(chunk.message_tokens for chunk in knowledge.chunks),
                "projectedMessageRemoval": removable_tokens,
                "observationTokens": sum(chunk.token_count for chunk in knowledge.chunks),
            },
            "reflection": {
                "status": _state(state, "buffering_reflection", is_complete=reflection is not None),
                "inputObservationTokens": reflection.input_tokens if reflection else 0,
                "observationTokens": reflection.tokens if reflection else 0,
            },
        },
    }
    return MemoryStatus(
        windows=windows,
        record_id=record_id(state),
        thread_id=state.thread_id,
        step_number=step_number,
        generation_count=knowledge.generation,
        model=model,
    )


def _state(state: MemoryState, activity: Activity, *, is_complete: bool) -> str:
    if state.fold.is_active(activity, state.live):
        return "running"
    return "complete" if is_complete else "idle"


def record(state: MemoryState) -> MemoryRecord:
    knowledge, progress, config = state.fold.known, state.progress, state.config
    reflection = knowledge.reflection
    is_resource = config.scope == "resource"
    is_active = state.fold.is_active
    return MemoryRecord(
        id=record_id(state),
        scope=config.scope,
        thread_id=None if is_resource else state.thread_id,
        resource_id=state.resource_id,
        created_at=knowledge.created_ms,
        updated_at=knowledge.updated_ms,
        last_observed_at=max((thread.last_observed_ms for thread in knowledge.threads.values()), default=0)
        or None,
        origin_type="reflection" if knowledge.generation else "initial",
        generation_count=knowledge.generation,
        active_observations=knowledge.observations,
        buffered_observation_chunks=list(knowledge.chunks),
        buffered_reflection=reflection.observations if reflection else None,
        buffered_reflection_tokens=reflection.tokens if reflection else None,
        buffered_reflection_input_tokens=reflection.input_tokens if reflection else None,
        reflected_observation_line_count=reflection.lines if reflection else None,
        observed_message_ids=list(knowledge.observed_message_ids),
        observed_timezone=config.timezone,
        total_tokens_observed=knowledge.total_tokens_observed,
        observation_token_count=knowledge.observation_tokens,
        pending_message_tokens=state.pending,
        is_reflecting=is_active("reflecting", state.live),
        is_observing=is_active("observing", state.live),
        is_buffering_observation=is_active("buffering_observation", state.live),
        is_buffering_reflection=is_active("buffering_reflection", state.live),
        last_buffered_at_tokens=knowledge.boundary_tokens,
        last_buffered_at_time=knowledge.last_buffered_ms,
        config=to_builtins(config),
        metadata={
            "currentTask": progress.current_task,
            "suggestedResponse": progress.suggested_response,
            "threadTitle": progress.title,
        },
    )


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for an activation, as stated in its event."""

    triggered_by: Literal["threshold", "ttl", "provider_change"]
    last_activity_at: int | None = None
    ttl_expired_ms: int | None = None
    activate_after_idle: int | None = None
    previous_model: str = ""
    current_model: str = ""

    @property
    def fields(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


THRESHOLD = Trigger(triggered_by="threshold")


class ActivationState(msgspec.Struct, frozen=True, kw_only=True):
    """The facts at the beginning of a run that may trigger an activation."""

    now_ms: int
    last_activity_ms: int | None
    previous_model: str
    current_model: str
    retention: str = ""
    """The cache retention requested from the provider, if it supports that."""

    def trigger(self, idle: Idle, *, on_provider_change: bool) -> Trigger | None:
        if on_provider_change and self.previous_model and self.previous_model != self.current_model:
            return Trigger(
                triggered_by="provider_change",
                previous_model=self.previous_model,
                current_model=self.current_model,
            )
        limit_ms = idle_ms(idle, self.current_model, self.retention)
        if limit_ms is None or self.last_activity_ms is None:
            return None
        quiet_ms = self.now_ms - self.last_activity_ms
        if quiet_ms < limit_ms:
            return None
        return Trigger(
            triggered_by="ttl",
            last_activity_at=self.last_activity_ms,
            ttl_expired_ms=quiet_ms,
            activate_after_idle=limit_ms,
        )


def last_activity_ms(entries: Sequence[TranscriptEntry]) -> int | None:
    """When the model was last active: a new user message does not indicate a warm cache."""
    return next(
        (entry.created_ms for entry in reversed(entries) if not isinstance(entry.turn, UserTurn)), None
    )
