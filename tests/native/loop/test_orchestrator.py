"""Many agents at once: one stream, one log, and one that waits delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from harness.contracts.model import Ask, UserTurn
from harness.contracts.tool import ToolContext
from harness.events import Event, Relay, Result, SessionStart, TextDelta, ToolEnd, ToolStart
from harness.log.ids import is_run_id
from harness.log.store import read_all
from harness.log.stores.memory import MemoryStore
from harness.native.loop.loop_context import AgentOptions
from harness.native.loop.orchestrator import Orchestrator
from harness.native.tools.function_tool import tool
from harness.questions.permissions import Permissions
from played_model import PlayedModel, approve, assert_whole, calls, follow, says


@tool(quick=True)
def greet(name: str) -> str:
    return f"hello {name}"


@tool
async def agent(task: str, context: ToolContext) -> str:
    """Give a task to a sub-agent."""
    return await context.spawn(task, "helper")


GREETING = calls(("tc-1", "greet", {"name": "Alice Smith"}))


def asking(*answers: Any, **options: Any) -> AgentOptions:
    options.setdefault("permissions", Permissions("ask"))
    return AgentOptions(model=PlayedModel(*answers), tools=(greet, agent), **options)


async def collect(agents: Orchestrator) -> list[Event]:
    return [event async for event in agents.events()]


def test_an_agent_has_an_id_and_its_events_carry_it() -> None:
    async def run() -> None:
        async with Orchestrator(asking(says("hi"))) as agents:
            agent_id = agents.spawn("go")
            events = await collect(agents)
        assert is_run_id(agent_id)
        assert {event.run_id for event in events} == {agent_id}
        assert_whole(events)

    asyncio.run(run())


def test_the_streams_of_several_agents_are_merged_while_one_waits() -> None:
    async def run() -> list[Event]:
        async with Orchestrator() as agents:
            waiting = agents.spawn("a", asking(GREETING, says("done a")))
            agents.spawn("b", asking(says("done b")))
            agents.spawn("c", asking(says("done c")))
            events: list[Event] = []
            relay_id = ""
            async for event in agents.events():
                events.append(event)
                if isinstance(event, Relay):
                    relay_id = event.id
                finished = {one.text for one in events if isinstance(one, Result)}
                if relay_id and finished == {"done b", "done c"}:
                    assert not any(isinstance(one, ToolStart) for one in events)
                    agents.resolve(relay_id, approved=True)
                    relay_id = ""
            assert events[-1].run_id == waiting
            return events

    events = asyncio.run(run())
    assert_whole(events)
    assert len({event.run_id for event in events}) == 3


def test_a_relay_is_answered_once() -> None:
    answers: list[bool] = []

    def twice(agents: Orchestrator, event: Event) -> None:
        if isinstance(event, Relay):
            answers.append(agents.resolve("unknown", approved=True))
            answers.append(agents.resolve(event.id, approved=True))
            answers.append(agents.resolve(event.id, approved=False))

    played = asyncio.run(
        follow(
            PlayedModel(GREETING, says("ok")),
            tools=(greet,),
            permissions=Permissions("ask"),
            on_event=twice,
        )
    )
    assert answers == [False, True, False]
    assert played.of(ToolEnd)[0].success


def test_killing_an_agent_ends_its_relay_and_the_stream() -> None:
    async def run() -> None:
        async with Orchestrator(asking(GREETING)) as agents:
            agent_id = agents.spawn("go")
            relay_id = ""
            async for event in agents.events():
                if isinstance(event, Relay):
                    relay_id = event.id
                    agents.kill("nobody")
                    agents.kill(agent_id)
            assert relay_id
            assert agents.resolve(relay_id, approved=True) is False
            agents.kill(agent_id)

    asyncio.run(run())


def test_always_makes_the_second_question_unnecessary() -> None:
    def relays(**how: Any) -> tuple[int, list[Any]]:
        permissions = Permissions("ask")
        again = calls(("tc-2", "greet", {"name": "Alice Jones"}))
        played = asyncio.run(
            follow(
                PlayedModel(GREETING, again, says("ok")),
                tools=(greet,),
                permissions=permissions,
                on_event=approve(**how),
            )
        )
        return len(played.of(Relay)), [one.params for one in permissions.allowlist]

    assert relays(always=True) == (1, [{"name": "Alice **"}])
    assert relays() == (2, [])
    assert relays(approved=False, always=True) == (2, [])


def test_a_sub_agent_is_a_run_of_its_own_under_the_call_that_started_it() -> None:
    model = PlayedModel(
        calls(("tc-1", "agent", {"task": "find it"})), says("found", pieces=2), says("all done")
    )
    played = asyncio.run(follow(model, tools=(agent,)))

    parent, child = played.of(SessionStart)
    assert (child.parent_id, child.name) == (f"{played.run_id}/tc-1", "helper")
    assert child.run_id not in ("", parent.run_id)
    assert played.of(ToolEnd)[0].output == "found"
    assert model.asked[1][0] == (UserTurn("find it"),)
    by_run = {event.run_id: event.usage for event in played.of(Result)}
    assert by_run[child.run_id].output == 5
    assert by_run[parent.run_id].output == 10
    assert played.events.index(played.of(ToolStart)[0]) < played.events.index(child)


def test_two_sub_agents_work_side_by_side() -> None:
    both_speak = asyncio.Event()
    speaking: set[str] = set()

    async def waits_for_the_other(ask: Ask) -> AsyncIterator[Event]:
        text = ask.turns[0].text
        yield TextDelta(id="m", text=text)
        speaking.add(text)
        if len(speaking) == 2:
            both_speak.set()
        await both_speak.wait()
        for event in says(text)[1:]:
            yield event

    model = PlayedModel(
        calls(("a", "agent", {"task": "left"}), ("b", "agent", {"task": "right"})),
        waits_for_the_other,
        waits_for_the_other,
        says("both"),
    )
    played = asyncio.run(follow(model, tools=(agent,)))

    assert len({event.run_id for event in played.events}) == 3
    assert [turn.text for turn in model.asked[3][0][-2:]] == ["left", "right"]


def test_a_grant_of_a_sub_agent_holds_for_all() -> None:
    model = PlayedModel(
        calls(("tc-1", "agent", {"task": "greet her"})),
        GREETING,
        says("greeted"),
        calls(("tc-2", "greet", {"name": "Alice Miller"})),
        says("done"),
    )
    played = asyncio.run(
        follow(model, tools=(greet, agent), permissions=Permissions("ask"), on_event=approve(always=True))
    )

    assert [relay.tool_name for relay in played.of(Relay)] == ["agent", "greet"]
    assert all(end.success for end in played.of(ToolEnd))


def test_sub_agents_do_not_nest_for_ever() -> None:
    class Recursive:
        name = "test/recursive"

        async def answer(self, ask: Ask) -> AsyncIterator[Event]:
            asked_already = any(turn.__class__.__name__ == "ToolTurn" for turn in ask.turns)
            for event in says("enough") if asked_already else calls(("tc", "agent", {"task": "again"})):
                yield event

    played = asyncio.run(follow(Recursive(), tools=(agent,), max_depth=2))  # type: ignore[arg-type]

    assert len(played.of(SessionStart)) == 3
    failed = [end.output for end in played.of(ToolEnd) if not end.success]
    assert failed == ["sub-agents may not nest deeper than 2: do this task yourself"]


def test_a_sub_agent_that_fails_is_a_failed_call() -> None:
    from played_model import fails

    model = PlayedModel(calls(("tc", "agent", {"task": "x"})), fails("overloaded"), says("I see"))
    played = asyncio.run(follow(model, tools=(agent,)))

    assert played.of(ToolEnd)[0].output == "the sub-agent failed: overloaded"
    assert played.result.text == "I see"


def test_everything_is_stored_in_the_store() -> None:
    store = MemoryStore()

    async def run() -> tuple[str, list[Event]]:
        async with Orchestrator(asking(says("hi")), store=store) as agents:
            agents.spawn("a")
            events = await collect(agents)
            return agents.hub.log_id, events

    log_id, events = asyncio.run(run())
    assert list(read_all(store, log_id)) == events
    assert not store.is_live(log_id)


def test_leaving_stops_what_still_works() -> None:
    store = MemoryStore()

    async def run() -> str:
        async with Orchestrator(asking(GREETING, relay_deadline_s=None), store=store) as agents:
            agents.spawn("a")
            async for event in agents.events():
                if isinstance(event, Relay):
                    break
            return agents.hub.log_id

    events = list(read_all(store, asyncio.run(run())))
    assert_whole(events)
    assert isinstance(events[-1], Result)
    assert events[-1].outcome == "interrupted"


def test_the_result_of_an_agent_can_be_awaited() -> None:
    async def run() -> tuple[Result | None, Result | None]:
        async with Orchestrator(asking(says("hi"))) as agents:
            agent_id = agents.spawn("a")
            return await agents.wait(agent_id), await agents.wait("nobody")

    result, nobody = asyncio.run(run())
    assert result is not None
    assert result.text == "hi"
    assert nobody is None
