"""An agent can be stopped at any moment: everything it began is ended, and its log is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from harness.contracts.model import Ask
from harness.contracts.tool import ToolContext
from harness.events import (
    Event,
    Relay,
    RelayReply,
    Result,
    SessionStart,
    StepEnd,
    TextDelta,
    ToolEnd,
    ToolStart,
)
from harness.native.loop import tool_calls as calls_module
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from played_model import PlayedModel, calls, follow, play, says


@tool
async def ask_somebody(task: str, context: ToolContext) -> str:
    return await context.spawn(task)


async def never_ending(ask: Ask) -> AsyncIterator[Event]:
    yield TextDelta(id="m", text="I thi")
    await asyncio.Event().wait()


async def never_resting(ask: Ask) -> AsyncIterator[Event]:
    while True:
        yield TextDelta(id="m", text="la ")


class Ended:
    """A tool that reports whether it was ended properly."""

    def __init__(self) -> None:
        self.count = 0

    def tool(self) -> Any:
        @tool
        async def hang() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.count += 1

        return hang


def kill_at(condition: Callable[[Event], bool]) -> Callable[[Any, Event], None]:
    """Stop the first agent as soon as something happens anywhere."""
    first: list[str] = []

    def react(agents: Any, event: Event) -> None:
        first.append(event.run_id)
        if condition(event):
            agents.kill(first[0])

    return react


def test_in_the_middle_of_an_answer() -> None:
    model = PlayedModel(never_ending)
    played = asyncio.run(follow(model, on_event=kill_at(lambda event: isinstance(event, TextDelta))))

    assert model.closed == 1
    assert played.of(StepEnd)[0].stop_reason == "cancelled"
    assert (played.result.outcome, played.result.text) == ("interrupted", "I thi")


def test_before_the_model_has_said_anything() -> None:
    async def silent(ask: Ask) -> AsyncIterator[Event]:
        await asyncio.Event().wait()
        yield TextDelta(text="never")

    model = PlayedModel(silent)
    played = asyncio.run(follow(model, on_event=kill_at(lambda event: isinstance(event, SessionStart))))

    assert model.closed == 1
    assert played.result.outcome == "interrupted"


def test_a_model_that_never_rests() -> None:
    model = PlayedModel(never_resting)
    played = asyncio.run(follow(model, on_event=kill_at(lambda event: event.seq > 1000)))

    assert model.closed == 1
    assert played.result.outcome == "interrupted"


def test_a_model_that_does_not_listen_is_not_asked_again() -> None:
    async def deaf(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="…")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        for event in calls(("tc", "hang", {})):
            yield event

    model = PlayedModel(deaf, says("never"))
    played = asyncio.run(
        follow(
            model,
            permissions=Permissions("deny"),
            tools=(Ended().tool(),),
            on_event=kill_at(lambda event: isinstance(event, TextDelta)),
        )
    )

    assert len(model.asked) == 1
    assert played.result.outcome == "interrupted"


def test_while_a_person_is_asked() -> None:
    played = asyncio.run(
        follow(
            PlayedModel(calls(("tc", "hang", {}))),
            tools=(Ended().tool(),),
            permissions=Permissions("ask"),
            relay_deadline_s=None,
            on_event=kill_at(lambda event: isinstance(event, Relay)),
        )
    )

    reply = played.of(RelayReply)[0]
    assert (reply.id, reply.approved, reply.reason) == (played.of(Relay)[0].id, False, "the run was stopped")
    assert not played.of(ToolStart)
    assert played.result.outcome == "interrupted"


def test_in_the_middle_of_several_calls() -> None:
    ended = Ended()
    played = asyncio.run(
        follow(
            PlayedModel(calls(("a", "hang", {}), ("b", "hang", {}))),
            tools=(ended.tool(),),
            on_event=kill_at(lambda event: isinstance(event, ToolStart) and event.call_id.endswith("b")),
        )
    )

    assert ended.count == 2
    assert [end.success for end in played.of(ToolEnd)] == [None, None]
    assert played.result.outcome == "interrupted"


def test_a_tool_that_does_not_listen_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "_GRACE_S", 0.01)
    release = asyncio.Event()

    @tool
    async def deaf() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def run() -> None:
        played = await follow(
            PlayedModel(calls(("a", "deaf", {}))),
            tools=(deaf,),
            on_event=kill_at(lambda event: isinstance(event, ToolStart)),
        )
        assert played.of(ToolEnd)[0].success is None
        assert played.result.outcome == "interrupted"
        release.set()

    asyncio.run(run())


@pytest.mark.parametrize("moment", ["model", "tool", "relay"])
def test_sub_agents_are_stopped_with_it(moment: str) -> None:
    ended = Ended()
    inner = never_ending if moment == "model" else calls(("x", "hang", {}))
    model = PlayedModel(calls(("tc", "ask_somebody", {"task": "t"})), inner)
    moments: dict[str, type[Event]] = {"model": TextDelta, "tool": ToolStart, "relay": Relay}

    def is_in_child(event: Event) -> bool:
        return isinstance(event, moments[moment]) and getattr(event, "tool_name", "hang") == "hang"

    permissions = Permissions("ask") if moment == "relay" else Permissions("allow")

    def react(agents: Any, event: Event) -> None:
        if isinstance(event, Relay) and event.tool_name == "ask_somebody":
            agents.resolve(event.id, approved=True)
        kill(agents, event)

    kill = kill_at(is_in_child)
    played = asyncio.run(
        follow(model, tools=(ask_somebody, ended.tool()), permissions=permissions, on_event=react)
    )

    results = played.of(Result)
    assert [result.outcome for result in results] == ["interrupted", "interrupted"]
    assert results[-1].run_id == played.run_id
    assert model.closed == 2
    assert ended.count == (moment == "tool")
    kinds = [type(event) for event in played.events]
    assert kinds.index(Result) < len(kinds) - 1 - kinds[::-1].index(ToolEnd)


def test_a_sub_agent_alone_can_be_stopped_and_its_parent_continues() -> None:
    def kill_child(agents: Any, event: Event) -> None:
        if isinstance(event, TextDelta) and event.text == "I thi":
            agents.kill(event.run_id)

    model = PlayedModel(calls(("tc", "ask_somebody", {"task": "t"})), never_ending, says("never mind"))
    played = asyncio.run(follow(model, tools=(ask_somebody,), on_event=kill_child))

    assert played.of(ToolEnd)[0].output == "the sub-agent was stopped"
    assert played.result.text == "never mind"


def test_a_tool_that_cancels_itself_has_failed() -> None:
    @tool
    async def gives_up() -> None:
        raise asyncio.CancelledError

    played = asyncio.run(follow(PlayedModel(calls(("a", "gives_up", {})), says("ok")), tools=(gives_up,)))

    assert (played.of(ToolEnd)[0].success, played.of(ToolEnd)[0].output) == (False, "it was cancelled")
    assert played.result.success


@pytest.mark.parametrize("raised", [GeneratorExit, type("Odd", (BaseException,), {})])
def test_a_tool_that_raises_what_no_tool_should_has_failed_and_the_run_continues(
    raised: type[BaseException],
) -> None:
    @tool
    async def odd() -> None:
        raise raised

    played = play(calls(("c", "odd", {})), says("well"), tools=(odd,))

    [end] = played.of(ToolEnd)
    assert (end.success, end.output) == (False, raised.__name__)
    assert played.result.success
