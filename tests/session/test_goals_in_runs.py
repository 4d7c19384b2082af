"""Goals in a session: the run continues until the judge is content, or something prevents that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.contracts.model import ToolSpec
from harness.contracts.tool import Tool, ToolContext, ToolOutput
from harness.events import Signal
from harness.events.operation import Read
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import BackingAgent
from harness.session.goals import GoalContext, GoalOptions, Score
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness_kit import Model, call, log_of, opened
from running_kit import (
    check,
    ends,
    errors,
    failing,
    in_loop,
    texts,
)


def verdict(decision: str, reason: str = "") -> str:
    return f'{{"decision": "{decision}", "reason": "{reason or decision}"}}'


def setting(model: Model, judge: Model, **options: Any) -> dict[str, Any]:
    """A harness whose agent's goals are judged by a model of its own."""
    return {
        "agent": BackingAgent(goal=GoalOptions(judge="judge", **options)),
        "resolve_model": lambda model_id: judge if model_id == "judge" else model,
    }


def payloads(record: Any) -> list[dict[str, Any]]:
    return [data["payload"] for data in record.named("goal_evaluation") if not data["payload"].get("pending")]


def status(harness: Harness) -> str:
    objective = harness.session.goals.get()
    assert objective is not None
    return objective.status


@in_loop
async def test_it_continues_until_the_judge_is_content() -> None:
    model = Model("Half of it.", "All of it.")
    judge = Model(verdict("continue", "the other half"), verdict("done"))
    async with opened(**setting(model, judge, max_runs=5)) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert texts(record) == ["Half of it.", "All of it."]
        assert (len(record.named("agent_start")), ends(record)) == (1, ["complete"])
        first, second = payloads(record)
        assert (first["passed"], first["iteration"], first["maxRuns"]) == (False, 1, 5)
        assert (second["passed"], second["status"], second["iteration"]) == (True, "done", 2)
        assert status(harness) == "done"
        reminder = model.received()[-2]
        assert reminder.startswith('<system-reminder type="goal-judge">[Goal attempt 1/5]')
        assert "Judge feedback: the other half" in reminder
        assert "Continue working toward the goal: ship it" in reminder
        check(harness, log_of(harness))


@in_loop
async def test_the_reminder_is_a_part_of_its_own_live_and_in_the_history() -> None:
    model = Model("Half of it.", "All of it.")
    judge = Model(verdict("continue"), verdict("done"))
    async with opened(**setting(model, judge, max_runs=5), storage=None) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it", judge_model_id="judge")
        await harness.send_message(content="go")
        [reminder] = record.named("system_reminder")
        assert (reminder["reminderType"], reminder["goalMaxTurns"]) == ("goal-judge", 5)
        assert reminder["judgeModelId"] == "judge"
        [signal] = [
            event for event in log_of(harness) if isinstance(event, Signal) and event.category == "reactive"
        ]
        assert signal.attributes == {"type": "goal-judge"}


@in_loop
async def test_an_attempt_is_never_overwritten_by_the_next() -> None:
    model = Model("Half of it.", "All of it.")
    judge = Model(verdict("continue"), verdict("done"))
    async with opened(**setting(model, judge)) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        emitted = [
            (name, data.get("message", {}).get("id"))
            for name, data in zip(record.types, record.wire, strict=True)
            if name in ("message_end", "goal_evaluation")
        ]
        names = [name for name, _ in emitted]
        assert names.index("goal_evaluation") > names.index("message_end")
        ids = [id for name, id in emitted if name == "message_end"]
        assert len(set(ids)) == len(ids)


@in_loop
async def test_waiting_keeps_the_goal_and_ends_the_run() -> None:
    model = Model("Shall I?", "Done.")
    judge = Model(verdict("waiting", "the user's word"), verdict("done"))
    async with opened(**setting(model, judge)) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert ends(record) == ["complete"]
        assert payloads(record)[0]["waitingForUser"] is True
        assert status(harness) == "active"
        await harness.send_message(content="yes")
        assert status(harness) == "done"


@pytest.mark.parametrize("judging", [failing("no judge today"), "I cannot decide."])
@in_loop
async def test_a_judge_that_fails_pauses_the_goal(judging: Any) -> None:
    model = Model("Half of it.", "More.")
    async with opened(**setting(model, Model(judging))) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert (ends(record), errors(record)) == (["complete"], [])
        assert payloads(record)[0]["judgeFailed"] is True
        assert status(harness) == "paused"
        await harness.send_message(content="go on")
        assert len(payloads(record)) == 1


@in_loop
async def test_a_budget_that_is_used_up_pauses_it_and_more_of_it_resumes_it() -> None:
    model = Model("One.", "Two.", "Three.")
    judge = Model(verdict("continue"), verdict("continue"), verdict("done"))
    async with opened(**setting(model, judge)) as (harness, record):
        await harness.create_thread()
        goals = harness.session.goals
        goals.set("ship it", max_runs=2)
        await harness.send_message(content="go")
        assert texts(record) == ["One.", "Two."]
        assert payloads(record)[-1]["maxRunsReached"] is True
        assert status(harness) == "paused"
        goals.update(max_runs=3, status="active")
        await harness.send_message(content="once more")
        assert status(harness) == "done"


@in_loop
async def test_without_a_goal_or_without_a_judge_nothing_happens() -> None:
    async with opened(Model("Yes.", "Yes.")) as (harness, record):
        await harness.send_message(content="go")
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert "goal_evaluation" not in record.types
        assert ends(record) == ["complete", "complete"]


@in_loop
async def test_the_model_is_informed_of_the_objective_and_that_it_was_removed() -> None:
    model = Model("One.", "Two.", "Three.")
    async with opened(**setting(model, Model(verdict("waiting"), verdict("done")))) as (harness, _):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert any(text.startswith('<current-objective status="active"') for text in model.received())
        await harness.send_message(content="on")
        await harness.send_message(content="thanks")
        assert model.received()[-1].startswith('<current-objective status="none"')


@in_loop
async def test_the_judge_reads_the_users_words_and_not_what_no_one_said() -> None:
    model, judge = Model("One.", "Two."), Model(verdict("continue"), verdict("done"))
    async with opened(**setting(model, judge)) as (harness, _):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="please ship")
        for asked in (judge.received(0)[-1], judge.received(1)[-1]):
            assert "Latest user message:\nplease ship" in asked


@in_loop
async def test_the_judge_has_a_hidden_thread_of_its_own_where_there_is_a_memory(tmp_path: Path) -> None:
    model, judge = Model("One.", "Two."), Model(verdict("continue"), verdict("done"))
    options = {**setting(model, judge), "memory": Memory(), "storage": FileStore(str(tmp_path))}
    async with opened(**options) as (harness, _):
        await harness.create_thread(id="t1")
        harness.session.goals.set("ship it", id="g1")
        await harness.send_message(content="go")
        assert [thread.id for thread in harness.session.thread.list()] == ["t1"]
        hidden = {thread.id: thread for thread in harness.session.thread.list(include_forked_subagents=True)}
        assert set(hidden) == {"t1", "t1-g1"}
        assert (hidden["t1-g1"].metadata or {})["goalJudge"] is True
        assert len(judge.received(1)) == 2


@in_loop
async def test_a_custom_scorer_may_judge() -> None:
    seen: list[GoalContext] = []

    async def score(context: GoalContext) -> Score:
        seen.append(context)
        return Score(score=1.0 if "All" in context.answer else 0.0, reason="more")

    agent = BackingAgent(goal=GoalOptions(scorer=score))
    async with opened(Model("Half.", "All."), agent=agent) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert [context.answer for context in seen] == ["Half.", "All."]
        assert payloads(record)[-1]["results"][0]["scorerId"] == "custom"
        assert status(harness) == "done"


@in_loop
async def test_the_goal_is_there_in_another_process(tmp_path: Path) -> None:
    options = setting(Model("Shall I?"), Model(verdict("waiting")))
    async with opened(**options, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
    options = setting(Model("Done."), Model(verdict("done")))
    async with opened(**options, storage=FileStore(str(tmp_path))) as (harness, _):
        await harness.select_or_create_thread()
        assert status(harness) == "active"
        await harness.send_message(content="yes")
        assert status(harness) == "done"


class Looking(Tool):
    """Reads something."""

    spec = ToolSpec(name="look", description="Look.", schema={"type": "object", "properties": {}})

    def __init__(self) -> None:
        self.count = 0

    def operations(self, arguments: dict[str, Any]) -> list[Any]:
        del arguments
        return [Read(path="x")]

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
        del arguments, context
        self.count += 1
        return ToolOutput(text="seen")


@pytest.mark.parametrize("is_denied", [True, False])
@in_loop
async def test_the_judge_looks_nothing_up_that_the_session_denies(is_denied: bool) -> None:
    look = Looking()
    judge = Model(call("look"), default='{"decision":"done","reason":"r"}')
    agent = BackingAgent(goal=GoalOptions(judge=judge, tools=(look,)))
    rules = {"permissionRules": {"tools": {"look": "deny"} if is_denied else {}, "categories": {}}}
    options: dict[str, Any] = {"storage": MemoryStore(), "memory": Memory(), "initial_state": rules}
    async with opened(Model(), agent=agent, **options) as (harness, record):
        await harness.create_thread()
        harness.session.goals.set("ship it")
        await harness.send_message(content="go")
        assert look.count == (0 if is_denied else 1)
        assert record.named("goal_evaluation")[-1]["payload"]["status"] == "done"
