"""The order in which permission rules count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.contracts.tool import Tool, ToolContext, ToolOutput, ToolSpec
from harness.errors import UsageError
from harness.events import Operation
from harness.events.operation import Command
from harness.native.tools.bash import BashTool
from harness.questions.permissions import proposed_call
from harness.session.permissions import SessionPermissions
from harness.session.state import SessionState
from harness.workspace.commands import OutputFolder
from harness.workspace.roots import ToolWorkspace


def rules(state: dict[str, Any] | None = None, category: Any = None) -> SessionPermissions:
    return SessionPermissions(SessionState(None, state, lambda _event: None), category)


def test_without_anything_said_a_tool_is_asked_about() -> None:
    assert rules().resolve("deploy") == "ask"


def test_the_harness_own_tools_are_not_asked_about() -> None:
    assert rules().resolve("ask_user") == "allow"
    assert rules({"permissionRules": {"tools": {"ask_user": "ask"}}}).resolve("ask_user") == "ask"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"permissionRules": {"tools": {"bash": "deny"}}, "yolo": True}, "deny"),
        ({"permissionRules": {"categories": {"execute": "deny"}}, "yolo": True}, "allow"),
        ({"permissionRules": {"categories": {"execute": "deny"}}}, "deny"),
        ({"permissionRules": {"categories": {"execute": "deny"}, "tools": {"bash": "allow"}}}, "allow"),
        ({"yolo": "yes"}, "ask"),
    ],
)
def test_the_order_of_rules(state: dict[str, Any], expected: str) -> None:
    assert rules(state).resolve("bash") == expected


def test_what_is_said_of_a_tool_beats_a_grant_for_it() -> None:
    kept = rules({"permissionRules": {"tools": {"bash": "ask"}}})
    kept.grant_tool("bash")
    kept.grant_category("execute")
    assert kept.resolve("bash") == "ask"


def test_grants_allow_and_are_listed() -> None:
    kept = rules()
    kept.grant_tool("deploy")
    kept.grant_category("edit")
    assert (kept.resolve("deploy"), kept.resolve("write"), kept.resolve("bash")) == ("allow", "allow", "ask")
    assert kept.has_tool_grant("deploy")
    assert kept.has_category_grant("edit")
    assert kept.get_grants() == {"categories": ["edit"], "tools": ["deploy"]}


def test_a_category_grant_beats_what_is_said_of_the_category() -> None:
    kept = rules({"permissionRules": {"categories": {"edit": "ask"}}})
    kept.grant_category("edit")
    assert kept.resolve("write") == "allow"


def test_rules_are_stored_in_the_state_and_merged() -> None:
    async def run() -> None:
        kept = rules()
        assert kept.get_rules() == {"categories": {}, "tools": {}}
        await kept.set_for_tool(tool_name="bash", policy="deny")
        await kept.set_for_category(category="edit", policy="allow")
        await kept.set_for_tool(tool_name="grep", policy="ask")
        assert kept.get_rules() == {"categories": {"edit": "allow"}, "tools": {"bash": "deny", "grep": "ask"}}
        with pytest.raises(UsageError, match="unknown permission policy"):
            await kept.set_for_tool(tool_name="x", policy="perhaps")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="unknown tool category: 'exec'"):
            await kept.set_for_category(category="exec", policy="deny")  # type: ignore[arg-type]

    asyncio.run(run())


def test_a_tool_without_a_category_has_none() -> None:
    assert rules().category("something") is None
    assert rules().category("mcp__server__tool") is None  # a name says nothing
    kept = rules({"permissionRules": {"categories": {"other": "allow"}}}, lambda _name: None)
    assert kept.resolve("something") == "ask"


ENVIRON = {"PATH": "/usr/bin:/bin"}


def _decided(folder: Path, tool: Tool, command: str, environ: Mapping[str, str] = ENVIRON) -> str:
    permissions = rules({"permissionRules": {"categories": {"read": "allow"}}})
    permissions.work_in(str(folder), environ)
    arguments = {"command": command}
    call = proposed_call(tool.spec.name, arguments, tool.operations(arguments), "execute")
    return permissions.of([tool]).verdict(call).decision


def test_no_command_is_free_whatever_the_shell_of_a_tool_is(tmp_path: Path) -> None:
    class Shell(Tool):
        spec = ToolSpec("shell", "", {"type": "object"})
        category = "execute"

        def operations(self, arguments: dict[str, Any]) -> Sequence[Operation]:
            return [Command(command=arguments["command"])]

        async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            raise NotImplementedError

    assert _decided(tmp_path, Shell(), "ls") == "ask"


def test_where_nothing_may_be_run_no_command_is_free(tmp_path: Path) -> None:
    bash = BashTool(ToolWorkspace(str(tmp_path)), OutputFolder(str(tmp_path / "outputs")))
    permissions = rules({"permissionRules": {"categories": {"read": "allow", "execute": "deny"}}})
    permissions.work_in(str(tmp_path), ENVIRON)
    arguments = {"command": "ls"}
    call = proposed_call("bash", arguments, bash.operations(arguments), "execute")
    assert permissions.of([bash]).verdict(call).decision == "deny"
