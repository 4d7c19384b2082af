"""The memory shared by all conversations of one resource: what the other threads add to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from harness.contracts.model import Model
from harness.conversation.turns import TranscriptEntry
from harness.events import Event
from harness.session.memory.ask_text import ModelFailed
from harness.session.memory.context import other_thread_text
from harness.session.memory.memory_state import MemoryState
from harness.session.memory.observer import Before, ObservationScheduler
from harness.session.memory.tokens import turn_tokens


class OtherThread(msgspec.Struct, frozen=True, kw_only=True):
    thread_id: str
    title: str = ""
    entries: Sequence[TranscriptEntry] = ()


class OtherThreads(Protocol):
    """Contract: both methods cover all threads of the resource except the open one."""

    async def unobserved(self, observed: Mapping[str, int]) -> Sequence[OtherThread]:
        """Entries after the `seq` given for a thread; all entries of a thread that is not listed."""

    async def memory_events(self) -> Sequence[tuple[str, Event]]:
        """The memory events in the other logs since the last call, each with its thread's id."""


class OtherThreadsReader:
    """The state of the other threads during a run."""

    def __init__(self, state: MemoryState, observing: ObservationScheduler, others: OtherThreads) -> None:
        self._state = state
        self._observing = observing
        self._others = others
        self._threads: Sequence[OtherThread] = ()
        self.is_known = False
        """Whether `look` has been called."""

    async def look(self) -> None:
        """Read what is new in the other threads."""
        state = self._state
        self.is_known = True
        for thread_id, event in await self._others.memory_events():
            state.fold.feed(event, thread_id=thread_id)
        observed = {key: progress.observed_seq for key, progress in state.fold.known.threads.items()}
        unobserved = await self._others.unobserved(observed)
        self._threads = [
            thread for thread in unobserved if thread.entries and thread.thread_id != state.thread_id
        ]
        state.extra_tokens = sum(self._tokens(thread.entries) for thread in self._threads)

    @property
    def text(self) -> str:
        zone = self._state.config.timezone
        texts = [
            other_thread_text(thread.thread_id, thread.title, thread.entries, zone)
            for thread in self._threads
        ]
        return "\n\n".join(texts)

    async def observe(self, model: Model) -> None:
        """Observe every thread of the resource, several in one call where they are short. Raises MemoryFailure."""
        state = self._state
        own = state.window.after(state.progress.observed_seq)
        threads = {state.thread_id: own} if own else {}
        threads |= {thread.thread_id: list(thread.entries) for thread in self._threads}
        for batch in self._batches(threads):
            await self._observe_batch(model, batch)
        self._threads = ()
        state.extra_tokens = 0

    def _batches(self, threads: dict[str, list[TranscriptEntry]]) -> list[dict[str, list[TranscriptEntry]]]:
        most = self._state.config.observation.max_tokens_per_batch
        batches: list[dict[str, list[TranscriptEntry]]] = []
        room = 0
        for thread_id, entries in threads.items():
            tokens = self._tokens(entries)
            if not batches or tokens > room:
                batches.append({})
                room = most
            batches[-1][thread_id] = entries
            room -= tokens
        return batches

    async def _observe_batch(self, model: Model, batch: dict[str, list[TranscriptEntry]]) -> None:
        state, observing = self._state, self._observing
        cycles = {
            thread_id: observing.start(self._tokens(entries))[0] for thread_id, entries in batch.items()
        }
        started_ms = state.clock_ms()
        before = Before(observations=state.fold.known.observations)
        try:
            if len(batch) == 1:
                ((thread_id, entries),) = batch.items()
                observations_by_thread = {thread_id: await observing.observer.observe(model, entries, before)}
            else:
                observations_by_thread = await observing.observer.observe_threads(model, dict(batch), before)
            if missing := [thread_id for thread_id in batch if thread_id not in observations_by_thread]:
                raise ModelFailed(f"the observer left out {', '.join(missing)}", "no_observations")  # noqa: TRY301
        except BaseException as error:
            raise observing.failed(cycles, started_ms, error) from error
        for thread_id, entries in batch.items():
            tail_seq = state.window.tail_seq(state.floor) if thread_id == state.thread_id else -1
            observing.finish(
                cycles[thread_id],
                started_ms,
                entries,
                observations_by_thread[thread_id],
                shown_from_seq=tail_seq,
                thread_id=thread_id,
            )

    def _tokens(self, entries: Sequence[TranscriptEntry]) -> int:
        return sum(turn_tokens(entry.turn, self._state.count) for entry in entries)
