"""Queries of a recursive language model: runs of their own, as deep as allowed, at the same time, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from harness.contracts.model import Ask, SystemTurn, UserTurn
from harness.events import (
    Error,
    Event,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    TextDelta,
    Usage,
    UsageDelta,
)
from played_model import Answer, Played, PlayedModel, fails, says
from played_rlm import Stage, code, follow, play


class Answering(PlayedModel):
    """Answers by the first message of the user, so that it does not matter who asks first."""

    def __init__(self, answers: dict[str, list[Answer]], name: str = "test/sub") -> None:
        super().__init__(name=name)
        self._by_prompt = answers

    async def answer(self, ask: Ask) -> AsyncIterator[Event]:
        prompt = next(turn.text for turn in ask.turns if isinstance(turn, UserTurn)).partition("\n")[0]
        self.answers = [self._by_prompt[prompt].pop(0)]
        async for event in super().answer(ask):
            yield event


def children(run: Played) -> list[SessionStart]:
    return [start for start in run.of(SessionStart) if start.run_id != run.run_id]


def result_of(run: Played, run_id: str) -> Result:
    [result] = run.of(Result, run_id)
    assert isinstance(result, Result)
    return result


def test_at_the_bottom_a_query_is_one_call_of_the_model() -> None:
    run = play(
        code("FINAL(llm_query('what is it?', 'the text'))"),
        says("a text", usage=Usage(input=7, output=3)),
        max_depth=0,
    )
    assert run.result.text == "a text"
    assert run.model.asked[1] == ((UserTurn("what is it?\n\nthe text"),), ())
    [child] = children(run)
    [program] = run.of(ReplInput)
    assert child.parent_id == program.id
    assert [type(event).__name__ for event in run.events if event.run_id == child.run_id] == [
        *("SessionStart", "Message", "TextDelta", "Message", "Result")
    ]
    assert result_of(run, child.run_id).text == "a text"


def test_its_usage_is_reported_and_counted_by_the_run_that_made_it() -> None:
    run = play(code("FINAL(llm_query('a'))"), says("b", usage=Usage(input=7, output=3)), max_depth=0)
    assert {event.run_id for event in run.of(UsageDelta)} == {run.run_id}
    assert run.result.usage == Usage(input=17, output=8)
    [child] = children(run)
    assert result_of(run, child.run_id).usage is None


def test_above_the_bottom_a_query_is_a_recursive_model_with_a_repl_of_its_own() -> None:
    run = play(
        code("x = 'mine'", "FINAL(llm_query('how long?', 'four') + x)"),
        code("print('x' in globals())"),
        code("FINAL(len(context))"),
        max_depth=1,
    )
    assert run.result.text == "4mine"
    [child] = children(run)
    outer, *inner = run.of(ReplInput)
    assert child.parent_id == outer.id
    assert {program.run_id for program in inner} == {child.run_id}
    assert run.of(ReplOutput, child.run_id)[0].stdout == "False\n"
    system, user = run.model.asked[1][0]
    assert isinstance(system, SystemTurn)
    assert "a str of 4 characters" in system.text
    assert user == UserTurn("how long?")


def test_its_usage_is_its_own() -> None:
    run = play(code("FINAL(llm_query('a'))"), code("FINAL('b')"), max_depth=1)
    [child] = children(run)
    assert run.result.usage == result_of(run, child.run_id).usage == Usage(input=10, output=5)
    assert [event.run_id for event in run.of(UsageDelta)] == [run.run_id, child.run_id]


def test_a_query_without_a_context_has_its_prompt_as_context() -> None:
    assert play(code("FINAL(llm_query('abc'))"), code("FINAL(context)"), max_depth=1).result.text == "abc"


def test_recursion_ends_at_the_depth_that_is_allowed() -> None:
    run = play(
        code("FINAL(llm_query('one'))"),
        code("FINAL(llm_query('two'))"),
        code("FINAL(llm_query('three'))"),
        says("```python\nFINAL(llm_query('four'))\n```"),
        max_depth=2,
    )
    assert run.result.text == "```python\nFINAL(llm_query('four'))\n```"
    first, second, third = run.of(ReplInput)
    assert [child.parent_id for child in children(run)] == [first.id, second.id, third.id]
    progress = [event.text for event in run.of(ReplProgress) if "depth=" in event.text]
    assert [text.rpartition("depth=")[2] for text in progress] == ["1\n", "2\n", "3\n"]


def test_the_progress_of_a_query_is_shown() -> None:
    run = play(code("llm_query('what?', 'abc')", "FINAL(1)"), says("an answer"), max_depth=0)
    [program] = run.of(ReplInput)
    assert [(event.id, event.stream, event.text) for event in run.of(ReplProgress)] == [
        (program.id, "stderr", "[llm_query] prompt='what?' context=3 chars depth=1\n"),
        (program.id, "stderr", "[llm_query] done result=9 chars\n"),
    ]
    assert run.of(ReplOutput)[0].stdout == ""


def test_another_model_may_answer_the_queries() -> None:
    sub = Answering({"a": [code("FINAL(llm_query('b'))")], "b": [says("deep")]})
    run = play(code("FINAL(llm_query('a'))"), sub_model=sub, max_depth=1)
    assert run.result.text == "deep"
    assert [start.model for start in run.of(SessionStart)] == ["test/played", "test/sub", "test/sub"]


def _meeting(count: int) -> Callable[[str], Answer]:
    """Answers that come only when so many were asked for at once."""
    waiting: list[str] = []
    everybody = asyncio.Event()

    def answer(text: str) -> Answer:
        async def tell(ask: Ask) -> AsyncIterator[Event]:
            waiting.append(text)
            if len(waiting) == count:
                everybody.set()
            await everybody.wait()
            for event in says(text):
                yield event

        return tell

    return answer


@pytest.mark.parametrize("depth", [0, 1])
def test_queries_that_are_asked_together_are_answered_at_the_same_time(depth: int) -> None:
    answer = _meeting(3)
    wrapped = (lambda text: f"```python\nFINAL('{text}')\n```") if depth else str
    sub = Answering({prompt: [answer(wrapped(prompt.upper()))] for prompt in "abc"})
    run = play(code("FINAL(llm_query_many(list('abc')))"), sub_model=sub, max_depth=depth)
    assert run.result.text == "['A', 'B', 'C']"
    assert {child.parent_id for child in children(run)} == {run.of(ReplInput)[0].id}
    starts = [run.events.index(child) for child in children(run)]
    first_end = min(run.events.index(result) for result in run.of(Result))
    assert max(starts) < first_end


def test_only_so_many_are_asked_at_once() -> None:
    busy: list[int] = []

    async def counted(ask: Ask) -> AsyncIterator[Event]:
        busy.append(1)
        assert len(busy) <= 2
        await asyncio.sleep(0.01)
        busy.pop()
        for event in says("x"):
            yield event

    run = play(
        code("FINAL(''.join(llm_query_many(['q'] * 9)))"), *[counted] * 9, max_depth=0, most_queries_at_once=2
    )
    assert run.result.text == "x" * 9


def test_a_prompt_over_the_budget_is_an_error_in_the_code() -> None:
    run = play(code("llm_query('x' * 101)"), code("FINAL('sorry')"), prompt_budget=100)
    assert "the prompt has 101 characters, and may have 100" in run.of(ReplOutput)[0].error
    assert children(run) == []


@pytest.mark.parametrize("depth", [0, 1])
def test_a_query_that_fails_is_an_error_in_the_code_and_the_run_continues(depth: int) -> None:
    run = play(code("llm_query('a')"), fails("overloaded"), code("FINAL('without')"), max_depth=depth)
    assert run.result.text == "without"
    assert run.of(ReplOutput)[0].error.endswith("CallError: there is no answer: overloaded")
    [child] = children(run)
    assert result_of(run, child.run_id).outcome == "failed"
    assert [error.run_id for error in run.of(Error)] == [child.run_id]


def test_a_query_that_finds_no_answer_is_an_error_in_the_code() -> None:
    run = play(
        code("llm_query('a')"),
        code("x = 1"),
        code("x = 2"),
        code("FINAL('ok')"),
        max_depth=1,
        max_iterations=2,
    )
    assert run.of(ReplOutput, run.run_id)[0].error.endswith("CallError: there is no answer: limit_exceeded")


def test_a_query_beyond_the_budget_of_money_is_not_asked() -> None:
    dear = says("```python\nllm_query('a')\n```", usage=Usage(input=1, output=1, cost_usd=2.0))
    run = play(dear, max_budget_usd=1.0, max_depth=0)
    assert run.of(ReplOutput)[0].error.endswith("CallError: the budget is used up")
    assert (children(run), run.result.outcome) == ([], "limit_exceeded")


@pytest.mark.parametrize("depth", [0, 2])
def test_cancelling_stops_all_queries_and_their_results_come_first(depth: int) -> None:
    async def hangs(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="Hm")
        await asyncio.Event().wait()

    asked = code("llm_query_many(['a', 'b'])")
    model = PlayedModel(asked, *([asked] * 2 if depth else []), *[hangs] * 4)
    open_runs = 3 if depth == 0 else 7

    def stop(stage: Stage, event: Event) -> None:
        if len(model.asked) == open_runs:
            stage.task.cancel()

    run = asyncio.run(follow(model, on_event=stop, max_depth=depth, most_queries_at_once=4))
    assert [result.outcome for result in run.of(Result)] == ["interrupted"] * open_runs
    assert run.result.run_id == run.run_id


def test_a_large_context_is_handed_on_to_a_query() -> None:
    run = play(
        code("FINAL(llm_query('count', context))"),
        code("FINAL(context.count('needle'))"),
        context="hay " * 500_000 + "needle",
        max_depth=1,
    )
    assert run.result.text == "1"


def test_one_query_can_be_stopped_without_the_others() -> None:
    async def hangs(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="Hm")
        await asyncio.Event().wait()

    def stop(stage: Stage, event: Event) -> None:
        if isinstance(event, TextDelta) and event.text == "Hm":
            stage.loop_context.runs[event.run_id].cancel()

    model = PlayedModel(code("llm_query('a')"), hangs, code("FINAL('alone')"))
    run = asyncio.run(follow(model, on_event=stop, max_depth=1))
    assert run.of(ReplOutput, run.run_id)[0].error.endswith("CallError: the query was stopped")
    assert [result.outcome for result in run.of(Result)] == ["interrupted", "completed"]
