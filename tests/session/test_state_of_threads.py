"""The application's own state in a session: emitted, stored with the thread, and found again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import Info, ThreadCreated
from harness.log.stores.memory import MemoryStore
from harness.session.state import StateUpdate
from harness_kit import Model, StoreMaker, call, log_of, make, opened, run, storage
from running_kit import YOLO, in_loop

__all__ = ["storage"]

SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "default": 0},
        "name": {"type": "string", "default": "none"},
    },
}


def test_a_change_is_reported_with_the_whole_state_and_the_keys_that_changed() -> None:
    async def work() -> None:
        async with opened(state_schema=SCHEMA, initial_state={"name": "ann"}) as (harness, record):
            state = harness.session.state
            assert state.get() == {"count": 0, "name": "ann", "currentModelId": "test/model"}
            await harness.create_thread()
            record.clear()
            await state.set({"count": 2})
            assert record.wire == [
                {
                    "type": "state_changed",
                    "state": {"count": 2, "name": "ann", "currentModelId": "test/model"},
                    "changedKeys": ["count"],
                }
            ]
            copy = state.get()
            copy["count"] = 99
            assert state.get()["count"] == 2

    run(work)


def test_a_change_before_there_is_a_thread_is_reported_and_goes_into_the_first_one() -> None:
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            await harness.session.state.set({"early": True})
            assert record.named("state_changed")[-1]["changedKeys"] == ["early"]
            await harness.create_thread()
            assert record.types == ["state_changed", "thread_created"]
            (created,) = log_of(harness)
            assert isinstance(created, ThreadCreated)
            assert created.state == {"currentModelId": "test/model", "early": True}
            await harness.session.state.set({"late": True})
            assert record.named("state_changed")[-1]["state"] == {**created.state, "late": True}

    run(work)


def test_an_invalid_change_is_refused_and_nothing_is_reported(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), state_schema=SCHEMA) as (harness, record):
            await harness.create_thread()
            record.clear()
            with pytest.raises(UsageError) as caught:
                await harness.session.state.set({"count": "many", "name": 3})
            assert caught.value.message.startswith("Invalid state update: ")
            assert caught.value.message.count("; ") == 1
            assert record.types == []
            assert harness.session.state.get()["count"] == 0
            await harness.session.state.set({"count": 1})
            assert record.types == ["state_changed"]

    run(work)


def test_transactions_come_one_after_the_other_and_give_their_result() -> None:
    async def work() -> None:
        async with opened(state_schema=SCHEMA) as (harness, record):
            state = harness.session.state

            async def add(snapshot: dict[str, Any]) -> StateUpdate:
                await asyncio.sleep(0)
                return StateUpdate(updates={"count": snapshot["count"] + 1}, result=snapshot["count"])

            async def fail(_snapshot: dict[str, Any]) -> StateUpdate:
                raise RuntimeError("no")

            results = await asyncio.gather(*(state.update(add) for _ in range(5)), return_exceptions=True)
            with pytest.raises(RuntimeError, match="no"):
                await state.update(fail)
            assert results == [0, 1, 2, 3, 4]
            assert await state.update(lambda snapshot: StateUpdate(result=snapshot["count"])) == 5
            assert len(record.named("state_changed")) == 5

    run(work)


def test_the_state_is_found_again_with_its_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), state_schema=SCHEMA) as (harness, _):
            first = await harness.create_thread()
            await harness.session.state.set({"count": 1, "extra": {"deep": [1, 2]}})
            second = await harness.create_thread()
            await harness.session.state.set({"count": 2})
        async with opened(storage=storage.open(), state_schema=SCHEMA) as (harness, record):
            assert harness.session.state.get()["count"] == 0
            await harness.switch_thread(thread_id=second.id)
            assert harness.session.state.get()["count"] == 2
            assert harness.session.state.get()["extra"] == {"deep": [1, 2]}
            assert record.types == ["state_changed", "thread_changed"]
            assert record.wire[0]["changedKeys"] == ["count", "extra"]
            assert record.wire[0]["state"] == harness.session.state.get()
            await harness.switch_thread(thread_id=first.id)
            assert harness.session.state.get()["count"] == 1

    run(work)


def test_what_was_set_in_this_session_goes_with_it_from_thread_to_thread(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open(), state_schema=SCHEMA) as (harness, record):
            first = await harness.create_thread()
            await harness.session.state.set({"count": 1})
            await harness.create_thread()
            await harness.session.state.set({"count": 2})
            record.clear()
            await harness.switch_thread(thread_id=first.id)
            assert harness.session.state.get()["count"] == 2
            assert record.types == ["state_changed", "thread_changed"]
            assert record.wire[0]["state"]["count"] == 2
        async with opened(storage=storage.open(), state_schema=SCHEMA) as (harness, _):
            await harness.switch_thread(thread_id=first.id)
            assert harness.session.state.get()["count"] == 2

    run(work)


def test_a_stored_state_that_does_not_fit_any_more_is_left_alone() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store) as (harness, _):
            thread = await harness.create_thread()
            await harness.session.state.set({"count": "many"})
        async with opened(storage=store, state_schema=SCHEMA) as (harness, record):
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.state.get()["count"] == 0
            assert record.types[-1] == "thread_changed"
            await harness.session.state.set({"count": 5})
            assert record.wire[-1]["state"]["count"] == 5

    run(work)


def test_a_tool_may_change_the_state_while_it_runs() -> None:
    async def work() -> None:
        async def note() -> str:
            """Note it."""
            await harness.session.state.set({"noted": True})
            return "noted"

        async with opened(Model(call("note")), tools=[note], initial_state={"yolo": True}) as (
            harness,
            record,
        ):
            await harness.send_message(content="go")
            assert harness.session.state.get()["noted"] is True
            order = [name for name in record.types if name in ("tool_start", "state_changed", "tool_end")]
            assert order[-3:] == ["tool_start", "state_changed", "tool_end"]

    run(work)


DENIED = {"tools": {"deploy": "deny"}, "categories": {}}


@in_loop
async def test_an_old_thread_neither_lifts_a_rule_of_the_application_nor_turns_yolo_on() -> None:
    store = MemoryStore()
    async with opened(storage=store, initial_state=YOLO) as (harness, _):
        await harness.create_thread()
        await harness.session.state.set({"color": "red", "permissionRules": {"tools": {"deploy": "allow"}}})
    state: dict[str, Any] = {"yolo": False, "permissionRules": DENIED}
    async with opened(storage=store, initial_state=state) as (harness, record):
        await harness.select_or_create_thread()
        assert harness.session.permissions.is_denied("deploy")
        assert harness.session.state.get() == {"currentModelId": "test/model", "color": "red", **state}
        emitted = record.named("state_changed")
        assert [set(one["changedKeys"]) for one in emitted] == [{"yolo", "permissionRules"}, {"color"}]
        assert emitted[-1]["state"] == harness.session.state.get()
    async with opened(storage=store) as (harness, _):
        await harness.select_or_create_thread()
        assert harness.session.state.peek("yolo") is False
        assert harness.session.permissions.is_denied("deploy")


@in_loop
async def test_an_old_thread_says_nothing_of_yolo_that_a_new_one_would_inherit() -> None:
    store = MemoryStore()
    async with opened(storage=store) as (harness, _):
        await harness.create_thread()
        await harness.session.state.set({"yolo": True})
    async with opened(storage=store) as (harness, record):
        await harness.select_or_create_thread()
        assert harness.session.state.peek("yolo") is False
        assert record.named("state_changed")[-1]["state"]["yolo"] is False
        await harness.create_thread()
        assert harness.session.state.peek("yolo") is False


@in_loop
async def test_a_state_that_no_log_can_hold_is_refused_and_changes_nothing(storage: StoreMaker) -> None:
    async with opened(storage=storage.open()) as (harness, record):
        await harness.create_thread()
        before, state = harness.session.state.get(), harness.session.state
        record.clear()
        with pytest.raises(UsageError, match="Invalid state update: "):
            await state.set({"bad": object()})
        bad = StateUpdate(updates={"good": 1}, events=[Info(message=object())])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="Invalid event of a state update: "):
            await state.update(lambda _: bad)
        assert (state.get(), record.types) == (before, [])
        await state.set({"good": 2})
        assert record.named("state_changed")[-1]["state"] == {**before, "good": 2}
        await harness.send_message(content="go on")
        assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
    with pytest.raises(UsageError, match="Invalid state update: "):
        make(initial_state={"bad": object()})


@in_loop
async def test_a_listener_reads_the_state_that_it_is_informed_of() -> None:
    async with opened() as (harness, _):
        seen: list[Any] = []
        harness.subscribe(lambda _: seen.append(harness.session.state.peek("count")))
        await harness.session.state.set({"count": 1})
        assert set(seen) == {1}
