"""What a session got wrong once: narrow moments, odd values, threads of others, and agents that cannot hear."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from harness_kit import Model, call, log_of, opened
from running_kit import (
    NO_MODEL,
    YOLO,
    Gate,
    Live,
    check,
    ends,
    fake_claude,
    halting,
    in_loop,
    notes,
    plain,
    started,
    starts,
    waiting,
)

from harness.errors import UsageError
from harness.events import Info, Signal
from harness.events.operation import Read
from harness.log.stores.files import FileStore
from harness.log.stores.memory import MemoryStore
from harness.session.config import BackingAgent, Mode
from harness.session.goals import GoalOptions
from harness.session.harness import Harness
from harness.session.thread_memory import Memory
from harness.sources.loop.history import history
from harness.sources.model import ToolSpec
from harness.sources.tool import Tool, ToolContext, ToolOutput
from harness.sources.tools.function_tool import tool
from harness.views.session.events import HarnessEvent

PAGE = {"type": "state", "id": "browser", "cacheKey": "k1", "contents": "url=x", "tagName": "browser"}
KEPT = {"behavior": "persist"}


@in_loop
async def test_a_decision_that_nobody_knows_approves_nothing() -> None:
    model = Model(call("deploy"), "Well.")
    async with opened(model, tools=[plain("deploy")]) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await record.until_told("tool_approval_required")
        with pytest.raises(UsageError, match="unknown decision: 'deny'"):
            harness.session.respond_to_tool_approval(decision="deny")  # type: ignore[arg-type]
        assert harness.session.approval.is_armed()
        assert harness.session.respond_to_tool_approval(decision="decline")
        await sending
        assert model.results() == ["Tool call was not approved by the user"]


@in_loop
async def test_an_answer_that_cannot_be_written_leaves_the_question() -> None:
    model = Model(call("ask_user", question="Which?"), "Fine.")
    async with opened(model) as (harness, record):
        await harness.send_message(content="go")
        with pytest.raises(UsageError, match="Invalid answer"):
            await harness.respond_to_tool_suspension(resume_data=object())
        assert harness.session.suspensions.has_pending()
        assert await harness.respond_to_tool_suspension(resume_data="b")
        assert model.results() == ["User answered: b"]
        assert ends(record) == ["suspended", "complete"]
        check(harness, log_of(harness))


@in_loop
async def test_what_could_not_be_sent_or_was_stopped_early_is_heard_with_the_next_message() -> None:
    model = Model()
    is_broken = False

    def resolve(_model_id: str) -> Model:
        if is_broken:
            raise RuntimeError("no key")
        return model

    async with opened(model, resolve_model=resolve) as (harness, record):
        await harness.send_message(content="first")
        is_broken = True
        await harness.send_message(content="unsent")
        is_broken = False
        stopped = started(harness.send_message(content="stopped"))
        await asyncio.sleep(0)
        harness.abort()
        await stopped
        await harness.send_message(content="last")
        assert ends(record) == ["complete", "error", "aborted", "complete"]
        assert model.heard() == ["first", "unsent", "stopped", "last"]
        kept = harness.session.internals.conversation
        assert kept is not None
        assert history(log_of(harness)).entries == kept.entries


def at_the_first(harness: Harness, name: str, deed: Any) -> None:
    """Do it as soon as this is told."""
    done: list[str] = []

    def listen(event: HarnessEvent) -> None:
        if event.type == name and not done:
            done.append(name)
            deed(event)

    harness.subscribe(listen)


@in_loop
async def test_a_message_at_the_moment_of_the_question_takes_its_place() -> None:
    model = Model(call("ask_user", question="Which?"), "Never mind, then.")
    async with opened(model) as (harness, record):
        sending: list[asyncio.Task[Any]] = []
        at_the_first(
            harness,
            "agent_end",
            lambda _: sending.append(started(harness.send_message(content="never mind"))),
        )
        await harness.send_message(content="go")
        await asyncio.gather(*sending)
        assert harness.session.follow_ups.is_empty()
        assert not harness.session.suspensions.has_pending()
        assert model.heard() == ["go", "never mind"]
        assert ends(record)[-1] == "complete"
        check(harness, log_of(harness))


@in_loop
async def test_a_follow_up_is_stopped_by_whoever_hears_that_it_is_taken() -> None:
    gate = Gate()
    model = Live(halting(gate), "Not this.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        await harness.follow_up(content="b")
        at_the_first(harness, "follow_up_queued", lambda _: harness.abort())
        gate.open()
        await sending
        assert ends(record) == ["complete", "aborted"]
        assert len(model.asked) == 1
        check(harness, log_of(harness))


@in_loop
async def test_a_signal_during_an_abort_is_answered_by_a_run_of_its_own() -> None:
    gate = Gate()
    model = Live(halting(gate), "Here I am.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        harness.abort()
        sent = await harness.send_signal("please answer me")
        await sending
        await harness.session.wait_until_idle()
        assert (sent.accepted.action, sent.accepted.run_id) == ("wake", harness.get_current_run_id())
        assert ends(record) == ["aborted", "complete"]
        assert model.heard()[-1] == "please answer me"


@in_loop
async def test_a_notification_during_an_abort_wakes_the_agent_afterwards() -> None:
    gate = Gate()
    model = Live(halting(gate), "Seen.")
    async with opened(model) as (harness, record):
        sending = started(harness.send_message(content="a"))
        await gate.come()
        harness.abort()
        urgent = {"source": "ci", "kind": "build", "summary": "It failed.", "priority": "urgent"}
        await harness.send_notification_signal(urgent)
        await sending
        await harness.session.wait_until_idle()
        assert ends(record) == ["aborted", "complete"]
        assert "It failed." in model.heard()[-1]


@in_loop
async def test_a_fact_from_a_thread_of_a_tool_is_told_in_the_event_loops_own() -> None:
    def work(context: ToolContext) -> str:
        """Work."""
        assert context.request is not None
        for number in range(50):
            context.request["harness"].emit_event(Info(message=f"{number}"))
        return "worked"

    homes: set[int] = set()
    heard: list[str] = []

    async def listen(event: HarnessEvent) -> None:
        heard.append(event.type)

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
        assert heard.count("info") == 50
        check(harness, log_of(harness))


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


@in_loop
async def test_words_for_a_program_that_runs_are_told_by_the_next_run(tmp_path: Path) -> None:
    modes = [Mode(id="a", agent=fake_claude(tmp_path))]
    async with opened(modes=modes, initial_state=NO_MODEL) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await record.until_told("agent_start")
        sent = await harness.send_signal("and this")
        assert (sent.accepted.action, sent.accepted.run_id) == ("persist", "")
        await sending
        assert [note["prompt"] for note in notes(tmp_path)] == ["go", "and this"]
        assert starts(record) == 2


@in_loop
async def test_what_a_program_was_not_told_goes_before_its_next_prompt_also_in_another_process(
    tmp_path: Path,
) -> None:
    options: dict[str, Any] = {
        "modes": [Mode(id="a", agent=fake_claude(tmp_path))],
        "initial_state": NO_MODEL,
    }
    reminder = {"type": "reactive", "contents": "Save."}
    async with opened(storage=FileStore(str(tmp_path / "data")), **options) as (harness, record):
        sending = started(harness.send_message(content="go"))
        await record.until_told("agent_start")
        sent = await harness.send_signal(reminder)
        assert (sent.accepted.action, sent.accepted.run_id) == ("persist", "")
        await sending
        await harness.send_message(content="two, and fail")
        await harness.send_signal(PAGE, if_idle=KEPT)
    async with opened(storage=FileStore(str(tmp_path / "data")), **options) as (harness, _):
        await harness.select_or_create_thread()
        await harness.send_message(content="three")
        await harness.send_message(content="four")
    saved, page = "<system-reminder>Save.</system-reminder>", "<browser>url=x</browser>"
    assert [note["prompt"] for note in notes(tmp_path)] == [
        "go",
        f"{saved}\n\ntwo, and fail",
        f"{saved}\n\n{page}\n\nthree",
        "four",
    ]


@in_loop
async def test_a_state_that_the_model_knows_is_not_told_again() -> None:
    model = Model()
    async with opened(model) as (harness, record):
        first = await harness.send_signal(PAGE, if_idle=KEPT)
        again = await harness.send_signal(PAGE, if_idle=KEPT)
        assert (first.accepted.action, first.accepted.reason) == ("persist", "")
        assert (again.accepted.action, again.accepted.reason) == ("discard", "unchanged")
        await harness.send_message(content="go")
        assert (await harness.send_signal(PAGE)).accepted.reason == "unchanged"
        assert starts(record) == 1
        change = {**PAGE, "cacheKey": "k2", "mode": "delta", "contents": "url=y", "delta": {"url": "y"}}
        await harness.send_signal(change, if_idle=KEPT)
        await harness.send_message(content="on")
        assert model.heard() == [
            "<browser>url=x</browser>",
            "go",
            "<browser>url=y</browser>",
            "on",
        ]
        told = [event for event in log_of(harness) if isinstance(event, Signal)]
        assert [event.state for event in told] == [
            {"id": "browser", "cacheKey": "k1", "mode": "snapshot", "version": 1},
            {"id": "browser", "cacheKey": "k2", "mode": "delta", "version": 2},
        ]
        assert told[1].metadata == {"delta": {"url": "y"}}
        shown = record.named("state_signal")[-1]
        assert (shown["stateId"], shown["mode"], shown["version"]) == ("browser", "delta", 2)


@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        ({**PAGE, "id": ""}, {}, "needs the id of its lane"),
        ({**PAGE, "mode": "all"}, {}, "Invalid mode"),
        ({"type": "reactive", "contents": "x", "metadata": {"a": object()}}, {}, "Invalid signal"),
        ("x", {"if_idle": {"behavior": "foo"}}, "not a way to treat a signal"),
        ("x", {"if_idle": {"attributes": {"a": object()}}}, "Invalid signal"),
    ],
)
@in_loop
async def test_a_signal_that_cannot_be_is_refused_before_anything_happens(
    given: Any, options: dict[str, Any], problem: str
) -> None:
    async with opened(Model("Yes.")) as (harness, record):
        await harness.create_thread()
        with pytest.raises(UsageError, match=problem):
            await harness.send_signal(given, **options)
        assert starts(record) == 0
        await harness.send_message(content="hi")
        assert ends(record) == ["complete"]


@in_loop
async def test_a_tool_that_runs_still_hears_a_signal_after_a_question_was_answered() -> None:
    gate = Gate()
    model = Live(call("ask_user", question="Which?"), call("work", id="c2"), "Saved.")
    async with opened(model, tools=[waiting(gate)], initial_state=YOLO) as (harness, record):
        await harness.send_message(content="go")
        answering = started(harness.respond_to_tool_suspension(resume_data="b"))
        await gate.come()
        sent = await harness.send_signal({"type": "reactive", "contents": "Save."})
        assert sent.accepted.action == "deliver"
        gate.open()
        await answering
        assert model.heard()[-1] == "<system-reminder>Save.</system-reminder>"
        assert ends(record) == ["suspended", "complete"]
