"""Steering a run: in the middle of it where the agent accepts input, else by another run."""

from __future__ import annotations

from pathlib import Path

from harness.contracts.model import ToolTurn, UserTurn
from harness.events import Message, SteeringQueued
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode
from harness_kit import Model, call, log_of, opened
from running_kit import (
    NO_MODEL,
    YOLO,
    Gate,
    Live,
    check,
    ends,
    fake_claude,
    halting,
    in_loop,
    notes,
    plain,
    started,
    starts,
    texts,
    waiting,
)


@in_loop
async def test_our_own_loop_is_steered_between_its_steps() -> None:
    gate = Gate()
    model = Live(call("work"), call("check", id="c2"), "Focused.")
    tools = [waiting(gate), plain("check")]
    async with opened(model, tools=tools, initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="look at everything"))
        await gate.come()
        await harness.steer(content="security only")
        gate.open()
        await first
        assert [type(turn) for turn in model.asked[1][0][-2:]] == [ToolTurn, UserTurn]
        assert model.received(1) == ["look at everything", "security only"]
        assert (starts(record), ends(record)) == (1, ["complete"])
        assert "follow_up_queued" not in record.types
        check(harness, log_of(harness))


@in_loop
async def test_steering_while_the_model_streams_arrives_with_the_next_step() -> None:
    gate = Gate()
    model = Live(halting(gate), "Now this.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.steer(content="no, that")
        gate.open()
        await first
        assert texts(record) == ["Let me see.", "Now this."]
        assert model.received() == ["go", "no, that"]


@in_loop
async def test_steering_leaves_what_is_queued_for_later() -> None:
    gate = Gate()
    model = Live(call("work"), "Done.", "And after.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.follow_up(content="later")
        await harness.steer(content="now")
        gate.open()
        await first
        assert model.received() == ["go", "now", "later"]
        assert ends(record) == ["complete", "complete"]


@in_loop
async def test_steering_no_one_is_sending_a_message() -> None:
    model = Model("Yes.")
    async with opened(model) as (harness, record):
        await harness.steer(content="go")
        assert model.received() == ["go"]
        assert "follow_up_queued" not in record.types


@in_loop
async def test_steering_a_question_that_waits_gives_it_up() -> None:
    model = Model(call("ask_user", question="Which?"), "Then so.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        assert harness.session.suspensions.has_pending()
        await harness.steer(content="do not ask")
        assert not harness.session.suspensions.has_pending()
        [cancelled] = record.named("tool_suspension_cancelled")
        assert cancelled["reason"] == "Aborted by the user"
        assert texts(record)[-1] == "Then so."
        check(harness, log_of(harness))


@in_loop
async def test_a_one_way_agent_is_stopped_and_sent_it_again(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    storage = FileStore(str(tmp_path / "data"))
    async with opened(modes=modes, storage=storage, initial_state=NO_MODEL) as (harness, record):
        assert "steer" not in harness.session.capabilities
        first = started(harness.send_message(content="be slow"))
        await record.until_emitted("message_update")
        await harness.follow_up(content="later")
        record.clear()
        await harness.steer(content="another")
        await first
        assert [call["prompt"] for call in notes(tmp_path)] == ["be slow", "another", "later"]
        assert ends(record) == ["aborted", "complete", "complete"]
        assert [data["count"] for data in record.named("follow_up_queued")] == [2, 1, 0]
        check(harness, log_of(harness))


@in_loop
async def test_it_is_in_the_log_and_shown_the_moment_it_is_accepted_and_again_when_it_is_taken() -> None:
    gate = Gate()
    model = Live(call("work"), "Focused.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO, storage=MemoryStore()) as (
        harness,
        record,
    ):
        first = started(harness.send_message(content="look at everything"))
        await gate.come()
        await harness.steer(content="security only")
        [queued] = [event for event in log_of(harness) if isinstance(event, SteeringQueued)]
        assert queued.text == "security only"
        assert record.named("steering_queued") == [
            {"type": "steering_queued", "id": queued.id, "text": "security only"}
        ]
        assert [one.id for one in harness.session.display_state.get().queued_steering] == [queued.id]
        assert harness.session.thread.list_active_messages()[-1].id == queued.id
        gate.open()
        await first
        assert harness.session.display_state.get().queued_steering == []
        said = [event for event in log_of(harness) if isinstance(event, Message) and event.role == "user"]
        assert [event.text for event in said] == ["look at everything", "security only"]
        assert said[1].id == queued.id
        assert [message.id for message in harness.session.thread.list_active_messages()].count(queued.id) == 1
