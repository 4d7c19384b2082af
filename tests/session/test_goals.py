"""Goals: stored in the log, judged after every answer, paused when it cannot be judged or the budget is used up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from harness.contracts.model import Ask, Model, SystemTurn
from harness.errors import UsageError
from harness.events import Event, GoalChanged, GoalEvaluated
from harness.models.scripted import Scripted
from harness.session.goals import (
    PROMPT,
    GoalContext,
    GoalOptions,
    Goals,
    GoalStatus,
    JudgeQuestion,
    Objective,
    Score,
    ask_model,
    judge_thread_id,
    question_text,
    read_verdict,
)


class Thread:
    """What a session is to its goals."""

    def __init__(self, options: GoalOptions | None = None) -> None:
        self.options = options
        self.log: list[Event] = []
        self.clock_ms = 1000
        self.id: str | None = "thread"
        self.opened: list[str] = []
        self.models: dict[str, Model] = {}
        self.words = ""

    def thread_id(self) -> str | None:
        return self.id

    def objective(self) -> Mapping[str, Any] | None:
        kept = [event.objective for event in self.log if isinstance(event, GoalChanged)]
        return kept[-1] if kept else None

    def append(self, event: Event) -> None:
        self.log.append(event)

    def now_ms(self) -> int:
        self.clock_ms += 1
        return self.clock_ms

    def new_id(self) -> str:
        return "goal-1"

    def open_model(self, model_id: str) -> Model:
        self.opened.append(model_id)
        if model_id not in self.models:
            raise UsageError(f"unknown model: {model_id}")
        return self.models[model_id]

    def goal_options(self) -> GoalOptions | None:
        return self.options

    def last_user_text(self) -> str:
        return self.words

    @property
    def payloads(self) -> list[dict[str, Any]]:
        return [event.payload for event in self.log if isinstance(event, GoalEvaluated)]


def verdicts(*decisions: str) -> Model:
    return Scripted(
        [f'{{"decision": "{one}", "reason": "because {one}"}}' for one in decisions], name="test/judge"
    )


def judged(thread: Thread, answers: int = 1, **about: Any) -> list[str | None]:
    goals = Goals(thread)
    if goals.get() is None:
        goals.set("ship it", **about)

    async def play() -> list[str | None]:
        return [await goals.after_answer(f"answer {number}") for number in range(answers)]

    return asyncio.run(play())


def kept(thread: Thread) -> Objective:
    objective = Goals(thread).get()
    assert objective is not None
    return objective


def test_an_objective_is_stored_in_the_log() -> None:
    thread = Thread()
    goals = Goals(thread)
    made = goals.set("ship it", max_runs=3, judge_model_id="a/b", prompt="strictly")
    assert made == goals.get()
    assert thread.objective() == {
        "objective": "ship it",
        "status": "active",
        "runsUsed": 0,
        "startedAt": 1001,
        "updatedAt": 1001,
        "id": "goal-1",
        "maxRuns": 3,
        "judgeModelId": "a/b",
        "prompt": "strictly",
    }
    changed = goals.update(status="paused", max_runs=7)
    assert changed is not None
    assert (changed.status, changed.max_runs, changed.prompt) == ("paused", 7, "strictly")
    goals.clear()
    assert goals.get() is None
    assert thread.log[-1] == GoalChanged(objective=None)
    assert goals.update(status="active") is None


def test_without_a_thread_nothing_is_stored() -> None:
    thread = Thread()
    thread.id = None
    assert Goals(thread).set("ship it") is None
    assert asyncio.run(Goals(thread).after_answer("x")) is None
    assert not thread.log


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="0 times"):
        Goals(Thread()).set("ship it", max_runs=0)


def test_without_a_judge_nothing_happens_at_all() -> None:
    for options in (None, GoalOptions(max_runs=2), GoalOptions(judge=lambda: None)):
        thread = Thread(options)
        assert judged(thread) == [None]
        assert not thread.payloads


@pytest.mark.parametrize("status", ["paused", "done"])
def test_a_goal_that_is_not_active_is_not_judged(status: GoalStatus) -> None:
    thread = Thread(GoalOptions(judge=verdicts("done")))
    Goals(thread).set("ship it")
    Goals(thread).update(status=status)
    assert judged(thread) == [None]
    assert not thread.payloads


def test_what_the_objective_says_counts_before_what_the_agent_says() -> None:
    thread = Thread(GoalOptions(judge="agent/judge", max_runs=9, prompt="the agent's"))
    thread.models = {"own/judge": verdicts("continue"), "agent/judge": verdicts("continue")}
    seen: list[JudgeQuestion] = []

    async def listen(question: JudgeQuestion) -> str:
        seen.append(question)
        return await ask_model(question)

    goals = Goals(thread, listen)
    goals.set("ship it", judge_model_id="own/judge", max_runs=2, prompt="its own")
    asyncio.run(goals.after_answer("x"))
    goals.set("ship it")
    asyncio.run(goals.after_answer("x"))
    assert thread.opened == ["own/judge", "agent/judge"]
    assert [question.prompt for question in seen] == ["its own", "the agent's"]
    assert [payload["maxRuns"] for payload in thread.payloads if not payload.get("pending")] == [2, 9]


def test_what_no_one_says_is_as_usual() -> None:
    thread = Thread(GoalOptions(judge=verdicts("continue")))
    judged(thread)
    assert thread.payloads[-1]["maxRuns"] == 50


def test_a_goal_that_is_reached_is_done() -> None:
    thread = Thread(GoalOptions(judge=verdicts("done")))
    assert judged(thread) == [None]
    assert (kept(thread).status, kept(thread).runs_used) == ("done", 1)
    pending, emitted = thread.payloads
    assert pending == {
        "objective": "ship it",
        "iteration": 1,
        "maxRuns": 50,
        "passed": False,
        "status": "active",
        "results": [],
        "duration": 0,
        "timedOut": False,
        "maxRunsReached": False,
        "suppressFeedback": True,
        "pending": True,
    }
    duration = emitted["duration"]
    assert duration >= 0
    assert emitted == {
        "objective": "ship it",
        "iteration": 1,
        "maxRuns": 50,
        "passed": True,
        "status": "done",
        "results": [
            {
                "score": 1.0,
                "passed": True,
                "reason": "because done",
                "scorerId": "goal-scorer",
                "scorerName": "Goal (LLM)",
                "duration": duration,
            }
        ],
        "reason": "because done",
        "duration": duration,
        "timedOut": False,
        "maxRunsReached": False,
        "suppressFeedback": False,
    }


def test_a_goal_that_is_not_reached_makes_the_run_continue() -> None:
    thread = Thread(GoalOptions(judge=verdicts("continue", "continue", "done"), max_runs=5))
    first, second, third = judged(thread, 3)
    assert first is not None
    assert first.startswith("[Goal attempt 1/5] ")
    assert "Judge feedback: because continue" in first
    assert first.endswith("Continue working toward the goal: ship it")
    assert second is not None
    assert second.startswith("[Goal attempt 2/5] ")
    assert third is None
    assert kept(thread).runs_used == 3


def test_waiting_for_the_user_keeps_the_goal_active_and_ends_the_run() -> None:
    thread = Thread(GoalOptions(judge=verdicts("waiting", "done"), max_runs=1))
    assert judged(thread) == [None]
    assert kept(thread).status == "active"
    emitted = thread.payloads[-1]
    assert emitted["waitingForUser"] is True
    assert emitted["results"][0]["score"] == 0.5
    assert emitted["maxRunsReached"] is True


def test_a_judge_that_fails_pauses_the_goal_at_once() -> None:
    def breaks() -> str:
        raise OSError("no key")

    for judge in ("un/known", Scripted(["no idea"]), Scripted([]), breaks):
        thread = Thread(GoalOptions(judge=judge))
        assert judged(thread) == [None]
        assert kept(thread).status == "paused"
        assert kept(thread).paused_reason.startswith("Goal evaluation failed: ")
        emitted = thread.payloads[-1]
        assert emitted["judgeFailed"] is True
        assert emitted["pausedReason"] == emitted["reason"] == kept(thread).paused_reason
        assert emitted["results"][0]["errored"] is True


def test_a_judge_that_takes_too_long_has_failed() -> None:
    async def sleeps(question: JudgeQuestion) -> str:
        await asyncio.sleep(60)
        return ""

    thread = Thread(GoalOptions(judge=verdicts("done"), timeout_s=0.01))
    goals = Goals(thread, sleeps)
    goals.set("ship it")
    assert asyncio.run(goals.after_answer("x")) is None
    assert thread.payloads[-1]["timedOut"] is True
    assert kept(thread).status == "paused"


def test_a_budget_that_is_used_up_pauses_and_more_of_it_resumes() -> None:
    thread = Thread(GoalOptions(judge=verdicts("continue", "continue", "done")))
    first, second = judged(thread, 2, max_runs=2)
    assert first is not None
    assert second is None
    assert kept(thread).status == "paused"
    assert "(2 runs)" in kept(thread).paused_reason
    assert thread.payloads[-1]["maxRunsReached"] is True
    resumed = Goals(thread).update(max_runs=5, status="active")
    assert resumed is not None
    assert resumed.paused_reason == ""
    assert judged(thread) == [None]
    assert (kept(thread).status, kept(thread).runs_used) == ("done", 3)


def test_reached_with_the_last_run_is_reached() -> None:
    thread = Thread(GoalOptions(judge=verdicts("done")))
    judged(thread, max_runs=1)
    assert kept(thread).status == "done"
    assert thread.payloads[-1]["passed"] is True


def test_what_is_at_its_budget_is_not_judged_again() -> None:
    thread = Thread(GoalOptions(judge=verdicts("waiting")))
    judged(thread, max_runs=1)
    assert judged(thread) == [None]
    emitted = thread.payloads[-1]
    assert (emitted["maxRunsReached"], emitted["results"], emitted["iteration"]) == (True, [], 1)
    assert "pending" not in emitted
    assert kept(thread).runs_used == 1


def test_another_scorer_may_judge_instead_and_half_a_point_is_not_waiting() -> None:
    scores = iter([Score(score=0.5, reason="half"), Score(score=1, reason="all")])
    seen: list[GoalContext] = []

    async def scorer(context: GoalContext) -> Score:
        seen.append(context)
        return next(scores)

    thread = Thread(GoalOptions(scorer=scorer))
    first, second = judged(thread, 2)
    assert first is not None
    assert second is None
    assert (seen[0].objective, seen[0].answer, seen[1].iteration) == ("ship it", "answer 0", 2)
    assert kept(thread).status == "done"


def test_the_judge_is_asked_with_a_schema_and_has_a_thread_of_its_own() -> None:
    asked: list[Ask] = []

    def listen(ask: Ask) -> str:
        asked.append(ask)
        return '{"decision": "done", "reason": ""}'

    questions: list[JudgeQuestion] = []

    async def judge(question: JudgeQuestion) -> str:
        questions.append(question)
        return await ask_model(question)

    thread = Thread(GoalOptions(judge=Scripted([listen])))
    thread.words = "hurry"
    goals = Goals(thread, judge)
    goals.set("ship it")
    asyncio.run(goals.after_answer("shipped"))
    (question,) = questions
    assert question.thread_id == judge_thread_id("thread", "goal-1") == "thread-goal-1"
    assert question.settings == {
        "forkedSubagent": True,
        "goalJudge": True,
        "parentThreadId": "thread",
        "goalId": "goal-1",
    }
    (ask,) = asked
    assert ask.turns[0] == SystemTurn(PROMPT)
    assert ask.schema is not None
    text = question_text("ship it", "shipped", "hurry")
    assert getattr(ask.turns[1], "text") == text  # noqa: B009
    assert all(part in text for part in ("Goal: ship it", "hurry", "shipped"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"decision": "done", "reason": "r"}', ("done", "r")),
        ('Well:\n```json\n{"decision": "Continue", "reason": "r"}\n```', ("continue", "r")),
        ("<decision>waiting</decision> <reason>for\nyou</reason>", ("waiting", "for\nyou")),
        ("{not json} <decision>done</decision>", ("done", "")),
    ],
)
def test_verdicts_are_read_from_json_or_tags(text: str, expected: tuple[str, str]) -> None:
    assert read_verdict(text) == expected


@pytest.mark.parametrize("text", ["", "done", '{"decision": "maybe"}', "[1]"])
def test_anything_else_is_no_verdict(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        read_verdict(text)
