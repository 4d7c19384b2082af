"""A sub-agent may do what its parent may, and asks where its parent would have to ask."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.events import Relay, ToolEnd
from harness.folds.page_state.fold import StateFold
from harness.log.store import read_all
from harness.log.stores.memory import MemoryStore
from harness.session.config import Mode, Subagent
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness.session.workspaces import WorkspaceConfig
from harness_kit import Model, Record, call, log_of, opened
from running_kit import in_loop, plain, started

EXPLORE = Subagent(
    id="explore", name="Explore", description="Looks.", instructions="You explore.", default_model_id="sub"
)
START_FREELY = {"permissionRules": {"tools": {"subagent": "allow"}}}


def spawn(forked: bool, id: str = "s1", **more: Any) -> dict[str, Any]:
    return call("subagent", id=id, agentType="explore", task="do it", forked=forked, **more)


def setting(tmp_path: Path, parent: Model, child: Model, **more: Any) -> dict[str, Any]:
    return {
        "subagents": [EXPLORE],
        "memory": Memory(),
        "workspace": WorkspaceConfig(cwd=str(tmp_path)),
        "resolve_model": lambda model_id: child if model_id == "sub" else parent,
        **more,
    }


def models(forked: bool, *of_child: Any, rest: tuple[Any, ...] = ("The end.",)) -> tuple[Model, Model]:
    """A parent that delegates once; what a fork says is said by the same model."""
    if forked:
        parent = Model(spawn(forked), *of_child, *rest)
        return parent, parent
    return Model(spawn(forked), *rest), Model(*of_child, name="sub")


def is_there(folder: Path, name: str) -> bool:
    return name in os.listdir(folder)


async def answered(harness: Harness, record: Record, *decisions: str) -> list[dict[str, Any]]:
    """Each question for permission as it was emitted, answered in order."""
    asked: list[dict[str, Any]] = []
    for decision in decisions:
        await record.until(lambda: len(record.named("tool_approval_required")) > len(asked))
        asked.append(record.named("tool_approval_required")[len(asked)])
        harness.session.respond_to_tool_approval(
            decision=decision,  # type: ignore[arg-type]
            tool_call_id=asked[-1]["toolCallId"],
        )
    return asked


@pytest.mark.parametrize("forked", [False, True])
@in_loop
async def test_to_begin_one_is_asked_about_and_so_is_what_it_does(tmp_path: Path, forked: bool) -> None:
    parent, child = models(forked, call("bash", id="b1", command="touch made"), "Done.")
    async with opened(parent, **setting(tmp_path, parent, child)) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        begin, act = await answered(harness, record, "approve", "decline")
        assert (begin["toolName"], begin["category"]) == ("subagent", "edit")
        assert "agentType" not in begin
        assert (act["toolName"], act["category"]) == ("bash", "execute")
        assert (act["agentType"], act["parentToolCallId"]) == ("explore", begin["toolCallId"])
        await going_on
        assert not is_there(tmp_path, "made")
        assert harness.session.display_state.get().pending_approval is None
        assert not harness.session.approval.all()


@pytest.mark.parametrize("forked", [False, True])
@in_loop
async def test_what_is_allowed_happens_and_always_counts_for_parent_and_sub_agent_alike(
    tmp_path: Path, forked: bool
) -> None:
    same = {"command": "touch made"}
    parent, child = models(
        forked,
        call("bash", id="b1", **same),
        call("bash", id="b2", **same),
        call("bash", id="b3", command="touch other"),
        "Done.",
        rest=(call("bash", id="b4", **same), "The end."),
    )
    options = setting(tmp_path, parent, child, initial_state=START_FREELY)
    async with opened(parent, **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        first, second = await answered(harness, record, "always_allow", "decline")
        await going_on
        assert [one["args"]["command"] for one in (first, second)] == ["touch made", "touch other"]
        assert len(record.named("tool_approval_required")) == 2
        assert is_there(tmp_path, "made")
        assert not is_there(tmp_path, "other")


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("policy", ["ask", "deny", "allow"])
@in_loop
async def test_rules_for_a_tool_bind_it(tmp_path: Path, forked: bool, policy: str) -> None:
    parent, child = models(forked, call("act", id="a1"), "Done.")
    definition = Subagent(
        id="explore", name="E", description="", default_model_id="sub", tools=[plain("act", "acted")]
    )
    rules = {"permissionRules": {"tools": {"subagent": "allow", "act": policy}}}
    options = setting(tmp_path, parent, child, initial_state=rules) | {
        "subagents": [definition],
        "tools": [plain("act", "acted")],
    }
    async with opened(parent, **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        if policy == "ask":
            await answered(harness, record, "approve")
        await going_on
        assert len(record.named("tool_approval_required")) == (policy == "ask")
        if policy == "deny":
            assert "act" not in child.tool_names()


@pytest.mark.parametrize("forked", [False, True])
@in_loop
async def test_what_was_not_allowed_has_the_same_words_inside_as_outside(
    tmp_path: Path, forked: bool
) -> None:
    parent, child = models(forked, call("bash", id="b1", command="ls"), "Done.")
    rules = {"permissionRules": {"tools": {"subagent": "allow"}, "categories": {"execute": "deny"}}}
    async with opened(parent, **setting(tmp_path, parent, child, initial_state=rules)) as (harness, _):
        await harness.send_message(content="go")
        assert any(
            "Tool call was not approved by the user: bash is denied by the rules of this session" in text
            for text in child.results(1 if not forked else -2)
        )
        log = log_of(harness)
        if not forked:
            (end,) = [one for one in log if isinstance(one, ToolEnd) and one.tool_name == "bash"]
            assert not end.has_failed


@in_loop
async def test_a_mode_with_few_tools_has_no_more_of_them_for_a_sub_agent(tmp_path: Path) -> None:
    parent, child = models(False, call("bash", id="b1", command="touch made"), "Done.")
    definition = Subagent(
        id="explore", name="E", description="", default_model_id="sub", tools=[plain("deploy")]
    )
    plan = Mode(id="plan", available_tools=("read", "subagent"))
    options = setting(tmp_path, parent, child, initial_state={"yolo": True}) | {"subagents": [definition]}
    async with opened(parent, modes=[plan], **options) as (harness, _):
        await harness.send_message(content="go")
        assert child.tool_names(0) == ["read"]
        assert not is_there(tmp_path, "made")


@pytest.mark.parametrize("forked", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
@in_loop
async def test_a_sub_agent_that_waited_when_its_process_ended_leaves_no_question(
    tmp_path: Path, is_killed: bool, forked: bool
) -> None:
    store = MemoryStore()
    parent, child = models(forked, call("bash", id="b1", command="touch made"), "Done.")
    options = setting(tmp_path, parent, child, initial_state=START_FREELY, storage=store)
    async with opened(parent, **options) as (harness, record):
        started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        thread_id = harness.session.thread.require_id()
        if is_killed:  # the log is free, and nothing more is written to it
            bound = harness.session.thread.current
            assert bound is not None
            bound.hub._writer.close()
            bound.hub._writer.append = lambda events: 0  # type: ignore[method-assign]
    assert any(isinstance(event, Relay) for event in read_all(store, thread_id))
    async with opened(parent, **options) as (harness, _):
        await harness.switch_thread(thread_id=thread_id)
        assert harness.session.approval.all() == []
        assert harness.session.display_state.get().pending_approval is None
        assert not harness.session.respond_to_tool_approval(decision="approve")
        await harness.send_message(content="go on")
        assert not is_there(tmp_path, "made")


@pytest.mark.parametrize("forked", [False, True])
@in_loop
async def test_the_state_shows_the_question_where_the_sub_agent_was_begun(
    tmp_path: Path, forked: bool
) -> None:
    parent, child = models(forked, call("bash", id="b1", command="touch made"), "Done.")
    options = setting(tmp_path, parent, child, initial_state=START_FREELY)
    async with opened(parent, **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        await answered(harness, record, "decline")
        await going_on
        fold = StateFold("x")
        for event in log_of(harness):
            fold.feed(event)
        (relay,) = fold.value["relays"]
        assert (relay["subagent"], relay["toolName"], relay["status"]) == ("explore", "bash", "denied")
        (message,) = [one for one in fold.value["messages"] if one["role"] == "assistant"]
        (begun,) = message["toolCalls"]
        assert (begun["name"], begun["id"]) == ("subagent", relay["parentCallId"])
        assert begun["status"] == "complete"
        if forked:
            assert begun["relayId"] == relay["id"]
        else:
            (inside,) = begun["messages"][-1]["toolCalls"]
            assert inside["relayId"] == relay["id"]
        assert [one["toolName"] for one in record.named("tool_start")].count("bash") == 0


@in_loop
async def test_two_sub_agents_that_ask_at_once_are_answered_each_by_its_own_name(tmp_path: Path) -> None:
    both = {
        "events": [
            {"type": "tool_call", "name": "subagent", "id": id, "input": {"agentType": "explore", "task": id}}
            for id in ("a", "b")
        ]
    }
    parent = Model(both, "The end.")
    child = Model(
        call("bash", id="c1", command="touch one"), call("bash", id="c1", command="touch two"), "A.", "B."
    )
    options = setting(tmp_path, parent, child, initial_state=START_FREELY)
    async with opened(parent, **options) as (harness, record):
        session = harness.session
        going_on = started(harness.send_message(content="go"))
        await record.until(lambda: len(record.named("tool_approval_required")) == 2)
        with pytest.raises(UsageError, match="several calls wait"):
            session.respond_to_tool_approval(decision="approve")
        assert not session.respond_to_tool_approval(decision="approve", tool_call_id="c1")  # of whom?
        assert not session.respond_to_tool_approval(decision="approve", tool_call_id="nobody")
        one, two = record.named("tool_approval_required")
        allowed = next(each for each in (one, two) if each["args"]["command"] == "touch two")
        other = next(each for each in (one, two) if each is not allowed)
        assert session.respond_to_tool_approval(decision="approve", tool_call_id=allowed["toolCallId"])
        await record.until(lambda: session.display_state.get().pending_approval is not None)
        assert session.respond_to_tool_approval(decision="decline", tool_call_id=other["toolCallId"])
        await going_on
        assert os.listdir(tmp_path) == ["two"]
