"""What a tool may do is decided by where it comes from: a name gains nothing, and loses nothing."""

from __future__ import annotations

from typing import Any

import pytest

from harness.contracts.tool import Renamed, Tool
from harness.errors import UsageError
from harness.native.tools.function_tool import tool
from harness.questions.permissions import proposed_call
from harness.session.config import BUILTIN_TOOLS
from harness.session.harness import Harness
from harness.session.memory.config import Memory
from harness.session.permissions import SessionPermissions
from harness.session.state import SessionState
from harness_kit import Model, call, opened
from running_kit import in_loop, plain, started


def named(name: str, left: list[str]) -> Tool:
    async def work() -> str:
        """Work."""
        left.append(name)
        return "worked"

    made: Tool = tool(name=name)(work)
    return made


@pytest.mark.parametrize("name", [*BUILTIN_TOOLS, "recall", "notification-inbox", "read", "glob"])
@pytest.mark.parametrize("is_disabled", [False, True])
@in_loop
async def test_a_tool_of_another_one_named_like_ours_is_asked_about(name: str, is_disabled: bool) -> None:
    left: list[str] = []
    rules = {"permissionRules": {"categories": {"read": "allow"}}}
    disabled = [name] if is_disabled and name in BUILTIN_TOOLS else []
    options: dict[str, Any] = {"initial_state": rules, "disable_builtin_tools": disabled}
    async with opened(Model(call(name)), tools=[named(name, left)], **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        asked = await record.until_emitted("tool_approval_required")
        assert (asked["toolName"], left) == (name, [])
        assert "category" not in asked
        assert harness.get_tool_category(name) is None
        assert harness.session.respond_to_tool_approval(decision="decline")
        await going_on
        assert left == []


@in_loop
async def test_an_alias_is_the_name_for_the_model_and_for_every_rule() -> None:
    left: list[str] = []
    model = Model(call("careful"), call("original", id="c2"), "Then not.")
    async with opened(model, tools={"careful": named("original", left)}) as (harness, record):
        assert await _denied(harness, "careful")
        await harness.send_message(content="go")
        assert "careful" not in model.tool_names(0)
        assert "original" not in model.tool_names(0)
        assert left == []
        await harness.session.permissions.set_for_tool(tool_name="careful", policy="ask")
        going_on = started(harness.send_message(content="go"))
        await going_on
    model = Model(call("careful"), call("careful", id="c2"))
    async with opened(model, tools={"careful": named("original", left)}) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        asked = await record.until_emitted("tool_approval_required")
        assert asked["toolName"] == "careful"
        assert asked["options"][1]["grants"] == [{"tool": "careful", "closed": True}]
        assert harness.session.respond_to_tool_approval(decision="always_allow")
        await going_on
        assert left == ["original", "original"]


async def _denied(harness: Harness, name: str) -> bool:
    await harness.session.permissions.set_for_tool(tool_name=name, policy="deny")
    return harness.session.permissions.is_denied(name)


@in_loop
async def test_recall_and_the_inbox_are_the_harness_own_and_ask_no_one() -> None:
    model = Model(call("notification-inbox", id="n", action="list"), call("recall", id="r", mode="threads"))
    memory = Memory(observational=True)
    async with opened(model, memory=memory) as (harness, record):
        await harness.select_or_create_thread()
        await harness.send_notification_signal(
            {"source": "ci", "kind": "x", "summary": "it broke", "priority": "low"}
        )
        await harness.send_message(content="go")
        assert record.named("tool_approval_required") == []
        assert "notification-inbox" in model.tool_names()


def test_categories_of_our_tools_go_with_them() -> None:
    from harness.native.tools.registry import default_tools
    from harness.session.adapters.browser import ChromiumBrowser

    kept = SessionPermissions(SessionState(None, None, lambda _event: None), None)
    tools = [*default_tools("."), *ChromiumBrowser("/bin/true").tools()]
    found = {one.spec.name: kept.standing(one.spec.name, one).category for one in tools}
    assert found | {"skill": "read"} == {
        **dict.fromkeys(("read", "list", "glob", "grep", "fetch", "skill", "todo", "bash_output"), "read"),
        **dict.fromkeys(("write", "edit", "apply_patch", "agent"), "edit"),
        "bash": "execute",
        "browser_read": "other",
        "browser_screenshot": "other",
    }
    bash = next(one for one in tools if one.spec.name == "bash")
    assert kept.standing("shell", Renamed(bash, "shell")).category == "execute"


def test_tools_of_mcp_servers_are_of_the_category_mcp_whatever_they_are_called() -> None:
    from harness.native.mcp.servers import McpTool

    class Described:
        name, title, description, input_schema = "query", "", "Looks.", {"type": "object"}

    made = McpTool("search__query", Described(), None, None)  # type: ignore[arg-type]
    rules = {"permissionRules": {"categories": {"mcp": "deny"}}}
    kept = SessionPermissions(SessionState(None, rules, lambda _event: None), None)
    assert kept.of([made], is_main=True).verdict(proposed_call("search__query", {})).decision == "deny"
    assert kept.category("search__query") == "mcp"
    assert kept.of([plain("mcp__x")]).verdict(proposed_call("mcp__x", {})).decision == "ask"


@pytest.mark.parametrize(
    "rules",
    [
        "allow",
        ["bash"],
        5,
        {"tools": "allow"},
        {"tools": {"bash": "perhaps"}},
        {"tools": {"bash": True}},
        {"tools": {"bash": ["deny"]}},
        {"categories": {"exec": "deny"}},
        {"tool": {"bash": "deny"}},
    ],
)
@in_loop
async def test_rules_that_say_nothing_are_refused_where_they_are_set_and_passed_over_where_they_are_read(
    rules: Any,
) -> None:
    with pytest.raises(UsageError, match="Invalid state update: permissionRules: "):
        async with opened(Model(), initial_state={"permissionRules": rules}):
            pass
    async with opened(Model(call("deploy")), tools=[plain("deploy")]) as (harness, record):
        session = harness.session
        with pytest.raises(UsageError, match="Invalid state update: permissionRules: "):
            await session.state.set({"permissionRules": rules})
        session.state._value["permissionRules"] = rules  # as an old log may say
        going_on = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        assert session.respond_to_tool_approval(decision="decline")
        await going_on
        assert record.wire[-1] == {"type": "agent_end", "reason": "complete"}


def test_an_async_category_resolver_is_refused_when_the_harness_is_made() -> None:
    from harness_kit import make

    async def category(_name: str) -> Any:
        return "read"

    with pytest.raises(UsageError, match="tool_category_resolver is async"):
        make(Model(), tool_category_resolver=category)


@pytest.mark.parametrize("answer", ["reading", 5, ["read"], RuntimeError("no")])
@in_loop
async def test_a_resolver_that_gives_no_category_asks_a_person(answer: Any) -> None:
    def category(_name: str) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    rules = {"permissionRules": {"categories": {"read": "allow"}}}
    options: dict[str, Any] = {"tool_category_resolver": category, "initial_state": rules}
    async with opened(Model(call("look")), tools=[plain("look")], **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        assert harness.session.respond_to_tool_approval(decision="decline")
        await going_on


@in_loop
async def test_a_resolver_that_returns_a_coroutine_is_passed_over() -> None:
    async def later() -> str:
        return "read"

    options: dict[str, Any] = {"tool_category_resolver": lambda _name: later()}
    async with opened(Model(call("look")), tools=[plain("look")], **options) as (harness, record):
        going_on = started(harness.send_message(content="go"))
        await record.until_emitted("tool_approval_required")
        assert harness.session.respond_to_tool_approval(decision="decline")
        await going_on


def test_a_function_of_an_application_is_not_trusted_as_a_built_in_tool_is() -> None:
    from harness import tool

    @tool
    async def read(path: str) -> str:
        "Read a file, wherever it is."
        return path

    kept = SessionPermissions(SessionState(None, None, lambda _event: None), None)
    standing = kept.standing("read", read)

    assert not standing.is_built_in, "a command that it is given is not known to start as that of bash"
    assert not standing.is_confined, "it may open a path outside of the workspace"
