"""The memory of a harness beyond the logs of its threads, and how a session uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from msgspec.structs import replace

from harness.contracts.model import Ask, Model, Turn
from harness.contracts.tool import Tool
from harness.conversation.stored_history import stored_history
from harness.conversation.turns import StepContext, TranscriptEntry
from harness.events import Error, Event, MemoryStatus, Signal, Steering, UsageDelta
from harness.events.memory import Noting
from harness.log.store import Query, Store, read_all
from harness.native.loop.conversation import AgentConversation
from harness.session.drivers import Drivers
from harness.session.memory import (
    Memory,
    MemoryConfig,
    MemoryFailure,
    MemoryRecord,
    ObservationalMemory,
    OtherThread,
    RecallTool,
    RecordFold,
    ThreadSummary,
    config_of,
)
from harness.session.memory.thresholds import maximum
from harness.session.open_thread import OpenThread
from harness.session.runs import Runs
from harness.session.session_settings import SessionSettings
from harness.session.thread_log import ThreadLog
from harness.session.threads import Threads

_MEMORY = MemoryStatus.__module__
"""The module that defines the memory events."""


class ThreadMemory:
    """The observational memory of the current thread, if there is one."""

    def __init__(
        self, log: ThreadLog, settings: SessionSettings, drivers: Drivers, runs: Runs, threads: Threads
    ) -> None:
        self._log, self._settings, self._drivers = log, settings, drivers
        self._runs, self._threads = runs, threads
        self._memory: tuple[str, ObservationalMemory] | None = None
        given = self._settings.harness.memory_input
        self._config = config_of(given) if isinstance(given, Memory) else None
        self._has_failed = False
        """Whether the current run ends because the memory failed."""

    @property
    def memory(self) -> ObservationalMemory | None:
        thread_id = self._threads.get_id()
        return self._memory[1] if self._memory is not None and self._memory[0] == thread_id else None

    async def prepare(self) -> None:
        """Open the memory for a run, if the harness has one."""
        config = config_of(await self._settings.harness.resolved_memory(self._runs.context))
        bound = self._log.thread
        self._config = config
        if config is None or bound is None:
            return
        memory = self.memory
        if memory is None:
            await self.close()
            memory = self._open(bound, config)
            self._memory = (bound.id, memory)
        memory.set_thresholds(self._chosen("observation"), self._chosen("reflection"))

    def before_message(self, message_id: str) -> Signal | None:
        """The marker of a long pause, to be put before a message."""
        memory, conversation = self.memory, self._drivers.conversation
        if memory is None or conversation is None:
            return None
        return memory.before_message(conversation.entries, message_id)

    async def before_step(self, context: StepContext) -> Sequence[Turn] | None:
        memory = self.memory
        if memory is None:
            return None
        try:
            return await memory.before_step(context)
        except MemoryFailure as failure:
            self._failed(failure)
            # The run ends here, as if the user had aborted it.
            raise asyncio.CancelledError from failure

    async def after_run(self) -> None:
        memory, conversation = self.memory, self._drivers.conversation
        has_failed, self._has_failed = self._has_failed, False
        if memory is not None and conversation is not None and not has_failed:
            await memory.after_turn(conversation.entries)

    def feed(self, event: Event) -> None:
        if self._memory is not None and (memory := self.memory) is not None:
            memory.feed(event)

    def tools(self) -> list[Tool]:
        memory = self.memory
        scope = memory.config.recall_scope if memory is not None else ""
        return [RecallTool(self._archive(), scope=scope)] if scope else []

    def _archive(self) -> _Archive:
        return _Archive(
            self._threads,
            self._settings.harness.store,
            self._settings.identity.get_resource_id,
            lambda: self._drivers.conversation,
        )

    async def record(self) -> MemoryRecord | None:
        """None without a memory, or while it has done nothing for the thread."""
        await self.prepare()
        memory = self.memory
        return memory.record() if memory is not None and memory.has_worked else None

    async def close(self) -> None:
        """Stop its background work, whose results are no longer emitted."""
        opened, self._memory = self._memory, None
        if opened is not None:
            await opened[1].close()

    def _open(self, bound: OpenThread, config: MemoryConfig) -> ObservationalMemory:
        record = RecordFold()
        record.restore(bound.fold.memory.snapshot())
        if config.scope == "resource":  # where it is one thread of several
            known = record.known
            known.threads = {key or bound.id: progress for key, progress in known.threads.items()}

        def is_in_hand() -> bool:
            return self._log.thread is bound and self.memory is made

        def append(event: Event) -> Event | None:
            return self._log.append(event) if is_in_hand() else None

        def count(used: UsageDelta) -> None:
            if is_in_hand():
                self._log.append_all([used], bound.id)

        made = ObservationalMemory(
            config,
            append=append,
            observer=lambda: _Metered(self._settings.om.observer.resolved_model(), count),
            reflector=lambda: _Metered(self._settings.om.reflector.resolved_model(), count),
            record=record,
            thread_id=bound.id,
            resource_id=self._settings.identity.get_resource_id(),
            on_failure=lambda failure: self._failed_behind(failure) if is_in_hand() else None,
            others=_Others(self._threads, self._settings.harness.store)
            if config.scope == "resource"
            else None,
            clock_ms=self._settings.harness.clock,
            new_id=self._settings.harness.new_id,
        )
        return made

    def usual_threshold(self, kind: Noting) -> int:
        """The threshold of the memory itself, used unless another one is set."""
        config = self._config or MemoryConfig()
        own = (
            config.observation.message_tokens
            if kind == "observation"
            else config.reflection.observation_tokens
        )
        return maximum(own)

    def usual_model(self, kind: Noting) -> str:
        config = self._config or MemoryConfig()
        return config.observation.model if kind == "observation" else config.reflection.model

    def _chosen(self, kind: Noting) -> int | None:
        """The threshold that the session, its thread or the harness sets; None: the usual one."""
        chosen = self._settings.state.peek(f"{kind}Threshold")
        chosen = chosen or getattr(self._settings.harness.om_config, f"default_{kind}_threshold")
        return None if chosen == self.usual_threshold(kind) else chosen

    def _failed(self, failure: MemoryFailure) -> None:
        self._has_failed = True
        self._log.append(Error(message=str(failure), code="memory_failed"))

    def _failed_behind(self, failure: MemoryFailure) -> None:
        """Background work failed: abort the current run, which must not continue without its memory."""
        if self._runs.is_running:
            self._failed(failure)
            self._runs.abort(pauses_queue=False)


class _Metered:
    """Contract: that of `Model`. Its usage is counted apart from that of runs."""

    def __init__(self, model: Model, count: Callable[[UsageDelta], None]) -> None:
        self.name = model.name
        self._model = model
        self._count = count

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        stream = self._model.answer(ask)
        try:
            async for event in stream:
                if isinstance(event, UsageDelta):
                    self._count(replace(event, model=event.model or self.name))
                yield event
        finally:
            if (close := getattr(stream, "aclose", None)) is not None:
                await close()


class _Archive:
    """Contract: that of `Archive`."""

    def __init__(
        self,
        threads: Threads,
        store: Store,
        resource_id: Callable[[], str],
        conversation: Callable[[], AgentConversation | None],
    ) -> None:
        """`conversation`: of the thread that is open, as far as it is in this process."""
        self._threads, self._store = threads, store
        self._resource_id, self._conversation = resource_id, conversation
        self.thread_id = threads.require_id()

    async def threads(self) -> Sequence[ThreadSummary]:
        return [
            ThreadSummary(
                id=thread.id, title=thread.title, created_ms=thread.created_at, updated_ms=thread.updated_at
            )
            for thread in self._threads.list()
        ]

    async def entries(self, thread_id: str) -> Sequence[TranscriptEntry]:
        conversation = self._conversation()
        if thread_id == self.thread_id and conversation is not None:
            return conversation.entries
        if thread_id not in {thread.id for thread in self._threads.list()}:
            return ()
        return stored_history(self._store, thread_id).entries

    async def threads_with(self, query: str) -> Sequence[str]:
        found = self._store.find(Query(kind="thread", resource_id=self._resource_id(), text=query))
        return [metadata.session_id for metadata in found]


class _Others:
    """Contract: that of `OtherThreads`."""

    def __init__(self, threads: Threads, store: Store) -> None:
        self._threads, self._store = threads, store
        self._read: dict[str, int] = {}

    async def unobserved(self, observed: Mapping[str, int]) -> Sequence[OtherThread]:
        found: list[OtherThread] = []
        for thread in self._ids():
            entries = [
                entry
                for entry in stored_history(self._store, thread).entries
                if entry.seq > observed.get(thread, -1)
            ]
            if entries:
                found.append(OtherThread(thread_id=thread, entries=entries))
        return found

    async def memory_events(self) -> Sequence[tuple[str, Event]]:
        found: list[tuple[str, Event]] = []
        for thread in self._ids():
            for event in read_all(self._store, thread, self._read.get(thread, 0)):
                self._read[thread] = event.seq + 1
                if isinstance(event, Steering) and type(event).__module__ == _MEMORY:
                    found.append((thread, event))
        return found

    def _ids(self) -> list[str]:
        own = self._threads.get_id()
        return [thread.id for thread in self._threads.list() if thread.id != own]
