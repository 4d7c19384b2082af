"""A conversation on a log of its own, and what must hold of both whatever was done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

from msgspec.structs import replace

from harness.contracts.model import AssistantTurn, ToolTurn, Turn
from harness.conversation.history import history
from harness.conversation.suspended_run import SuspendedRun
from harness.conversation.turns import TranscriptEntry
from harness.events import (
    Event,
    RelayReply,
    Result,
    Resumed,
    SessionStart,
    StepEnd,
    StepStart,
    Suspended,
    ToolEnd,
    ToolStart,
)
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata, Store, read_all
from harness.log.stores.memory import MemoryStore
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.questions.permissions import Permissions
from harness.runs.audit import recover_thread
from played_model import PlayedModel


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


class Talk:
    """Made in a running event loop."""

    def __init__(self, *answers: Any, store: Store | None = None, log_id: str = "", **options: Any) -> None:
        self.store = store or MemoryStore()
        self.log_id = log_id or new_run_id(1)
        self.model = PlayedModel(*answers)
        options.setdefault("permissions", Permissions("allow"))
        options.setdefault("relay_deadline_s", None)
        self.options = AgentOptions(model=self.model, **options)
        writer = (
            self.store.open(self.log_id)
            if log_id
            else self.store.create(Metadata(session_id=self.log_id, kind="thread"))
        )
        self.hub = Hub(self.store, self.log_id, writer)
        self.context = LoopContext(self.hub, cwd=os.getcwd(), env={}, secrets=None)
        emitted = history(self.events)
        self.conversation = AgentConversation(
            self.context, emitted.entries, pending=emitted.pending, untaken=emitted.untaken
        )

    @property
    def events(self) -> list[Event]:
        return list(read_all(self.store, self.log_id))

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def send(self, text: str = "go", **how: Any) -> Result | Suspended:
        return await self.conversation.send(self.options, text, **how)

    async def answer(self, answer: Any = None, **how: Any) -> Result | Suspended:
        """Answer the one question that is open."""
        assert self.conversation.pending is not None
        [relay] = self.conversation.pending.relays
        reply = RelayReply(id=relay.id, answer=answer, **{"approved": True, **how})
        return await self.conversation.resume(self.options, {relay.id: reply})

    @property
    def turns(self) -> list[Turn]:
        return [entry.turn for entry in self.conversation.entries]

    def elsewhere(self, *answers: Any, **options: Any) -> Talk:
        """The same log in the hands of a new process."""
        self.hub.close()
        return Talk(*answers, store=self.store, log_id=self.log_id, **options)

    def after_death(self, *answers: Any, is_recovered: bool = False, **options: Any) -> Talk:
        """The same log as it was when its process was killed just now, in the hands of a new process."""
        store = MemoryStore()
        writer = store.create(Metadata(session_id=self.log_id, kind="thread"))
        writer.append(self.events)
        writer.close()
        if is_recovered:
            recover_thread(store, self.log_id)
        return Talk(*answers, store=store, log_id=self.log_id, **options)

    async def until(self, kind: type[Event], count: int = 1) -> Any:
        """Wait for an event of that kind."""
        changed = asyncio.Event()
        remove = self.hub.add_waker(changed.set)
        while len(found := self.of(kind)) < count:
            await changed.wait()
            changed.clear()
        remove()
        return found[-1]

    def check(self) -> None:
        """The log is whole, and says what the conversation says."""
        events, conversation = self.events, self.conversation
        emitted = history(events)
        assert emitted.entries == conversation.entries
        assert _comparable(emitted.pending) == _comparable(conversation.pending)
        assert_consistent(conversation.entries, conversation.pending)
        assert len(set(ids := call_ids(conversation.entries))) == len(ids)
        assert_runs(events, conversation.pending)


def _comparable(pending: SuspendedRun | None) -> Any:
    if pending is None:
        return None
    answers = {id: [reply.answer for reply in replies] for id, replies in pending.answers.items()}
    return replace(pending, started_ms=0, answers={}), answers


def assert_consistent(entries: Sequence[TranscriptEntry], pending: SuspendedRun | None = None) -> None:
    """Every call has one result, right after the answer that asked for it; a run that waits has none yet."""
    turns = [entry.turn for entry in entries]
    while turns:
        turn = turns.pop(0)
        assert not isinstance(turn, ToolTurn)
        if isinstance(turn, AssistantTurn) and turn.calls and (turns or pending is None):
            results, turns = turns[: len(turn.calls)], turns[len(turn.calls) :]
            assert [getattr(result, "call_id", "") for result in results] == [call.id for call in turn.calls]


def call_ids(entries: Sequence[TranscriptEntry]) -> list[str]:
    return [
        call.id for entry in entries if isinstance(entry.turn, AssistantTurn) for call in entry.turn.calls
    ]


def assert_runs(events: Sequence[Event], pending: SuspendedRun | None = None) -> None:
    """One result for each run, everything that was opened closed, but for what waits."""
    assert [event.seq for event in events] == list(range(len(events)))
    waiting = pending.run_id if pending is not None else None
    runs = [event.run_id for event in events if isinstance(event, SessionStart)]
    assert len(set(runs)) == len(runs)
    for run_id in runs:
        own = [event for event in events if event.run_id == run_id]
        assert isinstance(own[0], SessionStart)
        assert sum(isinstance(event, Result) for event in own) == (run_id != waiting)
        if run_id != waiting:
            assert isinstance(own[-1], Result)
        parts = [type(event) for event in own if isinstance(event, Suspended | Resumed)]
        assert parts == ([Suspended, Resumed] * len(parts))[: len(parts)]
        steps = [event.id for event in own if isinstance(event, StepStart)]
        assert steps == [event.id for event in own if isinstance(event, StepEnd)]
        begun = [event.call_id for event in own if isinstance(event, ToolStart)]
        ended = [event.call_id for event in own if isinstance(event, ToolEnd)]
        assert len(set(begun)) == len(begun)
        assert len(set(ended)) == len(ended)
        assert set(ended) <= set(begun)
        if run_id != waiting:
            assert set(ended) == set(begun)
