"""Notifications in a session: what is delivered and when, the inbox, and what is delivered later."""

from __future__ import annotations

from typing import Any

import pytest

from harness.events import Signal
from harness.session.harness import Harness
from harness.session.notifications import Notification, Policy, dispatch
from harness_kit import Model, call, log_of, opened
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    halting,
    in_loop,
    started,
    starts,
    waiting,
)


def note(priority: str, **more: Any) -> dict[str, Any]:
    return {"source": "ci", "kind": "build", "summary": "It failed.", "priority": priority, **more}


def signals(harness: Harness) -> list[str]:
    """The tags of what the model was sent."""
    return [event.tag_name for event in log_of(harness) if isinstance(event, Signal)]


def kept(harness: Harness, id: str) -> Notification:
    record = harness.session.internals.hooks.signals.inbox.get(id)
    assert record is not None
    return record


@pytest.mark.parametrize(
    ("priority", "tags", "status", "runs"),
    [
        ("urgent", ["notification"], "delivered", 1),
        ("high", ["notification"], "delivered", 1),
        ("medium", ["notification"], "delivered", 1),
        ("low", [], "pending", 0),
    ],
)
@in_loop
async def test_without_an_active_run(priority: str, tags: list[str], status: str, runs: int) -> None:
    model = Model("I see.")
    async with opened(model) as (harness, record):
        made = await harness.send_notification_signal(note(priority))
        await harness.session.wait_until_idle()
        assert signals(harness) == tags
        assert kept(harness, made.id).status == status
        assert starts(record) == runs
        check(harness, log_of(harness))


@pytest.mark.parametrize(
    ("priority", "tags", "status"),
    [
        ("urgent", ["notification"], "delivered"),
        ("high", ["notification-summary"], "pending"),
        ("medium", [], "pending"),
        ("low", [], "pending"),
    ],
)
@in_loop
async def test_while_a_run_is_active(priority: str, tags: list[str], status: str) -> None:
    gate = Gate()
    async with opened(Live(call("work"), "Done."), tools=[waiting(gate)], initial_state=YOLO) as (
        harness,
        record,
    ):
        first = started(harness.send_message(content="go"))
        await gate.come()
        made = await harness.send_notification_signal(note(priority))
        assert signals(harness) == tags
        assert kept(harness, made.id).status == status
        gate.open()
        await first
        assert starts(record) == 1


async def dispatched(harness: Harness) -> None:
    """What the heartbeat does, at once."""
    now_ms = harness.internals.clock() + 1000
    await dispatch([harness.session.internals.hooks.signals.post], now_ms)
    await harness.session.wait_until_idle()


@in_loop
async def test_a_high_one_is_summarised_during_the_run_and_reported_in_full_afterwards() -> None:
    gate = Gate()
    model = Live(call("work"), "Done.", "I see.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        made = await harness.send_notification_signal(note("high"))
        await dispatched_while_running(harness)
        assert signals(harness) == ["notification-summary"]
        gate.open()
        await first
        await dispatched(harness)
        assert signals(harness) == ["notification-summary", "notification"]
        assert kept(harness, made.id).status == "delivered"
        assert len(record.named("notification_summary")) == 1
        assert len(record.named("notification")) == 1


async def dispatched_while_running(harness: Harness) -> None:
    await dispatch([harness.session.internals.hooks.signals.post], harness.internals.clock() + 1000)


@in_loop
async def test_what_is_due_is_reported_by_the_dispatcher_as_one_summary() -> None:
    model = Model("Seen.")
    async with opened(model) as (harness, record):
        await harness.send_notification_signal(note("low"))
        await harness.send_notification_signal({**note("low"), "source": "mail"})
        assert starts(record) == 0
        await dispatched(harness)
        assert signals(harness) == ["notification-summary"]
        [summary] = record.named("notification_summary")
        assert (summary["message"], summary["pending"]) == ("ci: 1, mail: 1", 2)
        assert starts(record) == 0


@in_loop
async def test_the_dispatcher_is_a_heartbeat_of_the_harness() -> None:
    async with opened(Model("Seen.")) as (harness, _):
        assert "harness.notifications" in harness.internals.heartbeats.ids


@in_loop
async def test_a_policy_may_decide_otherwise() -> None:
    async with opened(Model("Yes.")) as (harness, record):
        discarded = await harness.send_notification_signal(note("urgent"), policy=Policy(default="discard"))
        persisted = await harness.send_notification_signal(
            note("urgent"), policy=Policy(sources={"ci": "persist"})
        )
        assert (discarded.status, persisted.status) == ("discarded", "pending")
        assert starts(record) == 0
        assert signals(harness) == []


@in_loop
async def test_one_that_is_queued_is_reported_after_the_run_in_one_of_its_own() -> None:
    gate = Gate()
    model = Live(call("work"), "Done.", "I see.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.send_notification_signal(note("urgent"), policy=Policy(default="queue"))
        assert record.named("follow_up_queued")[-1]["count"] == 1
        assert signals(harness) == []
        gate.open()
        await first
        assert signals(harness) == ["notification"]
        assert (starts(record), ends(record)) == (2, ["complete", "complete"])


@in_loop
async def test_equal_undelivered_ones_are_one() -> None:
    async with opened(Model()) as (harness, _):
        one = await harness.send_notification_signal(note("low", coalesceKey="build"))
        two = await harness.send_notification_signal(note("low", coalesceKey="build", summary="Again."))
        assert one.id == two.id
        assert (two.coalesced_count, two.summary) == (2, "Again.")


@in_loop
async def test_the_model_reads_its_inbox_with_a_tool_and_is_not_reported_again() -> None:
    models = [Model()]
    async with opened(resolve_model=lambda _id: models[-1], initial_state=YOLO) as (harness, record):
        made = await harness.send_notification_signal(note("low", payload={"log": "…"}))
        read = {"action": "read", "id": made.id}
        reader = Model(
            call("notification-inbox", action="list"),
            {"events": [{"type": "tool_call", "name": "notification-inbox", "id": "c2", "input": read}]},
            "It failed.",
        )
        models.append(reader)
        await harness.send_message(content="anything new?")
        assert "notification-inbox" in reader.tool_names()
        assert made.id in reader.results(1)[-1]
        assert reader.received()[-1].startswith("<notification ")
        assert kept(harness, made.id).status == "seen"
        await dispatched(harness)
        assert len(record.named("notification")) == 1


@in_loop
async def test_an_urgent_one_does_not_give_up_a_question_that_waits() -> None:
    model = Model(call("ask_user", question="Which?"), "Both seen.")
    async with opened(model) as (harness, _):
        await harness.send_message(content="go")
        await harness.send_notification_signal(note("urgent"))
        assert harness.session.suspensions.has_pending()
        await harness.respond_to_tool_suspension(resume_data="b")
        assert model.received()[-1].startswith("<notification")
        check(harness, log_of(harness))


@in_loop
async def test_a_notification_during_an_abort_wakes_the_agent_afterwards() -> None:
    gate = Gate()
    model = Live(halting(gate), "Seen.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        harness.abort()
        urgent = {"source": "ci", "kind": "build", "summary": "It failed.", "priority": "urgent"}
        await harness.send_notification_signal(urgent)
        await sending
        await harness.session.wait_until_idle()
        assert ends(record) == ["aborted", "complete"]
        assert "It failed." in model.received()[-1]
