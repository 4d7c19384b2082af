"""The memory of a conversation: it writes notes as the conversation grows and shows them instead of messages.

    memory = ObservationalMemory(config, append=session.append, observer=…, reflector=…, record=fold, thread_id=…)
    signal = memory.before_message(conversation.entries, message_id)     # put it before the message, if there is one
    AgentOptions(before_step=memory.before_step, …)                      # before every model call
    await memory.after_turn(conversation.entries)                        # when the run is over
    await memory.close()                                                 # when the thread is released

Rules
1. Everything it does is in the log; `record` is derived from the log.
2. The run waits only if it must: from the second step on, when messages exceed their threshold and nothing
   was observed in advance.
3. A failure is emitted as an event, then reported as `MemoryFailure`: raised if the run waits for it, passed
   to `on_failure` if it happened in the background.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from harness.contracts.model import Model, Turn
from harness.conversation.turns import StepContext, TranscriptEntry
from harness.events import Event, MemoryStatus, Signal, ThreadCreated, ThreadRenamed
from harness.session.memory.ask_text import MemoryFailure, RetryPolicy
from harness.session.memory.config import MemoryConfig, read_config
from harness.session.memory.context import MemoryContext, gap_signal
from harness.session.memory.dates import zone
from harness.session.memory.memory_state import (
    THRESHOLD,
    ActivationState,
    Append,
    MemoryState,
    Trigger,
    last_activity_ms,
    record,
    status,
)
from harness.session.memory.observer import ObservationScheduler
from harness.session.memory.record import MemoryRecord, RecordFold
from harness.session.memory.reflector import ReflectionScheduler
from harness.session.memory.shared_memory import OtherThreads, OtherThreadsReader
from harness.session.memory.steps import has_open_calls, model_name
from harness.session.memory.tokens import TokenCounter, estimated_tokens

LONGEST_WAIT_S = 30.0
"""How long to wait for work in the background."""


class ObservationalMemory:
    """One per open thread, in the process that writes its log."""

    def __init__(
        self,
        config: MemoryConfig | Mapping[str, Any] | None = None,
        *,
        append: Append,
        observer: Callable[[], Model],
        reflector: Callable[[], Model],
        record: RecordFold | None = None,
        thread_id: str = "",
        resource_id: str = "",
        on_failure: Callable[[MemoryFailure], None] | None = None,
        others: OtherThreads | None = None,
        retention: str = "",
        retry: RetryPolicy | None = None,
        count: TokenCounter = estimated_tokens,
        clock_ms: Callable[[], int] | None = None,
        new_id: Callable[[], str] | None = None,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        """`record`: fed with the log so far. `observer` and `reflector` are called for their model each time.
        Raises UsageError for an invalid configuration.
        """
        self.state: MemoryState = MemoryState(
            read_config(config),
            record or RecordFold(),
            append,
            thread_id=thread_id,
            resource_id=resource_id,
            clock_ms=clock_ms,
            new_id=new_id,
            count=count,
        )
        retry = retry or RetryPolicy()
        self._observer = observer
        self._retention = retention
        self._longest_wait_s = longest_wait_s
        self._on_failure = on_failure
        self._failure: MemoryFailure | None = None
        self._observing = ObservationScheduler(self.state, observer, retry, self._fail)
        self._reflecting = ReflectionScheduler(self.state, reflector, retry, self._fail, longest_wait_s)
        self._neighbours = (
            OtherThreadsReader(self.state, self._observing, others)
            if others is not None and self.config.scope == "resource"
            else None
        )
        self._shown_context = MemoryContext(self.state)
        self._idle: asyncio.Task[None] | None = None
        self._one_step = asyncio.Lock()

    @property
    def config(self) -> MemoryConfig:
        return self.state.config

    def set_thresholds(self, observation: int | None = None, reflection: int | None = None) -> None:
        """Takes effect with the next step. Raises UsageError if the configuration becomes invalid."""
        config = self.config
        if observation is not None:
            config = replace(config, observation=replace(config.observation, message_tokens=observation))
        if reflection is not None:
            config = replace(config, reflection=replace(config.reflection, observation_tokens=reflection))
        self.state.config = read_config(config)

    def feed(self, event: Event) -> None:
        """May be called with every event of the log: only titles not set by a memory are used."""
        is_title = isinstance(event, ThreadCreated) or (
            isinstance(event, ThreadRenamed) and not event.cycle_id
        )
        if is_title:
            self.state.fold.feed(event, thread_id=self.state.key)

    @property
    def has_worked(self) -> bool:
        """Whether it has taken part in any step of the thread."""
        knowledge = self.state.fold.known
        return bool(self.state.progress.model or knowledge.chunks or knowledge.observations)

    def record(self) -> MemoryRecord:
        return record(self.state)

    def load_progress(self, entries: Sequence[TranscriptEntry] | None = None) -> MemoryStatus:
        """The status according to the log; it is not written to the log."""
        if entries is not None:
            self.state.window.take(entries)
        progress = self.state.progress
        return self._status(progress.step_number, progress.model)

    def before_message(
        self, entries: Sequence[TranscriptEntry], message_id: str, now_ms: int | None = None
    ) -> Signal | None:
        """The marker of a pause, to be put before the message that begins a run."""
        if not self.config.temporal_markers:
            return None
        now_ms = self.state.clock_ms() if now_ms is None else now_ms
        in_zone = zone(self.config.timezone)
        return gap_signal(entries, message_id, now_ms, in_zone, f"temporal-gap-{message_id}")

    async def before_step(self, step: StepContext) -> Sequence[Turn] | None:
        """The turns to show the model; None is the whole conversation. Raises MemoryFailure."""
        async with self._one_step:
            state = self.state
            is_first = step.step_number == 0
            if is_first:
                self._failure = None
            state.window.take(step.entries)
            if self._neighbours is not None and (is_first or not self._neighbours.is_known):
                await self._neighbours.look()
            if is_first:
                await self._begin_run(step)
            if not has_open_calls(step.entries):
                self._observing.buffer_if_due()
                if not is_first and state.pending >= state.threshold:
                    await self._make_room()
            self._raise_failure()
            state.put(self._status(step.step_number, model_name(step)))
            return self._shown_context.turns(self._neighbours.text if self._neighbours else "")

    async def after_turn(self, entries: Sequence[TranscriptEntry] | None = None) -> None:
        """The run is over: the remaining messages may be observed in the background."""
        if entries is not None:
            self.state.window.take(entries)
        if self.config.observation.buffer_on_idle and self._idle is None:
            self._idle = asyncio.create_task(self._buffer_the_rest())

    async def settle(self) -> None:
        """Wait for all work in the background."""
        tasks = {
            task for task in (self._idle, self._observing.task, self._reflecting.task) if task is not None
        }
        if pending := {task for task in tasks if not task.done()}:
            await asyncio.wait(pending)
            await self.settle()

    async def close(self) -> None:
        """Stop all work in the background."""
        if self._idle is not None and not self._idle.done():
            self._idle.cancel()
            await asyncio.wait({self._idle})
        await self._observing.close()
        await self._reflecting.close()

    async def _begin_run(self, step: StepContext) -> None:
        state, config = self.state, self.config
        occasion = ActivationState(
            now_ms=state.clock_ms(),
            last_activity_ms=last_activity_ms(step.entries),
            previous_model=state.progress.model,
            current_model=model_name(step),
            retention=self._retention,
        )
        if state.fold.known.chunks and (trigger := self._observation_trigger(occasion)) is not None:
            self._observing.activate(trigger)
        early = occasion.trigger(
            config.reflection.activate_after_idle,
            on_provider_change=config.reflection.activate_on_provider_change,
        )
        await self._reflecting.reflect_if_due(early)

    def _observation_trigger(self, occasion: ActivationState) -> Trigger | None:
        config, state = self.config, self.state
        trigger = occasion.trigger(
            config.observation_idle, on_provider_change=config.observation_on_provider_change
        )
        if trigger is None and state.pending >= state.threshold:
            return THRESHOLD
        return trigger

    async def _make_room(self) -> None:
        """Reduce the messages that exceed their threshold in the middle of a run."""
        state = self.state
        await self._observing.wait(self._longest_wait_s)
        self._raise_failure()
        if self._neighbours is not None:
            await self._neighbours.look()
        if state.pending < state.threshold:
            return  # another observation was faster
        if state.fold.known.chunks:
            self._observing.activate(THRESHOLD)
        elif self._neighbours is not None:
            await self._neighbours.observe(self._observer())
        else:
            await self._observing.observe()
        await self._reflecting.reflect_if_due()

    async def _buffer_the_rest(self) -> None:
        try:
            await self._observing.wait(self._longest_wait_s)
            if not self._observing.is_buffering:
                self._observing.buffer()
        finally:
            self._idle = None

    def _status(self, step_number: int, model: str) -> MemoryStatus:
        _, removable_tokens = self._observing.removable_tokens()
        return status(self.state, removable_tokens, step_number, model)

    def _fail(self, failure: MemoryFailure) -> None:
        """Record a failure in the background, and report it."""
        self._failure = failure
        if self._on_failure is not None:
            self._on_failure(failure)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
