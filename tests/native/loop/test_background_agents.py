"""Sub-agents in the background: their run goes on with them, is told of their answers, and does not end before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from conversation_kit import Talk, in_loop
from harness.contracts.model import Ask, SystemTurn, ToolTurn
from harness.contracts.tool import ToolContext
from harness.events import Event, Result, SessionStart, Suspended, TextDelta, ToolEnd
from harness.native.tools.agent import AgentTool
from harness.native.tools.background_agents import MOST_AT_ONCE
from harness.native.tools.bash_output import BashOutputTool
from harness.native.tools.function_tool import tool
from played_model import Played, calls, follow, says

TOOLS = (AgentTool(), BashOutputTool())
START = {"task": "look around", "name": "scout", "background": True}


class TwoModels:
    """What the parent is asked is answered in order; what its sub-agents are asked, by `child`."""

    name = "test/two"

    def __init__(self, *answers: Any, child: Callable[[Ask], AsyncIterator[Event]]) -> None:
        self.answers = list(answers)
        self.asked: list[Ask] = []
        self._child = child

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        if ask.turns[0].text == "look around":
            async for event in self._child(ask):
                yield event
            return
        self.asked.append(Ask(turns=tuple(ask.turns)))
        for event in self.answers.pop(0):
            yield event


async def finds(ask: Ask) -> AsyncIterator[Event]:
    del ask
    await asyncio.sleep(0.05)
    for event in says("found"):
        yield event


async def never_ends(ask: Ask) -> AsyncIterator[Event]:
    del ask
    yield TextDelta(id="m", text="hm")
    await asyncio.Event().wait()


def play(model: TwoModels, **options: Any) -> Played:
    return asyncio.run(follow(model, tools=TOOLS, **options))  # type: ignore[arg-type]


def outputs(played: Played) -> list[str]:
    return [end.output for end in played.of(ToolEnd)]


def test_the_answer_comes_by_itself_before_the_run_ends() -> None:
    model = TwoModels(calls(("t", "agent", START)), says("meanwhile"), says("all done"), child=finds)
    played = play(model)
    assert outputs(played) == ["a1 works in the background; its answer comes by itself, before you are done"]
    assert model.asked[2].turns[-1] == SystemTurn("sub-agent a1 (scout) has answered:\nfound")
    child, parent = played.of(Result)
    assert (child.text, parent.text) == ("found", "all done")
    assert parent.run_id == played.run_id


def test_it_can_be_looked_at_and_stopped() -> None:
    model = TwoModels(
        calls(("t", "agent", START)),
        calls(("l", "bash_output", {})),
        calls(("w", "bash_output", {"id": "a1", "wait": 0.01})),
        calls(("s", "bash_output", {"id": "a1", "stop": True})),
        says("without it"),
        child=never_ends,
    )
    played = play(model)
    assert outputs(played)[1:] == [
        "there are no background commands\nsub-agent a1 (scout) is still at work",
        "sub-agent a1 (scout) is still at work",
        "sub-agent a1 (scout) was stopped",
    ]
    assert [result.outcome for result in played.of(Result)] == ["interrupted", "completed"]


def test_who_has_looked_at_the_answer_is_not_told_again() -> None:
    model = TwoModels(
        calls(("t", "agent", START)),
        calls(("w", "bash_output", {"id": "a1", "wait": 30})),
        says("done"),
        child=finds,
    )
    assert outputs(play(model))[1] == "sub-agent a1 (scout) has answered:\nfound"
    assert len(model.asked) == 3
    assert isinstance(model.asked[2].turns[-1], ToolTurn)


def test_a_run_that_is_stopped_takes_them_with_it() -> None:
    model = TwoModels(calls(("t", "agent", START)), says("meanwhile"), child=never_ends)
    killed: list[bool] = []

    def kill(agents: Any, event: Event) -> None:
        if isinstance(event, TextDelta) and event.text == "hm" and not killed:
            killed.append(True)
            for run_id in list(agents._context.runs):
                agents.kill(run_id)
                break

    played = play(model, on_event=kill)
    assert [result.outcome for result in played.of(Result)] == ["interrupted", "interrupted"]
    assert len(played.of(SessionStart)) == 2


@pytest.mark.parametrize("count", [MOST_AT_ONCE, MOST_AT_ONCE + 2])
def test_there_are_only_so_many(count: int) -> None:
    wanted = [(f"t{number}", "agent", START) for number in range(count)]
    stops = [
        (f"s{number}", "bash_output", {"id": f"a{number + 1}", "stop": True})
        for number in range(MOST_AT_ONCE)
    ]
    played = play(TwoModels(calls(*wanted), calls(*stops), says("done"), child=never_ends))
    refused = [end.output for end in played.of(ToolEnd) if not end.success]
    assert len(refused) == count - MOST_AT_ONCE
    assert all("no more may" in text for text in refused)


@tool
async def ask(context: ToolContext) -> str:
    """Asks a person."""
    return str(await context.suspend({"question": "which?"}))


@in_loop
async def test_a_question_waits_for_them_and_their_answers_stay() -> None:
    talk = Talk(tools=(*TOOLS, ask))
    talk.options = talk.options.__class__(
        model=TwoModels(
            calls(("t", "agent", START), ("q", "ask", {})), says("thanks"), says("bye"), child=finds
        ),
        tools=(*TOOLS, ask),
        permissions=talk.options.permissions,
        relay_deadline_s=None,
    )
    assert isinstance(await talk.send(), Suspended)
    ended = await talk.answer("this one")
    assert isinstance(ended, Result)
    assert ended.outcome == "completed"
    model = talk.options.model
    assert isinstance(model, TwoModels)
    texts = [turn.text for turn in model.asked[1].turns]
    assert "sub-agent a1 (scout) has answered:\nfound" in texts
    assert "this one" in texts
    talk.check()
