"""What a caller passes along reaches tools, factories and sub-agents, and never the model."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from harness.contracts.tool import ToolContext
from harness.errors import UsageError
from harness.events import Info
from harness.folds.session.events import HarnessEvent
from harness.log.stores.memory import MemoryStore
from harness.native.tools.function_tool import tool
from harness.session.config import Mode, RequestContext, Subagent
from harness.session.harness_request import HarnessRequest
from harness.session.state import StateUpdate
from harness_kit import Model, call, log_of, opened, run
from running_kit import (
    YOLO,
    check,
    in_loop,
)


def test_a_factory_of_tools_is_asked_with_the_context_of_each_message() -> None:
    async def work() -> None:
        seen: list[Any] = []

        def hello() -> str:
            """Say hello."""
            return "hello"

        def tools(context: RequestContext) -> list[Any]:
            seen.append(context.get("user"))
            return [hello] if context.get("user") == "ann" else []

        model = Model()
        modes = [Mode(id="a", additional_tools=tools)]
        async with opened(model, modes=modes, tools=tools) as (harness, _):
            await harness.send_message(content="one", request_context=RequestContext(user="ann"))
            await harness.send_message(content="two", request_context=RequestContext(user="bob"))
            await harness.send_message(content="three")
            assert [("hello" in model.tool_names(index)) for index in range(3)] == [True, False, False]
            assert seen == ["ann", "ann", "bob", "bob", None, None]

    run(work)


def test_a_tool_sees_who_asked_and_what_it_works_for() -> None:
    async def work() -> None:
        found: list[ToolContext] = []
        signals: list[bool] = []

        async def look(context: ToolContext) -> str:
            """Look around."""
            found.append(context)
            harness = context.request["harness"]
            assert isinstance(harness, HarnessRequest)
            assert harness.abort_signal is not None
            signals.append(harness.abort_signal.is_set())
            await harness.set_state({"seen": True})
            harness.emit_event(Info(message="I have looked"))
            added = await harness.update_state(
                lambda state: StateUpdate(updates={"count": 1}, result=len(state))
            )
            return f"{context.request['user']} {added}"

        model = Model(call("look"))
        async with opened(
            model, tools=[look], storage=MemoryStore(), resource_id="r", initial_state={"yolo": True}
        ) as (harness, record):
            await harness.session.subagents.model.set(model_id="s/x", agent_type="explore")
            await harness.send_message(content="go", request_context=RequestContext(user="ann"))
            emitted = found[0].request["harness"]
            assert (emitted.harness_id, emitted.resource_id) == ("h", "r")
            assert emitted.thread_id == harness.session.thread.get_id()
            assert (emitted.session.mode_id, emitted.session.model_id) == ("build", "test/model")
            assert "seen" not in emitted.state
            assert emitted.get_state()["count"] == 1
            assert emitted.session.state is harness.session.state
            assert emitted.get_subagent_model_id("explore") == "s/x"
            assert emitted.workspace is None
            assert not emitted.is_aborted
            assert signals == [False]
            assert emitted.abort_signal is None
            assert model.results()[0].startswith("ann ")
            assert record.named("info") == [{"type": "info", "message": "I have looked"}]
            assert "ann" not in str(model.asked[0])

    run(work)


def test_a_context_is_that_of_one_message_alone() -> None:
    async def work() -> None:
        users: list[Any] = []

        def look(context: ToolContext) -> str:
            """Look."""
            users.append(context.request.get("user"))
            return "x"

        model = Model(call("look"), "one", call("look", id="c2"), "two")
        async with opened(model, tools=[look], initial_state={"yolo": True}) as (harness, _):
            given = RequestContext(user="ann")
            await harness.send_message(content="one", request_context=given)
            await harness.send_message(content="two")
            assert users == ["ann", None]
            assert given == {"user": "ann"}

    run(work)


def test_what_is_queued_keeps_its_own_context_and_inherits_none() -> None:
    async def work() -> None:
        users: list[Any] = []

        async def look(context: ToolContext) -> str:
            """Look."""
            users.append(context.request.get("user"))
            if len(users) == 1:
                await harness.follow_up(content="two", request_context=RequestContext(user="bob"))
                await harness.follow_up(content="three")
            return "x"

        steps = [step for number in range(3) for step in (call("look", id=f"c{number}"), "done")]
        async with opened(Model(*steps), tools=[look], initial_state={"yolo": True}) as (harness, _):
            await harness.send_message(content="one", request_context=RequestContext(user="ann"))
            assert users == ["ann", "bob", None]

    run(work)


def test_a_subagent_inherits_the_context_without_what_is_of_the_parents_thread() -> None:
    async def work() -> None:
        contexts: list[Any] = []

        def look(context: ToolContext) -> str:
            """Look."""
            contexts.append(dict(context.request))
            return "x"

        def instructions(context: RequestContext) -> str:
            return f"You work for {context['user']}."

        explore = Subagent(
            id="explore",
            name="E",
            description="d",
            instructions=instructions,
            allowed_harness_tools=("look",),
        )
        model = Model(call("subagent", agentType="explore", task="go"), call("look", id="c2"), "sub", "top")
        async with opened(model, tools=[look], subagents=[explore], initial_state={"yolo": True}) as (
            harness,
            _,
        ):
            context = RequestContext(user="ann", threadId="t", resourceId="r")
            await harness.send_message(content="go", request_context=context)
            assert model.system(1) == "You work for ann."
            assert {key for key in contexts[0] if key != "harness"} == {"user"}

    run(work)


@pytest.mark.parametrize(
    "name",
    ["ask_user", "submit_plan", "task_write", "task_update", "task_complete", "task_check", "subagent"],
)
def test_every_builtin_tool_can_be_left_out(name: str) -> None:
    async def work() -> None:
        explore = Subagent(id="explore", name="E", description="d")
        whole, model = Model(), Model()
        async with opened(whole, subagents=[explore]) as (harness, _):
            await harness.send_message(content="hi")
        async with opened(model, subagents=[explore], disable_builtin_tools=[name]) as (harness, _):
            await harness.send_message(content="hi")
        assert name in whole.tool_names()
        assert set(whole.tool_names()) - set(model.tool_names()) == {name}

    run(work)


def test_without_subagents_there_is_no_tool_for_them() -> None:
    async def work() -> None:
        model = Model()
        async with opened(model) as (harness, _):
            await harness.send_message(content="hi")
            assert "subagent" not in model.tool_names()

    run(work)


def test_a_factory_that_fails_is_reported_and_the_next_message_works() -> None:
    async def work() -> None:
        def tools(context: RequestContext) -> list[Any]:
            if context.get("bad"):
                raise UsageError("no tools today", hint="come tomorrow")
            return []

        async with opened(tools=tools) as (harness, record):
            await harness.send_message(content="one", request_context=RequestContext(bad=True))
            assert record.named("error")[0]["error"]["message"] == "no tools today; come tomorrow"
            assert record.wire[-1] == {"type": "agent_end", "reason": "error"}
            await harness.send_message(content="two")
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}

    run(work)


@in_loop
async def test_a_fact_from_a_thread_of_a_tool_is_reported_in_the_event_loops_own() -> None:
    def work(context: ToolContext) -> str:
        """Work."""
        assert context.request is not None
        for number in range(50):
            context.request["harness"].emit_event(Info(message=f"{number}"))
        return "worked"

    homes: set[int] = set()
    received: list[str] = []

    async def listen(event: HarnessEvent) -> None:
        received.append(event.type)

    model = Model(call("work"), "Done.")
    async with opened(model, tools=[tool(work)], initial_state=YOLO) as (harness, record):
        harness.subscribe(lambda _event: homes.add(threading.get_ident()))
        harness.subscribe(listen)
        await harness.send_message(content="go")
        assert homes == {threading.get_ident()}
        assert [data["message"] for data in record.named("info")] == [str(number) for number in range(50)]
        last_told = len(record.types) - record.types[::-1].index("info")
        assert last_told <= record.types.index("tool_end")
        await asyncio.sleep(0)
        assert received.count("info") == 50
        check(harness, log_of(harness))
