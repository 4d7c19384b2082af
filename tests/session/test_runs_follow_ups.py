"""Messages for when the active run has ended: in order, one per run, whatever became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contracts.request import OWN_AGENT
from harness.errors import UsageError
from harness.events import FollowUpsChanged, SessionStart
from harness.folds.session.events import HarnessEvent
from harness.log.stores.files import FileStore
from harness.session.config import Mode
from harness.session.harness import Harness
from harness_kit import Model, Record, call, log_of, make, opened
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    errors,
    failing,
    halting,
    in_loop,
    plain,
    started,
    starts,
    stopping,
    texts,
    waiting,
)


def counts(record: Record) -> list[int]:
    return [data["count"] for data in record.named("follow_up_queued")]


@in_loop
async def test_without_an_active_run_it_is_sent_at_once() -> None:
    model = Model("Yes.")
    async with opened(model) as (harness, record):
        await harness.follow_up(content="now")
        assert model.received() == ["now"]
        assert "follow_up_queued" not in record.types
        assert harness.session.follow_ups.is_empty()


@in_loop
async def test_they_are_sent_in_order_one_per_finished_run() -> None:
    gate = Gate()
    model = Live(halting(gate), "Second.", "Third.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        await harness.follow_up(content="three")
        assert counts(record) == [1, 2]
        assert harness.session.follow_ups.count() == 2
        assert harness.session.display_state.get().queued_follow_ups == 2
        gate.open()
        await first
        assert counts(record) == [1, 2, 1, 0]
        assert (starts(record), ends(record)) == (3, ["complete"] * 3)
        assert texts(record, "user") == ["one", "two", "three"]
        assert harness.session.display_state.get().queued_follow_ups == 0
        check(harness, log_of(harness))


@in_loop
async def test_each_is_reported_with_the_run_that_took_it() -> None:
    gate = Gate()
    async with opened(Live(halting(gate))) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        gate.open()
        await first
        runs = [event.run_id for event in log_of(harness) if isinstance(event, SessionStart)]
        assert [data.get("runId") for data in record.named("follow_up_queued")] == [None, runs[1]]


@in_loop
async def test_stopping_a_run_leaves_them_where_they_are_until_they_are_sent_for() -> None:
    gate = Gate()
    model = Live(halting(gate), "Two.", "Three.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        await harness.follow_up(content="three")
        harness.abort()
        await first
        assert (starts(record), ends(record)) == (1, ["aborted"])
        assert harness.session.display_state.get().queued_follow_ups == 2
        await harness.session.follow_ups.send()
        assert model.received() == ["one", "two", "three"]
        assert ends(record) == ["aborted", "complete", "complete"]
        check(harness, log_of(harness))


@in_loop
async def test_stopping_a_run_can_give_them_up_as_well() -> None:
    gate = Gate()
    async with opened(Live(halting(gate))) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        with pytest.raises(UsageError, match="queue cannot be 'drop'"):
            harness.abort(queue="drop")  # type: ignore[arg-type]
        harness.abort(queue="clear")
        await first
        assert (ends(record), counts(record)) == (["aborted"], [1, 0])
        assert harness.session.follow_ups.is_empty()


@in_loop
async def test_what_is_said_last_comes_behind_what_was_left_and_makes_it_continue() -> None:
    gate = Gate()
    model = Live(halting(gate))
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        harness.abort()
        await first
        await harness.follow_up(content="three")
        assert model.received() == ["one", "two", "three"]
        assert ends(record) == ["aborted", "complete", "complete"]


@in_loop
async def test_one_waits_beside_a_question_and_is_sent_after_its_run() -> None:
    model = Model(call("ask_user", question="Which?"), "So that.", "And after.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        await harness.follow_up(content="afterwards")
        assert harness.session.suspensions.has_pending()
        assert "tool_suspension_cancelled" not in record.types
        await harness.session.follow_ups.send()  # it waits for the answer
        assert harness.session.follow_ups.count() == 1
        await harness.respond_to_tool_suspension(resume_data="this")
        assert texts(record)[-2:] == ["So that.", "And after."]
        assert model.received() == ["go", "afterwards"]


@in_loop
async def test_they_are_sent_whatever_became_of_the_run_before() -> None:
    gate = Gate()
    model = Live(halting(gate), failing("the server is down"), stopping("Too lo", "length"), "Last.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="complete"))
        await gate.come()
        for text in ("failing", "cut off", "last"):
            await harness.follow_up(content=text)
        gate.open()
        await first
        assert ends(record) == ["complete", "error", "error", "complete"]
        assert texts(record)[-1] == "Last."
        assert counts(record)[-1] == 0
        check(harness, log_of(harness))


@in_loop
async def test_a_run_that_waits_for_an_answer_holds_them_back() -> None:
    gate = Gate()
    model = Live(call("work"), call("ask_user", id="q", question="Which?"), "So that.", "And after.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.follow_up(content="then")
        gate.open()
        await first
        assert ends(record) == ["suspended"]
        assert harness.session.follow_ups.count() == 1
        await harness.respond_to_tool_suspension(resume_data="this")
        assert ends(record) == ["suspended", "complete", "complete"]
        assert texts(record)[-2:] == ["So that.", "And after."]


@in_loop
async def test_one_that_cannot_be_sent_stays_the_first() -> None:
    gate = Gate()
    model = Live(halting(gate), "Two.", "Three.", "Four.")
    is_broken = False

    def resolve(_model_id: str) -> Live:
        if is_broken:
            raise UsageError("no such model")
        return model

    async with opened(resolve_model=resolve) as (harness, record):
        first = started(harness.send_message(content="one"))
        await gate.come()
        await harness.follow_up(content="two")
        await harness.follow_up(content="three")
        is_broken = True
        gate.open()
        await first
        assert errors(record) == ["no such model"]
        assert counts(record) == [1, 2, 1, 2]
        assert ends(record) == ["complete"]
        is_broken = False
        await harness.send_message(content="four")
        assert model.received() == ["one", "four", "two", "three"]
        assert counts(record)[-1] == 0
        check(harness, log_of(harness))


@in_loop
async def test_the_queue_survives_the_process(tmp_path: Path) -> None:
    gate = Gate()
    harness = make(Live(halting(gate)), storage=FileStore(str(tmp_path)))
    await harness.init()
    first = started(harness.send_message(content="one"))
    await gate.come()
    await harness.follow_up(content="two")
    await harness.follow_up(content="three")
    await harness.destroy()
    await first

    model = Model("Zero.", "Two.", "Three.")
    async with opened(model, storage=FileStore(str(tmp_path))) as (harness, record):
        await harness.select_or_create_thread()
        assert harness.session.follow_ups.count() == 2
        assert harness.session.display_state.get().queued_follow_ups == 2
        await harness.send_message(content="zero")
        assert model.received() == ["one", "zero", "two", "three"]
        assert counts(record) == [1, 0]
        check(harness, log_of(harness))


@in_loop
async def test_an_application_may_look_after_the_queue_itself() -> None:
    model = Model("Yes.")
    async with opened(model, tools=[plain("x")]) as (harness, record):
        await harness.create_thread()
        queue = harness.session.follow_ups
        queue.enqueue(content="a")
        queue.enqueue(content="b")
        first = queue.dequeue()
        assert first is not None
        assert queue.count() == 1
        queue.requeue(first)  # type: ignore[arg-type]
        assert [said["text"] for said in harness.session.internals.runs.queued] == ["a", "b"]
        queue.clear()
        assert queue.is_empty()
        assert queue.dequeue() is None
        assert counts(record) == [1, 2, 1, 2, 0]
        assert sum(isinstance(event, FollowUpsChanged) for event in log_of(harness)) == 5


@in_loop
async def test_what_a_stopped_process_left_can_be_sent_without_saying_anything_else(tmp_path: Path) -> None:
    gate = Gate()
    harness = make(Live(halting(gate)), storage=FileStore(str(tmp_path)))
    await harness.init()
    first = started(harness.send_message(content="one"))
    await gate.come()
    await harness.follow_up(content="two")
    await harness.follow_up(content="three")
    await harness.session.follow_ups.send()  # they wait for the active run
    assert harness.session.follow_ups.count() == 2
    await harness.destroy()
    await first

    model = Model("Two.", "Three.")
    async with opened(model, storage=FileStore(str(tmp_path))) as (harness, record):
        await harness.session.follow_ups.send()
        await harness.select_or_create_thread()
        await harness.session.follow_ups.send()
        assert model.received() == ["one", "two", "three"]
        assert (counts(record), ends(record)) == ([1, 0], ["complete", "complete"])
        await harness.session.follow_ups.send()
        assert len(ends(record)) == 2
        check(harness, log_of(harness))


def at_the_first(harness: Harness, name: str, deed: Any) -> None:
    """Do it as soon as this is emitted."""
    done: list[str] = []

    def listen(event: HarnessEvent) -> None:
        if event.type == name and not done:
            done.append(name)
            deed(event)

    harness.subscribe(listen)


@in_loop
async def test_a_follow_up_is_stopped_by_a_listener_that_sees_it_taken() -> None:
    gate = Gate()
    model = Live(halting(gate), "Not this.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        await harness.follow_up(content="b")
        at_the_first(harness, "follow_up_queued", lambda _: harness.abort())
        gate.open()
        await sending
        assert ends(record) == ["complete", "aborted"]
        assert len(model.asked) == 1
        check(harness, log_of(harness))


@in_loop
async def test_a_queued_message_is_withdrawn_by_its_id() -> None:
    async with opened(Model("Yes."), tools=[plain("x")]) as (harness, _record):
        await harness.create_thread()
        queue = harness.session.follow_ups
        queue.enqueue(content="a")
        queue.enqueue(content="b")
        first = harness.session.internals.bus.fold.facts.follow_ups[0]
        assert queue.withdraw(id=first["id"])
        assert not queue.withdraw(id=first["id"])
        assert [entry["text"] for entry in harness.session.internals.bus.fold.facts.follow_ups] == ["b"]


@in_loop
async def test_a_harness_takes_other_instructions_and_refuses_to_lose_a_current_mode() -> None:
    async with opened(Model("Yes."), tools=[plain("x")]) as (harness, _record):
        await harness.create_thread()
        harness.reconfigure(
            modes=harness.list_modes(), agent=OWN_AGENT, instructions="Be brief.", limits=None
        )
        agent = harness.get_current_agent()
        assert "Be brief." in str(agent)
        with pytest.raises(UsageError, match="left out"):
            harness.reconfigure(modes=[Mode(id="another")], agent=OWN_AGENT, instructions="", limits=None)
