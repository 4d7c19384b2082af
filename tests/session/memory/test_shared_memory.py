"""One memory for all threads of a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from harness.contracts.model import SystemTurn, UserTurn
from harness.conversation.turns import TranscriptEntry
from harness.events import Event, MemoryActivated, ObservationEnd, ObservationStart
from harness.session.memory import MemoryFailure, OtherThread
from memory_bench import START_MS, Bench, noted, run, texts, tokens


class Elsewhere:
    """The other threads, as a session would read them from their logs."""

    def __init__(self, **said: list[str]) -> None:
        self.entries = {
            thread: [
                TranscriptEntry(UserTurn(text), f"{thread}-{seq}", START_MS, seq)
                for seq, text in enumerate(texts)
            ]
            for thread, texts in said.items()
        }
        self.events: list[tuple[str, Event]] = []

    async def unobserved(self, observed: Mapping[str, int]) -> Sequence[OtherThread]:
        return [
            OtherThread(
                thread_id=thread,
                title=thread.title(),
                entries=[entry for entry in entries if entry.seq > observed.get(thread, -1)],
            )
            for thread, entries in self.entries.items()
        ]

    async def memory_events(self) -> Sequence[tuple[str, Event]]:
        events, self.events = self.events, []
        return events


def _bench(others: Elsewhere, *answers: Any, **observation: Any) -> Bench:
    config = {"scope": "resource", "observation": {"messageTokens": 1_000, **observation}}
    return Bench(config, answers, others=others, thread_id="here")


def _section(thread: str, note: str, task: str = "") -> str:
    return f'<thread id="{thread}">\nDate: Dec 4, 2025\n* 🔴 (15:00) {note}\n<current-task>\n{task}\n</current-task>\n</thread>\n'


def _threads(*sections: str) -> str:
    return f"<observations>\n{''.join(sections)}</observations>"


def test_what_is_said_elsewhere_is_shown_beside_this_conversation() -> None:
    async def check() -> None:
        bench = _bench(Elsewhere(there=["the password is swordfish"]))
        bench.user("hello")
        turns = await bench.settled()
        assert '<other-conversation id="there" title="There">' in texts(turns)
        assert "swordfish" in texts(turns)
        assert [turn for turn in turns or () if not isinstance(turn, SystemTurn)] == [bench.entries[0].turn]

    run(check())


def test_several_threads_are_observed_in_one_call() -> None:
    async def check() -> None:
        others = Elsewhere(there=[tokens(300)], empty=[])
        bench = _bench(
            others, _threads(_section("here", "note here", "build"), _section("there", "note there"))
        )
        bench.user(tokens(400))
        bench.calls(tokens(400))
        turns = await bench.settled(1)
        assert len(bench.observer.asked) == 1
        assert '<thread id="there">' in bench.observer.last_words
        assert [event.thread_id for event in bench.of(ObservationEnd)] == ["", "there"]
        assert len(bench.of(ObservationStart)) == 2
        assert bench.known.observations.count("<thread id=") == 2
        assert "note there" in texts(turns)
        assert "<other-conversation" not in texts(turns)
        assert "<current-task>\nbuild\n</current-task>" in texts(turns)
        assert bench.memory.state.pending == 0
        assert bench.memory.record().thread_id is None
        assert bench.memory.record().id == "resource:resource:0"
        await bench.settled(0)  # they are observed now
        assert bench.memory.state.pending == 0

    run(check())


def test_long_threads_are_observed_in_calls_of_their_own() -> None:
    async def check() -> None:
        others = Elsewhere(there=[tokens(700)])
        bench = _bench(others, noted("here"), noted("there"), maxTokensPerBatch=1_000)
        bench.user(tokens(400))
        bench.calls(tokens(400))
        await bench.settled(1)
        assert len(bench.observer.asked) == 2
        assert bench.memory.state.pending == 0

    run(check())


def test_a_thread_that_the_observer_left_out_is_a_failure() -> None:
    async def check() -> None:
        bench = _bench(Elsewhere(there=[tokens(300)]), _threads(_section("here", "note here")))
        bench.user(tokens(400))
        bench.calls(tokens(400))
        with pytest.raises(MemoryFailure, match="left out there"):
            await bench.step(1)
        assert bench.known.observations == ""

    run(check())


def test_nothing_is_observed_twice_when_another_one_was_first() -> None:
    async def check() -> None:
        others = Elsewhere(there=[tokens(900)])
        bench = _bench(others)
        bench.user(tokens(400))
        await bench.settled()
        noted_there = ObservationEnd(
            cycle_id="there", observations="* seen there", observation_tokens=3, observed_to_seq=0
        )
        others.events.append(("there", noted_there))
        bench.calls(tokens(100))
        turns = await bench.settled(1)
        assert bench.observer.asked == []
        assert "seen there" in texts(turns)
        assert bench.of(MemoryActivated) == []

    run(check())
