"""Who may do what, decided in real runs: the rules before the call, the answer while it waits."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from harness.errors import UsageError
from harness.log.stores.memory import MemoryStore
from harness.session.config import BackingAgent, ToolCategory
from harness.session.harness import Harness
from harness_kit import Model, Record, StoreMaker, call, calls, make, opened, run, storage

__all__ = ["storage"]

Decision = Literal["approve", "decline", "always_allow_category"]


class Marks:
    """Tools that leave marks, so that it is known whether they ran."""

    def __init__(self) -> None:
        self.left: list[str] = []

    @property
    def tools(self) -> list[Any]:
        def deploy() -> str:
            """Deploy it."""
            self.left.append("deploy")
            return "deployed"

        def look() -> str:
            """Look at it."""
            self.left.append("look")
            return "seen"

        return [deploy, look]


def category(tool_name: str) -> ToolCategory | None:
    found: dict[str, ToolCategory] = {"deploy": "execute", "look": "read"}
    return found.get(tool_name)


def answering(harness: Harness, decision: Decision, **options: Any) -> list[bool]:
    """Answer every call that waits, as soon as it does."""
    answers: list[bool] = []

    def answer(event: Any) -> None:
        if event.type == "tool_approval_required":
            answers.append(harness.session.respond_to_tool_approval(decision=decision, **options))

    harness.subscribe(answer)
    return answers


def test_a_call_waits_for_leave_and_runs_when_it_has_it() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy", id="d1"), "Done.")
        async with opened(model, tools=marks.tools, tool_category_resolver=category) as (harness, record):
            session = harness.session
            assert not session.approval.is_armed()
            assert not session.respond_to_tool_approval(decision="approve")
            going_on = asyncio.create_task(harness.send_message(content="go"))
            asked = await record.until_emitted("tool_approval_required")
            assert (asked["toolName"], asked["args"]) == ("deploy", {})
            assert session.approval.is_armed()
            assert session.run.is_running()
            pending = session.display_state.get().pending_approval
            assert pending is not None
            assert pending.tool_call_id == asked["toolCallId"]
            await asyncio.sleep(0)
            assert marks.left == []
            assert session.respond_to_tool_approval(decision="approve")
            assert not session.approval.is_armed()
            await going_on
            assert marks.left == ["deploy"]
            assert session.display_state.get().pending_approval is None
            assert not session.approval.is_armed()
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert model.results() == ["deployed"]

    run(work)


def test_a_declined_call_does_not_run_and_the_model_learns_why() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), call("deploy", id="c2"), "All right.")
        async with opened(model, tools=marks.tools) as (harness, record):
            emitted = iter(["not on a Friday", ""])

            def answer(event: Any) -> None:
                if event.type == "tool_approval_required":
                    harness.session.respond_to_tool_approval(decision="decline", reason=next(emitted))

            harness.subscribe(answer)
            await harness.send_message(content="go")
            assert marks.left == []
            assert "not on a Friday" in model.results(1)[0]
            assert "Tool call was not approved by the user" in model.results(2)[1]
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}

    run(work)


def test_the_first_answer_counts_and_the_second_is_refused() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), call("deploy", id="c2"))
        async with opened(model, tools=marks.tools, tool_category_resolver=category) as (harness, record):
            session = harness.session
            going_on = asyncio.create_task(harness.send_message(content="go"))
            asked = await record.until_emitted("tool_approval_required")
            answers = [
                session.respond_to_tool_approval(decision="decline", tool_call_id=asked["toolCallId"]),
                session.respond_to_tool_approval(decision="approve", tool_call_id=asked["toolCallId"]),
                session.respond_to_tool_approval(
                    decision="always_allow_category", tool_call_id=asked["toolCallId"]
                ),
            ]
            assert answers == [True, False, False]
            assert session.permissions.get_grants() == {"categories": [], "tools": []}
            await record.until(lambda: len(record.named("tool_approval_required")) == 2)
            assert marks.left == []
            assert session.respond_to_tool_approval(decision="approve")
            await going_on
            assert marks.left == ["deploy"]
            assert not session.respond_to_tool_approval(decision="approve")

    run(work)


def test_an_answer_names_its_call() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(calls(("one", "deploy"), ("two", "look")))
        async with opened(model, tools=marks.tools) as (harness, record):
            session = harness.session
            going_on = asyncio.create_task(harness.send_message(content="go"))
            await record.until_emitted("tool_approval_required")
            assert not session.respond_to_tool_approval(decision="approve", tool_call_id="two")
            assert not session.respond_to_tool_approval(decision="approve", tool_call_id="nobody")
            assert session.respond_to_tool_approval(decision="decline", tool_call_id="one")
            await record.until(lambda: len(record.named("tool_approval_required")) == 2)
            assert session.respond_to_tool_approval(decision="approve", tool_call_id="two")
            await going_on
            assert marks.left == ["look"]

    run(work)


def test_a_category_that_is_always_allowed_is_not_asked_about_again() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), call("deploy", id="c2"), call("look", id="c3"))
        async with opened(model, tools=marks.tools, tool_category_resolver=category) as (harness, record):
            session = harness.session
            going_on = asyncio.create_task(harness.send_message(content="go"))
            await record.until_emitted("tool_approval_required")
            assert session.respond_to_tool_approval(decision="always_allow_category")
            await record.until(lambda: len(record.named("tool_approval_required")) == 2)
            assert marks.left == ["deploy", "deploy"]
            assert record.named("tool_approval_required")[-1]["toolName"] == "look"
            assert session.respond_to_tool_approval(decision="approve")
            await going_on
            assert session.permissions.get_grants() == {"categories": ["execute"], "tools": []}

    run(work)


def test_always_for_a_tool_without_a_category_is_this_once() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), call("deploy", id="c2"))
        async with opened(model, tools=marks.tools, tool_category_resolver=lambda _name: None) as (
            harness,
            _,
        ):
            answers = answering(harness, "always_allow_category")
            await harness.send_message(content="go")
            assert answers == [True, True]
            assert marks.left == ["deploy", "deploy"]
            assert harness.session.permissions.get_grants() == {"categories": [], "tools": []}

    run(work)


@pytest.mark.parametrize("owner", ["harness", "agent"])
@pytest.mark.parametrize("is_yolo", [False, True])
def test_a_denied_tool_is_not_seen_and_never_runs_whatever_else_is_set(owner: str, is_yolo: bool) -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), "Then not.")
        given: dict[str, Any] = (
            {"tools": marks.tools} if owner == "harness" else {"agent": BackingAgent(tools=marks.tools)}
        )
        async with opened(model, initial_state={"yolo": is_yolo}, **given) as (harness, record):
            permissions = harness.session.permissions
            permissions.grant_tool("deploy")
            await permissions.set_for_tool(tool_name="deploy", policy="deny")
            await permissions.set_for_tool(tool_name="task_write", policy="deny")
            await harness.send_message(content="go")
            assert "deploy" not in model.tool_names(0)
            assert "task_write" not in model.tool_names(0)
            assert {"look", "task_check", "ask_user"} <= set(model.tool_names(0))
            assert marks.left == []
            assert record.named("tool_approval_required") == []
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}

    run(work)


def test_a_tool_that_is_denied_in_the_middle_of_a_run_does_not_run_any_more() -> None:
    async def work() -> None:
        left: list[str] = []

        async def deploy() -> str:
            """Deploy it, and never again."""
            left.append("deploy")
            await harness.session.permissions.set_for_tool(tool_name="deploy", policy="deny")
            return "deployed"

        model = Model(call("deploy"), call("deploy", id="c2"), "Stopped.")
        async with opened(model, tools=[deploy], initial_state={"yolo": True}) as (harness, record):
            await harness.send_message(content="go")
            assert left == ["deploy"]
            assert "deploy is denied by the rules of this session" in model.results()[1]
            assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}

    run(work)


@pytest.mark.parametrize(
    ("rules", "state", "expected"),
    [
        ({"categories": {"execute": "deny"}}, {}, "declined"),
        ({"categories": {"execute": "deny"}}, {"yolo": True}, "ran"),
        ({"categories": {"execute": "allow"}}, {}, "ran"),
        ({"categories": {"execute": "ask"}}, {}, "asked"),
        ({"categories": {"execute": "allow"}, "tools": {"deploy": "ask"}}, {}, "asked"),
        ({"categories": {"execute": "deny"}, "tools": {"deploy": "allow"}}, {}, "ran"),
        ({"categories": {"read": "allow"}}, {}, "asked"),
        ({}, {"yolo": True}, "ran"),
        ({}, {"yolo": "true"}, "asked"),
    ],
)
def test_rules_in_a_run(rules: dict[str, Any], state: dict[str, Any], expected: str) -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"))
        given = {"permissionRules": {"categories": {}, "tools": {}, **rules}, **state}
        async with opened(model, tools=marks.tools, tool_category_resolver=category, initial_state=given) as (
            harness,
            record,
        ):
            answering(harness, "decline")
            await harness.send_message(content="go")
            was_asked = bool(record.named("tool_approval_required"))
            outcome = "ran" if marks.left else "asked" if was_asked else "declined"
            assert outcome == expected

    run(work)


def test_a_rule_for_a_tool_beats_a_grant_for_it() -> None:
    async def work() -> None:
        marks = Marks()
        model = Model(call("deploy"), "one", call("deploy", id="c2"), "two")
        async with opened(model, tools=marks.tools, tool_category_resolver=category) as (harness, record):
            harness.session.permissions.grant_tool("deploy")
            await harness.send_message(content="go")
            assert record.named("tool_approval_required") == []
            await harness.session.permissions.set_for_tool(tool_name="deploy", policy="ask")
            answering(harness, "approve")
            await harness.send_message(content="again")
            assert len(record.named("tool_approval_required")) == 1
            assert marks.left == ["deploy", "deploy"]

    run(work)


def test_rules_are_reported_and_stored_with_the_thread_and_grants_are_not(storage: StoreMaker) -> None:
    async def work() -> None:
        async with opened(storage=storage.open()) as (harness, record):
            thread = await harness.create_thread()
            record.clear()
            await harness.session.permissions.set_for_category(category="edit", policy="deny")
            rules = {"categories": {"edit": "deny"}, "tools": {}}
            assert record.wire[-1]["changedKeys"] == ["permissionRules"]
            assert record.wire[-1]["state"]["permissionRules"] == rules
            harness.session.permissions.grant_tool("deploy")
            with pytest.raises(UsageError, match="policy cannot be 'maybe'"):
                await harness.session.permissions.set_for_tool(tool_name="x", policy="maybe")  # type: ignore[arg-type]
        async with opened(storage=storage.open()) as (harness, _):
            assert harness.session.permissions.get_rules() == {"categories": {}, "tools": {}}
            await harness.switch_thread(thread_id=thread.id)
            assert harness.session.permissions.get_rules() == rules
            assert not harness.session.permissions.has_tool_grant("deploy")

    run(work)


def test_what_was_denied_here_stays_denied_in_a_thread_that_knows_of_nothing() -> None:
    async def work() -> None:
        store = MemoryStore()
        async with opened(storage=store, initial_state={"yolo": True}) as (harness, _):
            old = await harness.create_thread()
        async with opened(storage=store) as (harness, record):
            await harness.session.state.set({"yolo": False})
            await harness.session.permissions.set_for_tool(tool_name="deploy", policy="deny")
            await harness.switch_thread(thread_id=old.id)
            assert harness.session.state.get()["yolo"] is False
            assert harness.session.permissions.is_denied("deploy")
            emitted = record.named("state_changed")[-1]
            assert set(emitted["changedKeys"]) == {"yolo", "permissionRules"}
            assert emitted["state"]["yolo"] is False

    run(work)


def test_a_listener_gets_the_question_before_anything_runs() -> None:
    async def work() -> None:
        marks = Marks()
        async with opened(Model(call("deploy")), tools=marks.tools) as (harness, record):
            answering(harness, "approve")
            await harness.send_message(content="go")
            order = [name for name in record.types if name.startswith("tool_") and "input" not in name]
            assert order == ["tool_call", "tool_start", "tool_approval_required", "tool_result", "tool_end"]

    run(work)


@pytest.mark.parametrize("storage", ["files", "postgres"], indirect=True)
def test_an_approval_that_no_one_gave_waits_for_the_next_session(storage: StoreMaker) -> None:
    async def work() -> None:
        marks = Marks()
        store = storage.open()
        harness = _doomed(marks, store)
        record = Record(harness.session)
        await harness.init()
        thread = await harness.create_thread()
        going_on = asyncio.create_task(harness.send_message(content="go"))
        asked = await record.until_emitted("tool_approval_required")
        _die(harness)
        async with opened(Model("Done."), storage=storage.open(), tools=marks.tools) as (second, emitted):
            await second.switch_thread(thread_id=thread.id)
            session = second.session
            assert session.approval.is_armed()
            pending = session.display_state.get().pending_approval
            assert pending is not None
            assert (pending.tool_call_id, pending.tool_name) == (asked["toolCallId"], "deploy")
            assert not session.run.is_running()
            assert marks.left == []
            assert session.respond_to_tool_approval(decision="approve")
            assert not session.respond_to_tool_approval(decision="decline")
            await session.wait_until_idle()
            assert marks.left == ["deploy"]
            assert emitted.wire[-1] == {"type": "agent_end", "reason": "complete"}
            assert session.display_state.get().pending_approval is None
        going_on.cancel()

    run(work)


def test_always_said_after_a_restart_grants_what_was_shown_before_it() -> None:
    async def work() -> None:
        marks, store = Marks(), MemoryStore()
        harness = _doomed(marks, store)
        record = Record(harness.session)
        await harness.init()
        thread = await harness.create_thread()
        going_on = asyncio.create_task(harness.send_message(content="go"))
        asked = await record.until_emitted("tool_approval_required")
        _die(harness)
        model = Model(call("deploy", id="again"), call("look", id="other"))
        async with opened(model, storage=store, tools=marks.tools) as (second, emitted):
            await second.switch_thread(thread_id=thread.id)
            session = second.session
            (pending,) = session.approval.all()
            assert pending.options == asked["options"]
            assert session.respond_to_tool_approval(decision="always_allow")
            assert (await emitted.until_emitted("tool_approval_required"))["toolName"] == "look"
            assert marks.left == ["deploy", "deploy"]
            (grant,) = session.permissions.list_grants()
            assert (grant.tool, grant.label) == ("deploy", "deploy without arguments")
            assert session.permissions.revoke_grant(grant_id=grant.id)
            assert not session.permissions.revoke_grant(grant_id=grant.id)
            assert session.respond_to_tool_approval(decision="decline")
            await session.wait_until_idle()
        going_on.cancel()

    run(work)


def _doomed(marks: Marks, store: Any) -> Harness:
    return make(Model(call("deploy")), storage=store, tools=marks.tools)


def _die(harness: Harness) -> None:
    """As the death of its process would: the log is free, and nothing more is written to it."""
    bound = harness.session.thread.current
    assert bound is not None
    bound.hub._writer.close()
    bound.hub._writer.append = lambda events: 0  # type: ignore[method-assign]


def test_rules_that_narrow_a_session_are_known_to_who_starts_a_program() -> None:
    async def work() -> None:
        async with opened(Model("Done.")) as (harness, _record):
            permissions = harness.session.permissions
            assert not permissions.narrows
            await permissions.set_for_category(category="execute", policy="allow")
            await permissions.set_for_tool(tool_name="Read", policy="allow")
            assert not permissions.narrows
            await permissions.set_for_category(category="execute", policy="deny")
            assert permissions.narrows

    run(work)
