"""The display state while things happen, the events that are emitted, and those who listen to them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from harness.folds.session.display import DisplayState, reduce
from harness.folds.session.encoding import to_wire
from harness.folds.session.events import HarnessEvent, from_wire
from harness.log.stores.memory import MemoryStore
from harness.session.harness import Harness
from harness.views.display import DisplayFold
from harness_kit import Model, Record, StoreMaker, call, log_of, make, opened, run, storage, used

__all__ = ["storage"]


def deploy() -> str:
    """Deploy it."""
    return "deployed"


def fail() -> str:
    """Fail."""
    raise RuntimeError("it broke")


def eventful() -> Model:
    task = {"content": "Do it", "status": "pending", "activeForm": "Doing it"}
    return Model(
        {
            "events": [
                {"type": "reasoning", "content": "Let me think.", "pieces": 2},
                {"type": "text", "content": "I will deploy.", "pieces": 3},
                {"type": "tool_call", "name": "deploy", "id": "c1", "input": {}},
                {"type": "usage", "inputTokens": 10, "outputTokens": 5},
            ]
        },
        call("fail", id="c2"),
        call("task_write", id="c3", tasks=[task]),
        call("ask_user", id="c4", question="Which?"),
        used("All done.", inputTokens=3, outputTokens=4),
    )


async def talk(harness: Harness, record: Record) -> None:
    """A whole run: thoughts, words, calls that are asked about, that fail, that wait for an answer."""
    going_on = asyncio.create_task(harness.send_message(content="go"))
    await record.until_emitted("tool_approval_required")
    await harness.follow_up(content="afterwards")
    harness.session.follow_ups.clear()
    assert harness.session.respond_to_tool_approval(decision="approve")
    await record.until(lambda: len(record.named("tool_approval_required")) == 2)
    assert harness.session.respond_to_tool_approval(decision="approve")
    await record.until_emitted("tool_suspended")
    await going_on
    assert await harness.respond_to_tool_suspension(resume_data="this one")


def test_what_is_shown_live_is_what_the_log_says(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(eventful(), storage=storage.open(), tools=[deploy, fail]) as (harness, record):
            await harness.create_thread()
            record.clear()
            await talk(harness, record)
            live = to_wire(harness.session.display_state.get())
            events = log_of(harness)
            replayed, fold = [], DisplayFold()
            for event in events:
                replayed += [to_wire(emitted) for emitted in fold.feed(event)]
            assert to_wire(fold.value) == live
            assert replayed[1:] == [to_wire(emitted) for emitted in record.events]
            assert live["tokenUsage"]["totalTokens"] == 22
            assert live["tasks"][0]["content"] == "Do it"
            assert not live["isRunning"]
            assert live["queuedFollowUps"] == 0
            from_events = DisplayState()
            for data in record.wire:
                reduce(from_events, from_wire(data))
            assert to_wire(from_events) == live

    run(work)


def test_a_run_that_is_reported_from_its_beginning_to_its_end() -> None:
    async def work() -> None:
        async with opened(eventful(), tools=[deploy, fail]) as (harness, record):
            await harness.create_thread()
            record.clear()
            await talk(harness, record)
            assert [name for name in record.types if name in ("agent_start", "agent_end")] == [
                "agent_start",
                "agent_end",
                "agent_start",
                "agent_end",
            ]
            assert [data["reason"] for data in record.named("agent_end")] == ["suspended", "complete"]
            ends = [data["isError"] for data in record.named("tool_end")]
            assert ends == [False, True, False, False]
            for kind in ("thinking", "text", "tool_call", "tool_result", "task_updated", "usage_update"):
                assert kind in record.types

    run(work)


def test_the_display_state_has_changed_before_any_listener_is_called() -> None:
    async def work() -> None:
        async with opened(eventful(), tools=[deploy, fail]) as (harness, record):
            seen: list[tuple[str, Any]] = []
            mirror = DisplayState()

            def check(event: HarnessEvent) -> None:
                if event.type == "display_state_changed":
                    assert event.display_state is harness.session.display_state.get()  # type: ignore[attr-defined]
                else:
                    reduce(mirror, event)
                assert to_wire(harness.session.display_state.get()) == to_wire(mirror)
                seen.append((event.type, None))

            problems: list[BaseException] = []

            def guarded(event: HarnessEvent) -> None:
                try:
                    check(event)
                except BaseException as error:
                    problems.append(error)

            harness.subscribe(guarded)
            await talk(harness, record)
            assert problems == []
            kinds = [kind for kind, _ in seen]
            assert kinds[1::2] == ["display_state_changed"] * (len(kinds) // 2)
            assert "display_state_changed" not in kinds[0::2]
            assert record.changes == len(record.events)

    run(work)


def test_a_listener_that_fails_is_reported_and_the_others_hear_everything(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        harness = make(Model("Hello."))

        def fails(_event: HarnessEvent) -> None:
            raise RuntimeError("deaf")

        async def fails_later(_event: HarnessEvent) -> None:
            await asyncio.sleep(0)
            raise RuntimeError("deaf in a while")

        harness.subscribe(fails)
        harness.subscribe(fails_later)
        record = Record(harness.session)
        with caplog.at_level(logging.ERROR):
            await harness.init()
            await harness.send_message(content="hi")
            await asyncio.sleep(0.01)
        assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
        assert "RuntimeError: deaf\n" in caplog.text
        assert "deaf in a while" in caplog.text
        await harness.destroy()

    run(work)


def test_who_unsubscribes_gets_nothing_more() -> None:
    async def work() -> None:
        async with opened() as (harness, _):
            received: list[str] = []
            stop = harness.subscribe(lambda event: received.append(event.type))
            await harness.create_thread()
            count = len(received)
            assert count
            stop()
            stop()
            await harness.send_message(content="hi")
            assert len(received) == count

    run(work)


def test_what_a_listener_does_is_reported_after_what_it_received() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, _):
            first, second = list[str](), list[str]()

            def speaks(event: HarnessEvent) -> None:
                first.append(event.type)
                if event.type == "agent_start":
                    harness.session.internals.runs.queue_signal  # noqa: B018
                    harness.session.follow_ups.clear()
                    asyncio.get_running_loop().create_task(harness.session.state.set({"heard": True}))

            harness.subscribe(speaks)
            harness.subscribe(lambda event: second.append(event.type))
            await harness.send_message(content="hi")
            assert first == second
            assert first.index("agent_start") < len(first) - first[::-1].index("state_changed")

    run(work)


def test_an_event_put_from_a_listener_is_reported_once_and_in_order() -> None:
    from harness.events import Info

    async def work() -> None:
        async with opened() as (harness, record):
            other: list[str] = []

            def speaks(event: HarnessEvent) -> None:
                if event.type == "state_changed":
                    harness.session.internals.append(Info(message="because of the state"))

            harness.subscribe(speaks)
            harness.subscribe(lambda event: other.append(event.type))
            await harness.session.state.set({"x": 1})
            assert record.types == ["state_changed", "info"]
            assert other == ["state_changed", "display_state_changed", "info", "display_state_changed"]

    run(work)


def test_a_thread_that_is_opened_again_shows_what_holds_on_and_nothing_of_the_past(
    storage: StoreMaker,
) -> None:
    async def work() -> None:
        async with opened(eventful(), storage=storage.open(), tools=[deploy, fail]) as (harness, record):
            thread = await harness.create_thread()
            going_on = asyncio.create_task(harness.send_message(content="go"))
            for _ in range(2):
                await record.until(harness.session.approval.is_armed)
                harness.session.respond_to_tool_approval(decision="approve")
                await record.until(lambda: not harness.session.approval.is_armed())
            await going_on
            waiting = to_wire(harness.session.display_state.get())
            assert next(iter(waiting["pendingSuspensions"].values()))["toolName"] == "ask_user"
            await harness.create_thread()
            assert not harness.session.display_state.get().pending_suspensions
            await harness.switch_thread(thread_id=thread.id)
            back = to_wire(harness.session.display_state.get())
            assert back["pendingSuspensions"] == waiting["pendingSuspensions"]
            assert back["tasks"] == waiting["tasks"]
            assert back["tokenUsage"] == waiting["tokenUsage"]
            assert back["activeTools"] == {}
        async with opened(Model("Thanks."), storage=storage.open(), tools=[deploy, fail]) as (
            harness,
            record,
        ):
            await harness.switch_thread(thread_id=thread.id)
            shown = to_wire(harness.session.display_state.get())
            assert shown == back
            assert await harness.respond_to_tool_suspension(resume_data="that one")
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert not harness.session.display_state.get().pending_suspensions

    run(work)


def test_tasks_can_be_restored_without_a_word() -> None:
    from harness.folds.session.events import TaskItem

    async def work() -> None:
        async with opened() as (harness, record):
            old = TaskItem(id="a", content="Old", status="pending", active_form="Oldening")
            new = TaskItem(id="b", content="New", status="pending", active_form="Newing")
            harness.session.display_state.restore_tasks([old])
            harness.session.display_state.restore_tasks([new])
            shown = harness.session.display_state.get()
            assert (shown.tasks, shown.previous_tasks) == ([new], [old])
            assert record.types == []

    run(work)
