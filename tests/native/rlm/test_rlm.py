"""A recursive language model: rounds of code and output, until there is an answer or none can be had."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from harness.contracts.model import Ask, AssistantTurn, SystemTurn, UserTurn
from harness.events import (
    Error,
    Event,
    Message,
    ReasoningDelta,
    ReplInput,
    ReplOutput,
    ReplProgress,
    Result,
    SessionStart,
    StepEnd,
    TextDelta,
    Usage,
    UsageDelta,
    Warning,
)
from harness.folds.run_events.translation import WireTranslation
from harness.native.rlm import repl as repl_module
from harness.native.rlm.repl import ReplLimits
from played_model import PlayedModel, fails, says
from played_rlm import Stage, code, follow, play


def test_an_answer_may_come_in_the_first_round() -> None:
    run = play(code("FINAL('42')", before="Easy.\n"), prompt="what?")
    assert run.shape == [
        "SessionStart",
        "Message",
        "TextDelta",
        "Message",
        "UsageDelta",
        "ReplInput",
        "ReplOutput",
        "Message",
        "Result",
    ]
    assert (run.result.success, run.result.outcome, run.result.text) == (True, "completed", "42")
    answer = run.of(Message)[-1]
    assert (answer.role, answer.text) == ("assistant", "42")
    assert answer.id not in {message.id for message in run.of(Message)[:-1]}


def test_two_rounds_share_their_variables_and_the_second_sees_what_the_first_printed() -> None:
    run = play(
        code("words = context.split()", "print(len(words))"), code("FINAL(words[-1])"), context="a b c"
    )
    assert run.result.text == "c"
    turns, tools = run.model.asked[1]
    assert tools == ()
    assert isinstance(turns[0], SystemTurn)
    assert [type(turn) for turn in turns[1:]] == [UserTurn, AssistantTurn, UserTurn]
    assert turns[-1] == UserTurn("<harness:repl_output>\n<stdout>\n3\n</stdout>\n</harness:repl_output>")


def test_the_code_is_reported_before_it_runs_and_its_output_after() -> None:
    run = play(code("print('hello')"), code("FINAL(1)"))
    first, second = run.of(ReplInput)
    assert (first.code, first.iteration, second.iteration) == ("print('hello')", 0, 1)
    shown, *_ = run.of(ReplProgress)
    assert (shown.id, shown.text, shown.stream) == (first.id, "hello\n", "stdout")
    out, last = run.of(ReplOutput)
    assert (out.id, out.stdout, out.error, out.done, out.iteration) == (first.id, "hello\n", "", False, 0)
    assert isinstance(out.duration_ms, int)
    assert (last.id, last.done, last.iteration) == (second.id, True, 1)
    places = [run.events.index(event) for event in (first, shown, out, second, last)]
    assert places == sorted(places)


def test_everything_has_one_run_id_and_the_usage_is_its_total() -> None:
    run = play(
        [ReasoningDelta(id="r", text="hm"), *code("print(1)")],
        code("FINAL(2)"),
        parent_id="somebody",
    )
    assert {event.run_id for event in run.events} == {run.run_id}
    assert [event.usage for event in run.of(UsageDelta)] == [Usage(input=10, output=5)] * 2
    assert run.result.usage == Usage(input=20, output=10)
    assert run.result.turns == 2
    [start] = run.of(SessionStart)
    assert (start.agent, start.model, start.parent_id) == ("rlm", "test/played", "somebody")


def test_the_wire_reports_it_as_one_run_from_start_to_end() -> None:
    emitted = WireTranslation()
    run = play(code("print(1)"), code("FINAL(2)"))
    wire = [one for event in run.events for one in emitted.feed(event) if type(one).__name__ != "UserEvent"]
    assert {one.run_id for one in wire} == {run.run_id}
    assert [type(one).__name__ for one in wire] == [
        *(
            "HarnessStart",
            "TextEvent",
            "UsageEvent",
            "ReplInputEvent",
            "ReplProgressEvent",
            "ReplOutputEvent",
        ),
        *("TextEvent", "UsageEvent", "ReplInputEvent", "ReplOutputEvent", "TextEvent", "HarnessEnd"),
    ]
    end = wire[-1]
    assert (end.reason, end.iterations, end.total_usage.input_tokens) == ("final", 2, 20)


def test_when_the_iterations_are_used_up_there_is_no_answer() -> None:
    run = play(code("print(1)"), code("print(2)"), code("FINAL(3)"), max_iterations=2)
    assert (run.result.success, run.result.outcome, run.result.text) == (False, "limit_exceeded", "")
    assert len(run.model.asked) == 2
    assert run.events[-2] == run.of(Warning)[0]
    assert run.of(Warning)[0].code == "max_turns"
    assert not run.of(ReplOutput)[-1].done


def test_code_that_fails_is_reported_to_the_model_which_may_fix_it() -> None:
    run = play(code("print('so far')", "1 / 0"), code("FINAL('mended')"))
    assert run.result.text == "mended"
    [failed, _] = run.of(ReplOutput)
    assert failed.stdout == "so far\n"
    assert failed.error.endswith("ZeroDivisionError: division by zero")
    feedback = run.model.asked[1][0][-1].text
    assert "<stdout>\nso far\n</stdout>" in feedback
    assert "ZeroDivisionError: division by zero\n</error>" in feedback


@pytest.mark.parametrize(
    "answer",
    [
        "I think it is 4.",
        "```python\na = 1\n```\n```python\nFINAL(a)\n```",
        "```python\nFINAL(1)\n```\nDone!",
    ],
)
def test_an_answer_that_cannot_be_run_costs_an_iteration_and_says_why(answer: str) -> None:
    run = play(says(answer), code("FINAL('better')"), max_iterations=2)
    assert run.result.text == "better"
    [error] = run.of(Error)
    assert error.code == "no_code"
    assert run.model.asked[1][0][-2:] == (
        AssistantTurn(answer),
        UserTurn(f"<harness:error>\n{error.message}\n</harness:error>"),
    )
    assert [program.iteration for program in run.of(ReplInput)] == [1]


def test_a_failure_of_the_model_is_reported_and_ends_the_run() -> None:
    run = play(code("print(1)"), fails("overloaded"))
    assert [type(event) for event in run.events[-2:]] == [Error, Result]
    assert (run.events[-2].message, run.result.outcome) == ("overloaded", "failed")


def test_a_model_that_breaks_or_says_nothing_is_a_failure_as_well() -> None:
    async def breaks(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="I")
        raise RuntimeError("wire cut")

    assert play(breaks).of(Error)[0].message == "the model broke: RuntimeError('wire cut')"
    assert play([StepEnd(id="", stop_reason="end")]).of(Error)[0].message == "the model gave no answer"


def test_the_context_is_the_repls_and_the_model_sees_only_its_beginning() -> None:
    run = play(code("FINAL(context[-4:])"), context="begin " + "x" * 5000 + " end", prompt="how does it end?")
    assert run.result.text == " end"
    system, user = run.model.asked[0][0]
    assert "a str of 5010 characters" in system.text
    assert system.text.count("x") < 600
    assert user == UserTurn("how does it end?")


def test_without_a_context_the_prompt_is_the_context() -> None:
    assert play(code("FINAL(context.upper())"), prompt="say it").result.text == "SAY IT"


def test_what_the_user_adds_to_the_system_prompt_is_there() -> None:
    run = play(code("FINAL(1)"), system_prompt="Answer in French.")
    assert run.model.asked[0][0][0].text.endswith("\n\nAnswer in French.")


def test_long_output_is_cut_for_the_log_and_the_model() -> None:
    run = play(code("print('x' * 500)"), code("FINAL(1)"), limits=ReplLimits(most_characters=100))
    [out, _] = run.of(ReplOutput)
    assert (out.stdout, out.truncated) == ("x" * 100 + "\n...[truncated]", True)
    assert f"{out.stdout}\n</stdout>" in run.model.asked[1][0][-1].text


def test_a_repl_that_cannot_be_had_is_reported_before_the_model_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repl_module, "_BOOT", "import sys; sys.exit('no such luck')  # {!r}")
    run = play(code("FINAL(1)"))
    assert run.result.outcome == "failed"
    assert "no such luck" in run.of(Error)[0].message
    assert run.model.asked == []


def test_a_message_that_comes_meanwhile_is_taken_at_the_next_round() -> None:
    def steer(stage: Stage, event: Event) -> None:
        if isinstance(event, ReplInput) and event.iteration == 0:
            stage.run.inbox.steer("in capitals, please")

    run = asyncio.run(follow(PlayedModel(code("print(1)"), code("FINAL('ok')")), on_event=steer))
    assert run.model.asked[1][0][-1] == UserTurn("in capitals, please")
    assert [message.text for message in run.of(Message) if message.role == "user"] == [
        "go",
        "in capitals, please",
    ]


def test_a_message_that_comes_with_the_answer_is_answered_too() -> None:
    def steer(stage: Stage, event: Event) -> None:
        if isinstance(event, ReplInput) and event.iteration == 0:
            stage.run.inbox.follow_up("and now?")

    answers = code("import time", "time.sleep(0.05)", "FINAL('first')"), code("FINAL('second')")
    run = asyncio.run(follow(PlayedModel(*answers), on_event=steer))
    assert run.result.text == "second"
    assert [message.text for message in run.of(Message)][-3:] == [
        "and now?",
        "```python\nFINAL('second')\n```",
        "second",
    ]


def test_cancelling_ends_the_repl_at_once_and_closes_everything() -> None:
    pids = []

    def stop(stage: Stage, event: Event) -> None:
        if isinstance(event, ReplProgress):
            pids.append(int(event.text))
            stage.task.cancel()
            stage.task.cancel()

    program = code("import os", "print(os.getpid())", "llm = None", "while True: pass")
    run = asyncio.run(follow(PlayedModel(program), on_event=stop))
    assert (run.result.outcome, run.result.success) == ("interrupted", False)
    assert run.of(ReplOutput)[0].error == "the run was stopped"
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_cancelling_closes_the_stream_of_the_model() -> None:
    async def hangs(ask: Ask) -> AsyncIterator[Event]:
        yield TextDelta(id="m", text="I thi")
        await asyncio.Event().wait()

    def stop(stage: Stage, event: Event) -> None:
        if isinstance(event, TextDelta):
            stage.task.cancel()

    model = PlayedModel(hangs)
    run = asyncio.run(follow(model, on_event=stop))
    assert run.result.outcome == "interrupted"
    assert model.closed == 1


def test_a_budget_ends_the_run_before_the_next_call() -> None:
    dear = says("```python\nprint(1)\n```", usage=Usage(input=1, output=1, cost_usd=0.6))
    run = play(dear, dear, code("FINAL(1)"), max_budget_usd=1.0)
    assert run.result.outcome == "limit_exceeded"
    assert (run.of(Error)[0].code, len(run.model.asked)) == ("max_budget", 2)
    assert run.result.total_cost_usd == pytest.approx(1.2)


def test_secrets_in_what_code_prints_do_not_reach_the_log() -> None:
    key = "sk-ant-api03-" + "Ab1" * 30
    run = play(code("print(context)"), code("FINAL('ok')"), context=f"key={key}", redact=True)
    assert key not in "".join(event.text for event in run.of(ReplProgress))
    assert key not in run.of(ReplOutput)[0].stdout
    assert key in run.model.asked[1][0][-1].text
