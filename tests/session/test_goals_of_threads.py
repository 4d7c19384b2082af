"""A goal in a real conversation: the run continues until the judge, in a thread of its own, is content."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.contracts.model import AssistantTurn, Model, SystemTurn, UserTurn
from harness.events import Event, GoalChanged, GoalEvaluated, Message, Result
from harness.events.operation import Read
from harness.log.store import Query
from harness.native.tools.function_tool import tool
from harness.session.child_threads import thread_judge
from harness.session.goals import GoalOptions, Goals
from thread_kit import Asked, ParentThread, calls


class GoalThread(ParentThread):
    """The same thread, with an objective."""

    goals_by: GoalOptions | None = None

    def objective(self) -> Mapping[str, Any] | None:
        kept = [event.objective for event in self.log() if isinstance(event, GoalChanged)]
        return kept[-1] if kept else None

    def append(self, event: Event) -> None:
        assert self.current is not None
        self.current.context.outbox.flush()
        self.hub.source(self.current.run_id or "parent").append([event])

    def new_id(self) -> str:
        return "goal1"

    def goal_options(self) -> GoalOptions | None:
        return self.goals_by

    def last_user_text(self) -> str:
        return "go"


def says(decision: str) -> str:
    return f'{{"decision": "{decision}", "reason": "because {decision}"}}'


def play(model: Asked, judge: Model, messages: int = 1, **options: Any) -> GoalThread:
    async def go() -> GoalThread:
        thread = GoalThread(model, ())
        thread.goals_by = GoalOptions(judge=judge, **options)
        goals = Goals(thread, thread_judge(thread))
        goals.set("ship it")
        assert thread.working is not None
        thread.working = type(thread.working)(
            model=model, system_prompt="You ship.", after_answer=goals.after_answer
        )
        for _ in range(messages):
            ended = await thread.send("go")
            assert isinstance(ended, Result)
            assert ended.success
        return thread

    return asyncio.run(go())


def test_the_run_continues_until_the_judge_is_content() -> None:
    model = Asked("Half of it.", "All of it.")
    thread = play(model, Asked(says("continue"), says("done"), name="test/judge"))
    results = [event for event in thread.log() if isinstance(event, Result)]
    assert [result.text for result in results] == ["All of it."]
    emitted = model.asked[1][0][-1]
    assert isinstance(emitted, SystemTurn)
    assert emitted.text.startswith("[Goal attempt 1/50]")
    kinds = [type(event) for event in thread.log() if isinstance(event, GoalEvaluated | GoalChanged)]
    assert kinds == [GoalChanged, *[GoalEvaluated, GoalChanged, GoalEvaluated] * 2]
    assert [
        event.text for event in thread.log() if isinstance(event, Message) and event.role == "assistant"
    ] == [
        "Half of it.",
        "All of it.",
    ]
    objective = thread.objective()
    assert objective is not None
    assert (objective["status"], objective["runsUsed"]) == ("done", 2)


def test_the_judge_remembers_what_it_decided_in_a_hidden_thread() -> None:
    judge = Asked(says("waiting"), says("done"), name="test/judge")
    thread = play(Asked("Is it good?", "It is."), judge, messages=2)
    shown = thread.log_store.find(Query(kind="thread", without_settings=("forkedSubagent",)))
    assert [one.session_id for one in shown] == ["parent"]
    metadata = thread.log_store.metadata("parent-goal1")
    assert metadata.settings == {
        "forkedSubagent": True,
        "goalJudge": True,
        "parentThreadId": "parent",
        "goalId": "goal1",
    }
    assert metadata.name == "Goal judge: ship it"
    assert not thread.log_store.is_live("parent-goal1")
    second = judge.asked[1][0]
    assert [type(turn) for turn in second] == [SystemTurn, UserTurn, AssistantTurn, UserTurn]
    assert isinstance(second[2], AssistantTurn)
    assert second[2].text == says("waiting")


def test_the_judge_may_look_things_up_but_change_nothing() -> None:
    used: list[str] = []

    @tool(name="look", operations=[Read(path="a.txt")])
    async def look() -> str:
        used.append("look")
        return "it is there"

    @tool(name="act")
    async def act() -> str:
        used.append("act")
        return "done"

    judge = Asked(calls("look", {}), calls("act", {}, id="c2"), says("done"), name="test/judge")
    thread = play(Asked("All of it."), judge, tools=(look, act))
    assert used == ["look"]
    objective = thread.objective()
    assert objective is not None
    assert objective["status"] == "done"


def test_a_judge_whose_model_fails_pauses_the_goal_and_the_answer_counts() -> None:
    judge = Asked({"events": [{"type": "error", "message": "overloaded"}]}, name="test/judge")
    thread = play(Asked("Half of it."), judge)
    objective = thread.objective()
    assert objective is not None
    assert objective["status"] == "paused"
    assert objective["pausedReason"] == "Goal evaluation failed: overloaded"
    assert not thread.log_store.is_live("parent-goal1")
