"""What sending a message gives back, the limits of one run, and what comes along with a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contracts.model import Ask
from harness.contracts.request import Limits
from harness.contracts.tool import ToolContext
from harness.errors import UsageError
from harness.events import Event, StepEnd, UsageDelta
from harness.log.stores.memory import MemoryStore
from harness.native.tools.function_tool import tool
from harness.session.config import Mode, RequestContext
from harness.session.runs import RunOutcome
from harness_kit import Model, call, log_of, opened, used
from running_kit import (
    YOLO,
    Gate,
    Live,
    check,
    ends,
    errors,
    failing,
    fake_claude,
    halting,
    in_loop,
    notes,
    started,
)


@in_loop
async def test_sending_gives_the_answer_and_how_the_run_ended() -> None:
    model = Model(
        used("First.", inputTokens=10, outputTokens=2), failing("it burns"), call("ask_user", question="?")
    )
    async with opened(model, storage=MemoryStore()) as (harness, _):
        first = await harness.send_message(content="one")
        assert (first.outcome, first.text, first.success, first.error) == ("completed", "First.", True, "")
        assert first.usage is not None
        assert first.usage.input == 10
        assert first.run_id == harness.session.run.get_run_id()
        second = await harness.send_message(content="two")
        assert (second.outcome, second.success) == ("failed", False)
        assert "it burns" in second.error
        third = await harness.send_message(content="three")
        assert (third.outcome, third.success) == ("suspended", False)


@in_loop
async def test_a_run_that_cannot_begin_gives_the_reason() -> None:
    def nothing(model_id: str) -> Any:
        raise UsageError(f"no model is called {model_id}", hint="name another")

    async with opened(resolve_model=nothing, storage=MemoryStore()) as (harness, _):
        outcome = await harness.send_message(content="go")
        assert outcome.outcome == "failed"
        assert "no model is called test/model" in outcome.error


@in_loop
async def test_a_message_that_joins_a_run_says_so() -> None:
    gate = Gate()
    async with opened(Live(halting(gate)), storage=MemoryStore()) as (harness, _):
        sending = started(harness.send_message(content="one"))
        await gate.come()
        joined = await harness.send_message(content="two")
        assert joined == RunOutcome(outcome="joined", run_id=str(harness.session.run.get_run_id()))
        gate.open()
        assert (await sending).outcome == "completed"


@in_loop
async def test_a_run_that_is_stopped_says_so() -> None:
    gate = Gate()
    async with opened(Live(halting(gate)), storage=MemoryStore()) as (harness, _):
        sending = started(harness.send_message(content="one"))
        await gate.come()
        harness.abort()
        assert (await sending).outcome == "interrupted"


@in_loop
async def test_turns_are_limited_for_one_message_alone() -> None:
    async def look(page: int) -> str:
        """Look."""
        return f"nothing on page {page}"

    # Each call differs: a model that makes the same one again and again is stopped for that.
    model = Model(*[call("look", id=f"c{number}", page=number) for number in range(9)])
    async with opened(model, tools=[look], initial_state=YOLO, storage=MemoryStore()) as (harness, _):
        limited = await harness.send_message(content="one", limits=Limits(max_turns=2))
        assert limited.outcome == "limit_exceeded"
        asked = len(model.asked)
        assert asked <= 3
        assert (await harness.send_message(content="two")).outcome == "completed"
        assert len(model.asked) > asked + 3


@in_loop
async def test_a_run_that_takes_too_long_is_ended_and_the_session_continues() -> None:
    gate = Gate()
    async with opened(Live(halting(gate)), storage=MemoryStore()) as (harness, record):
        slow = await harness.send_message(content="one", limits=Limits(timeout_s=0.05))
        assert (slow.outcome, slow.error) == ("timed_out", "timed out after 0.05 s")
        assert (ends(record), errors(record)) == (["error"], ["timed out after 0.05 s"])
        assert (await harness.send_message(content="two")).outcome == "completed"
        check(harness, log_of(harness))


@in_loop
async def test_a_run_of_which_nothing_arrives_is_ended() -> None:
    for limits in (Limits(first_output_s=0.05), Limits(inactivity_s=0.05)):
        gate = Gate()

        async def silent(_ask: Ask, gate: Gate = gate) -> AsyncIterator[Event]:
            await gate.wait()
            yield StepEnd(id="", stop_reason="end")

        async with opened(Live("First.", silent), storage=MemoryStore()) as (harness, _):
            assert (await harness.send_message(content="one", limits=limits)).outcome == "completed"
            assert (await harness.send_message(content="two", limits=limits)).outcome == "stalled"
            assert gate.was_stopped


class Costly(Model):
    """Says what each answer cost."""

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:  # type: ignore[override]
        async for event in super().answer(ask):
            if isinstance(event, UsageDelta):
                event = replace(event, usage=replace(event.usage, cost_usd=2.0))  # noqa: PLW2901
            yield event


@in_loop
async def test_money_is_limited_by_what_the_provider_says_it_cost() -> None:
    async def look() -> str:
        """Look."""
        return "nothing"

    answer = call("look")
    answer["events"].append({"type": "usage", "inputTokens": 1, "outputTokens": 1})
    model = Costly(answer, answer, answer)
    async with opened(model, tools=[look], initial_state=YOLO, storage=MemoryStore()) as (harness, _):
        outcome = await harness.send_message(content="one", limits=Limits(max_budget_usd=1.0))
        assert outcome.outcome == "limit_exceeded"
        assert "budget" in outcome.error


@in_loop
async def test_limits_of_a_message_reach_an_agent_program(tmp_path: Path) -> None:
    agent = fake_claude(tmp_path)
    async with opened(modes=[Mode(id="claude", agent=agent)], storage=MemoryStore()) as (harness, _):
        outcome = await harness.send_message(content="hi", limits=Limits(max_turns=7))
        assert outcome.outcome == "completed"
        assert outcome.text
        argv = notes(tmp_path)[-1]["arguments"]
        assert argv[argv.index("--max-turns") + 1] == "7"


@pytest.mark.parametrize("limits", [5, Limits(max_turns=0), Limits(timeout_s=-1), Limits(max_budget_usd="x")])  # type: ignore[arg-type]
def test_what_is_no_limit_is_refused(limits: Any) -> None:
    @in_loop
    async def work() -> None:
        async with opened(storage=MemoryStore()) as (harness, record):
            with pytest.raises(UsageError, match="limits"):
                await harness.send_message(content="one", limits=limits)
            assert "agent_start" not in record.types

    work()


def seeing(seen: list[Any], *gates: Gate) -> Any:
    """A tool that notes who asks, and waits at its gate the first times."""
    left = list(gates)

    async def work(context: ToolContext) -> str:
        """Work."""
        seen.append(context.request.get("user"))
        if left:
            await left.pop(0).wait()
        return "worked"

    return tool(work)


@in_loop
async def test_what_comes_with_a_message_that_joins_is_seen_by_the_calls_that_follow() -> None:
    for how in ("send_message", "steer"):
        seen: list[Any] = []
        gate = Gate()
        model = Model(call("work"), call("work", id="c2"))
        async with opened(model, tools=[seeing(seen, gate)], initial_state=YOLO) as (harness, _):
            sending = started(harness.send_message(content="one", request_context=RequestContext(user="A")))
            await gate.come()
            await getattr(harness, how)(content="two", request_context=RequestContext(user="B"))
            gate.open()
            await sending
            assert seen == ["A", "B"]


@in_loop
async def test_what_comes_with_an_approval_is_seen_by_the_call_that_it_allows() -> None:
    seen: list[Any] = []
    async with opened(Model(call("work")), tools=[seeing(seen)]) as (harness, record):
        sending = started(harness.send_message(content="one", request_context=RequestContext(user="A")))
        await record.until_emitted("tool_approval_required")
        context = RequestContext(user="B")
        assert harness.respond_to_tool_approval(decision="approve", request_context=context)
        await sending
        assert seen == ["B"]


@in_loop
async def test_a_run_that_was_answered_continues_with_what_came_along_with_it() -> None:
    seen: list[Any] = []
    model = Model(call("ask_user", question="?"), call("work", id="c2"), "Done.", call("work", id="c3"))
    async with opened(model, tools=[seeing(seen)], initial_state=YOLO, storage=MemoryStore()) as (harness, _):
        await harness.send_message(content="one", request_context=RequestContext(user="A", team="T"))
        assert await harness.respond_to_tool_suspension(resume_data="yes")
        assert seen == ["A"]
        await harness.send_message(content="two")
        assert seen == ["A", None], "another message is another request"
        await asyncio.sleep(0)
