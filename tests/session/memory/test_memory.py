"""A memory in the course of a conversation: when it buffers, activates, observes, and what the model then sees."""

from __future__ import annotations

import asyncio

from harness.contracts.model import AssistantTurn, Attachment, Call, SystemTurn, ToolTurn, UserTurn
from harness.events import (
    BufferingEnd,
    BufferingStart,
    MemoryActivated,
    MemoryStatus,
    ObservationEnd,
    ObservationStart,
)
from harness.session.memory.context import CONTINUATION
from memory_bench import NO_BUFFER, SMALL, Bench, buffered, noted, run, texts, tokens


def test_a_short_conversation_is_shown_as_it_is() -> None:
    async def check() -> None:
        bench = Bench(SMALL)
        bench.user(tokens(100))
        assert await bench.settled() is None
        assert [type(event) for event in bench.log] == [MemoryStatus]
        assert bench.observer.asked == []

    run(check())


def test_each_interval_is_observed_in_the_background_while_the_model_still_sees_the_messages() -> None:
    async def check() -> None:
        gate = asyncio.Event()
        bench = Bench(SMALL, [(gate, noted("note"))])
        bench.user(tokens(210))
        assert await bench.step() is None
        (start,) = bench.of(BufferingStart)
        assert (start.tokens_to_buffer, start.boundary_tokens) == (210, 210)
        assert bench.memory.record().is_buffering_observation
        bench.assistant(tokens(210))
        await bench.step(1)  # one at a time
        assert len(bench.of(BufferingStart)) == 1
        gate.set()
        await bench.memory.settle()
        (end,) = bench.of(BufferingEnd)
        assert (end.tokens_buffered, end.message_ids) == (210, [bench.entries[0].message_id])
        assert "note" in end.observations
        assert not bench.memory.record().is_buffering_observation
        assert await bench.step(2) is None

    run(check())


def test_the_observer_sees_what_is_noted_already_and_asked_for_notes_alone() -> None:
    async def check() -> None:
        bench = await buffered()
        system, asked = bench.observer.asked[-1].turns
        assert isinstance(system, SystemTurn)
        assert "note 0" in asked.text
        assert bench.entries[-1].turn.text in asked.text
        assert bench.entries[0].turn.text + "\n" not in asked.text.partition("# Messages")[0]
        assert "<current-task>" not in system.text
        assert "<thread-title>" not in system.text
        assert (bench.observer.asked[-1].temperature, bench.observer.asked[-1].max_output_tokens) == (
            0.3,
            100_000,
        )

    run(check())


def test_attachments_reach_the_observer_where_they_are_wanted() -> None:
    async def check() -> None:
        picture = Attachment("image/png", "AAAA", "plan.png")
        for wanted, expected in (
            (True, (picture,)),
            (False, ()),
            (["image/*"], (picture,)),
            (["text/*"], ()),
        ):
            bench = Bench(
                {"observation": {"messageTokens": 5_000, "observeAttachments": wanted}}, [noted("seen")]
            )
            bench.user(tokens(10), picture)
            await bench.settled()
            turn = bench.observer.asked[0].turns[-1]
            assert isinstance(turn, UserTurn)
            assert turn.attachments == expected
            assert "[Image #1: plan.png]" in turn.text

    run(check())


def test_calls_that_wait_for_results_stop_the_memory() -> None:
    async def check() -> None:
        bench = Bench(SMALL, [noted("note")])
        bench.user(tokens(900))
        bench.say(AssistantTurn("", (Call("c1", "read", {}), Call("c2", "read", {}))))
        bench.say(ToolTurn("c1", tokens(900)))
        await bench.settled(1)
        assert bench.observer.asked == []
        bench.say(ToolTurn("c2", "done"))
        await bench.settled(1)
        assert len(bench.observer.asked) == 1

    run(check())


def test_at_step_0_nothing_is_observed_while_the_run_waits() -> None:
    async def check() -> None:
        bench = Bench(SMALL, [noted("note")])
        bench.user(tokens(5_000))
        assert await bench.settled() is None
        assert bench.observer.asked == []

    run(check())


def test_at_step_0_chunks_are_activated_when_the_threshold_is_reached() -> None:
    async def check() -> None:
        bench = await buffered(chunks=3)
        bench.user(tokens(300))
        turns = await bench.settled()
        activated = bench.of(MemoryActivated)
        assert [event.cycle_id for event in activated] == ["cycle-1", "cycle-2", "cycle-3"]
        assert {event.triggered_by for event in activated} == {"threshold"}
        assert [event.tokens_activated for event in activated] == [250, 250, 250]
        assert turns is not None
        assert turns[-1] is bench.entries[-1].turn
        assert turns[-2] is CONTINUATION
        assert "note 0" in texts(turns)
        assert "note 2" in texts(turns)

    run(check())


def test_earlier_notes_stay_the_same_objects_when_new_ones_come() -> None:
    async def check() -> None:
        bench = await buffered(chunks=3)
        bench.observer.answers += [noted("later"), noted("latest")]
        bench.user(tokens(260))
        first = await bench.settled() or ()
        bench.assistant(tokens(250))
        await bench.settled(1)
        bench.user(tokens(600))
        second = await bench.settled() or ()
        assert "later" in texts(second)
        notes = [turn for turn in first if isinstance(turn, SystemTurn)]
        assert all(one is other for one, other in zip(notes, second, strict=False))
        assert len([turn for turn in second if isinstance(turn, SystemTurn)]) > len(notes)

    run(check())


def test_chunks_are_activated_in_the_middle_of_a_run() -> None:
    async def check() -> None:
        bench = await buffered(chunks=3)
        bench.calls(tokens(300))
        turns = await bench.settled(1)
        assert bench.of(MemoryActivated)
        assert bench.of(ObservationStart) == []
        assert "note 0" in texts(turns)

    run(check())


def test_without_chunks_a_run_waits_for_an_observation() -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [noted("at once", task="build it", suggestion="Go on")])
        bench.user(tokens(500))
        bench.calls(tokens(600))
        bench.calls(tokens(80))
        turns = await bench.settled(2)
        (start,), (end,) = bench.of(ObservationStart), bench.of(ObservationEnd)
        assert start.tokens_to_observe == bench.of(ObservationEnd)[0].tokens_observed
        assert end.observed_to_seq == bench.entries[-1].seq
        assert end.observation_tokens == bench.known.observation_tokens > 0
        assert "<current-task>\nbuild it\n</current-task>" in texts(turns)
        assert "<suggested-response>\nGo on\n</suggested-response>" in texts(turns)
        shown = [turn for turn in turns or () if not isinstance(turn, SystemTurn)]
        assert shown == [
            CONTINUATION,
            bench.entries[-2].turn,
            bench.entries[-1].turn,
        ]  # within the floor of 200
        assert bench.memory.state.pending == 0
        assert "<current-task>" in bench.observer.asked[0].turns[0].text

    run(check())


def test_results_are_never_shown_without_their_call() -> None:
    async def check() -> None:
        bench = Bench(NO_BUFFER, [noted("at once")])
        bench.user(tokens(500))
        bench.calls(tokens(500), tokens(500))
        turns = await bench.settled(1)
        shown = [turn for turn in turns or () if not isinstance(turn, SystemTurn)]
        assert shown[1:] == [
            entry.turn for entry in bench.entries[1:]
        ]  # too long for the floor, but the last

    run(check())


def test_results_in_the_order_of_their_calls_are_observed_once() -> None:
    """Calls that run at the same time end in any order: places in the log are then not those in the list."""

    async def check() -> None:
        bench = Bench(NO_BUFFER, [noted("at once"), noted("again")])
        bench.user(tokens(500))
        asked = bench.say(AssistantTurn("", (Call("a", "read", {}), Call("b", "read", {}))))
        slow, fast = bench.next_seq + 1, bench.next_seq
        bench.next_seq += 2
        for call, seq in (("a", slow), ("b", fast)):
            bench.entries.append(
                type(asked)(ToolTurn(call, tokens(300)), asked.message_id, bench.now_ms, seq)
            )
        await bench.settled(1)
        (end,) = bench.of(ObservationEnd)
        assert end.observed_to_seq == slow
        assert bench.memory.state.pending == 0
        bench.user(tokens(50))
        assert bench.memory.state.pending == 0
        await bench.settled(2)
        assert bench.memory.state.pending == 50

    run(check())


def test_a_run_waits_for_what_is_under_way_before_it_observes_itself() -> None:
    async def check() -> None:
        gate = asyncio.Event()
        bench = Bench(SMALL, [(gate, noted("under way"))])
        bench.user(tokens(500))
        await bench.step()
        bench.calls(tokens(600))
        step = asyncio.create_task(bench.step(1))
        await asyncio.sleep(0)
        assert not step.done()
        gate.set()
        assert "under way" in texts(await step)
        assert bench.of(ObservationStart) == []

    run(check())


def test_a_run_does_not_wait_for_ever() -> None:
    async def check() -> None:
        gate = asyncio.Event()
        bench = Bench(SMALL, [(gate, noted("too late")), noted("at once")], longest_wait_s=0)
        bench.user(tokens(500))
        await bench.step()
        bench.calls(tokens(600))
        assert "at once" in texts(await bench.step(1))
        gate.set()
        await bench.memory.settle()
        assert bench.known.chunks == []  # what came late covers what is observed already
        assert "too late" not in bench.known.observations

    run(check())


def test_the_status_is_reported_once_per_step() -> None:
    async def check() -> None:
        bench = await buffered()
        assert len(bench.of(MemoryStatus)) == 2
        await bench.settled(3)
        last = bench.of(MemoryStatus)[-1]
        assert (last.step_number, last.thread_id, last.generation_count) == (3, "thread", 0)
        assert last.record_id == "thread:thread:0"
        assert last.windows["active"] == {
            "messages": {"tokens": 500, "threshold": 1_000},
            "observations": {"tokens": 0, "threshold": 40_000},
        }
        waiting = last.windows["buffered"]["observations"]
        assert (waiting["status"], waiting["chunks"], waiting["messageTokens"]) == ("complete", 2, 500)
        assert waiting["projectedMessageRemoval"] == 250
        assert last.windows["buffered"]["reflection"] == {
            "status": "idle",
            "inputObservationTokens": 0,
            "observationTokens": 0,
        }

    run(check())


def test_progress_is_rebuilt_from_the_log() -> None:
    async def check() -> None:
        bench = await buffered()
        await bench.settled()
        again = Bench(SMALL, log=bench.log)
        emitted = again.memory.load_progress()
        assert emitted.windows == bench.of(MemoryStatus)[-1].windows
        assert len(again.log) == len(bench.log)

    run(check())
