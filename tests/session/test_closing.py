"""Closing, and changing the thread, while others send: everybody gets an end, and nothing is opened again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness import UsageError
from harness.log.stores.files import FileStore
from harness.session.run_outcomes import RunOutcome
from harness_kit import Model, call, make, opened
from running_kit import Gate, Live, halting, in_loop, plain, started


@in_loop
async def test_a_run_that_begins_when_the_last_one_ends_holds_up_no_change_of_the_thread() -> None:
    """It would wait for a person, and whoever changes the thread for its end."""
    gate = Gate()
    async with opened(Live(halting(gate), call("work")), tools=[plain("work")]) as (harness, _record):
        first = started(harness.send_message(content="one"))
        await gate.come()

        async def after_that() -> RunOutcome[None]:
            await harness.session.internals.runs.wait_until_idle()
            return await harness.send_message(content="two")

        second = started(after_that())
        await asyncio.sleep(0)
        async with asyncio.timeout(20):
            await harness.create_thread()
        outcomes = [(await first).outcome, (await second).outcome]
        assert outcomes == ["interrupted", "interrupted"]
        assert not harness.session.run.is_running()


@in_loop
async def test_a_closed_harness_opens_nothing_until_it_is_opened_again(tmp_path: Path) -> None:
    """Else a request that comes late would hold a thread that the next process needs."""
    harness = make(Model(), storage=FileStore(str(tmp_path)))
    await harness.init()
    other = harness.create_session(resource_id="other")
    thread = await harness.create_thread()
    late = started(harness.send_message(content="now"))
    await harness.destroy()
    await asyncio.wait([late])
    for session in (harness.session, other):
        with pytest.raises(UsageError, match="closed"):
            await session.send_message(content="later")
        with pytest.raises(UsageError, match="closed"):
            await session.thread.create()
    with pytest.raises(UsageError, match="closed"):
        await harness.switch_thread(thread_id=thread.id)

    async with make(Model(), storage=FileStore(str(tmp_path))) as next_one:
        await next_one.switch_thread(thread_id=thread.id)
        assert (await next_one.send_message(content="is it free?")).success
    await harness.init()
    await harness.switch_thread(thread_id=thread.id)
    assert (await harness.send_message(content="again")).success
    await harness.destroy()
