"""Stopping what runs, wherever it is: one end for each run, nothing after it, and the session usable."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.contracts.tool import ToolContext
from harness.events import RelayReply, Result
from harness.log.stores.files import FileStore
from harness.native.tools.function_tool import tool
from harness.session.config import Mode
from harness_kit import Model, Record, call, log_of, opened
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    errors,
    halting,
    in_loop,
    plain,
    started,
    starts,
    texts,
    waiting,
)


def nothing_after_the_end(record: Record) -> bool:
    return record.types[-1] == "agent_end"


@in_loop
async def test_while_the_model_streams() -> None:
    gate = Gate()
    model = Live(halting(gate), "Again.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await record.until_emitted("message_update")
        assert harness.session.run.is_running()
        harness.abort()
        assert harness.session.run.is_abort_requested()
        await first
        assert gate.was_stopped
        assert (starts(record), ends(record)) == (1, ["aborted"])
        assert texts(record) == ["Let me"]
        assert record.named("message_end")[-1]["message"]["stopReason"] == "aborted"
        assert nothing_after_the_end(record)
        assert not harness.session.display_state.get().is_running
        check(harness, log_of(harness))


@in_loop
async def test_while_a_tool_runs() -> None:
    gate = Gate()
    model = Live(call("work"), "Again.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        harness.abort()
        await first
        assert gate.was_stopped
        assert ends(record) == ["aborted"]
        assert len(record.named("tool_end")) == 1
        [shown] = harness.session.display_state.get().active_tools.values()
        assert shown.status == "error"
        await harness.send_message(content="again")
        assert "stopped before it ended" in model.results()[0]
        check(harness, log_of(harness))


@in_loop
async def test_while_an_approval_waits_it_counts_as_declined() -> None:
    model = Live(call("work"), "Again.")
    async with opened(model, tools=[plain("work")]) as (harness, record):
        first = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        assert harness.session.approval.is_armed()
        harness.abort()
        await first
        assert not harness.session.approval.is_armed()
        assert harness.session.display_state.get().pending_approval is None
        [reply] = [event for event in log_of(harness) if isinstance(event, RelayReply)]
        assert not reply.approved
        assert ends(record) == ["aborted"]
        assert not harness.session.respond_to_tool_approval(decision="approve")
        check(harness, log_of(harness))


@in_loop
async def test_while_suspended_the_question_is_cancelled_and_a_late_answer_is_nothing() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        [asked] = record.named("tool_suspended")
        harness.abort()
        [cancelled] = record.named("tool_suspension_cancelled")
        assert cancelled == {
            "type": "tool_suspension_cancelled",
            "toolCallId": asked["toolCallId"],
            "toolName": "ask_user",
            "reason": "Aborted by the user",
        }
        assert harness.session.display_state.get().pending_suspensions == {}
        assert not await harness.respond_to_tool_suspension(
            tool_call_id=asked["toolCallId"], resume_data="this"
        )
        assert ends(record) == ["suspended"]
        await harness.send_message(content="go on")
        assert texts(record)[-1] == "Fine."
        check(harness, log_of(harness))


@in_loop
async def test_an_abort_is_not_carried_over_to_the_next_message() -> None:
    gate = Gate()
    model = Live(halting(gate), "Fresh.")
    async with opened(model) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        harness.abort()
        await harness.send_message(content="anew")
        await first
        assert (starts(record), ends(record)) == (2, ["aborted", "complete"])
        assert texts(record) == ["Let me", "Fresh."]
        assert not harness.session.run.is_abort_requested()


@in_loop
async def test_without_an_active_run_nothing_happens() -> None:
    async with opened(Model("Yes.")) as (harness, record):
        harness.abort()
        await harness.send_message(content="go")
        harness.abort()
        assert ends(record) == ["complete"]
        assert not harness.session.run.is_abort_requested()


@in_loop
async def test_a_run_that_is_stopped_before_it_began_is_reported_like_any_other(tmp_path: Path) -> None:
    model = Model("Never.")
    async with opened(model, storage=FileStore(str(tmp_path))) as (harness, record):
        await harness.create_thread()
        sending = started(harness.send_message(content="go"))
        await asyncio.sleep(0)
        assert harness.session.run.is_running()
        harness.abort()
        await sending
        assert model.asked == []
        assert (starts(record), ends(record)) == (1, ["aborted"])
        assert texts(record, "user") == ["go"]
        check(harness, log_of(harness))
        await harness.send_message(content="again")
        assert model.received() == ["go", "again"]


@in_loop
async def test_it_may_be_said_twice() -> None:
    gate = Gate()
    async with opened(Live(halting(gate))) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        harness.abort()
        harness.abort()
        await first
        assert ends(record) == ["aborted"]
        assert errors(record) == []


@in_loop
async def test_what_a_stopped_tool_still_says_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    released, reached = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn(context: ToolContext) -> str:
        """Does not listen."""
        reached.set()
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        context.progress("still here")
        return "too late"

    monkeypatch.setattr("harness.native.loop.tool_calls._GRACE_S", 0.05)
    monkeypatch.setattr("harness.native.loop.agent_run.GRACE_S", 0.05)
    async with opened(Live(call("stubborn")), tools=[stubborn], initial_state=YOLO) as (harness, record):
        first = started(harness.send_message(content="go"))
        await reached.wait()
        harness.abort()
        await first
        emitted = len(record.events)
        released.set()
        for _ in range(5):
            await asyncio.sleep(0.005)
        assert len(record.events) == emitted
        assert nothing_after_the_end(record)
        assert isinstance(log_of(harness)[-1], Result)


@in_loop
async def test_switching_the_mode_stops_the_run() -> None:
    gate = Gate()
    modes = [Mode(id="a"), Mode(id="b")]
    async with opened(Live(halting(gate), "In b."), modes=modes) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.session.mode.switch(mode_id="b")
        await first
        assert ends(record) == ["aborted"]
        assert texts(record) == ["Let me"]


@in_loop
async def test_destroying_the_harness_stops_the_run() -> None:
    gate = Gate()
    async with opened(Live(halting(gate))) as (harness, record):
        first = started(harness.send_message(content="go"))
        await gate.come()
        await harness.destroy()
        await first
        assert gate.was_stopped
        assert ends(record) == ["aborted"]
