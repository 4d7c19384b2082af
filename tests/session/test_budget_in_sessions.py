"""Conversations at a limit of `harness budget`: the run waits for an answer, in any process, and for each store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import BudgetExtended, Error, Event, Message, Relay, Result, Suspended, Warning
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode
from harness_kit import Model, StoreMaker, call, log_of, opened, storage, used
from running_kit import YOLO, fake_claude, in_loop

__all__ = ["storage"]
MILLION = {"inputTokens": 0, "outputTokens": 1_000_000}


@pytest.fixture(autouse=True)
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dollar a call, two dollars a day."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config/harness/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        '[budget]\nday_usd = 2.0\n[prices."test/model"]\ninput = 1.0\noutput = 1.0\n'
        '[prices."claude-test"]\ninput = 1_000_000.0\noutput = 0.0\n'
    )
    return path


@pytest.fixture
def five(limited: Path) -> None:
    limited.write_text(limited.read_text().replace("2.0", "5.0"))


async def look() -> str:
    """Look."""
    return "nothing"


def looking(number: int) -> dict[str, Any]:
    answer = call("look", id=f"c{number}")
    answer["events"].append({"type": "usage", **MILLION})
    return answer


def of(events: list[Event], *kinds: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kinds)]


@in_loop
async def test_a_run_is_suspended_at_the_limit_and_continues_when_it_is_answered(storage: StoreMaker) -> None:
    model = Model(looking(1), looking(2), looking(3), used("Done.", **MILLION))
    async with opened(model, tools=[look], initial_state=YOLO, storage=storage.open()) as (harness, _record):
        outcome = await harness.send_message(content="go")
        assert outcome.outcome == "suspended"
        [asked] = harness.session.suspensions.all()
        [relay] = of(log_of(harness), Relay)
        assert relay.question == "Today's limit of $2.00 is reached ($2.00 spent). Continue?"
        assert relay.options == ["Continue for $0.50 more", "Stop"]
        with pytest.raises(UsageError, match="neither an amount nor a refusal"):
            await harness.respond_to_tool_suspension(resume_data="why?", tool_call_id=asked.tool_call_id)
        await harness.respond_to_tool_suspension(resume_data="$5")
        events = log_of(harness)
        assert of(events, Result)[-1].text == "Done."
        assert [event.until_usd for event in of(events, BudgetExtended)] == [7.0]
        assert model.results() == ["nothing"] * 3
        more = await harness.send_message(content="and now?")
        assert more.outcome == "completed", "the same conversation is not asked again"


@in_loop
async def test_the_question_can_be_answered_in_another_process(storage: StoreMaker) -> None:
    model = Model(looking(1), looking(2))
    async with opened(model, tools=[look], initial_state=YOLO, storage=storage.open()) as (harness, _):
        await harness.send_message(content="go")
        thread_id = harness.session.thread.require_id()
    model = Model(used("Done.", **MILLION))
    async with opened(model, tools=[look], initial_state=YOLO, storage=storage.open()) as (harness, _):
        await harness.session.thread.switch(thread_id=thread_id)
        await harness.respond_to_tool_suspension(resume_data="Continue for $0.50 more")
        events = log_of(harness)
        assert of(events, Result)[-1].text == "Done."
        assert model.received() == ["go"]
        assert model.results() == ["nothing"] * 2


@in_loop
async def test_a_run_that_has_not_begun_asks_before_the_first_model_call(storage: StoreMaker) -> None:
    # Output, not input: so large an input would be more than the window, and a summary would be asked for first.
    async with opened(Model(used("One.", inputTokens=0, outputTokens=3_000_000)), storage=storage.open()) as (
        harness,
        _,
    ):
        await harness.send_message(content="one")
        thread_id = harness.session.thread.require_id()
        assert (await harness.send_message(content="two")).outcome == "suspended"
    model = Model("Two.")
    async with opened(model, storage=storage.open()) as (harness, _):
        await harness.session.thread.switch(thread_id=thread_id)
        await harness.respond_to_tool_suspension(resume_data="y")
        assert of(log_of(harness), Result)[-1].text == "Two."
        assert model.received() == ["one", "two"]
        answers = [one.text for one in of(log_of(harness), Message) if one.role == "assistant"]
        assert answers == ["One.", "Two."]


@in_loop
async def test_no_ends_the_run_and_another_conversation_asks_for_itself() -> None:
    store = MemoryStore()
    async with opened(Model(looking(1), looking(2)), tools=[look], initial_state=YOLO, storage=store) as (
        harness,
        _,
    ):
        await harness.send_message(content="go")
        await harness.respond_to_tool_suspension(resume_data="Stop")
        events = log_of(harness)
        assert of(events, Result)[-1].outcome == "limit_exceeded"
        [error] = of(events, Error)
        assert (error.code, "limit of $2.00" in error.message) == ("spending_limit", True)
        await harness.session.thread.create()
        assert (await harness.send_message(content="other")).outcome == "suspended"
        await harness.session.thread.create()
        assert of(log_of(harness), Suspended) == []


@in_loop
async def test_a_program_asks_before_it_is_started_and_is_started_when_it_is_answered(tmp_path: Path) -> None:
    for version in ("2.0.10", "2.0.60"):
        agent = fake_claude(tmp_path, version)
        async with opened(modes=[Mode(id="claude", agent=agent)], storage=MemoryStore()) as (harness, record):
            first = await harness.send_message(content="hi")
            assert first.outcome == "completed"
            sending = asyncio.ensure_future(harness.send_message(content="again"))
            await record.until(harness.session.suspensions.all)
            assert await harness.respond_to_tool_suspension(resume_data="Continue for $100 more")
            assert (await sending).outcome == "completed"
            [relay] = of(log_of(harness), Relay)
            assert "Today's limit of $2.00 is reached ($3.00 spent)" in relay.question, version


@in_loop
async def test_the_warning_is_given_once_in_a_conversation(five: None) -> None:
    model = Model(
        *[looking(number) for number in range(1, 5)], *[used("Yes.", inputTokens=1, outputTokens=0)] * 3
    )
    async with opened(model, tools=[look], initial_state=YOLO, storage=MemoryStore()) as (harness, _):
        for text in ("one", "two", "three"):
            assert (await harness.send_message(content=text)).outcome == "completed"
        [warning] = of(log_of(harness), Warning)
        assert warning.message == "80% of today's limit of $5.00 are spent ($4.00)"
