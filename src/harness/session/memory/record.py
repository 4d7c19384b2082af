"""The state of a memory, as a fold of the log, its only source: so a fork of a thread has its memory too.

Rules
1. Chunks are contiguous: the first begins where the observed part of the log ends, every other where the
   previous one ends. A chunk that does not fit is outdated, and is ignored.
2. An operation counts as running only in the process that started it: in the log of a process that has
   ended, nothing is running.
3. In scope `resource` the events of all threads of the resource are fed, ordered by time, each with the id of
   its thread; in scope `thread` that id is empty.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Literal

import msgspec

from harness.events import (
    BufferingEnd,
    BufferingFailed,
    BufferingStart,
    Event,
    MemoryActivated,
    MemoryStatus,
    ObservationEnd,
    ObservationFailed,
    ObservationStart,
    ReflectionEnd,
    ReflectionFailed,
    ReflectionStart,
    ThreadCreated,
    ThreadRenamed,
)
from harness.folds.session.encoding import encode
from harness.session.memory.observations import appended, grouped, sectioned, tail_after

Activity = Literal["observing", "reflecting", "buffering_observation", "buffering_reflection"]


class BufferedObservation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Observations of some messages, made in advance."""

    id: str
    cycle_id: str
    observations: str
    token_count: int
    message_ids: list[str]
    message_tokens: int
    last_observed_at: int
    created_at: int
    to_seq: int
    suggested_continuation: str = ""
    current_task: str = ""
    thread_title: str = ""
    range: str = ""


class ReflectionDraft(msgspec.Struct, frozen=True, kw_only=True):
    cycle_id: str
    observations: str
    tokens: int
    input_tokens: int
    lines: int


class ThreadProgress(msgspec.Struct, kw_only=True):
    """The progress of the memory in one thread."""

    observed_seq: int = -1
    shown_from_seq: int = 0
    last_observed_ms: int = 0
    current_task: str = ""
    suggested_response: str = ""
    title: str = ""
    model: str = ""
    pending_tokens: int = 0
    step_number: int = 0


class Knowledge(msgspec.Struct, kw_only=True):
    """The whole state of the fold."""

    created_ms: int = 0
    updated_ms: int = 0
    generation: int = 0
    observations: str = ""
    observation_tokens: int = 0
    chunks: list[BufferedObservation] = msgspec.field(default_factory=list)
    reflection: ReflectionDraft | None = None
    observed_message_ids: list[str] = msgspec.field(default_factory=list)
    total_tokens_observed: int = 0
    boundary_tokens: int = 0
    last_buffered_ms: int | None = None
    threads: dict[str, ThreadProgress] = msgspec.field(default_factory=dict)
    open_cycles: dict[str, Activity] = msgspec.field(default_factory=dict)
    past: list[dict[str, int]] = msgspec.field(default_factory=list)
    """Earlier generations: their position in the log and their length; their text is in the log."""


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The public record of a memory (`getObservationalMemoryRecord`)."""

    id: str
    scope: str
    thread_id: str | None
    resource_id: str
    created_at: int
    updated_at: int
    last_observed_at: int | None
    origin_type: Literal["initial", "reflection"]
    generation_count: int
    active_observations: str
    buffered_observation_chunks: list[BufferedObservation]
    buffered_reflection: str | None
    buffered_reflection_tokens: int | None
    buffered_reflection_input_tokens: int | None
    reflected_observation_line_count: int | None
    observed_message_ids: list[str]
    observed_timezone: str
    total_tokens_observed: int
    observation_token_count: int
    pending_message_tokens: int
    is_reflecting: bool
    is_observing: bool
    is_buffering_observation: bool
    is_buffering_reflection: bool
    last_buffered_at_tokens: int
    last_buffered_at_time: int | None
    config: dict[str, Any]
    metadata: dict[str, Any]


class RecordFold:
    """Implements `Fold`. An event that does not concern the memory costs one table lookup."""

    def __init__(self) -> None:
        self.known: Knowledge = Knowledge()
        self._takers: dict[type[Event], Any] = {
            ThreadCreated: self._created,
            ThreadRenamed: self._renamed,
            MemoryStatus: self._status,
            ObservationStart: self._started,
            ObservationEnd: self._observed,
            ObservationFailed: self._failed,
            ReflectionStart: self._started,
            ReflectionEnd: self._reflected,
            ReflectionFailed: self._failed,
            BufferingStart: self._started,
            BufferingEnd: self._buffered,
            BufferingFailed: self._failed,
            MemoryActivated: self._activated,
        }

    @property
    def value(self) -> Knowledge:
        return self.known

    def feed(self, event: Event, /, thread_id: str = "") -> Sequence[Any]:
        taker = self._takers.get(type(event))
        if taker is not None:
            taker(event, thread_id)
            if event.timestamp_ms > 0:
                self.known.created_ms = self.known.created_ms or event.timestamp_ms
                self.known.updated_ms = event.timestamp_ms
        return ()

    def finish(self) -> Sequence[Any]:
        return ()

    def snapshot(self) -> bytes:
        return encode(self.known)

    def restore(self, snapshot: bytes, /) -> None:
        self.known = msgspec.json.decode(snapshot, type=Knowledge)

    def progress(self, thread_id: str = "") -> ThreadProgress:
        return self.known.threads.setdefault(thread_id, ThreadProgress())

    def covered_seq(self, thread_id: str = "") -> int:
        """The last event of the log that is observed or buffered."""
        chunks = self.known.chunks
        return chunks[-1].to_seq if chunks else self.progress(thread_id).observed_seq

    def is_active(self, activity: Activity, live: Container[str]) -> bool:
        """`live`: the cycles of this process."""
        return any(kind == activity and cycle in live for cycle, kind in self.known.open_cycles.items())

    def _created(self, event: ThreadCreated, thread_id: str) -> None:
        self.progress(thread_id).title = event.title

    def _renamed(self, event: ThreadRenamed, thread_id: str) -> None:
        self.progress(thread_id).title = event.title

    def _status(self, event: MemoryStatus, thread_id: str) -> None:
        progress = self.progress(thread_id)
        progress.model = event.model
        progress.step_number = event.step_number
        progress.pending_tokens = _pending_in(event.windows)

    def _started(self, event: ObservationStart | ReflectionStart | BufferingStart, _thread_id: str) -> None:
        activity = _activity(event)
        open_cycles = {cycle: kind for cycle, kind in self.known.open_cycles.items() if kind != activity}
        self.known.open_cycles = {**open_cycles, event.cycle_id: activity}
        if activity == "buffering_observation" and isinstance(event, BufferingStart):
            self.known.boundary_tokens = event.boundary_tokens
            self.known.last_buffered_ms = event.timestamp_ms if event.timestamp_ms > 0 else None

    def _failed(self, event: Any, _thread_id: str) -> None:
        self.known.open_cycles.pop(event.cycle_id, None)

    def _observed(self, event: ObservationEnd, thread_id: str) -> None:
        knowledge = self.known
        knowledge.open_cycles.pop(event.cycle_id, None)
        key = event.thread_id or thread_id
        progress = self.progress(key)
        if event.observed_to_seq <= progress.observed_seq:
            return  # already observed
        text = sectioned(grouped(event.observations, event.cycle_id, event.range), key)
        knowledge.observations = appended(knowledge.observations, text, event.last_observed_ms)
        knowledge.observation_tokens = event.observation_tokens
        knowledge.observed_message_ids += event.message_ids or ()
        knowledge.total_tokens_observed += event.tokens_observed
        knowledge.chunks = []
        knowledge.boundary_tokens = 0
        self._advance(progress, event.observed_to_seq, event.last_observed_ms)
        if event.shown_from_seq >= 0:
            progress.shown_from_seq = event.shown_from_seq
        progress.current_task = event.current_task
        progress.suggested_response = event.suggested_response
        progress.pending_tokens = 0

    def _advance(self, progress: ThreadProgress, to_seq: int, last_observed_ms: int) -> None:
        progress.observed_seq = to_seq
        progress.shown_from_seq = to_seq + 1
        progress.last_observed_ms = max(progress.last_observed_ms, last_observed_ms)

    def _buffered(self, event: BufferingEnd, thread_id: str) -> None:
        knowledge = self.known
        knowledge.open_cycles.pop(event.cycle_id, None)
        if event.operation_type == "reflection":
            if event.generation_count != knowledge.generation:
                return  # outdated: a newer generation exists
            knowledge.reflection = ReflectionDraft(
                cycle_id=event.cycle_id,
                observations=event.observations,
                tokens=event.buffered_tokens,
                input_tokens=event.tokens_buffered,
                lines=event.reflected_lines,
            )
        elif event.after_seq == self.covered_seq(thread_id) < event.observed_to_seq:
            knowledge.chunks.append(_chunk(event))

    def _activated(self, event: MemoryActivated, thread_id: str) -> None:
        knowledge = self.known
        if event.operation_type == "reflection":
            reflection = knowledge.reflection
            if reflection is not None and reflection.cycle_id == event.cycle_id:
                tail = tail_after(knowledge.observations, reflection.lines)
                whole = f"{reflection.observations}\n\n{tail}" if tail else reflection.observations
                self._new_generation(event, whole, event.observation_tokens)
            return
        if not knowledge.chunks or knowledge.chunks[0].cycle_id != event.cycle_id:
            return
        chunk = knowledge.chunks.pop(0)
        text = grouped(chunk.observations, chunk.cycle_id, chunk.range)
        knowledge.observations = appended(knowledge.observations, text, chunk.last_observed_at)
        knowledge.observation_tokens += chunk.token_count
        knowledge.total_tokens_observed += chunk.message_tokens
        knowledge.boundary_tokens = sum(chunk_left.message_tokens for chunk_left in knowledge.chunks)
        progress = self.progress(thread_id)
        self._advance(progress, chunk.to_seq, chunk.last_observed_at)
        progress.current_task = chunk.current_task
        progress.suggested_response = chunk.suggested_continuation
        progress.pending_tokens = max(0, progress.pending_tokens - chunk.message_tokens)

    def _reflected(self, event: ReflectionEnd, _thread_id: str) -> None:
        self.known.open_cycles.pop(event.cycle_id, None)
        self._new_generation(event, event.observations, event.compressed_tokens)

    def _new_generation(self, event: Event, observations: str, tokens: int) -> None:
        knowledge = self.known
        knowledge.past.append(
            {
                "generation": knowledge.generation,
                "ended_seq": event.seq,
                "tokens": knowledge.observation_tokens,
            }
        )
        knowledge.generation += 1
        knowledge.observations = observations
        knowledge.observation_tokens = tokens
        knowledge.reflection = None
        knowledge.observed_message_ids = []
        knowledge.open_cycles = {
            cycle: kind for cycle, kind in knowledge.open_cycles.items() if kind == "buffering_observation"
        }


def _chunk(event: BufferingEnd) -> BufferedObservation:
    return BufferedObservation(
        id=event.cycle_id,
        cycle_id=event.cycle_id,
        observations=event.observations,
        token_count=event.buffered_tokens,
        message_ids=list(event.message_ids or ()),
        message_tokens=event.tokens_buffered,
        last_observed_at=event.last_observed_ms,
        created_at=max(0, event.timestamp_ms),
        to_seq=event.observed_to_seq,
        suggested_continuation=event.suggested_response,
        current_task=event.current_task,
        thread_title=event.title,
        range=event.range,
    )


def _activity(event: ObservationStart | ReflectionStart | BufferingStart) -> Activity:
    if isinstance(event, BufferingStart):
        is_reflection = event.operation_type == "reflection"
        return "buffering_reflection" if is_reflection else "buffering_observation"
    return "reflecting" if isinstance(event, ReflectionStart) else "observing"


def _pending_in(windows: Any) -> int:
    try:
        tokens = windows["active"]["messages"]["tokens"]
    except (KeyError, TypeError):
        return 0
    return tokens if isinstance(tokens, int) else 0
