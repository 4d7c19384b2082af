"""One agent, one model: what is asked, what is called, what is emitted, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.contracts.model import Ask, AssistantTurn, Call, SystemTurn, ToolTurn, UserTurn
from harness.contracts.tool import ToolContext, ToolFailure, ToolOutput
from harness.events import (
    Error,
    Event,
    Message,
    Result,
    SessionStart,
    StepEnd,
    StepStart,
    TextDelta,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    Usage,
    UsageDelta,
    Warning,
)
from harness.events.operation import Read
from harness.log.ids import is_run_id
from harness.native.loop.agent_loop import SUMMARISE
from harness.native.tools.function_tool import tool
from played_model import PlayedModel, calls, fails, follow, play, says


@tool(quick=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(quick=True)
def fail(text: str) -> str:
    raise ValueError(text)


def test_an_answer_without_calls_is_one_step_and_ends_the_run() -> None:
    played = play(says("hello there", pieces=2), prompt="hi")

    assert played.shape == [
        "SessionStart",
        "Message",
        "StepStart",
        "TextDelta",
        "TextDelta",
        "Message",
        "UsageDelta",
        "StepEnd",
        "Result",
    ]
    assert played.of(Message)[0].role == "user"
    assert played.result.text == "hello there"
    assert (played.result.success, played.result.outcome, played.result.turns) == (True, "completed", 1)
    assert played.model.asked[0][0] == (UserTurn("hi"),)


def test_a_run_has_an_id_of_its_own_and_each_step_another() -> None:
    played = play(calls(("tc-1", "add", {"a": 1, "b": 2})), says("3"), tools=(add,))

    steps = [step.id for step in played.of(StepStart)]
    assert is_run_id(played.run_id)
    assert len({played.run_id, *steps}) == 3
    assert all(map(is_run_id, steps))
    assert {event.run_id for event in played.events} == {played.run_id}


def test_the_parent_id_is_there_when_there_is_a_parent() -> None:
    assert play(says("x"), parent_id="call-7").of(SessionStart)[0].parent_id == "call-7"
    assert play(says("x")).of(SessionStart)[0].parent_id == ""


def test_a_call_is_carried_out_and_its_result_put_to_the_model() -> None:
    played = play(calls(("tc-1", "add", {"a": 1, "b": 2}), text="let me see"), says("it is 3"), tools=(add,))

    start, end = played.of(ToolStart)[0], played.of(ToolEnd)[0]
    assert start.call_id == end.call_id == f"{played.run_id}/tc-1"
    assert (start.tool_name, start.input) == ("add", {"a": 1, "b": 2})
    assert (end.success, end.output) == (True, "3")
    assert played.model.asked[1][0] == (
        UserTurn("go"),
        AssistantTurn("let me see", (Call("tc-1", "add", {"a": 1, "b": 2}),)),
        ToolTurn("tc-1", "3"),
    )
    assert [spec.name for spec in played.model.asked[0][1]] == ["add"]


def test_what_a_provider_wants_back_is_sent_back() -> None:
    opaque = {"signature": "abc"}
    first = [Message(role="assistant", text="", opaque=opaque, parts=[Call("c", "add", {"a": 1, "b": 1})])]
    played = play([*first, StepEnd(id="")], says("2"), tools=(add,))

    turn = played.model.asked[1][0][1]
    assert isinstance(turn, AssistantTurn)
    assert turn.opaque == opaque


def test_usage_is_passed_on_and_added_up() -> None:
    played = play(
        calls(("tc-1", "add", {"a": 1, "b": 2})), says("3", usage=Usage(input=7, output=1)), tools=(add,)
    )

    assert [delta.usage.input for delta in played.of(UsageDelta)] == [10, 7]
    assert played.result.usage == Usage(input=17, output=6)


def test_a_failure_of_the_model_ends_the_run_with_what_was_said_so_far() -> None:
    played = play([TextDelta(id="m", text="I was abo"), *fails("overloaded")])

    assert played.shape[-3:] == ["Error", "StepEnd", "Result"]
    assert played.of(Error)[0].message == "overloaded"
    assert (played.result.outcome, played.result.text) == ("failed", "I was abo")


def test_a_model_that_breaks_or_says_nothing_is_a_failure_of_the_run() -> None:
    async def breaks(ask: Ask) -> AsyncIterator[Event]:
        raise RuntimeError("no such thing")
        yield

    assert "no such thing" in play(breaks).of(Error)[0].message
    assert play([]).of(Error)[0].code == "no_answer"
    assert play([]).result.outcome == "failed"


def test_at_the_limit_the_model_is_asked_once_more_without_tools_to_sum_up() -> None:
    step = calls(("tc", "add", {"a": 1, "b": 2}))
    played = play(step, step, says("so far so good"), tools=(add,), max_iterations=2)

    assert len(played.model.asked) == 3
    turns, tools = played.model.asked[2]
    assert tools == ()
    assert turns[-1] == SystemTurn(SUMMARISE)
    assert (played.result.text, played.result.outcome) == ("so far so good", "limit_exceeded")
    assert played.of(Warning)[0].code == "max_turns"


def test_no_summary_is_asked_for_when_the_model_was_done() -> None:
    played = play(
        calls(("tc", "add", {"a": 1, "b": 2})), says("done"), says("never"), tools=(add,), max_iterations=2
    )

    assert len(played.model.asked) == 2
    assert (played.result.text, played.result.outcome) == ("done", "completed")


def test_an_unknown_tool_is_reported_to_the_model_and_the_run_continues() -> None:
    played = play(calls(("tc-1", "fly", {})), says("sorry"), tools=(add,))

    end = played.of(ToolEnd)[0]
    assert end.success is False
    assert end.output == "there is no tool called fly (there are: add)"
    assert played.model.asked[1][0][-1] == ToolTurn("tc-1", end.output, is_error=True)
    assert played.result.success


def test_a_throwing_tool_is_reported_to_the_model_and_the_run_continues() -> None:
    @tool(quick=True)
    def leave() -> None:
        raise SystemExit(3)

    @tool
    async def refuse() -> None:
        raise ToolFailure("not today")

    asked = calls(("a", "fail", {"text": "broken"}), ("b", "leave", {}), ("c", "refuse", {}))
    played = play(asked, says("well"), tools=(fail, leave, refuse))

    assert [end.output for end in played.of(ToolEnd)] == ["ValueError: broken", "SystemExit: 3", "not today"]
    assert [turn.is_error for turn in played.model.asked[1][0][-3:]] == [True, True, True]  # type: ignore[union-attr]
    assert not played.of(Error)
    assert played.result.success


@pytest.mark.parametrize(
    "input",
    [
        {"__toolParseError": True, "parseError": "unexpected end", "rawArguments": '{"a": 1'},
        [1, 2],
        "a=1",
        None,
    ],
)
def test_malformed_arguments_are_reported_to_the_model(input: Any) -> None:
    played = play(calls(("tc-1", "add", input)), says("sorry"), tools=(add,))

    output = played.of(ToolEnd)[0].output
    assert output.startswith("Tool call had malformed arguments. Parse error: ")
    assert "Raw arguments: " in output
    assert played.of(ToolStart)[0].input == input
    assert played.result.success


def test_arguments_that_do_not_fit_are_reported_to_the_model() -> None:
    played = play(calls(("tc-1", "add", {"a": "one"})), says("sorry"), tools=(add,))

    assert played.of(ToolEnd)[0].output.startswith("invalid arguments for add: ")


def test_two_calls_begin_before_either_ends_and_end_as_they_finish() -> None:
    began: list[str] = []
    second_is_done = asyncio.Event()

    @tool
    async def slow(name: str) -> str:
        began.append(name)
        if name == "first":
            await second_is_done.wait()
        assert began == ["first", "second"]
        second_is_done.set()
        return name

    played = play(
        calls(("a", "slow", {"name": "first"}), ("b", "slow", {"name": "second"})), says("ok"), tools=(slow,)
    )

    assert [end.output for end in played.of(ToolEnd)] == ["second", "first"]
    assert [turn.text for turn in played.model.asked[1][0][-2:]] == ["first", "second"]


def test_a_call_reports_its_progress_from_any_thread() -> None:
    @tool
    def count(context: ToolContext) -> str:
        context.progress("one")
        context.progress("two")
        return context.call_id

    played = play(calls(("tc", "count", {})), says("ok"), tools=(count,))

    assert [event.text for event in played.of(ToolProgress)] == ["one", "two"]
    assert played.of(ToolEnd)[0].output == f"{played.run_id}/tc"


def test_pieces_of_arguments_carry_the_id_of_the_call_that_comes_of_them() -> None:
    answer = [ToolInputDelta(call_id="tc", text='{"a":1,"b":1}'), *calls(("tc", "add", {"a": 1, "b": 1}))]
    played = play(answer, says("2"), tools=(add,))

    assert played.of(ToolInputDelta)[0].call_id == played.of(ToolStart)[0].call_id


def test_a_provider_that_repeats_a_call_id_confuses_no_reader() -> None:
    twice = calls(("tc", "add", {"a": 1, "b": 1}), ("tc", "add", {"a": 2, "b": 2}))
    played = play(twice, twice, says("ok"), tools=(add,))

    assert [start.call_id.rpartition("/")[2] for start in played.of(ToolStart)] == [
        "tc",
        "tc-2",
        "tc-3",
        "tc-4",
    ]
    parts = [part["id"] for message in played.of(Message)[1:3] for part in message.parts]
    assert parts == ["tc", "tc-2", "tc-3", "tc-4"]
    answered = [turn.call_id for turn in played.model.asked[2][0] if isinstance(turn, ToolTurn)]
    assert answered == parts


def test_a_huge_output_is_shortened_for_model_and_log() -> None:
    @tool(quick=True)
    def flood() -> str:
        return "x" * 50_000_000

    played = play(calls(("tc", "flood", {})), says("ok"), tools=(flood,), most_output_characters=1000)

    output = played.of(ToolEnd)[0].output
    assert len(output) < 1100
    assert "49999000 characters left out" in output
    assert played.model.asked[1][0][-1].text == output  # type: ignore[union-attr]


def test_a_call_that_never_returns_fails_at_its_deadline() -> None:
    @tool
    async def hang() -> None:
        await asyncio.Event().wait()

    played = play(calls(("tc", "hang", {})), says("ok"), tools=(hang,), tool_deadline_s=0.01)

    assert played.of(ToolEnd)[0].output == "it did not end within 0.01 s"
    assert played.result.success


def test_the_program_around_the_loop_gets_results_as_data() -> None:
    seen: dict[str, Any] = {}
    played = play(
        calls(("tc", "add", {"a": 1, "b": 2})),
        says("ok"),
        tools=(add,),
        on_output=lambda call_id, output: seen.update({call_id: output.result}),
    )

    assert seen == {f"{played.run_id}/tc": 3}


def test_the_operations_of_a_call_are_in_the_log_and_may_be_corrected_at_its_end() -> None:
    @tool(operations=lambda arguments: [Read(path=arguments["path"])])
    async def look(path: str) -> ToolOutput:
        return ToolOutput(text="…", operations=[Read(path=path, start_line=1, end_line=3)])

    played = play(calls(("a", "look", {"path": "x"}), ("b", "look", {})), says("ok"), tools=(look,))

    assert [start.operations for start in played.of(ToolStart)] == [[Read(path="x")], []]
    assert [end.operations for end in played.of(ToolEnd)] == [
        [Read(path="x", start_line=1, end_line=3)],
        None,
    ]


def test_what_was_said_before_comes_before_the_prompt() -> None:
    played = play(
        says("yes"), prompt="and now?", turns=[UserTurn("a"), AssistantTurn("b")], system_prompt="be nice"
    )

    assert played.model.asked[0][0] == (
        SystemTurn("be nice"),
        UserTurn("a"),
        AssistantTurn("b"),
        UserTurn("and now?"),
    )


def test_a_run_stops_when_its_budget_is_spent() -> None:
    dear = [
        Message(role="assistant", text="", parts=[Call("c", "add", {"a": 1, "b": 1})]),
        UsageDelta(usage=Usage(output=1, cost_usd=0.6, cost_source="stated")),
        StepEnd(id=""),
    ]
    played = play(dear, dear, says("never"), tools=(add,), max_budget_usd=1.0)

    assert len(played.model.asked) == 2
    assert played.of(Error)[0].code == "max_budget"
    assert (played.result.outcome, played.result.total_cost_usd) == ("limit_exceeded", 1.2)


def test_a_thousand_steps_cost_the_same_each() -> None:
    """Counted in calls of Python functions, which no busy machine can change."""
    import sys

    counts: list[int] = []
    counter = 0

    def count(_frame: Any, what: str, _argument: Any) -> None:
        nonlocal counter
        counter += what == "call"

    class Endless:
        name = "test/endless"

        async def answer(self, ask: Ask) -> AsyncIterator[Event]:
            counts.append(counter)
            for event in calls((f"c{len(counts)}", "add", {"a": 1, "b": 2})) if ask.tools else says("done"):
                yield event

    sys.setprofile(count)
    try:
        played = asyncio.run(follow(Endless(), tools=(add,), max_iterations=1000, redact=True))  # type: ignore[arg-type]
    finally:
        sys.setprofile(None)

    assert played.result.turns == 1001
    costs = [after - before for before, after in itertools.pairwise(counts)]
    early, late = sorted(costs[10:110]), sorted(costs[-100:])
    assert late[50] <= early[50] * 1.05
    sizes = [len(repr(event)) for event in played.of(ToolEnd)]
    assert max(sizes) - min(sizes) < 20


def test_models_can_be_changed_for_a_single_agent_and_must_be_given_somewhere() -> None:
    from harness.errors import UsageError
    from harness.native.loop.loop_context import AgentOptions
    from harness.native.loop.orchestrator import Orchestrator

    usual, other = PlayedModel(says("usual")), PlayedModel(says("other"), name="test/other")

    async def run() -> list[Event]:
        async with Orchestrator(AgentOptions(model=usual)) as agents:
            agents.spawn("a")
            agents.spawn("b", model=other)
            return [event async for event in agents.events()]

    async def run_without() -> None:
        async with Orchestrator() as agents:
            with pytest.raises(UsageError, match="no model was given"):
                agents.spawn("a")
            agents.spawn("b", model=PlayedModel(says("own")))

    events = asyncio.run(run())
    assert {event.text for event in events if isinstance(event, Result)} == {"usual", "other"}
    assert {event.model for event in events if isinstance(event, StepStart)} == {"test/played", "test/other"}
    asyncio.run(run_without())
