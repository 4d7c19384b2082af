"""Limits of a harness and of a run: turns, tokens, money, time, silence; what happens there; who may think."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness import Limits, Mode, SessionEvent, ToolSuspendedEvent
from harness.errors import UsageError
from harness_kit import Model, call, opened, run
from running_kit import fake_claude

YOLO = {"yolo": True}


async def look() -> str:
    "Look."
    return "nothing"


def steps(count: int) -> Model:
    """A model that uses 100 tokens for each of its calls, and has a price."""
    used = {"type": "usage", "inputTokens": 90, "outputTokens": 10}
    looks = [
        {"events": [{"type": "tool_call", "name": "look", "id": f"c{n}", "input": {}}, used]}
        for n in range(count)
    ]
    return Model(*looks, "Done.", name="anthropic/claude-sonnet-4-6")


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_turns=2, at_limit="end"), "max_turns"),
        (Limits(max_tokens=200), "max_tokens"),
        (Limits(max_budget_usd=0.0008), "max_budget"),
    ],
)
def test_a_run_ends_at_its_limit_and_says_which(limits: Limits, code: str) -> None:
    async def main() -> None:
        async with opened(steps(9), tools=[look], initial_state=YOLO) as (harness, _):
            outcome = await harness.send_message(content="go", limits=limits)
            assert (outcome.outcome, outcome.code, outcome.turns) == ("limit_exceeded", code, 2)
            assert outcome.error.startswith("stopped")

    run(main)


@pytest.mark.parametrize("limits", [Limits(max_turns=2), Limits(max_tokens=200, at_limit="summarise")])
def test_a_run_sums_up_at_its_limit(limits: Limits) -> None:
    async def main() -> None:
        model = Model(*[call("look", id=f"c{n}") for n in range(2)], default="So far.")
        model = steps(2) if limits.max_tokens else model
        async with opened(model, tools=[look], initial_state=YOLO) as (harness, _):
            outcome = await harness.send_message(content="go", limits=limits)
            assert outcome.outcome == "limit_exceeded"
            assert outcome.text in ("So far.", "Done.")
            assert outcome.error

    run(main)


def test_a_person_decides_at_the_limit_whether_to_continue() -> None:
    async def main(answer: str) -> tuple[str, int]:
        async with opened(steps(5), tools=[look], initial_state=YOLO) as (harness, _):
            asked = 0

            async with harness.stream(content="go", limits=Limits(max_turns=2, at_limit="ask")) as stream:
                async for event in stream:
                    if isinstance(event, ToolSuspendedEvent):
                        asked += 1
                        assert event.choices == ["Continue", "Stop"]
                        with pytest.raises(UsageError):
                            event.answer("perhaps")
                        assert event.answer(answer)
            return (await stream.outcome()).outcome, asked

    assert run(main, "Continue") == ("completed", 2)
    assert run(main, "Stop") == ("limit_exceeded", 1)


def test_limits_of_the_harness_hold_for_every_run_and_are_narrowed_by_its_own() -> None:
    async def main() -> None:
        limits = Limits(max_turns=3, at_limit="end")
        async with opened(steps(99), tools=[look], initial_state=YOLO, limits=limits) as (harness, _):
            assert (await harness.send_message(content="go")).turns == 3
            assert (await harness.send_message(content="go", limits=Limits(max_turns=9))).turns == 3
            assert (await harness.send_message(content="go", limits=Limits(max_turns=1))).turns == 1

    run(main)


@pytest.mark.parametrize("limits", [5, Limits(max_tokens=0), Limits(at_limit="never")])  # type: ignore[arg-type]
def test_wrong_limits_are_refused(limits: Any) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="limits"):
            async with opened(limits=limits):
                pass

    run(main)


def test_a_person_may_think_for_longer_than_an_agent_may_be_silent() -> None:
    async def main() -> None:
        async with opened(Model(call("look"), "Done."), tools=[look]) as (harness, _):

            def answer(event: SessionEvent) -> None:
                if event.type == "tool_approval_required":
                    asyncio.get_running_loop().call_later(0.35, event.approve)

            harness.subscribe(answer)
            outcome = await harness.send_message(content="go", limits=Limits(inactivity_s=0.1))
            assert outcome.success, outcome.error
            slow = await harness.send_message(content="go", limits=Limits(timeout_s=60, inactivity_s=60))
            assert slow.success

    run(main)


def test_a_question_of_a_program_ends_at_the_limit(tmp_path: Path) -> None:
    async def main() -> None:
        agent = fake_claude(tmp_path, version="2.1.282", permissions="ask")
        async with opened(modes=[Mode(id="m", agent=agent)], cwd=str(tmp_path)) as (harness, record):
            outcome = await harness.send_message(content="which", limits=Limits(timeout_s=2))
            assert outcome.outcome == "timed_out", outcome
            assert record.of(ToolSuspendedEvent)
            assert harness.questions() == []

    run(main)
