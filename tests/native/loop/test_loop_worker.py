"""An agent of our own as a run like any other: followed, steered, answered, stopped and limited from outside."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from harness.contracts.model import Ask, UserTurn
from harness.contracts.request import Limits, Request
from harness.conversation.inbox import Inbox
from harness.errors import HarnessError, UsageError
from harness.events import (
    Error,
    Event,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    TextDelta,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.log.clock import new_clock
from harness.log.hub import Hub
from harness.log.ids import new_run_id
from harness.log.store import Metadata
from harness.log.stores.memory import MemoryStore
from harness.native.loop.agent_run import AgentRun
from harness.native.loop.loop_context import AgentOptions, LoopContext
from harness.native.loop.loop_worker import LoopWorker
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from harness.runs.launch import prepare
from harness.runs.run import Run
from played_model import PlayedModel, assert_whole, calls, says


class Started:
    """A run of a loop, begun as `harness.start` begins one."""

    def __init__(
        self, model: Any, *, limits: Limits | None = None, broken: HarnessError | None = None, **options: Any
    ) -> None:
        launch = prepare(Request(agent="native", prompt="go", limits=limits or Limits()))
        launch = replace(launch, warnings=("Harness agent does not support --this: dropped",))
        clock = new_clock()
        run_id = new_run_id(clock())
        store = MemoryStore()
        hub = Hub(store, run_id, store.create(Metadata(session_id=run_id)), clock)
        self.ended: list[tuple[Result, SessionStart | None]] = []

        def open_run(host: LoopContext, inbox: Inbox) -> AgentRun:
            if broken is not None:
                raise broken
            return AgentRun(
                host,
                AgentOptions(model=model, **{"permissions": Permissions("allow"), **options}),
                run_id=run_id,
                inbox=inbox,
            )

        self.worker = LoopWorker(launch, hub, lambda *end: self.ended.append(end), open_run, redact=True)
        self.run = Run(launch, store, hub, self.worker)

    def follow(self, react: Callable[[Run, Event], object] | None = None) -> list[Event]:
        self.run.begin()
        events = []
        for event in self.run:
            events.append(event)
            if react is not None:
                react(self.run, event)
        # The warning about an option that this agent does not take comes before everything else.
        assert isinstance(events[0], Warning)
        assert events[0].code == "unsupported_option"
        assert isinstance(events[1], SessionStart)
        assert events[-1] == self.run.wait() == self.ended[0][0]
        assert len(self.ended) == 1
        return events


async def never_ending(ask: Ask) -> AsyncIterator[Event]:
    yield TextDelta(id="m", text="…")
    await asyncio.Event().wait()


async def silent(ask: Ask) -> AsyncIterator[Event]:
    await asyncio.Event().wait()
    yield TextDelta(text="never")


@tool(quick=True)
def greet(name: str) -> str:
    return f"hello {name}"


def test_a_run_goes_from_its_start_to_its_result_in_a_thread_of_its_own() -> None:
    threads: set[str] = set()

    async def where(ask: Ask) -> AsyncIterator[Event]:
        threads.add(threading.current_thread().name)
        for event in says("hello"):
            yield event

    started = Started(PlayedModel(where))
    events = started.follow()

    assert threads == {f"run-{started.run.id}"}
    assert {event.run_id for event in events} == {started.run.id}
    assert started.ended[0][1] == events[1]
    assert events[1].session_id == started.run.id
    assert started.run.wait().text == "hello"


def test_it_is_stopped_from_another_thread() -> None:
    model = PlayedModel(never_ending)
    started = Started(model)
    events = started.follow(lambda run, event: isinstance(event, TextDelta) and run.cancel())

    assert model.closed == 1
    assert events[-1].outcome == "interrupted"  # type: ignore[attr-defined]
    started.run.cancel()  # once more, when it has ended, does nothing


def test_it_is_stopped_before_it_has_begun() -> None:
    model = PlayedModel(says("never"))
    started = Started(model)
    started.run.cancel()
    events = started.follow()

    assert model.asked == []
    assert events[-1].outcome == "interrupted"  # type: ignore[attr-defined]


def test_pressing_harder_does_not_wait_for_a_tool_that_does_not_listen() -> None:
    @tool
    async def deaf() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pressed.append(True)
                started.run.cancel()

    pressed: list[bool] = []
    started = Started(PlayedModel(calls(("c", "deaf", {}))), tools=(deaf,))
    events = started.follow(lambda run, event: isinstance(event, ToolStart) and run.cancel())

    assert pressed
    assert events[-1].outcome == "interrupted"  # type: ignore[attr-defined]


def test_it_is_steered_and_answered_from_another_thread() -> None:
    model = PlayedModel(calls(("c", "greet", {"name": "Bob"})), says("done"))
    started = Started(model, tools=(greet,), permissions=Permissions("ask"))
    answers: list[bool] = []

    def react(run: Run, event: Event) -> None:
        if isinstance(event, Relay):
            run.steer("and be quick")
            answers.append(run.reply(event.id, approved=True))
            answers.append(run.reply(event.id, approved=False))

    events = started.follow(react)

    assert answers == [True, False]
    assert model.asked[1][0][-1] == UserTurn("and be quick")
    assert [event.by for event in events if isinstance(event, RelayReply)] == ["person"]
    with pytest.raises(UsageError, match="takes no more messages"):
        started.run.steer("too late")


def test_a_follow_up_is_done_after_the_task() -> None:
    model = PlayedModel(says("first"), says("second"))
    started = Started(model)
    started.worker.follow_up("and then?")
    started.follow()

    assert started.run.wait().text == "second"
    assert model.asked[1][0][-1] == UserTurn("and then?")


@pytest.mark.parametrize(
    ("limits", "outcome", "code"),
    [
        (Limits(timeout_s=0.05), "timed_out", "timeout"),
        (Limits(inactivity_s=0.05), "stalled", "stalled"),
        (Limits(first_output_s=0.05), "stalled", "stalled"),
    ],
)
def test_limits_of_time_end_it(limits: Limits, outcome: str, code: str) -> None:
    model = PlayedModel(silent)
    events = Started(model, limits=limits).follow()

    assert model.closed == 1
    assert [event.code for event in events if isinstance(event, Error)] == [code]
    assert events[-1].outcome == outcome  # type: ignore[attr-defined]


def test_who_has_spoken_is_not_held_to_the_limit_of_the_first_word() -> None:
    async def late(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="h")
        await asyncio.sleep(0.05)
        for event in says("hello")[1:]:
            yield event

    events = Started(PlayedModel(late), limits=Limits(first_output_s=0.01)).follow()

    assert events[-1].outcome == "completed"  # type: ignore[attr-defined]


def test_a_budget_counts_what_a_model_costs_by_the_price_list() -> None:
    used = UsageDelta(usage=Usage(input=1_000_000, output=0), model="claude-sonnet-4-5")
    step = [
        event if not isinstance(event, UsageDelta) else used for event in calls(("c", "greet", {"name": "x"}))
    ]
    started = Started(
        PlayedModel(step, step, says("never")),
        tools=(greet,),
        limits=Limits(max_budget_usd=0.5),
        max_budget_usd=0.5,
    )
    events = started.follow()

    (delta,) = (event for event in events if isinstance(event, UsageDelta))
    assert delta.usage.cost_source == "computed"
    assert [event.code for event in events if isinstance(event, Error)] == ["max_budget"]
    assert started.run.wait().total_cost_usd == delta.usage.cost_usd


@pytest.mark.parametrize(
    ("name", "budget_usd", "codes"),
    [
        ("openai/otter-1", 0.5, ["budget_unpriced"]),
        ("openai/otter-1", None, []),
        ("ollama/otter-1", 0.5, []),
        ("scripted/otter-1", 0.5, []),
    ],
)
def test_a_budget_that_does_not_count_a_model_says_so_once(
    name: str, budget_usd: float | None, codes: list[str]
) -> None:
    used = UsageDelta(usage=Usage(input=1_000, output=0))
    step = [
        event if not isinstance(event, UsageDelta) else used for event in calls(("c", "greet", {"name": "x"}))
    ]
    started = Started(
        PlayedModel(step, step, says("done"), name=name),
        tools=(greet,),
        limits=Limits(max_budget_usd=budget_usd),
        max_budget_usd=budget_usd,
    )
    events = started.follow()
    warnings = [event for event in events if isinstance(event, Warning)]
    assert [warning.code for warning in warnings if "price" in warning.message] == codes
    assert started.run.wait().outcome == "completed"


def test_a_run_that_cannot_begin_says_why() -> None:
    started = Started(None, broken=UsageError("there is no key", hint="set one"))
    events = started.follow()

    assert_whole(events)
    assert [event.message for event in events if isinstance(event, Error)] == ["there is no key; set one"]
    assert events[-1].outcome == "spawn_failed"  # type: ignore[attr-defined]


def test_a_tool_in_a_thread_that_never_ends_does_not_hold_up_the_end() -> None:
    release = threading.Event()

    @tool
    def block(seconds: int) -> None:
        release.wait(seconds)

    started = Started(PlayedModel(calls(("c", "block", {"seconds": 30}))), tools=(block,))
    try:
        events = started.follow(lambda run, event: isinstance(event, ToolStart) and run.cancel())
    finally:
        release.set()

    assert events[-1].outcome == "interrupted"  # type: ignore[attr-defined]


def test_an_agent_that_runs_in_this_process_needs_no_program() -> None:
    launch = prepare(Request(agent="native", prompt="x"), {"PATH": ""})

    assert launch.binary == ""
    assert launch.version
    assert launch.warnings == ()
    assert launch.invocation.argv == ("native",)
