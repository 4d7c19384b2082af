"""Sub-agents that begin afresh: their model, their tools, their end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.approvals.call import ProposedCall
from harness.contracts.model import SystemTurn, ToolTurn, UserTurn
from harness.conversation.turns import StepContext
from harness.events import Relay, RelayReply, Result, SessionStart, ToolEnd
from harness.native.tools.function_tool import FunctionTool, tool
from harness.questions.permissions import Denial, Permissions, PermissionVerdict
from harness.session.config import RequestContext, Subagent
from thread_kit import EXPLORE, Asked, ParentThread, calls


def delegated(task: str = "look", **more: Any) -> dict[str, Any]:
    return calls("subagent", {"agentType": "explore", "task": task, **more}, text="I ask somebody.")


def named(name: str) -> FunctionTool:
    @tool(name=name)
    async def function() -> str:
        return f"{name} was used"

    return function


def play(
    sub: Any,
    definition: Subagent = EXPLORE,
    asked: dict[str, Any] | None = None,
    prepare: Any = lambda thread: None,
    **options: Any,
) -> ParentThread:
    """One message to a parent that delegates, to its end."""

    async def go() -> ParentThread:
        model = Asked(asked or delegated(), "The end.")
        thread = ParentThread(model, (definition,), models={"sub": sub}, **options)
        prepare(thread)
        ended = await thread.send("go")
        assert isinstance(ended, Result)
        assert ended.success
        return thread

    return asyncio.run(go())


def test_a_fresh_one_is_a_run_of_its_own_in_the_parents_log() -> None:
    sub = Asked("Two files.", name="test/sub")
    thread = play(sub)
    (start,) = thread.nested()
    assert (start.name, start.model) == ("explore", "test/sub")
    end = thread.end_of()
    assert start.parent_id == end.call_id
    assert (end.output, end.success) == ("Two files.", True)
    ((turns, tools),) = sub.asked
    assert turns == (SystemTurn("You explore."), UserTurn("look"))
    assert tools == ()
    results = {event.run_id: event for event in thread.log() if isinstance(event, Result)}
    assert results[start.run_id].text == "Two files."


def test_it_sees_nothing_of_the_conversation() -> None:
    sub = Asked("x")
    play(sub)
    assert not any("go" in str(turn) for turn in sub.asked[0][0])


def test_an_unknown_type_lists_those_that_there_are() -> None:
    thread = play(Asked("x"), asked=calls("subagent", {"agentType": "nobody", "task": "x"}))
    end = thread.end_of()
    assert (end.success, end.output) == (False, "Unknown agent type: nobody. Valid types: explore")


def test_the_types_are_in_the_spec() -> None:
    async def spec() -> Any:
        return ParentThread(Asked("x"), (EXPLORE,)).tool.spec

    emitted = asyncio.run(spec())
    assert emitted.schema["properties"]["agentType"]["enum"] == ["explore"]
    assert set(emitted.schema["required"]) == {"agentType", "task"}
    assert "explore (Explore): Looks around." in emitted.description


@pytest.mark.parametrize("expected", ["argument", "type", "definition", "mode"])
def test_the_model_is_that_of_the_call_then_the_session_then_the_definition_then_the_mode(
    expected: str,
) -> None:
    models = {name: Asked("x", name=name) for name in ("argument", "type", "definition", "mode")}
    order = list(models)
    used = order[order.index(expected) :]
    definition = Subagent(
        id="explore",
        name="Explore",
        description="",
        default_model_id="definition" if "definition" in used else "",
    )

    def prepare(thread: ParentThread) -> None:
        thread.models.update(models)
        thread.chosen = {"explore": "type"} if "type" in used else {}
        thread.mode_model = "mode"

    more = {"modelId": "argument"} if "argument" in used else {}
    thread = play(Asked("unused"), definition, delegated(**more), prepare)
    assert thread.nested()[0].model == expected


def test_without_a_model_there_is_an_error_result() -> None:
    thread = play(Asked("x"), Subagent(id="explore", name="Explore", description=""))
    end = thread.end_of()
    assert end.success is False
    assert end.output == "No model ID available for subagent. Configure defaultModelId."


def test_a_model_that_cannot_be_opened_is_an_error_result() -> None:
    thread = play(Asked("x"), asked=delegated(modelId="un/known"))
    assert thread.end_of().output == 'Subagent "Explore" failed: unknown model: un/known'


def test_a_model_that_fails_is_an_error_result() -> None:
    failing = Asked({"events": [{"type": "error", "message": "overloaded"}]})
    end = play(failing).end_of()
    assert (end.success, end.output) == (False, 'Subagent "Explore" failed: overloaded')


def test_tools_are_its_own_those_it_may_borrow_and_those_of_the_workspace_it_may_see() -> None:
    sub = Asked("x")
    definition = Subagent(
        id="explore",
        name="Explore",
        description="",
        default_model_id="sub",
        tools=[named("own"), named("write")],
        allowed_harness_tools=("shared", "missing", "own"),
        allowed_workspace_tools=("view",),
    )

    def prepare(thread: ParentThread) -> None:
        thread.shared = [named("shared"), named("secret"), named("own")]
        thread.of_workspace = [named("view"), named("write"), named("run")]

    play(sub, definition, prepare=prepare)
    names = [spec.name for spec in sub.asked[0][1]]
    assert names == ["own", "write", "shared", "view"]


def test_without_a_list_all_of_the_workspace_is_seen() -> None:
    sub = Asked("x")
    play(sub, prepare=lambda thread: thread.of_workspace.extend([named("view"), named("run")]))
    assert [spec.name for spec in sub.asked[0][1]] == ["view", "run"]


def test_instructions_may_depend_on_the_request() -> None:
    sub = Asked("x", "y")

    def instructions(context: RequestContext) -> str:
        return f"You work for {context['user']}."

    for given in (instructions, ["You work", "for ann."]):
        definition = Subagent(
            id="explore", name="E", description="", default_model_id="sub", instructions=given
        )
        play(sub, definition)
    assert [turns[0] for turns, _ in sub.asked] == [
        SystemTurn("You work for ann."),
        SystemTurn("You work\nfor ann."),
    ]


def looped(steps: int) -> Asked:
    return Asked(*[calls("own", {}, id=f"s{number}") for number in range(steps)], "The end.")


@pytest.mark.parametrize(
    ("max_steps", "has_condition", "steps"), [(3, False, 3), (None, False, 50), (None, True, 60)]
)
def test_steps_are_limited_unless_there_is_another_condition(
    max_steps: int | None, has_condition: bool, steps: int
) -> None:
    sub = looped(60)
    definition = Subagent(
        id="explore",
        name="Explore",
        description="",
        default_model_id="sub",
        tools=[named("own")],
        max_steps=max_steps,
        stop_when=(lambda _: False) if has_condition else None,
    )
    thread = play(sub, definition)
    # One more call sums up, or comes to the end.
    assert len(sub.asked) == steps + 1
    assert thread.end_of().success is True


def test_a_condition_stops_it() -> None:
    sub = looped(60)

    def stops(context: StepContext) -> bool:
        return context.step_number >= 2

    definition = Subagent(
        id="explore", name="E", description="", default_model_id="sub", tools=[named("own")], stop_when=stops
    )
    play(sub, definition)
    assert len(sub.asked) == 2


def test_what_its_parent_would_be_asked_about_it_is_asked_about_and_what_is_denied_stays_denied() -> None:
    sub = Asked(calls("own", {}), calls("bad", {}, id="c2"), "The end.")
    definition = Subagent(
        id="explore", name="E", description="", default_model_id="sub", tools=[named("own"), named("bad")]
    )

    class Policy(Permissions):
        def verdict(self, call: ProposedCall) -> PermissionVerdict:
            return PermissionVerdict("allow") if call.tool == "subagent" else super().verdict(call)

    def prepare(thread: ParentThread) -> None:
        def answer() -> None:
            for event in thread.hub.recent(0):
                if isinstance(event, Relay):
                    assert thread.current is not None
                    thread.current.context.questions.reply(RelayReply(id=event.id, approved=True))

        loop = asyncio.get_running_loop()
        thread.hub.add_waker(lambda: loop.call_soon(answer))

    permissions = Policy("ask", deny=[Denial(tool="bad", reason="never")])
    thread = play(sub, definition, prepare=prepare, permissions=permissions)
    (relay,) = [event for event in thread.log() if isinstance(event, Relay)]
    (start,) = thread.nested()
    assert (relay.tool_name, relay.subagent, relay.spawn_call_id) == ("own", "explore", start.parent_id)
    ends = {
        event.tool_name: event.success
        for event in thread.log()
        if isinstance(event, ToolEnd) and event.tool_name != "subagent"
    }
    assert ends == {"own": True, "bad": False}


def test_when_the_parent_is_stopped_what_was_said_so_far_is_the_answer() -> None:
    async def go() -> ParentThread:
        reached = asyncio.Event()

        @tool(name="own")
        async def endless() -> str:
            reached.set()
            await asyncio.sleep(60)
            return "never"

        sub = Asked(calls("own", {}, text="I found one."))
        definition = Subagent(id="explore", name="E", description="", default_model_id="sub", tools=[endless])
        model = Asked(delegated(), "unused")
        thread = ParentThread(model, (definition,), models={"sub": sub})
        running = asyncio.create_task(thread.send("go"))
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return thread

    thread = asyncio.run(go())
    end = thread.end_of()
    assert (end.success, end.output) == (True, "[Aborted by user]\n\nPartial output:\nI found one.")
    assert thread.current is not None
    last = thread.current.entries[-1].turn
    assert isinstance(last, ToolTurn)
    assert last.text == end.output
    outcomes = [event.outcome for event in thread.log() if isinstance(event, Result)]
    assert outcomes == ["interrupted", "interrupted"]


def test_one_that_is_stopped_alone_lets_the_parent_continue() -> None:
    async def go() -> ParentThread:
        thread: ParentThread

        @tool(name="own")
        async def stops() -> str:
            assert thread.current is not None
            (start,) = thread.nested()
            thread.current.context.runs[start.run_id].cancel()
            await asyncio.sleep(60)
            return "never"

        sub = Asked(calls("own", {}))
        definition = Subagent(id="explore", name="E", description="", default_model_id="sub", tools=[stops])
        thread = ParentThread(Asked(delegated(), "The end."), (definition,), models={"sub": sub})
        ended = await thread.send("go")
        assert isinstance(ended, Result)
        assert ended.text == "The end."
        return thread

    assert asyncio.run(go()).end_of().output == "[Aborted by user]"


def test_several_work_at_the_same_time() -> None:
    async def go() -> ParentThread:
        both = asyncio.Barrier(2)

        @tool(name="own")
        async def meets() -> str:
            await both.wait()
            return "met"

        sub = Asked(calls("own", {}), calls("own", {}), "one", "other")
        definition = Subagent(id="explore", name="E", description="", default_model_id="sub", tools=[meets])
        asked = {
            "events": [
                {
                    "type": "tool_call",
                    "name": "subagent",
                    "input": {"agentType": "explore", "task": id},
                    "id": id,
                }
                for id in ("a", "b")
            ]
        }
        thread = ParentThread(Asked(asked, "The end."), (definition,), models={"sub": sub})
        await thread.send("go")
        return thread

    thread = asyncio.run(go())
    assert len(thread.nested()) == 2
    outputs = {
        event.output for event in thread.log() if isinstance(event, ToolEnd) and event.tool_name == "subagent"
    }
    assert outputs == {"one", "other"}


def test_an_answer_carries_no_mark() -> None:
    assert "<" not in (play(Asked("Two files.")).end_of().output or "")


def test_without_a_loop_of_ours_there_is_an_error_result() -> None:
    async def go() -> Any:
        thread = ParentThread(Asked("x"))
        thread.current = None
        from harness.contracts.tool import ToolContext

        return await thread.tool.run({"agentType": "explore", "task": "x"}, ToolContext(cwd="/"))

    output = asyncio.run(go())
    assert output.success is False
    assert output.result["isError"] is True


def test_the_parents_run_has_one_start() -> None:
    thread = play(Asked("x"))
    starts = [event for event in thread.log() if isinstance(event, SessionStart)]
    assert [bool(start.parent_id) for start in starts] == [False, True]
