"""A memory at work in a real conversation: a real loop, a real log, and a new process that continues both."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contracts.model import Ask, AssistantTurn, SystemTurn, ToolTurn, Turn, UserTurn
from harness.conversation.history import history
from harness.events import Event, MemoryActivated, MemoryStatus, ObservationEnd, Result
from harness.log.hub import Hub
from harness.log.store import Metadata, Store, read_all
from harness.log.stores.memory import MemoryStore
from harness.models.scripted import Scripted
from harness.native.loop.conversation import AgentConversation
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from harness.session.memory import MemoryFailure, ObservationalMemory, RecordFold
from memory_bench import Answering, noted, run, texts

CONFIG = {"timezone": "UTC", "observation": {"messageTokens": 1_000}}
LOG_ID = "0190a2b4-0000-7000-8000-000000000000"


@tool(quick=True)
def dig(depth: int) -> str:
    """Find something long."""
    return f"layer {depth}: " + "stone " * 200


class Dig:
    """One process that talks in a thread, with a memory."""

    def __init__(self, store: Store, observer: Answering, *said: Any) -> None:
        is_new = not any(metadata.session_id == LOG_ID for metadata in store.list())
        writer = store.create(Metadata(session_id=LOG_ID, kind="thread")) if is_new else store.open(LOG_ID)
        self.hub = Hub(store, LOG_ID, writer)
        self.store = store
        self.asked: list[list[Turn]] = []
        events = self.events
        fold = RecordFold()
        for event in events:
            fold.feed(event)
        source = self.hub.source(LOG_ID)
        self.memory = ObservationalMemory(
            CONFIG,
            append=lambda event: source.append([event])[0],
            observer=lambda: observer,
            reflector=lambda: observer,
            record=fold,
            thread_id=LOG_ID,
        )
        emitted = history(events)
        host = LoopContext(self.hub, cwd="/", env={}, secrets=None)
        self.conversation = AgentConversation(host, emitted.entries, pending=emitted.pending)
        self.options = AgentOptions(
            model=Scripted([self._says(one) for one in said]),
            tools=(dig,),
            permissions=Permissions("allow"),
            system_prompt="Dig.",
            before_step=self.memory.before_step,
        )

    def _says(self, said: Any) -> Any:
        def answer(ask: Ask) -> Any:
            self.asked.append(list(ask.turns))
            return said

        return answer

    @property
    def events(self) -> list[Event]:
        return list(read_all(self.store, LOG_ID))

    async def say(self, text: str) -> Result:
        ended = await self.conversation.send(self.options, text)
        assert isinstance(ended, Result)
        await self.memory.settle()
        return ended

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def _digs(depth: int) -> dict[str, Any]:
    return {"events": [{"type": "tool_call", "name": "dig", "input": {"depth": depth}}]}


def _shown(turns: list[Turn]) -> list[Turn]:
    return [turn for turn in turns if not isinstance(turn, SystemTurn)]


def test_a_long_run_continues_with_notes_and_another_process_with_the_same() -> None:
    async def check() -> None:
        store = MemoryStore()
        observer = Answering(*[noted(f"note {number}") for number in range(20)])
        first = Dig(store, observer, *[_digs(depth) for depth in range(6)], "Nothing there.")
        assert (await first.say("Find the treasure")).success
        assert first.of(MemoryActivated) or first.of(ObservationEnd)
        assert len(first.of(MemoryStatus)) == len(first.asked) == 7
        last = first.asked[-1]
        assert last[0] == SystemTurn("Dig.")
        assert "note 0" in texts(last)
        assert UserTurn("Find the treasure") not in last
        shown = _shown(last)
        assert len(shown) < 9
        calls = [call.id for turn in shown if isinstance(turn, AssistantTurn) for call in turn.calls]
        assert calls == [turn.call_id for turn in shown if isinstance(turn, ToolTurn)]
        first.hub.close()

        second = Dig(store, observer, "Still nothing.")
        assert second.memory.state.fold.known == first.memory.state.fold.known
        await second.say("And now?")
        assert second.asked[0][-1] == UserTurn("And now?")
        known = texts(last)
        assert all(turn.text in texts(second.asked[0]) for turn in last if isinstance(turn, SystemTurn)), (
            known
        )
        assert len(_shown(second.asked[0])) < 12

    run(check())


def test_a_memory_that_fails_ends_the_run_and_the_log_is_whole() -> None:
    async def check() -> None:
        dig = Dig(MemoryStore(), Answering(), *[_digs(depth) for depth in range(6)])
        with pytest.raises(MemoryFailure, match="observation buffering failed: nothing left to say"):
            await dig.say("Find the treasure")
        assert isinstance(dig.events[-1], Result)
        assert not dig.events[-1].success

    run(check())
